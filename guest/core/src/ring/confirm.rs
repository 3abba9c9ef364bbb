//! Newcomers of a closed network, whom the host looks up in the DNS before they become neighbours.
//!
//! What makes its sender a neighbour, or has something stored, waits in the node until the host has answered. Lookups do
//! not: they pass through members far away, which need not be confirmed here, and an outage of the DNS must stop only joins.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::message::{Request, encode_error};
use super::{Action, Call, Context, Ring};
use crate::admission::{KNOWS_CLOSED, Standing};
use crate::identity::PeerId;
use crate::place::in_open;
use crate::quota::Holder;

impl Ring {
    /// What is known of a peer. Who is in a table was confirmed when it came in, be it at an earlier start.
    pub(crate) fn standing(&self, peer: &PeerId, now_ms: u64) -> Standing {
        let is_taken =
            self.routing.contains(peer) || self.attach.is_relay(peer) || self.attach.has_leaf(peer);
        if is_taken {
            Standing::Confirmed
        } else {
            self.gate.standing(peer, now_ms)
        }
    }

    /// Whether a request makes its sender a neighbour, or has something stored.
    pub(crate) fn is_for_confirmed(body: &[u8]) -> bool {
        matches!(
            Request::decode(body),
            Ok(Request::Join { .. }
                | Request::Update { .. }
                | Request::Attach { .. }
                | Request::Store { .. }
                | Request::Mirror { .. }
                | Request::Leave { .. })
        )
    }

    /// The peer whose answer to a call makes it a neighbour.
    pub(crate) fn neighbour_by(&self, call: u64) -> Option<PeerId> {
        let (peer, call) = self.calls.get(&call)?;
        matches!(call, Call::Update { .. } | Call::Probe | Call::Attach).then_some(*peer)
    }

    /// Answers a request of a peer that is not confirmed.
    pub(crate) fn refuse(&mut self, token: u64, code: Code) {
        self.respond(token, encode_error(code));
    }

    /// Keeps the host's answer of a peer; one that is confirmed may have been left out of a list.
    pub(crate) fn looked_up(
        &mut self,
        cx: &Context<'_>,
        peer: PeerId,
        refusal: Option<Code>,
        source: Holder,
        until_ms: u64,
    ) {
        self.gate.note(peer, refusal, source, cx.now_ms, until_ms);
        if refusal.is_none() {
            self.maintenance
                .hurry_to(self.parameters.list_round_ms, cx.now_ms);
        }
    }

    /// Whether a peer may be taken into a table; if it was not looked up yet, the host is asked, on the account of `from`.
    pub(super) fn may_be_neighbour(&mut self, cx: &Context<'_>, from: PeerId, peer: &PeerId) -> bool {
        if !KNOWS_CLOSED {
            return true;
        }
        let standing = self.standing(peer, cx.now_ms);
        if standing == Standing::Unknown {
            self.actions.push_back(Action::LookUp { peer: *peer, from });
        }
        standing == Standing::Confirmed
    }

    /// Those of a peer's list that may be taken into a table.
    pub(super) fn possible_neighbours(
        &mut self,
        cx: &Context<'_>,
        from: PeerId,
        mut list: Vec<PeerId>,
    ) -> Vec<PeerId> {
        let me = self.me();
        list.retain(|peer| *peer == me || self.may_be_neighbour(cx, from, peer));
        list
    }

    /// Whether a peer belongs in the successor list.
    pub(super) fn is_near(&self, peer: &PeerId) -> bool {
        match (
            self.routing.successors().first(),
            self.routing.successors().last(),
        ) {
            (Some(first), Some(last)) => in_open(&first.place(), &peer.place(), &last.place()),
            _ => false,
        }
    }
}
