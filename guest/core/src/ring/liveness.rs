//! Who lives: signs of life, doubts, and what happens when a neighbour is gone or comes back.

use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel};

use super::message::Request;
use super::{Action, Call, Context, Phase, Ring};
use crate::admission::KNOWS_CLOSED;
use crate::identity::PeerId;

impl Ring {
    /// Asks the predecessor whether it lives if it was silent for long.
    pub(super) fn doubt_predecessor(&mut self, cx: &mut Context<'_>, silence_ms: u64) {
        let heard_ms = self.maintenance.predecessor_heard_ms;
        if let Some(predecessor) = self.routing.predecessor()
            && cx.now_ms.saturating_sub(heard_ms) >= silence_ms
        {
            self.probe(predecessor, self.parameters.answer_timeout_ms);
        }
    }

    /// Asks a peer whether it lives; a member that does and is a closer predecessor becomes it.
    pub(super) fn probe(&mut self, peer: PeerId, timeout_ms: u32) {
        if self.maintenance.probing.insert(peer) {
            self.call(peer, Call::Probe, &Request::Ping { hint: Vec::new() }, timeout_ms);
        }
    }

    /// Asks members that fell silent and would be the nearest whether they are back: one that stood still need not know
    /// that it was missed, and may be silent for as long as its own rounds are apart.
    pub(super) fn ask_missing_neighbours(&mut self) {
        let mut missing = core::mem::take(&mut self.maintenance.missing);
        missing.retain(|peer| self.routing.is_dead(peer));
        for peer in missing.iter() {
            if self.routing.would_be_nearest(peer) {
                self.probe(*peer, self.parameters.answer_timeout_ms);
            }
        }
        self.maintenance.missing = missing;
    }

    /// A peer gave a sign of life.
    pub(super) fn heard(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        // One that was silent may not speak again for long; one that refused would be asked again and again.
        let rested_ms = cx.now_ms.saturating_add(self.parameters.rest_ms);
        let may_return = self.routing.may_ask(&peer, rested_ms);
        self.book.trust(&peer);
        self.maintenance.probing.remove(&peer);
        if self.routing.revive(&peer) {
            self.maintenance.missing.remove(&peer);
            if may_return {
                self.came_back(cx, peer);
            }
        }
        if self.routing.is_predecessor(&peer) {
            self.maintenance.predecessor_heard_ms = cx.now_ms;
        }
        if self.routing.contains(&peer) {
            self.maintenance.is_unconfirmed = false;
        }
    }

    /// Notes for whoever waits for the join that a clock is wrong, or this node's certificate.
    pub(super) fn note_refusal(&mut self, code: Code) {
        let is_of_certificate = matches!(
            code,
            Code::RevokedCertificate | Code::ExpiredCertificate | Code::EarlyCertificate
        );
        if code == Code::WrongClock || (KNOWS_CLOSED && is_of_certificate) {
            self.maintenance.join_error = code;
        }
    }

    /// Takes part in the ring no more, without a word: another run of this node does in its place, or it may not.
    pub fn stop(&mut self, why: Code) {
        self.depart_now();
        self.give_up_joins(why);
        self.lost_all();
    }

    /// Joins no ring any more, and tells those who wait for that why.
    #[inline(never)]
    pub(super) fn give_up_joins(&mut self, code: Code) {
        self.maintenance.stop();
        self.attach.stop();
        self.end_joins(Err(code));
    }

    /// The clock was ahead: what was signed and taken since counts for nobody.
    pub fn clock_corrected(&mut self, cx: &Context<'_>) {
        self.objects.clock_corrected();
        // They refused this node, or their records had expired, because of its clock.
        self.routing.forget_dead(u64::MAX);
        self.publisher.refresh_soon();
        self.maintenance.hurry(cx.now_ms);
    }

    /// A node that came back long after everybody whom it knew had gone is in no ring, and must not think that it is one.
    pub(super) fn lost_all(&mut self) {
        self.phase = Phase::Out;
        self.maintenance.is_unconfirmed = false;
        self.routing.clear();
        self.actions.push_back(Action::Changed);
    }

