//! A replica as its host sees it: batches of bytes in, batches of bytes out (`docs/specification/capsule-boundary.md`).

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

use selfsame_codec::capsule::{Input, Keys, Output, ReplicaConfig, Values};
use selfsame_codec::{
    BatchReader, BatchWriter, Code, Field, Item, Malformed, Operation, OperationWriter, Reader,
};
use zeroize::Zeroize;

use crate::keys::KeyPair;
use crate::replica::{Change, Effect, Limits, Replica, Value};

/// Keys that are asked for at once: their values, 60 KiB at most, fit the largest batch of inputs.
const KEYS_AT_ONCE: usize = 256;
/// Memory that an empty batch of outputs keeps: an ordinary response; more is given back after a burst.
const KEPT_OUTPUT: usize = 256 * 1024;
/// The position of an input in `Refused` when the whole batch is.
const WHOLE_BATCH: u32 = u32::MAX;

/// Keys whose values are being read, some at a time
#[derive(Debug)]
struct Reading {
    keys: Vec<Vec<u8>>,
    values: Vec<(Vec<u8>, Value)>,
}

impl Reading {
    /// The keys whose values are asked for next.
    fn page(&self) -> &[Vec<u8>] {
        let rest = &self.keys[self.values.len()..];
        &rest[..rest.len().min(KEYS_AT_ONCE)]
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let values: Vec<Option<&[u8]>> = Values::new(bytes).collect::<Result<_, _>>()?;
        if values.len() != self.page().len() {
            return Err(Malformed);
        }
        let keys = self.page().to_vec();
        let values = values.into_iter().map(|value| value.map(Rc::from));
        self.values.extend(keys.into_iter().zip(values));
        Ok(())
    }
}

/// A replica that is stepped with batches
#[derive(Debug)]
pub struct Machine {
    replica: Replica,
    now_ms: u64,
    readings: BTreeMap<u32, Reading>,
    out: BatchWriter,
}

impl Machine {
    /// A replica made from an encoded [`ReplicaConfig`].
    ///
    /// # Errors
    /// [`Code::BadConfig`] when the bytes are none.
    pub fn new(config: &[u8]) -> Result<Self, Code> {
        let mut config = ReplicaConfig::decode(config).map_err(|_| Code::BadConfig)?;
        let server = KeyPair::from_seed(&config.seed);
        config.seed.zeroize();
        let limits = Limits {
            cache: config.cache as usize,
            mirrors: config.mirrors as usize,
        };
        Ok(Self {
            replica: Replica::new(server, limits),
            now_ms: 0,
            readings: BTreeMap::new(),
            out: BatchWriter::new(),
        })
    }

    /// Takes the time and a batch of inputs; what the host is to do, in this order.
    pub fn step(&mut self, batch: &[u8]) -> &[u8] {
        self.out.clear(KEPT_OUTPUT);
        let mut reader = Reader::new(batch);
        let now_ms: Result<u64, Malformed> = reader.field();
        match (now_ms, BatchReader::new(reader.rest())) {
            (Ok(now_ms), Ok(items)) => {
                self.now_ms = self.now_ms.max(now_ms);
                self.take_items(items);
            }
            _ => self.refuse(WHOLE_BATCH, Code::BadInput),
        }
        self.out.as_bytes()
    }

    fn take_items(&mut self, items: BatchReader<'_>) {
        for (position, item) in items.enumerate() {
            if let Err(code) = self.take_item(item) {
                self.refuse(u32::try_from(position).unwrap_or(WHOLE_BATCH), code);
            }
            while let Some(effect) = self.replica.next_effect() {
                self.ask(effect);
            }
        }
    }

    fn take_item(&mut self, item: Item<'_>) -> Result<(), Code> {
        match Input::decode(item).map_err(|_| Code::BadInput)? {
            Input::Request { request, message } => {
                self.replica.request(self.now_ms, request, message.to_vec());
                Ok(())
            }
            Input::StoreValues { tag, ok, values } => self.take_values(tag, ok, values),
            Input::StoreKeys { tag, ok, keys } => self.take_keys(tag, ok, keys),
            Input::StoreCommitted { tag, ok } => {
                self.replica.committed(self.now_ms, tag, ok);
                Ok(())
            }
            _ => Err(Code::BadInput),
        }
    }

    fn take_values(&mut self, tag: u32, ok: bool, values: &[u8]) -> Result<(), Code> {
        let mut reading = self.readings.remove(&tag).ok_or(Code::BadInput)?;
        if !ok {
            self.replica.unread(tag);
            return Ok(());
        }
        if reading.take(values).is_err() {
            self.replica.unread(tag);
            return Err(Code::BadInput);
        }
        if reading.page().is_empty() {
            self.replica.values(tag, reading.values);
        } else {
            self.read_on(tag, reading);
        }
        Ok(())
    }

    fn take_keys(&mut self, tag: u32, ok: bool, keys: &[u8]) -> Result<(), Code> {
        let keys: Result<Vec<Vec<u8>>, Malformed> = Keys::new(keys).map(|key| key.map(Vec::from)).collect();
        match keys {
            Ok(keys) if ok => {
                self.replica.keys(tag, &keys);
                Ok(())
            }
            Ok(_) => {
                self.replica.unread(tag);
                Ok(())
            }
            Err(Malformed) => {
                self.replica.unread(tag);
                Err(Code::BadInput)
            }
        }
    }

    fn ask(&mut self, effect: Effect) {
        match effect {
            Effect::Get { tag, keys } => {
                let values = Vec::with_capacity(keys.len());
                self.read_on(tag, Reading { keys, values });
            }
            Effect::Scan {
                tag,
                start,
                end,
                limit,
            } => Output::StoreScan {
                tag,
                start: &start,
                end: &end,
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
            }
            .encode(&mut self.out),
            Effect::Commit {
                tag,
                changes,
                durable,
            } => Output::StoreCommit {
                tag,
                durable,
                operations: operations(&changes).as_bytes(),
            }
            .encode(&mut self.out),
            Effect::Respond { request, response } => Output::Respond {
                request,
                response: &response,
            }
            .encode(&mut self.out),
            // A host cannot ask for what would give these yet.
            Effect::Ask { .. } | Effect::Synced(_) => {}
        }
    }

    fn read_on(&mut self, tag: u32, reading: Reading) {
        let mut keys = Vec::new();
        for key in reading.page() {
            key.as_slice().write(&mut keys);
        }
        Output::StoreGet { tag, keys: &keys }.encode(&mut self.out);
        self.readings.insert(tag, reading);
    }

    fn refuse(&mut self, input: u32, code: Code) {
        Output::Refused {
            input,
            code: code.as_u16(),
        }
        .encode(&mut self.out);
    }
}

fn operations(changes: &[Change]) -> OperationWriter {
    let mut operations = OperationWriter::new();
    for change in changes {
        operations.push(match change {
            Change::Put(key, value) => Operation::Put { key, value },
            Change::Delete(key) => Operation::Delete { key },
        });
    }
    operations
}
