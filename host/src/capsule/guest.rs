use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::HashMap;

use selfsame_codec::capsule::Output;
use selfsame_codec::client::{ClientConfig, Reply};
use selfsame_codec::{BatchWriter, Code, Item, Malformed};
use tokio::sync::oneshot;

use super::engine::Guest;
use super::peer::KnownPeer;
use crate::core::{Core, CoreError};
use crate::error::Error;
use crate::keys::{Seed, random_bytes};

/// Appends a command with the number that it is given.
pub(super) type Encode = Box<dyn FnOnce(u32, &mut BatchWriter) + Send>;

/// A command, and who waits for its reply
pub(super) struct Commanded {
    pub(super) encode: Encode,
    pub(super) answer: oneshot::Sender<Result<RawReply, Error>>,
}

/// A reply as it came
#[derive(Debug)]
pub(super) struct RawReply {
    kind: u8,
    payload: Vec<u8>,
}

impl RawReply {
    /// What it says.
    ///
    /// # Errors
    /// Why the command failed.
    pub(super) fn decode(&self) -> Result<Reply<'_>, Error> {
        let item = Item {
            kind: self.kind,
            payload: &self.payload,
        };
        match Reply::decode(item) {
            Ok(Reply::Failed { code, at, .. }) => Err(Error::at(code, u64::from(at))),
            Ok(reply) => Ok(reply),
            Err(Malformed) => Err(Error::version_skew()),
        }
    }
}

/// What makes a client
pub(super) struct ClientSettings {
    pub(super) capsule: [u8; 32],
    pub(super) metadata: Vec<u8>,
    pub(super) servers: Vec<u8>,
    pub(super) seed: Option<Seed>,
    pub(super) write_quorum: u32,
    pub(super) read_quorum: u32,
    pub(super) timing: [u32; 4],
}

/// A client in its engine: who waits for what
pub(super) struct ClientGuest {
    settings: ClientSettings,
    /// Its servers.
    #[expect(dead_code, reason = "they are only dropped")]
    peers: Vec<KnownPeer>,
    waiting: HashMap<u32, oneshot::Sender<Result<RawReply, Error>>>,
    last: u32,
    /// How many instances there were: a writer begins anew in each.
    lives: Arc<AtomicU32>,
    has_failed: bool,
}

impl ClientGuest {
    pub(super) fn new(settings: ClientSettings, peers: Vec<KnownPeer>, lives: Arc<AtomicU32>) -> Self {
        Self {
            settings,
            peers,
            waiting: HashMap::new(),
            last: 0,
            lives,
            has_failed: false,
        }
    }

    fn fail_all(&mut self, error: impl Fn() -> Error) {
        for (_, answer) in self.waiting.drain() {
            _ = answer.send(Err(error()));
        }
    }
}

impl Guest for ClientGuest {
    type Order = Commanded;

    fn create(&self, core: &mut Core) -> Result<(), CoreError> {
        let settings = &self.settings;
        let no_entropy = |error: Error| CoreError::NotACore(error.to_string());
        let config = ClientConfig {
            capsule: settings.capsule,
            metadata: &settings.metadata,
            servers: &settings.servers,
            seed: settings.seed.as_ref().map_or(&[], |seed| seed.bytes()),
            write_quorum: settings.write_quorum,
            read_quorum: settings.read_quorum,
            timing: settings.timing,
            entropy: random_bytes().map_err(no_entropy)?,
        };
        core.create_encoded(config.encode())
    }

    fn take(&mut self, Commanded { encode, answer }: Commanded, inputs: &mut BatchWriter) {
        if self.has_failed {
            _ = answer.send(Err(Error::from_code(Code::StoreFailed)));
            return;
        }
        self.last = self.last.wrapping_add(1);
        self.waiting.insert(self.last, answer);
        encode(self.last, inputs);
    }

    fn follow(&mut self, item: Item<'_>) -> Result<(), Malformed> {
        if item.kind < selfsame_codec::client::FIRST_KIND {
            let Output::Refused { code, .. } = Output::decode(item)? else {
                return Err(Malformed);
            };
            tracing::error!(code, "the module of capsules refused an input");
            // Without knowing what it has written and seen a client does nothing.
            if code == Code::StoreFailed.as_u16() {
                self.has_failed = true;
                self.fail_all(|| Error::from_code(Code::StoreFailed));
            }
            return Ok(());
        }
        let command = item.payload.first_chunk().copied().map(u32::from_le_bytes);
        if let Some(answer) = self.waiting.remove(&command.ok_or(Malformed)?) {
            // Who has gone away needs no answer.
            _ = answer.send(Ok(RawReply {
                kind: item.kind,
                payload: item.payload.to_vec(),
            }));
        }
        Ok(())
    }

    fn wrote(&mut self, _key: &[u8]) {}

    fn lose(&mut self, error: &CoreError, _inputs: &mut BatchWriter) {
        self.lives.fetch_add(1, Ordering::Relaxed);
        self.fail_all(|| Error::Poisoned(error.clone()));
    }
}
