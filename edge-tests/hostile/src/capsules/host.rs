//! The host of one replica or client: what its module has of a store, a network and time.

use core::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use selfsame_capsule::message::Operation;
use selfsame_capsule::metadata::Charter;
use selfsame_codec::capsule::{Input, Keys, Output, ReplicaConfig, Values};
use selfsame_codec::client::{self, ClientConfig};
use selfsame_codec::{BatchReader, BatchWriter, Field, Operation as StoreOperation, Operations, Reader};

use super::{START_MS, request};
use crate::module::{self, Backend, Handle, Kind, Module, Trap};

/// From where a request comes, as the host says
pub(crate) type Source = [u8; 32];

/// Operations of one request, below what a message takes.
const OPERATIONS_AT_ONCE: usize = 4_000;
/// Bytes of a replica's caches: what the npm package gives it.
const CACHE_BYTES: u32 = 8 << 20;
/// Steps of one input after which a module counts as one that reads its store without end: ten times what any honest one needs.
const MAX_STEPS: usize = 500;
const MIRROR_BYTES: u32 = 4 << 20;

/// Instances of `capsule.wasm`
#[derive(Clone)]
pub(crate) struct Capsules(Rc<RefCell<Box<dyn Module>>>);

impl Capsules {
    /// Instances in a back end.
    pub(crate) fn new(backend: Backend) -> Self {
        Self(Rc::new(RefCell::new(module::open(Kind::Capsule, backend))))
    }
}

/// A request that a module wants to have sent
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// Its number.
    pub(crate) tag: u32,
    /// To whom: a replica's key or peer id.
    pub(crate) peer: [u8; 32],
    /// What.
    pub(crate) message: Vec<u8>,
}

/// What came of a synchronisation
#[derive(Clone, Copy, Debug)]
pub(crate) struct Synced {
    /// Whether both hold the same.
    pub(crate) is_agreed: bool,
    /// Records and signatures that came.
    pub(crate) pulled: u64,
}

/// One instance with its store
pub(crate) struct Host {
    capsules: Capsules,
    instance: Handle,
    /// What it has stored.
    pub(crate) store: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The time at this host.
    pub(crate) now_ms: u64,
    /// When it wants to be stepped again.
    pub(crate) wake_ms: u64,
    /// Requests that it wants to have sent, oldest first.
    pub(crate) asks: VecDeque<Ask>,
    /// Replies to commands: kind and payload.
    pub(crate) replies: BTreeMap<u32, (u8, Vec<u8>)>,
    /// What came of synchronisations.
    pub(crate) synced: Vec<Synced>,
    /// Whether it has trapped.
    pub(crate) is_trapped: bool,
    /// Whether it read its store without end, so that its host gave up what it was at.
    pub(crate) is_stuck: bool,
    responses: BTreeMap<u32, Vec<u8>>,
    last_request: u32,
}

impl Host {
    /// A replica with an empty store.
    pub(crate) fn replica(capsules: &Capsules, seed: [u8; 32]) -> Self {
        let config = ReplicaConfig {
            seed,
            cache: CACHE_BYTES,
            mirrors: MIRROR_BYTES,
            owners: Vec::new(),
        };
        Self::new(capsules, &config.encode(), BTreeMap::new())
    }

