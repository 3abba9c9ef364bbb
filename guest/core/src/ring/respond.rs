//! Answers of other peers to what this node asked.

use alloc::vec::Vec;

use selfsame_codec::{Class, Code, LogLevel};

use super::guard::message::{decode_contradictions, decode_groups};
use super::message::{Hop, Refusal, Updated, decode_ack, decode_joined, decode_revocations};
use super::{Call, Context, Ring};
use crate::admission::KNOWS_CLOSED;
use crate::identity::PeerId;

impl Ring {
    /// Takes the answer to [`Action::Request`](super::Action::Request), or why there is none.
    pub fn response(&mut self, cx: &mut Context<'_>, call: u64, result: Result<&[u8], Code>) {
        let Some((peer, call)) = self.calls.remove(&call).map(|call| *call) else {
            return;
        };
        match result {
            Ok(body) => {
                #[cfg(feature = "simulation")]
                self.tapped.hears(peer, body);
                self.heard(cx, peer);
                self.answered(cx, peer, call, body);
            }
            Err(code) => {
                if KNOWS_CLOSED {
                    self.note_refusal(code);
                }
                self.not_answered(cx, peer, &call, code);
                self.call_failed(cx, peer, call, code);
            }
        }
    }

    /// A peer answered a request too late for it to count.
    pub fn answered_late(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        self.heard(cx, peer);
    }

    fn answered(&mut self, cx: &mut Context<'_>, peer: PeerId, call: Call, body: &[u8]) {
        let refusal = match &call {
            Call::Walk { walk } => match Hop::decode(body) {
                Ok(hop) => return self.step_answered(cx, *walk, peer, &hop),
                Err(refusal) => refusal,
            },
            Call::Held { command } => match Hop::decode(body) {
                Ok(hop) => return self.take_found(cx, *command, peer, &hop.entries),
                Err(refusal) => refusal,
            },
            Call::Update { via } => match Updated::decode(body) {
                Ok(updated) => return self.update_answered(cx, peer, *via, &updated),
                Err(refusal) => refusal,
            },
            Call::Join => match decode_joined(body) {
                Ok(nodes) => {
                    let members: Vec<PeerId> = self.meet_members(cx, peer, &nodes);
                    return self.join_answered(cx, peer, &members);
                }
                Err(refusal) => refusal,
            },
            Call::Revoked if KNOWS_CLOSED => match decode_revocations(body) {
                Ok(newer) => return self.take_newer_revocations(cx, peer, newer),
                Err(refusal) => refusal,
            },
            Call::Groups { wants_members } if KNOWS_CLOSED => match decode_groups(body) {
                Ok(groups) => return self.take_groups(cx, peer, *wants_members, &groups),
                Err(refusal) => refusal,
            },
            Call::Contradictions if KNOWS_CLOSED => match decode_contradictions(body) {
                Ok(given) => return self.take_contradictions(cx, peer, &given),
                Err(refusal) => refusal,
            },
            _ => match decode_ack(body) {
                Ok(()) => return self.acknowledged(cx, peer, &call),
                Err(refusal) => refusal,
            },
        };
        let code = match refusal {
            Refusal::Malformed => Code::BadMessage,
            Refusal::Refused(class) => code_of(class),
            Refusal::Stale(newer) => {
                let met = match &call {
                    Call::Store { sequence_ms, .. } => self.meet_own_association(cx, *sequence_ms, newer),
                    _ => self.meet_newer(cx, newer),
                };
                self.judge(peer, met);
                met.err().unwrap_or(Code::Superseded)
            }
            Refusal::WrongClock => Code::WrongClock,
        };
        self.note_refusal(code);
        let level = if code == Code::WrongClock {
            LogLevel::Warn
        } else {
            LogLevel::Debug
        };
        self.log(level, code, "was refused a request", Some(peer));
        match call {
            // A stale record is this node's own fault, which its next one mends.
            Call::Update { .. } | Call::Probe if code != Code::Superseded => self.part_with(cx, peer, code),
            Call::Walk { .. } => self.book.suspect(&peer),
            _ => {}
        }
        self.call_failed(cx, peer, call, code);
    }

    fn acknowledged(&mut self, cx: &mut Context<'_>, peer: PeerId, call: &Call) {
        match call {
            Call::Probe if self.serves() && self.is_known_member(&peer) => {
                self.take_predecessor(cx, peer);
            }
            Call::Store { object, sequence_ms } if self.publisher.is_storing(object, *sequence_ms) => {
                self.stored(*object, peer);
            }
            Call::Mirror => self.mirrored(peer),
            Call::Leave => self.left_one(cx, Ok(())),
            Call::Attach => self.attached(cx, peer),
            Call::Farewell => self.farewell_over(cx),
            _ => {}
        }
    }

    fn call_failed(&mut self, cx: &mut Context<'_>, peer: PeerId, call: Call, code: Code) {
        match call {
            Call::Walk { walk } => self.step_failed(cx, walk, peer, code),
            Call::Held { command } => self.next_mirror(cx, command),
            Call::Update { .. } => self.update_failed(cx, peer),
            Call::Join => self.join_failed(cx, peer),
            Call::Store { object, sequence_ms } if self.publisher.is_storing(&object, sequence_ms) => {
                self.store_failed(cx, object, code);
            }
            Call::Mirror => self.mirror_failed(&peer),
            Call::Leave => self.left_one(cx, Err(code)),
            Call::Attach => self.attach_failed(cx, peer),
            Call::Farewell => self.farewell_over(cx),
            Call::Store { .. }
            | Call::Hint
            | Call::Probe
            | Call::Revoked
            | Call::Groups { .. }
            | Call::Contradictions => {}
        }
    }
}

/// A code that stands for a class: the peer does not tell more.
fn code_of(class: Class) -> Code {
    match class {
        Class::Usage => Code::NotJoined,
        Class::Malformed => Code::BadMessage,
        Class::Misbehaved => Code::NotResponsible,
        Class::Incompatible => Code::WrongNetwork,
        Class::Unreachable => Code::NoRoute,
        Class::Limit => Code::TooManyRequests,
        Class::Store => Code::StoreFailed,
        Class::Service => Code::NoService,
    }
}
