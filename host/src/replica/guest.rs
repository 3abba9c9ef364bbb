use alloc::sync::Arc;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use selfsame_codec::capsule::{Input, Output, ReplicaConfig};
use selfsame_codec::{BatchWriter, Code, Item, Malformed};
use tokio::sync::oneshot;

use super::room::Place;
use super::{Shelf, Source};
use crate::capsule::CapsuleName;
use crate::capsule::engine::Guest;
use crate::capsule::peer::KnownPeer;
use crate::core::{Core, CoreError};
use crate::error::Error;

/// A request, and who waits for its response
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) source: Source,
    pub(super) message: Bytes,
    pub(super) answer: oneshot::Sender<Result<Bytes, Error>>,
    /// What it takes of the memory for requests, whether or not somebody still waits.
    pub(super) place: Place,
}

/// Who waits for a synchronisation
type Done = oneshot::Sender<Result<Synchronised, Error>>;

/// What a replica is to do
pub(super) enum Order {
    /// Answer a request.
    Request(Asked),
    /// Come to hold the same as another one.
    Sync {
        capsule: CapsuleName,
        peer: KnownPeer,
        entropy: [u8; 32],
        done: Done,
    },
    /// Push what is stored of a capsule to these from now on.
    Replicas {
        capsule: CapsuleName,
        peers: Vec<KnownPeer>,
    },
}

/// What came of a synchronisation
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Synchronised {
    /// Whether both hold the same now; if not, they do after another one, unless one refuses what the other has.
    pub agreed: bool,
    /// How many records and signatures this replica has got.
    pub pulled: u64,
    /// How many it has given.
    pub pushed: u64,
}

/// How a synchronisation ended, as the module says
const AGREED: u8 = 0;
const REFUSED: u8 = 2;
const UNREACHABLE: u8 = 3;

/// Who waits for a response
struct Waiting {
    answer: oneshot::Sender<Result<Bytes, Error>>,
    #[expect(dead_code, reason = "it is only dropped")]
    place: Place,
}

/// A synchronisation under way
struct Syncing {
    done: Done,
    #[expect(dead_code, reason = "it is only dropped")]
    peer: KnownPeer,
}

/// A replica in its engine: who waits for what
pub(super) struct ReplicaGuest {
    config: ReplicaConfig,
    shelf: Arc<Shelf>,
    waiting: HashMap<u32, Waiting>,
    syncing: HashMap<(CapsuleName, [u8; 32]), Syncing>,
    pushed_to: HashMap<CapsuleName, Vec<KnownPeer>>,
    last: u32,
}

impl ReplicaGuest {
    pub(super) fn new(config: ReplicaConfig, shelf: Arc<Shelf>) -> Self {
        Self {
            config,
            shelf,
            waiting: HashMap::new(),
            syncing: HashMap::new(),
            pushed_to: HashMap::new(),
            last: 0,
        }
    }

    fn ask(&mut self, asked: Asked, inputs: &mut BatchWriter) {
        let Asked {
            source: Source(source),
            message,
            answer,
            place,
        } = asked;
        self.last = self.last.wrapping_add(1);
        self.waiting.insert(self.last, Waiting { answer, place });
        Input::Request {
            request: self.last,
            source,
            message: &message,
        }
        .encode(inputs);
    }

    /// Ends a synchronisation.
    fn end(&mut self, output: &Output<'_>) {
        let Output::Synced {
            peer,
            capsule,
            outcome,
            code,
            at,
            pulled,
            pushed,
        } = *output
        else {
            return;
        };
        let Some(syncing) = self.syncing.remove(&(CapsuleName(capsule), peer)) else {
            return;
        };
        // Who has gone away needs no answer.
        _ = syncing.done.send(match outcome {
            REFUSED => Err(Error::at(code, u64::from(at))),
            UNREACHABLE => Err(Error::from_code(Code::Disconnected)),
            outcome => Ok(Synchronised {
                agreed: outcome == AGREED,
                pulled,
                pushed,
            }),
        });
    }
}

fn tell_replicas(capsule: CapsuleName, peers: &[KnownPeer], inputs: &mut BatchWriter) {
    let ids: Vec<u8> = peers.iter().flat_map(KnownPeer::id).collect();
    Input::Replicas {
        capsule: capsule.0,
        peers: &ids,
    }
    .encode(inputs);
}

impl Guest for ReplicaGuest {
    type Order = Order;

    fn create(&self, core: &mut Core) -> Result<(), CoreError> {
        core.create_encoded(self.config.encode())
    }

    fn take(&mut self, order: Order, inputs: &mut BatchWriter) {
        match order {
            Order::Request(asked) => self.ask(asked, inputs),
            Order::Sync {
                capsule,
                peer,
                entropy,
                done,
            } => match self.syncing.entry((capsule, peer.id())) {
                Entry::Occupied(_) => _ = done.send(Err(Error::from_code(Code::TooManyRequests))),
                Entry::Vacant(place) => {
                    Input::Sync {
                        peer: peer.id(),
                        capsule: capsule.0,
                        entropy,
                    }
                    .encode(inputs);
                    place.insert(Syncing { done, peer });
                }
            },
            Order::Replicas { capsule, peers } => {
                tell_replicas(capsule, &peers, inputs);
                self.pushed_to.insert(capsule, peers);
            }
        }
    }

    fn follow(&mut self, item: Item<'_>) -> Result<(), Malformed> {
        match Output::decode(item)? {
            Output::Respond { request, response } => {
                if let Some(waiting) = self.waiting.remove(&request) {
                    // Who has gone away needs no answer.
                    _ = waiting.answer.send(Ok(Bytes::copy_from_slice(response)));
                }
            }
            Output::Refused { input, code } => {
                tracing::error!(input, code, "the module of capsules refused an input");
            }
            synced @ Output::Synced { .. } => self.end(&synced),
            _ => return Err(Malformed),
        }
        Ok(())
    }

    fn wrote(&mut self, key: &[u8]) {
        self.shelf.hold(key);
    }

    fn lose(&mut self, error: &CoreError, inputs: &mut BatchWriter) {
        for (_, waiting) in self.waiting.drain() {
            _ = waiting.answer.send(Err(Error::Poisoned(error.clone())));
        }
        for (_, syncing) in self.syncing.drain() {
            _ = syncing.done.send(Err(Error::Poisoned(error.clone())));
        }
        for (capsule, peers) in &self.pushed_to {
            tell_replicas(*capsule, peers, inputs);
        }
    }
}

impl Drop for ReplicaGuest {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.config.seed);
    }
}
