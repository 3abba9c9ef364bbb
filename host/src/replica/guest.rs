use alloc::sync::Arc;
use std::collections::HashMap;

use bytes::Bytes;
use selfsame_codec::capsule::{Input, Output, ReplicaConfig};
use selfsame_codec::{BatchWriter, Item, Malformed};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::Shelf;
use crate::capsule::engine::Guest;
use crate::core::{Core, CoreError};
use crate::error::Error;

/// A request, and who waits for its response
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) message: Bytes,
    pub(super) answer: oneshot::Sender<Result<Bytes, Error>>,
    /// What it takes of the memory for requests, whether or not somebody still waits.
    pub(super) room: OwnedSemaphorePermit,
}

/// Who waits for a response
struct Waiting {
    answer: oneshot::Sender<Result<Bytes, Error>>,
    #[expect(dead_code, reason = "it is only dropped")]
    room: OwnedSemaphorePermit,
}

/// A replica in its engine: who waits for what
pub(super) struct ReplicaGuest {
    config: ReplicaConfig,
    shelf: Arc<Shelf>,
    waiting: HashMap<u32, Waiting>,
    last: u32,
}

impl ReplicaGuest {
    pub(super) fn new(config: ReplicaConfig, shelf: Arc<Shelf>) -> Self {
        Self {
            config,
            shelf,
            waiting: HashMap::new(),
            last: 0,
        }
    }
}

impl Guest for ReplicaGuest {
    type Order = Asked;

    fn create(&self, core: &mut Core) -> Result<(), CoreError> {
        core.create_encoded(self.config.encode())
    }

    fn take(&mut self, asked: Asked, inputs: &mut BatchWriter) {
        let Asked {
            message,
            answer,
            room,
        } = asked;
        self.last = self.last.wrapping_add(1);
        self.waiting.insert(self.last, Waiting { answer, room });
        Input::Request {
            request: self.last,
            message: &message,
        }
        .encode(inputs);
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
            _ => return Err(Malformed),
        }
        Ok(())
    }

    fn wrote(&mut self, key: &[u8]) {
        self.shelf.hold(key);
    }

    fn lose(&mut self, error: &CoreError, _inputs: &mut BatchWriter) {
        for (_, waiting) in self.waiting.drain() {
            _ = waiting.answer.send(Err(Error::Poisoned(error.clone())));
        }
    }
}

impl Drop for ReplicaGuest {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.config.seed);
    }
}
