//! A replica behind the boundary.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use selfsame_codec::capsule::{Input, Keys, Output, ReplicaConfig, Values};
use selfsame_codec::{BatchWriter, Code, Field, Item, Malformed, Reader};
use zeroize::Zeroize;

use super::commit;
use crate::hash::CapsuleName;
use crate::keys::{Key, KeyPair};
use crate::replica::{Effect, Limits, PeerId, Replica, SyncOutcome, Synced};

/// Keys that are asked for at once: their values, 60 KiB at most, fit the largest batch of inputs.
const KEYS_AT_ONCE: usize = 256;

/// Keys whose values are being read, some at a time
#[derive(Debug)]
struct Reading {
    keys: Vec<Vec<u8>>,
    values: Vec<Option<Vec<u8>>>,
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
        self.values
            .extend(values.into_iter().map(|value| value.map(Vec::from)));
        Ok(())
    }
}

/// A replica and what of its store is being read
#[derive(Debug)]
pub(super) struct ReplicaMachine {
    replica: Replica,
    readings: BTreeMap<u32, Reading>,
}

impl ReplicaMachine {
    pub(super) fn new(mut config: ReplicaConfig) -> Self {
        let server = KeyPair::from_seed(&config.seed);
        config.seed.zeroize();
        let limits = Limits {
            cache: config.cache as usize,
            mirrors: config.mirrors as usize,
        };
        let owners = config.owners.iter().copied().map(Key);
        Self {
            replica: Replica::new(server, limits).for_owners(owners.collect()),
            readings: BTreeMap::new(),
        }
    }

    /// Takes an input and appends what the host is to do.
    pub(super) fn take(&mut self, now_ms: u64, item: Item<'_>, out: &mut BatchWriter) -> Result<(), Code> {
        let taken = Input::decode(item)
            .map_err(|_| Code::BadInput)
            .and_then(|input| self.take_input(now_ms, &input, out));
        while let Some(effect) = self.replica.next_effect() {
            self.ask(effect, out);
        }
        taken
    }

    fn take_input(&mut self, now_ms: u64, input: &Input<'_>, out: &mut BatchWriter) -> Result<(), Code> {
        match *input {
            Input::Request {
                request,
                source,
                message,
            } => {
                self.replica.request(now_ms, request, source, message.to_vec());
            }
            Input::StoreValues { tag, ok, values } => return self.take_values(tag, ok, values, out),
            Input::StoreKeys { tag, ok, keys } => return self.take_keys(tag, ok, keys),
            Input::StoreCommitted { tag, ok } => self.replica.committed(now_ms, tag, ok),
            Input::Answered { tag, ok, response } => {
                self.replica.answered(now_ms, tag, ok.then_some(response));
            }
            Input::Sync {
                peer,
                capsule,
                entropy,
            } => self.replica.sync(now_ms, peer, CapsuleName(capsule), entropy),
            Input::Replicas { capsule, peers } => {
                let peers = peer_ids(peers).map_err(|_| Code::BadInput)?;
                self.replica.set_replicas(CapsuleName(capsule), peers);
            }
            _ => return Err(Code::BadInput),
        }
        Ok(())
    }

    fn take_values(&mut self, tag: u32, ok: bool, values: &[u8], out: &mut BatchWriter) -> Result<(), Code> {
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
            let keys = reading.keys.iter().map(Vec::as_slice);
            let values = reading.values.iter().map(Option::as_deref);
            self.replica.values(tag, keys.zip(values));
        } else {
            self.read_on(tag, reading, out);
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

    fn ask(&mut self, effect: Effect, out: &mut BatchWriter) {
        match effect {
            Effect::Get { tag, keys } => {
                let values = Vec::with_capacity(keys.len());
                self.read_on(tag, Reading { keys, values }, out);
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
            .encode(out),
            Effect::Commit { tag, batch, durable } => commit(tag, durable, &batch, out),
            Effect::Respond { request, response } => Output::Respond {
                request,
                response: &response,
            }
            .encode(out),
            Effect::Ask { tag, peer, message } => Output::Ask {
                tag,
                peer,
                message: &message,
            }
            .encode(out),
            Effect::Synced(synced) => tell(&synced, out),
        }
    }

    fn read_on(&mut self, tag: u32, reading: Reading, out: &mut BatchWriter) {
        let mut keys = Vec::new();
        for key in reading.page() {
            key.as_slice().write(&mut keys);
        }
        Output::StoreGet { tag, keys: &keys }.encode(out);
        self.readings.insert(tag, reading);
    }
}

fn peer_ids(bytes: &[u8]) -> Result<Vec<PeerId>, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut peers = Vec::with_capacity(bytes.len() / size_of::<PeerId>());
    while !reader.is_empty() {
        peers.push(reader.array()?);
    }
    Ok(peers)
}

fn tell(synced: &Synced, out: &mut BatchWriter) {
    let (outcome, code, at) = match synced.outcome {
        SyncOutcome::Agreed => (0, 0, 0),
        SyncOutcome::Differs => (1, 0, 0),
        SyncOutcome::Refused(refusal) => (2, refusal.code.as_u16(), refusal.at),
        SyncOutcome::Unreachable => (3, 0, 0),
    };
    Output::Synced {
        peer: synced.peer,
        capsule: synced.capsule.0,
        outcome,
        code,
        at,
        pulled: synced.pulled,
        pushed: synced.pushed,
    }
    .encode(out);
}
