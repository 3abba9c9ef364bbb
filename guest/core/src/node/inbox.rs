//! Messages that other members have sent: each is given to the application once, however often it comes.

use alloc::vec::Vec;

use selfsame_codec::{Class, Code, Output};

use super::Node;
use super::messages::MAX_TIMEOUT_MS;
use super::timers::Timer;
use crate::channel::{Frame, MAX_MESSAGE, Message};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::Place;
use crate::quota::{Holder, admits};
use selfsame_sorted_map::Map;

/// What a message that is known again takes, and its answer for each of so many bytes.
const UNIT: usize = 256;
/// Units of all messages that are known again: 16 MiB. One sender gets a fifth.
const CAPACITY: usize = 64 * 1024;
/// Units that a message may come to whose answer is not there yet. One that is answered counts for what it is: many small ones can
/// wait until they are settled.
const PENDING: usize = 1 + MAX_MESSAGE / UNIT;

/// A message that its sender may send again
struct Held {
    /// The number by which the application answers it.
    message: u32,
    since_ms: u64,
    answer: Option<Answer>,
}

struct Answer {
    class: Option<Class>,
    body: Vec<u8>,
}

impl Held {
    fn cost(&self) -> usize {
        self.answer
            .as_ref()
            .map_or(PENDING, |answer| 1 + answer.body.len() / UNIT)
    }
}

/// What is known of the messages of one member
#[derive(Default)]
struct Sender {
    /// The answers to messages with lower numbers are not awaited.
    settled: u64,
    held: Map<u64, Held>,
    cost: usize,
}

/// Messages that others have sent
#[derive(Default)]
pub(super) struct Inbox {
    senders: Map<PeerId, Sender>,
    /// Messages that the application has not answered.
    open: Map<u32, (PeerId, u64)>,
    cost: usize,
    last: u32,
    /// Whether a timer is set.
    is_watched: bool,
}

impl Inbox {
    /// Forgets the messages of a sender that `keep` does not hold for.
    fn retain(&mut self, peer: &PeerId, mut keep: impl FnMut(u64, &Held) -> bool) {
        let Some(sender) = self.senders.get_mut(peer) else {
            return;
        };
        let (open, cost) = (&mut self.open, &mut sender.cost);
        let before = *cost;
        sender.held.retain(|id, held| {
            let is_kept = keep(*id, held);
            if !is_kept {
                *cost -= held.cost();
                open.remove(&held.message);
            }
            is_kept
        });
        self.cost -= before - *cost;
    }

    /// Keeps the answer to a message, in case that it comes again.
    fn answer(&mut self, peer: &PeerId, id: u64, answer: Answer) {
        let Some(sender) = self.senders.get_mut(peer) else {
            return;
        };
        if let Some(held) = sender.held.get_mut(&id) {
            let before = held.cost();
            held.answer = Some(answer);
            let saved = before - held.cost();
            sender.cost -= saved;
            self.cost -= saved;
        }
    }

    /// Whether a sender may have another message here.
    fn admits(&self, peer: &PeerId) -> bool {
        let own = self.senders.get(peer).map_or(0, |sender| sender.cost);
        admits(CAPACITY - PENDING, self.cost, Holder::peer(peer), own)
    }

    fn hold(&mut self, peer: PeerId, id: u64, now_ms: u64) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if !self.open.contains_key(&self.last) {
                break;
            }
        }
        let held = Held {
            message: self.last,
            since_ms: now_ms,
            answer: None,
        };
        let sender = self.senders.get_or_insert_with(peer, Sender::default);
        sender.held.insert(id, held);
        sender.cost += PENDING;
        self.cost += PENDING;
        self.open.insert(self.last, (peer, id));
        self.last
    }
}

