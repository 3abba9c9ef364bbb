//! A replica behind its boundary, with a store in memory.

use std::collections::BTreeMap;

use selfsame_capsule::machine::Machine;
use selfsame_codec::capsule::{Input, Keys, Output, ReplicaConfig, Values};
use selfsame_codec::{BatchReader, BatchWriter, Field, Operation, Operations};

pub(crate) const SEED: [u8; 32] = [42; 32];

pub(crate) struct Stepped {
    pub(crate) machine: Machine,
    pub(crate) store: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether the store does what it is asked.
    pub(crate) works: bool,
    /// Keys in each `StoreGet`.
    pub(crate) asked: Vec<usize>,
    now_ms: u64,
}

pub(crate) fn config() -> Vec<u8> {
    let config = ReplicaConfig {
        seed: SEED,
        cache: 4 << 20,
        mirrors: 1 << 20,
        owners: Vec::new(),
    };
    config.encode()
}

impl Stepped {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            machine: Machine::new(&config()).expect("it is a configuration"),
            store: BTreeMap::new(),
            works: true,
            asked: Vec::new(),
            now_ms,
        }
    }

    /// The response to a request.
    pub(crate) fn ask(&mut self, message: &[u8]) -> Vec<u8> {
        let mut responses = self.step(&Input::Request {
            request: 1,
            source: [0; 32],
            message,
        });
        assert_eq!(responses.len(), 1, "one response");
        responses.remove(0)
    }

    /// The responses that an input leads to.
    pub(crate) fn step(&mut self, input: &Input<'_>) -> Vec<Vec<u8>> {
        let mut responses = Vec::new();
        let mut batches = vec![self.batch(|batch| input.encode(batch))];
        while let Some(batch) = batches.pop() {
            let outputs = self.machine.step(&batch).to_vec();
            for item in BatchReader::new(&outputs).expect("a batch") {
                match Output::decode(item).expect("an output") {
                    Output::Respond { request, response } => {
                        assert_eq!(request, 1);
                        responses.push(response.to_vec());
                    }
                    Output::Refused { input, code } => panic!("input {input} was refused with {code}"),
                    output => batches.insert(0, self.answer(&output)),
                }
            }
        }
        responses
    }

    fn answer(&mut self, output: &Output<'_>) -> Vec<u8> {
        let ok = self.works;
        let mut bytes = Vec::new();
        match *output {
            Output::StoreGet { tag, keys } => {
                let keys: Vec<&[u8]> = Keys::new(keys).collect::<Result<_, _>>().expect("keys");
                self.asked.push(keys.len());
                for key in keys {
                    Values::write(self.store.get(key).map(Vec::as_slice), &mut bytes);
                }
                self.batch(|batch| {
                    Input::StoreValues {
                        tag,
                        ok,
                        values: &bytes,
                    }
                    .encode(batch)
                })
            }
            Output::StoreScan {
                tag,
                start,
                end,
                limit,
            } => {
                for (key, _) in self
                    .store
                    .range(start.to_vec()..end.to_vec())
                    .take(limit as usize)
                {
                    key.as_slice().write(&mut bytes);
                }
                self.batch(|batch| {
                    Input::StoreKeys {
                        tag,
                        ok,
                        keys: &bytes,
                    }
                    .encode(batch)
                })
            }
            Output::StoreCommit { tag, operations, .. } => {
                for operation in Operations::new(operations).filter(|_| ok) {
                    match operation.expect("an operation") {
                        Operation::Put { key, value } => _ = self.store.insert(key.to_vec(), value.to_vec()),
                        Operation::Delete { key } => _ = self.store.remove(key),
                    }
                }
                self.batch(|batch| Input::StoreCommitted { tag, ok }.encode(batch))
            }
            _ => panic!("not of the store"),
        }
    }

    fn batch(&self, write: impl FnOnce(&mut BatchWriter)) -> Vec<u8> {
        let mut batch = BatchWriter::new();
        write(&mut batch);
        [self.now_ms.to_le_bytes().as_slice(), batch.as_bytes()].concat()
    }
}