    /// A member that was presumed dead lives: it gets its place beside this one back without waiting for its next update.
    pub(super) fn came_back(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        if self.phase != Phase::In || !self.is_known_member(&peer) {
            return;
        }
        self.consider(cx, peer, None);
        if self.is_member() && self.routing.precedes_better(&peer) {
            self.probe(peer, self.parameters.answer_timeout_ms);
        }
    }

    /// A request to a peer came back without an answer.
    pub(super) fn not_answered(&mut self, cx: &mut Context<'_>, peer: PeerId, call: &Call, code: Code) {
        if matches!(call, Call::Probe) {
            // It was heard since, or is known to be silent: one that stays so is not asked for ever.
            if !self.maintenance.probing.remove(&peer) || self.routing.is_dead(&peer) {
                return;
            }
        } else if is_silence(code) && self.routing.contains(&peer) {
            self.book.suspect(&peer);
            self.probe(peer, self.parameters.probe_timeout_ms);
            return;
        }
        self.maintenance.updating.remove(&peer);
        // No attempt to reach it was free here, which says nothing of it.
        if code != Code::TooManyRequests {
            self.part_with(cx, peer, code);
        }
    }

    /// Takes a peer out of all tables that is gone, or lives but takes no part in this ring; if it was a neighbour, the
    /// next one takes its place at once.
    pub(super) fn part_with(&mut self, cx: &mut Context<'_>, peer: PeerId, code: Code) {
        self.book.suspect(&peer);
        // What refuses lives, and is left alone for a while even if it speaks.
        let is_silent = is_silence(code);
        let rest_ms = u64::from(!is_silent) * self.parameters.rest_ms;
        let since_ms = cx.now_ms.saturating_add(rest_ms);
        let earlier = if self.is_guarded() {
            self.earlier_in_group(&peer)
        } else {
            Vec::new()
        };
        let was_neighbour = self.routing.bury(&peer, since_ms);
        for before in earlier {
            self.probe(before, self.parameters.answer_timeout_ms);
        }
        if !self.serves() {
            return;
        }
        if is_silent && self.routing.would_be_nearest(&peer) {
            self.maintenance.missing.insert(peer);
        }
        if was_neighbour {
            self.log(LogLevel::Info, code, "neighbour gone", Some(peer));
            // A node that its neighbours refuse is in no ring, whatever it thinks, unless another one has been heard since.
            self.maintenance.is_unconfirmed |= is_refusal(code);
            if self.maintenance.is_unconfirmed && self.phase == Phase::In && self.is_alone() {
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
        if self.gate.is_closed() {
            self.ask_for_revocations(peer);
            self.tell_convictions(peer);
        }
        if self.phase == Phase::In && self.is_member() && self.is_alone() {
            self.merge_through(cx, peer);
        }
    }

    /// The last session with a peer ended.
    pub fn peer_gone(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        self.forged.remove(&peer);
        self.detach(&peer);
        if self.phase != Phase::In {
            return;
        }
        if self.attach.is_relay(&peer) {
            self.relay_gone(cx, peer);
        }
        if self.routing.is_neighbour(&peer) {
            self.maintenance.hurry(cx.now_ms);
            self.probe(peer, self.parameters.answer_timeout_ms);
        }
    }

    /// A neighbour left and named its own predecessor, which takes its place once it has answered.
    pub(super) fn neighbour_left(&mut self, cx: &mut Context<'_>, peer: PeerId, predecessor: Option<PeerId>) {
        let was_predecessor = self.routing.is_predecessor(&peer);
        self.part_with(cx, peer, Code::PeerClosed);
        if was_predecessor
            && let Some(before) = predecessor
            && before != self.me()
        {
            self.probe(before, self.parameters.answer_timeout_ms);
        }
    }
}

/// Whether a peer of which this was heard may be late, or its path broken.
fn is_silence(code: Code) -> bool {
    matches!(code, Code::TimedOut | Code::Disconnected)
}

/// Whether a peer that gave this answer takes the node for one that is not in its ring.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::BadMessage | Code::NotResponsible | Code::WrongNetwork | Code::WrongClock
    )
}
