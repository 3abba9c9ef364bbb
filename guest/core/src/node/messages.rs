//! Messages from member to member through the ring: what this node sends, again on other ways until it is answered.

use alloc::vec::Vec;

use selfsame_codec::{Class, Code};

use super::Node;
use super::inbox::Inbox;
use super::owners::Owners;
use super::ring_driver::Purpose;
use super::timers::Timer;
use crate::channel::{Frame, MAX_MESSAGE, Message};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::Place;
use selfsame_sorted_map::Map;

/// Most messages that await their answers.
const MAX_SENT: usize = 1024;
/// How long an answer may take unless the application says otherwise.
const DEFAULT_TIMEOUT_MS: u32 = 10_000;
/// Longest time that it can give: receivers know a message again for as long.
pub(super) const MAX_TIMEOUT_MS: u32 = 60_000;
/// How often a message is sent. Each try has twice the time of the one before.
const TRIES: u8 = 3;

/// A message that awaits its answer
struct Sent {
    tag: u32,
    target: Place,
    /// Who is responsible, as far as is known.
    owner: Option<PeerId>,
    /// Whether it is for this very member.
    is_peer: bool,
    body: Vec<u8>,
    tries: u8,
    tried_ms: u64,
    timeout_ms: u32,
    /// When it is sent again, or given up.
    due_ms: u64,
}

impl Sent {
    /// How long the next try may take.
    fn patience_ms(&self) -> u64 {
        let shares = (1 << TRIES) - 1;
        (u64::from(self.timeout_ms) << self.tries) / shares
    }
}

/// Messages on their way, and those that others have sent
#[derive(Default)]
pub(super) struct Messages {
    /// By their numbers, which rise.
    sent: Map<u64, Sent>,
    last_id: u64,
    owners: Owners,
    pub(super) inbox: Inbox,
}

impl Node {
    /// The command `Route`.
    pub(super) fn route_command(
        &mut self,
        tag: u32,
        target: [u8; 32],
        is_peer: bool,
        timeout_ms: u32,
        body: &[u8],
    ) -> Result<(), Code> {
        if !self.ring.is_member() {
            return Err(Code::NotMember);
        }
        if !self.ring.is_joined() {
            return Err(Code::NotJoined);
        }
        if body.len() > MAX_MESSAGE {
            return Err(Code::TooLarge);
        }
        if self.messages.sent.len() >= MAX_SENT {
            return Err(Code::TooManyRequests);
        }
        let id = self.new_message_id();
        let timeout_ms = if timeout_ms == 0 {
            DEFAULT_TIMEOUT_MS
        } else {
            timeout_ms
        };
        let sent = Sent {
            tag,
            target: Place(target),
            owner: is_peer.then_some(PeerId(target)),
            is_peer,
            body: body.to_vec(),
            tries: 0,
            tried_ms: 0,
            timeout_ms: timeout_ms.min(MAX_TIMEOUT_MS),
            due_ms: 0,
        };
        self.messages.sent.insert(id, sent);
        self.try_message(id);
        Ok(())
    }

    fn new_message_id(&mut self) -> u64 {
        // Numbers of a later start are higher.
        self.messages.last_id = (self.messages.last_id + 1).max(self.clock.wall_ms << 20);
        self.messages.last_id
    }

    /// The number of a message for whoever is responsible: another one than any member has had, which may have settled more since.
    fn number_for(&mut self, id: u64, owner: PeerId) -> Option<u64> {
        let sent = self.messages.sent.get(&id)?;
        if sent.tried_ms > 0 && sent.owner == Some(owner) {
            return Some(id);
        }
        let mut sent = *self.messages.sent.remove(&id)?;
        let before = sent.owner.replace(owner).filter(|before| *before != owner);
        before.into_iter().for_each(|before| self.leave_owner(&before));
        sent.tried_ms = 0;
        self.timers.clear(sent.due_ms, Timer::Message(id));
        let id = self.new_message_id();
        self.timers.set(sent.due_ms, Timer::Message(id));
        self.messages.sent.insert(id, sent);
        Some(id)
    }

    /// Begins a try: finds who is responsible, and sends the message.
    fn try_message(&mut self, id: u64) {
        let now_ms = self.now_ms;
        let Some(sent) = self.messages.sent.get_mut(&id) else {
            return;
        };
        if sent.tries >= TRIES {
            self.end_message(id, Err(Code::Deadline));
            return;
        }
        sent.due_ms = now_ms + sent.patience_ms();
        sent.tries += 1;
        let (due_ms, target) = (sent.due_ms, sent.target);
        self.timers.set(due_ms, Timer::Message(id));
        let known = match self.messages.sent.get(&id) {
            Some(sent) if sent.is_peer => sent.owner,
            _ if self.ring.is_responsible_for(&target) => Some(self.identity.id()),
            _ => self.messages.owners.owner_of(&target, now_ms),
        };
        match known {
            Some(owner) => self.message_owner_found(id, owner),
            None => {
                let command = self.ring_command(Purpose::Route(id));
                self.ring_with(|ring, cx| ring.find_node(cx, command, target));
            }
        }
    }

    /// The ring says who is responsible for the target of a message.
    pub(super) fn message_owner_looked_up(&mut self, id: u64, owner: PeerId) {
        let Some(target) = self.messages.sent.get(&id).map(|sent| sent.target) else {
            return;
        };
        if owner != self.identity.id() {
            self.messages.owners.insert(target, owner, self.now_ms);
        }
        self.message_owner_found(id, owner);
    }

