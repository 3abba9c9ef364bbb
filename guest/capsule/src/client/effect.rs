//! What a client is made of from outside: its configuration, and what it asks its host to do.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::Code;
use selfsame_write_batch::WriteBatch;
use zeroize::Zeroizing;

use super::command::Reply;
use crate::cache::DEFAULT_SLOTS_LOG2;
use crate::hash::CapsuleName;
use crate::keys::Key;
use crate::refusal::{Refusal, Result};
use crate::verifier::SharedVerifier;

/// Most servers of one capsule.
pub const MAX_SERVERS: usize = 32;

/// A value as the host keeps it, or that there is none.
pub type Value = Option<Bytes>;

/// What a client is to be
#[derive(Clone, Debug)]
pub struct Config {
    /// The capsule.
    pub capsule: CapsuleName,
    /// Its signed metadata; without it the servers are asked.
    pub metadata: Option<Vec<u8>>,
    /// The keys with which its servers sign; a server's place here is its number.
    pub servers: Vec<Key>,
    /// The seed of a writer, reader or owner; without one only a capsule that everybody reads can be read.
    pub seed: Option<Zeroizing<[u8; 32]>>,
    /// How many servers must have stored something before it counts as written.
    pub write_quorum: usize,
    /// How many servers must have said which records are the newest.
    pub read_quorum: usize,
    /// How long it waits.
    pub timing: Timing,
    /// Slots of the mirrored verification cache of each server, as a power of two.
    pub slots_log2: u8,
    /// What verifies its servers' signatures; clients of the same servers save memory and time when they share one.
    pub verifier: SharedVerifier,
    /// Fresh random bytes.
    pub entropy: [u8; 32],
}

impl Config {
    /// A client of one capsule at these servers, of which more than half must agree.
    #[must_use]
    pub fn new(capsule: CapsuleName, servers: Vec<Key>, entropy: [u8; 32]) -> Self {
        let majority = servers.len() / 2 + 1;
        Self {
            capsule,
            metadata: None,
            servers,
            seed: None,
            write_quorum: majority,
            read_quorum: majority,
            timing: Timing::default(),
            slots_log2: DEFAULT_SLOTS_LOG2,
            verifier: SharedVerifier::default(),
            entropy,
        }
    }
}

impl Config {
    /// Checks servers and quorums.
    pub(super) fn check(&self) -> Result<()> {
        let refused = |at| Err(Refusal::new(Code::BadConfig, at));
        let count = self.servers.len();
        if count == 0 || count > MAX_SERVERS {
            return refused(count);
        }
        let servers = &self.servers;
        if let Some(again) = (1..count).find(|place| servers[..*place].contains(&servers[*place])) {
            return refused(again);
        }
        let fits = |quorum: usize| (1..=count).contains(&quorum);
        if fits(self.write_quorum) && fits(self.read_quorum) {
            Ok(())
        } else {
            refused(count)
        }
    }
}

/// How long a client waits, in milliseconds
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Before it asks a second server what the first has not answered.
    pub hedge_ms: u64,
    /// Before it gives up a request.
    pub attempt_ms: u64,
    /// For how long it asks others first after a server has failed or lied.
    pub avoid_ms: u64,
    /// Before it gives up a command.
    pub deadline_ms: u64,
}

impl Default for Timing {
    /// For servers on the internet: a second server is asked about when nine in ten answers have come.
    fn default() -> Self {
        Self {
            hedge_ms: 250,
            attempt_ms: 5_000,
            avoid_ms: 10_000,
            deadline_ms: 30_000,
        }
    }
}

/// What a client asks its host to do; `R` is what it tells the application
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<R = Reply> {
    /// Send a request to a server; answered by [`super::Client::response`] or [`super::Client::failed`].
    Send {
        /// The server's number.
        server: u16,
        /// What the answer is for.
        request: u32,
        /// The request.
        bytes: Arc<Vec<u8>>,
    },
    /// Read the values of keys; answered by [`super::Client::values`].
    Get {
        /// What the answer is for.
        tag: u32,
        /// The keys.
        keys: Vec<Vec<u8>>,
    },
    /// Write all changes or none, after all that was asked to be written before; answered by [`super::Client::committed`].
    Commit {
        /// What the answer is for.
        tag: u32,
        /// The changes, in their order.
        batch: WriteBatch,
        /// Whether these and all before are to survive a power loss.
        durable: bool,
    },
    /// Tell the application what came of its command.
    Reply {
        /// Which, as the host called it.
        command: u32,
        /// What came of it.
        result: Result<R>,
    },
}