impl Node {
    /// A message came on a session through the ring.
    pub(super) fn message_received(&mut self, index: u32, message: Message<'_>) {
        let Some(connection) = self.connections.get(&index) else {
            return;
        };
        let (peer, path) = (connection.session.peer(), connection.path);
        let inbox = &mut self.messages.inbox;
        let sender = inbox.senders.get_or_insert_with(peer, Sender::default);
        if message.settled > sender.settled {
            sender.settled = message.settled;
            inbox.retain(&peer, |id, _| id >= message.settled);
        }
        let Some(sender) = inbox.senders.get(&peer) else {
            return;
        };
        if message.id < sender.settled {
            self.out.dropped(Code::Replayed, path);
            return;
        }
        if sender.held.contains_key(&message.id) {
            // Its answer was lost, or is not there yet.
            self.take_detour(path);
            self.send_answer(index, peer, message.id);
            return;
        }
        let refusal = if !self.ring.is_responsible_for(&Place(message.target)) {
            Some(Class::Unreachable)
        } else if !inbox.admits(&peer) {
            self.out.dropped(Code::TooManyRequests, path);
            Some(Class::Limit)
        } else {
            None
        };
        match refusal {
            Some(_) => {
                let (id, body) = (message.id, &[][..]);
                self.queue(
                    index,
                    &Frame::Answer {
                        id,
                        class: refusal,
                        body,
                    },
                );
            }
            None => self.give_message(peer, message.id, message.target, message.body),
        }
    }

    /// This node is responsible for the target of its own message. One that comes again is the same.
    pub(super) fn message_to_self(&mut self, id: u64, target: [u8; 32], body: &[u8]) {
        let me = self.identity.id();
        let sender = self.messages.inbox.senders.get(&me);
        if sender.is_none_or(|sender| !sender.held.contains_key(&id)) {
            self.give_message(me, id, target, body);
        }
    }

    fn give_message(&mut self, peer: PeerId, id: u64, target: [u8; 32], body: &[u8]) {
        let inbox = &mut self.messages.inbox;
        let message = inbox.hold(peer, id, self.now_ms);
        if !core::mem::replace(&mut inbox.is_watched, true) {
            self.timers
                .set(self.now_ms + u64::from(MAX_TIMEOUT_MS), Timer::Inbox);
        }
        self.out.push(&Output::Routed {
            message,
            peer: peer.0,
            target,
            body,
        });
    }

    /// The application answers a message. One whose sender has given it up needs no answer.
    pub(super) fn answer_routed(&mut self, message: u32, ok: bool, body: &[u8]) -> Result<(), Code> {
        let too_large = body.len() > MAX_MESSAGE;
        let inbox = &mut self.messages.inbox;
        let Some((peer, id)) = inbox.open.remove(&message).map(|open| *open) else {
            return Ok(());
        };
        let (class, body) = if ok && !too_large {
            (None, body)
        } else {
            (Some(Class::Service), &[][..])
        };
        if peer == self.identity.id() {
            inbox.retain(&peer, |other, _| other != id);
            self.answer_received(peer, id, class, body);
        } else {
            let body = body.to_vec();
            inbox.answer(&peer, id, Answer { class, body });
            if let Some(index) = self.routed_session(&peer) {
                self.send_answer(index, peer, id);
            }
        }
        if too_large { Err(Code::TooLarge) } else { Ok(()) }
    }

    fn send_answer(&mut self, index: u32, peer: PeerId, id: u64) {
        let sender = self.messages.inbox.senders.get(&peer);
        let held = sender.and_then(|sender| sender.held.get(&id));
        if let Some(answer) = held.and_then(|held| held.answer.as_ref()) {
            let (class, body) = (answer.class, &answer.body.clone()[..]);
            self.queue(index, &Frame::Answer { id, class, body });
        }
    }

    /// Forgets messages that are not sent again, and senders of whom nothing is known.
    pub(super) fn expire_messages(&mut self) {
        let now_ms = self.now_ms;
        let inbox = &mut self.messages.inbox;
        let senders: Vec<PeerId> = inbox.senders.keys().copied().gather();
        for peer in senders {
            self.messages.inbox.retain(&peer, |_, held| {
                now_ms < held.since_ms.saturating_add(MAX_TIMEOUT_MS.into())
            });
            self.forget_sender(&peer);
        }
        self.messages.inbox.is_watched = self.messages.inbox.cost > 0;
        if self.messages.inbox.is_watched {
            self.timers.set(now_ms + u64::from(MAX_TIMEOUT_MS), Timer::Inbox);
        }
    }

    /// Forgets a sender without a session: what it has sent before cannot come again.
    pub(super) fn forget_sender(&mut self, peer: &PeerId) {
        let sender = self.messages.inbox.senders.get(peer);
        if sender.is_some_and(|sender| sender.held.is_empty()) && self.routed_session(peer).is_none() {
            self.messages.inbox.senders.remove(peer);
        }
    }
}