    /// The ring could not say it: who was responsible before may still be.
    pub(super) fn message_owner_unknown(&mut self, id: u64, why: Code) {
        match self.messages.sent.get(&id).map(|sent| sent.owner) {
            Some(Some(owner)) => self.message_owner_found(id, owner),
            Some(None) => self.end_message(id, Err(why)),
            None => {}
        }
    }

    fn message_owner_found(&mut self, id: u64, owner: PeerId) {
        let Some(id) = self.number_for(id, owner) else {
            return;
        };
        let now_ms = self.now_ms;
        let Some(sent) = self.messages.sent.get_mut(&id) else {
            return;
        };
        let before_ms = core::mem::replace(&mut sent.tried_ms, now_ms);
        let is_again = before_ms > 0;
        let is_last = sent.tries == TRIES;
        if owner == self.identity.id() {
            let (target, body) = (sent.target.0, sent.body.clone());
            self.message_to_self(id, target, &body);
            return;
        }
        let mut session = self.routed_session(&owner);
        if let Some(index) = session.filter(|_| is_again) {
            let Some(connection) = self.connections.get(&index) else {
                return;
            };
            let is_silent = connection.received_ms <= before_ms;
            let may_be_lost = is_silent && (is_last || connection.session.is_unheard());
            let path = connection.path;
            self.take_detour(path);
            if may_be_lost {
                // The peer may have lost the session, or never had it.
                self.drop_connection(index, Code::TimedOut);
                session = None;
            }
        }
        match session {
            Some(index) => self.send_message(index, id),
            None => {
                if let Err(code) = self.reach_through_ring(owner) {
                    self.end_message(id, Err(code));
                }
            }
        }
    }

    /// A session with a member is up: sends what waits for it.
    pub(super) fn send_messages_to(&mut self, peer: PeerId) {
        let Some(index) = self.routed_session(&peer) else {
            return;
        };
        for id in self.messages_to(peer) {
            self.send_message(index, id);
        }
    }

    fn messages_to(&self, peer: PeerId) -> Vec<u64> {
        let to_peer = self
            .messages
            .sent
            .iter()
            .filter(|(_, sent)| sent.owner == Some(peer));
        to_peer.map(|(id, _)| *id).gather()
    }

    fn send_message(&mut self, index: u32, id: u64) {
        let Some(sent) = self.messages.sent.get(&id) else {
            return;
        };
        let first = self
            .messages
            .sent
            .iter()
            .find(|(_, other)| other.owner == sent.owner);
        let settled = first.map_or(id, |(first, _)| *first);
        let (target, body) = (sent.target.0, &sent.body.clone()[..]);
        self.queue(
            index,
            &Frame::Message(Message {
                id,
                settled,
                target,
                body,
            }),
        );
    }

    pub(super) fn message_timed_out(&mut self, id: u64, at_ms: u64) {
        let Some(sent) = self.messages.sent.get(&id).filter(|sent| sent.due_ms == at_ms) else {
            return;
        };
        // It may be gone, and another one responsible.
        if let Some(owner) = sent.owner.filter(|_| !sent.is_peer) {
            self.messages.owners.forget(&owner);
        }
        self.try_message(id);
    }

    /// A member has answered a message, or said why it does not.
    pub(super) fn answer_received(&mut self, from: PeerId, id: u64, class: Option<Class>, body: &[u8]) {
        let sent = self.messages.sent.get(&id);
        let Some(sent) = sent.filter(|sent| sent.owner == Some(from)) else {
            self.out.dropped(Code::TimedOut, 0);
            return;
        };
        match class {
            None => self.end_message(id, Ok(body)),
            Some(Class::Unreachable) if !sent.is_peer && sent.tries < TRIES => {
                let due_ms = sent.due_ms;
                self.timers.clear(due_ms, Timer::Message(id));
                self.messages.owners.forget(&from);
                self.try_message(id);
            }
            Some(Class::Unreachable) => self.end_message(id, Err(Code::NotResponsible)),
            Some(Class::Limit) => self.end_message(id, Err(Code::TooManyRequests)),
            Some(_) => self.end_message(id, Err(Code::StreamRefused)),
        }
    }

    fn end_message(&mut self, id: u64, outcome: Result<&[u8], Code>) {
        let Some(sent) = self.messages.sent.remove(&id) else {
            return;
        };
        self.timers.clear(sent.due_ms, Timer::Message(id));
        match outcome {
            Ok(body) => self.reply(sent.tag, body),
            Err(code) => self.fail(sent.tag, code),
        }
        if let Some(owner) = sent.owner {
            self.leave_owner(&owner);
        }
    }

    /// Gives up what was begun with a member for messages if there are none to it any more.
    fn leave_owner(&mut self, owner: &PeerId) {
        if self.messages_to(*owner).is_empty() {
            self.leave_route(owner);
        }
    }

    /// Gives up a message that is not answered yet; says whether there was one.
    pub(super) fn cancel_message(&mut self, tag: u32) -> bool {
        let found = self.messages.sent.iter().find(|(_, sent)| sent.tag == tag);
        let Some(id) = found.map(|(id, _)| *id) else {
            return false;
        };
        self.end_message(id, Err(Code::Cancelled));
        true
    }
}
