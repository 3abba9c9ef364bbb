//! What a simulator sees and changes of what a node's ring says: peers that lie are full peers in everything else.

use alloc::boxed::Box;
use alloc::vec::Vec;

pub use super::guard::message::{
    Groups, ToldConviction, ToldLease, decode_groups, encode_contradictions, encode_groups,
};
pub use super::message::{
    EntryBytes, Hop, Refusal, Request, Updated, decode_joined, encode_ack, encode_error, encode_joined,
};

use super::{Call, Context, Ring};
use crate::admission::Gate;
use crate::identity::PeerId;
use crate::record::NodeRecord;
use selfsame_sorted_map::Map;

#[cfg(target_arch = "wasm32")]
compile_error!("the feature `simulation` lets a node lie: no core that is shipped may have it");

/// Sits between a ring and its node
pub trait Tap: Send {
    /// A request goes out; it may be changed.
    fn sends(&mut self, _to: PeerId, _request: &mut Vec<u8>) {}

    /// A request of `from` is about to be answered; `None` leaves it without an answer.
    fn answers(&mut self, _from: PeerId, _request: &[u8], honest: Vec<u8>) -> Option<Vec<u8>> {
        Some(honest)
    }

    /// An answer came to a request.
    fn hears(&mut self, _from: PeerId, _answer: &[u8]) {}

    /// Requests that the ring would not send by itself, whenever it does what is due.
    fn adds(&mut self, _now_ms: u64) -> Vec<(PeerId, Vec<u8>)> {
        Vec::new()
    }
}

/// Whose record these bytes claim to be; nothing of them is verified.
#[must_use]
pub fn claimed_id(record: &[u8], gate: &Gate) -> Option<PeerId> {
    NodeRecord::claimed_id(record, gate)
}

/// A tap, and the requests that are not answered yet
#[derive(Default)]
pub(super) struct Tapped {
    tap: Option<Box<dyn Tap>>,
    asked: Map<u64, (PeerId, Vec<u8>)>,
}

impl Tapped {
    pub(super) fn sends(&mut self, to: PeerId, request: &mut Vec<u8>) {
        if let Some(tap) = &mut self.tap {
            tap.sends(to, request);
        }
    }

    pub(super) fn asked(&mut self, token: u64, from: PeerId, request: &[u8]) {
        if self.tap.is_some() {
            self.asked.insert(token, (from, request.to_vec()));
        }
    }

    /// The answer that goes out; an empty one is kept back.
    pub(super) fn answers(&mut self, token: u64, honest: Vec<u8>) -> Vec<u8> {
        match (&mut self.tap, self.asked.remove(&token)) {
            (Some(tap), Some(asked)) => tap.answers(asked.0, &asked.1, honest).unwrap_or_default(),
            _ => honest,
        }
    }

    pub(super) fn hears(&mut self, from: PeerId, answer: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap.hears(from, answer);
        }
    }
}

impl Ring {
    /// Sends what the tap adds; what comes back is of no interest to the ring.
    pub(super) fn add_tapped(&mut self, cx: &mut Context<'_>) {
        let added = self.tapped.tap.as_mut().map(|tap| tap.adds(cx.wall_ms));
        for (to, body) in added.unwrap_or_default() {
            self.call_encoded(to, Call::Hint, body, self.parameters.answer_timeout_ms);
        }
    }

    /// Lets a tap see and change what this ring says from now on.
    pub fn tap(&mut self, tap: Box<dyn Tap>) {
        self.tapped.tap = Some(tap);
    }
}