    /// A client with the store of an earlier one, or an empty one.
    pub(crate) fn client(
        capsules: &Capsules,
        config: &ClientConfig<'_>,
        store: BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Self {
        Self::new(capsules, &config.encode(), store)
    }

    fn new(capsules: &Capsules, config: &[u8], store: BTreeMap<Vec<u8>, Vec<u8>>) -> Self {
        let instance = capsules.0.borrow_mut().create(config);
        Self {
            capsules: capsules.clone(),
            instance: instance.expect("the configuration is usable"),
            store,
            now_ms: START_MS,
            wake_ms: u64::MAX,
            asks: VecDeque::new(),
            replies: BTreeMap::new(),
            synced: Vec::new(),
            is_trapped: false,
            is_stuck: false,
            responses: BTreeMap::new(),
            last_request: 0,
        }
    }

    /// The response to a message from somewhere; `None` if there is none.
    pub(crate) fn respond(&mut self, source: Source, message: &[u8]) -> Option<Vec<u8>> {
        self.last_request += 1;
        let request = self.last_request;
        self.give(|batch| {
            Input::Request {
                request,
                source,
                message,
            }
            .encode(batch);
        });
        self.responses.remove(&request)
    }

    /// Sends operations in as many requests as needed; how many succeeded.
    pub(crate) fn perform(
        &mut self,
        charter: &Charter,
        (source, session): (Source, [u8; 16]),
        operations: &[Operation<'_>],
    ) -> usize {
        let mut succeeded = 0;
        for operations in operations.chunks(OPERATIONS_AT_ONCE) {
            let response = self.respond(source, &request(charter, session, operations));
            succeeded += response.map_or(0, |response| count_stored(&response, operations.len()));
        }
        succeeded
    }

    /// Begins to synchronise with a peer.
    pub(crate) fn sync(&mut self, peer: [u8; 32], charter: &Charter, entropy: [u8; 32]) {
        let capsule = charter.name().0;
        self.give(|batch| {
            Input::Sync {
                peer,
                capsule,
                entropy,
            }
            .encode(batch);
        });
    }

    /// Gives a command of an application.
    pub(crate) fn command(&mut self, command: &client::Command<'_>) {
        self.give(|batch| command.encode(batch));
    }

    /// Gives the response to a request, or none.
    pub(crate) fn answer(&mut self, tag: u32, response: Option<&[u8]>) {
        self.give(|batch| {
            Input::Answered {
                tag,
                ok: response.is_some(),
                response: response.unwrap_or_default(),
            }
            .encode(batch);
        });
    }

    /// Lets the time go on to when it wants to be stepped again; whether there is such a time.
    pub(crate) fn wake(&mut self) -> bool {
        if self.wake_ms == u64::MAX || self.is_trapped {
            return false;
        }
        self.now_ms = self.now_ms.max(self.wake_ms);
        self.give(|_| {});
        true
    }

    /// How many stored rows are of a kind: the byte that follows the capsule's name in a key.
    pub(crate) fn rows(&self, kind: u8) -> usize {
        self.store.keys().filter(|key| key.get(32) == Some(&kind)).count()
    }

    fn give(&mut self, write: impl FnOnce(&mut BatchWriter)) {
        let mut batch = BatchWriter::new();
        write(&mut batch);
        let mut batches = VecDeque::from([batch]);
        let mut steps = 0;
        while let Some(batch) = batches.pop_front() {
            steps += 1;
            if steps > MAX_STEPS {
                self.is_stuck = true;
                return;
            }
            let bytes = [&self.now_ms.to_le_bytes(), batch.as_bytes()].concat();
            let outputs = self.capsules.0.borrow_mut().step(self.instance, &bytes);
            let outputs = match outputs {
                Ok(outputs) => outputs,
                Err(Trap(_)) => {
                    self.is_trapped = true;
                    return;
                }
            };
            for item in BatchReader::new(&outputs).expect("a module encodes its outputs") {
                if item.kind >= client::FIRST_KIND {
                    let command = item
                        .payload
                        .first_chunk()
                        .expect("a reply begins with its command");
                    let reply = (item.kind, item.payload.to_vec());
                    self.replies.insert(u32::from_le_bytes(*command), reply);
                    continue;
                }
                let output = Output::decode(item).expect("a module encodes its outputs");
                batches.extend(self.follow(&output));
            }
        }
    }

    /// Does what the module asks for; what it is told at once.
    fn follow(&mut self, output: &Output<'_>) -> Option<BatchWriter> {
        match *output {
            Output::Respond { request, response } => _ = self.responses.insert(request, response.to_vec()),
            Output::Ask { tag, peer, message } => self.asks.push_back(Ask {
                tag,
                peer,
                message: message.to_vec(),
            }),
            Output::Synced { outcome, pulled, .. } => self.synced.push(Synced {
                is_agreed: outcome == 0,
                pulled,
            }),
            Output::Wake { at_ms } => self.wake_ms = at_ms,
            Output::Refused { input, code } => panic!("input {input} is refused with {code}"),
            _ => return self.serve_store(output),
        }
        None
    }

    fn serve_store(&mut self, output: &Output<'_>) -> Option<BatchWriter> {
        let mut batch = BatchWriter::new();
        let mut bytes = Vec::new();
        let ok = true;
        match *output {
            Output::StoreGet { tag, keys } => {
                for key in Keys::new(keys).flatten() {
                    Values::write(self.store.get(key).map(Vec::as_slice), &mut bytes);
                }
                let values = &bytes;
                Input::StoreValues { tag, ok, values }.encode(&mut batch);
            }
            Output::StoreScan {
                tag,
                start,
                end,
                limit,
            } => {
                let range = self.store.range(start.to_vec()..end.to_vec());
                for (key, _) in range.take(limit as usize) {
                    key.as_slice().write(&mut bytes);
                }
                let keys = &bytes;
                Input::StoreKeys { tag, ok, keys }.encode(&mut batch);
            }
            Output::StoreCommit { tag, operations, .. } => {
                for operation in Operations::new(operations).flatten() {
                    match operation {
                        StoreOperation::Put { key, value } => {
                            self.store.insert(key.to_vec(), value.to_vec());
                        }
                        StoreOperation::Delete { key } => _ = self.store.remove(key),
                    }
                }
                Input::StoreCommitted { tag, ok }.encode(&mut batch);
            }
            _ => return None,
        }
        Some(batch)
    }
}

/// How many of the operations of a request, none of which gives anything, succeeded.
fn count_stored(response: &[u8], operations: usize) -> usize {
    let mut reader = Reader::new(response);
    let head = (reader.field::<u8>(), reader.field::<u16>(), reader.field::<u32>());
    let (Ok(1), Ok(0), Ok(_)) = head else {
        return 0;
    };
    let mut stored = 0;
    for _ in 0..operations {
        match reader.field::<u16>() {
            Ok(0) => stored += 1,
            _ => _ = reader.field::<u32>(),
        }
    }
    stored
}

impl Drop for Host {
    fn drop(&mut self) {
        if !self.is_trapped {
            self.capsules.0.borrow_mut().destroy(self.instance);
        }
    }
}
