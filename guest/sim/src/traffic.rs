//! What nodes say to each other, counted.

use std::sync::{Arc, Mutex, PoisonError};

use selfsame_core::handshake::Kind;
use selfsame_core::identity::PeerId;
use selfsame_core::ring::simulation::Tap;

use crate::report::Row;

/// Names of the requests, by their numbers in a message
const KINDS: [&str; 11] = [
    "ping",
    "find-node",
    "find",
    "store",
    "mirror",
    "join",
    "update",
    "leave",
    "attach",
    "detach",
    "vouch",
];

/// What went over the network
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Handshakes that came to their third message.
    pub handshakes: u64,
    /// Frames that arrived.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, frame: &[u8]) {
        self.handshakes += u64::from(Kind::of(frame) == Some(Kind::Confirmation));
        self.frames += 1;
        self.bytes += frame.len() as u64;
    }

    /// What was added since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            handshakes: self.handshakes - before.handshakes,
            frames: self.frames - before.frames,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// Counts the requests of many nodes by their kind
#[derive(Clone, Debug, Default)]
pub struct Requests {
    counts: Arc<Mutex<[u64; KINDS.len()]>>,
}

impl Requests {
    /// How many there were of each kind, in the order of their numbers in a message.
    #[must_use]
    pub fn counts(&self) -> [u64; KINDS.len()] {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there were of each kind for each of `nodes`, as figures.
    #[must_use]
    pub fn rows(&self, nodes: usize) -> Vec<Row> {
        let counts = self.counts();
        let each = KINDS.iter().zip(counts).filter(|(_, count)| *count > 0);
        let row = |(kind, count): (&&str, u64)| {
            Row::new(
                format!("requests a node, {kind}"),
                "",
                count as f64 / nodes as f64,
            )
        };
        each.map(row).collect()
    }
}

impl Tap for Requests {
    fn sends(&mut self, _to: PeerId, request: &mut Vec<u8>) {
        // The kind follows the head of the array.
        let kind = request.get(1).map_or(0, |kind| usize::from(*kind));
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)[kind] += 1;
    }
}
