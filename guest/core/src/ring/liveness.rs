//! Who lives: signs of life, doubts, and what happens when a neighbour is gone or comes back.

use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel, Role};

use super::message::Request;
use super::{Action, Call, Context, Phase, Ring};
use crate::identity::PeerId;
use crate::record::NodeRecord;

impl Ring {
    /// Asks the predecessor whether it lives if it was silent for long.
    pub(super) fn doubt_predecessor(&mut self, cx: &mut Context<'_>, silence_ms: u64) {
        let heard_ms = self.maintenance.predecessor_heard_ms;
        if let Some(predecessor) = self.routing.predecessor()
            && cx.now_ms.saturating_sub(heard_ms) >= silence_ms
        {
            self.probe(predecessor, Call::Probe, self.parameters.answer_timeout_ms);
        }
    }

    pub(super) fn probe(&mut self, peer: PeerId, call: Call, timeout_ms: u32) {
        if self.maintenance.probing.insert(peer) {
            self.call(peer, call, &Request::Ping { hint: Vec::new() }, timeout_ms);
        }
    }

    /// A peer gave a sign of life.
    pub(super) fn heard(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        // One that was silent may not speak again for long; one that refused would be asked again and again.
        let rested_ms = cx.now_ms.saturating_add(self.parameters.rest_ms);
        let may_return = self.routing.may_ask(&peer, rested_ms);
        self.book.trust(&peer);
        if self.routing.revive(&peer) && may_return {
            self.came_back(cx, peer);
        }
        if self.routing.predecessor() == Some(peer) {
            self.maintenance.predecessor_heard_ms = cx.now_ms;
        }
        if self.routing.contains(&peer) {
            self.maintenance.is_unconfirmed = false;
        }
    }

    /// A node that came back long after everybody whom it knew had gone is in no ring, and must not think that it is one.
    fn lost_all(&mut self) {
        self.phase = Phase::Out;
        self.maintenance.is_unconfirmed = false;
        self.routing.clear();
        self.actions.push_back(Action::Changed);
    }

    /// A member that was presumed dead lives: it gets its place beside this one back without waiting for its next update.
    pub(super) fn came_back(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        let is_member = |record: &NodeRecord| record.role() == Role::Member;
        if self.phase != Phase::In || !self.book.get(&peer).is_some_and(is_member) {
            return;
        }
        self.consider(cx, peer, None);
        if self.is_member() && self.routing.precedes_better(&peer) {
            self.probe(peer, Call::ProbePredecessor, self.parameters.answer_timeout_ms);
        }
    }

    /// A request to a peer came back without an answer.
    pub(super) fn not_answered(&mut self, cx: &mut Context<'_>, peer: PeerId, call: &Call, code: Code) {
        let was_last_chance = matches!(call, Call::Probe | Call::ProbePredecessor);
        if is_silence(code) && !was_last_chance && self.routing.contains(&peer) {
            self.probe(peer, Call::Probe, self.parameters.probe_timeout_ms);
            return;
        }
        self.maintenance.updating.remove(&peer);
        self.part_with(cx, peer, code);
    }

    /// Takes a peer out of all tables that is gone, or lives but takes no part in this ring; if it was a neighbour, the
    /// next one takes its place at once.
    pub(super) fn part_with(&mut self, cx: &mut Context<'_>, peer: PeerId, code: Code) {
        self.book.suspect(&peer);
        // What refuses lives, and is left alone for a while even if it speaks.
        let rest_ms = u64::from(!is_silence(code)) * self.parameters.rest_ms;
        let since_ms = cx.now_ms.saturating_add(rest_ms);
        if self.routing.bury(&peer, since_ms) && self.serves() {
            self.log(LogLevel::Info, code, "neighbour gone", Some(peer));
            if self.maintenance.is_unconfirmed && self.is_alone() {
                self.lost_all();
                return;
            }
            self.ring_changed(cx);
            self.stabilise(cx);
        }
    }

    /// A session with a peer is established.
    pub fn peer_connected(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        self.heard(cx, peer);
        if self.phase == Phase::In && self.is_member() && self.is_alone() {
            self.merge_through(cx, peer);
        }
    }

    /// The last session with a peer ended.
    pub fn peer_gone(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        if self.attach.drop_leaf(&peer) {
            self.delete_leaf(&peer);
        }
        if self.phase != Phase::In {
            return;
        }
        if self.attach.is_relay(&peer) {
            self.relay_gone(cx, peer);
        }
        if self.routing.is_neighbour(&peer) {
            self.maintenance.hurry(cx.now_ms);
            self.probe(peer, Call::Probe, self.parameters.answer_timeout_ms);
        }
    }

    /// A neighbour left and named its own predecessor, which takes its place once it has answered.
    pub(super) fn neighbour_left(
        &mut self,
        cx: &mut Context<'_>,
        peer: PeerId,
        predecessor: Option<NodeRecord>,
    ) {
        let was_predecessor = self.routing.predecessor() == Some(peer);
        let was_neighbour = self.routing.bury(&peer, cx.now_ms);
        if was_predecessor
            && let Some(record) = predecessor
            && record.id() != self.me()
        {
            self.probe(
                record.id(),
                Call::ProbePredecessor,
                self.parameters.answer_timeout_ms,
            );
        }
        if was_neighbour && self.phase == Phase::In {
            self.ring_changed(cx);
            self.stabilise(cx);
        }
    }
}

/// Whether a peer of which this was heard may be late, or its path broken.
fn is_silence(code: Code) -> bool {
    matches!(code, Code::TimedOut | Code::Disconnected)
}
