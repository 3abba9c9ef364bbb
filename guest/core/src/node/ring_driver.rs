use alloc::vec::Vec;

use selfsame_codec::reply::encode_found_node;
use selfsame_codec::{Code, EventKind};

use super::Node;
use super::connect::{Waiter, parse_bootstrap};
use super::status::view;
use super::timers::Timer;
use crate::admission::KNOWS_CLOSED;
use crate::channel::Frame;
use crate::identity::PeerId;
use crate::mesh::Name;
use crate::ring::Action;
use selfsame_sorted_map::Map;

/// How long to wait before the bootstraps are tried again; doubled each time, up to the last.
const FIRST_RETRY_MS: u64 = 1_000;
const LAST_RETRY_MS: u64 = 60_000;

struct Request {
    to: PeerId,
    body: Vec<u8>,
    deadline_ms: u64,
    /// It goes out on a connection that was there already and may have ended without a word: then it is sent once more,
    /// on a new one. Every request of the ring may be repeated.
    may_repeat: bool,
}

/// Why the ring was asked
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// A command of the application, which gets the answer as it is.
    Command(u32),
    /// To join, for the command `Join` if that still waits; until it has worked it is tried again and again.
    Join(Option<u32>),
    /// A call needs the providers of a name; whether from all sibling objects.
    Discover(Name, bool),
    /// Somebody is to be reached through a member of whom only the id is known.
    Relay { member: PeerId, waiter: Waiter },
    /// A message is for whoever is responsible.
    Route(u64),
}

/// Joining while bootstraps are being reached
struct Joining {
    /// Commands that wait for it.
    tags: Vec<u32>,
    outstanding: usize,
}

/// Carries the ring's requests and answers
#[derive(Default)]
pub(super) struct RingDriver {
    requests: Map<u64, Request>,
    purposes: Map<u32, Purpose>,
    next_command: u32,
    joining: Option<Joining>,
    retry_ms: u64,
    wants_ring: bool,
}

impl RingDriver {
    /// Tries again soon.
    pub(super) fn expect_success(&mut self) {
        self.retry_ms = FIRST_RETRY_MS;
    }

    /// Whether a request waits for its answer.
    pub(super) fn awaits(&self, call: u64) -> bool {
        self.requests.contains_key(&call)
    }

    #[cfg(test)]
    pub(super) fn expect_answer(&mut self, call: u64) {
        let request = Request {
            to: PeerId([0; 32]),
            body: Vec::new(),
            deadline_ms: u64::MAX,
            may_repeat: false,
        };
        self.requests.insert(call, request);
    }

    pub(super) fn take_purpose(&mut self, command: u32) -> Option<Purpose> {
        self.purposes.remove(&command).map(|purpose| *purpose)
    }

    /// Whether the ring is being asked for the providers of a name, at all sibling objects if that is wanted.
    pub(super) fn is_discovering(&self, name: &Name, is_wide: bool) -> bool {
        let is_same = |purpose: &Purpose| matches!(purpose, Purpose::Discover(other, wide) if other == name && (*wide || !is_wide));
        self.purposes.values().any(is_same)
    }
}

impl Node {
    /// Lets the ring do what is due and carries out what it wants.
    pub(super) fn drive_ring(&mut self) {
        if self.store.lets_ring_act() && self.ring.next_wake_ms() <= self.now_ms {
            let peers = &self.peers;
            self.ring.detach_leaves(&|leaf| peers.preferred(leaf).is_none());
            self.ring_with(|ring, cx| ring.tick(cx));
        }
        while let Some(action) = self.ring.poll() {
            self.act(action);
        }
    }

    // Not needed for the first step: see `Node::take`.
    #[inline(never)]
    fn act(&mut self, action: Action) {
        match action {
            Action::Request {
                call,
                to,
                body,
                timeout_ms,
            } => {
                let deadline_ms = self.now_ms + u64::from(timeout_ms);
                let may_repeat = self.live_connection(&to).is_some();
                self.ring_driver.requests.insert(
                    call,
                    Request {
                        to,
                        body,
                        deadline_ms,
                        may_repeat,
                    },
                );
                self.timers.set(deadline_ms, Timer::RingRequest(call));
                self.connect(to, Waiter::RingRequest(call));
            }
            Action::Respond { token, body } => self.respond(token, &body),
            Action::Found { command, providers } => self.found(command, providers),
            Action::FoundNode {
                command,
                record,
                hops,
            } => match self.ring_driver.take_purpose(command) {
                Some(Purpose::Command(tag)) => self.reply(tag, &encode_found_node(&view(&record), hops)),
                Some(Purpose::Relay { member, waiter }) => self.connect(member, waiter),
                Some(Purpose::Route(id)) => self.message_owner_looked_up(id, record.id()),
                _ => {}
            },
            Action::Done { command } => {
                let purpose = self.ring_driver.take_purpose(command);
                if let Some(Purpose::Command(tag) | Purpose::Join(Some(tag))) = purpose {
                    self.reply(tag, &[]);
                }
            }
            Action::Failed { command, code } => self.ring_command_failed(command, code),
            Action::Disconnect { peer } => self.part_with_forger(&peer),
            Action::ShutOut if KNOWS_CLOSED => self.shut_out(),
            Action::LookUp { peer, from } if KNOWS_CLOSED => _ = self.look_up(peer, from),
            Action::ShutOut | Action::LookUp { .. } => {}
            Action::Put { key, value, durable } => self.store_put(&key, &value, durable),
            Action::Commit { key, value } if KNOWS_CLOSED => self.store_commit(&key, &value),
            Action::Convicted { evidence } if KNOWS_CLOSED => self.event(EventKind::Convicted, &evidence),
            Action::Commit { .. } | Action::Convicted { .. } => {}
            Action::Delete { key } => self.store_delete(&key),
            Action::Changed => {
                self.event(EventKind::RingChanged, &[]);
                self.rejoin_if_lost();
            }
            Action::Rival { record } => self.rival_met(record),
            Action::Duplicate { peer, rival } => {
                if let Some(known) = self.ring.record_of(&peer).cloned() {
                    self.tell_duplicate(&known, &rival);
                }
            }
            Action::Published { name } => self.event(EventKind::Published, name.as_bytes()),
            Action::Log {
                level,
                code,
                text,
                peer,
            } => match peer {
                Some(peer) => self.out.log_peer(level, code, text, &peer),
                None => self.out.log(level, code, 0, text),
            },
        }
    }

    fn ring_command_failed(&mut self, command: u32, code: Code) {
        match self.ring_driver.take_purpose(command) {
            Some(Purpose::Command(tag)) => self.fail(tag, code),
            Some(Purpose::Join(tag)) => {
                if let Some(tag) = tag {
                    self.fail(tag, code);
                }
                self.retry_bootstraps_later();
            }
            Some(Purpose::Discover(name, is_wide)) => self.discovery_failed(&name, is_wide, code),
            // Somebody else may have told of it meanwhile.
            Some(Purpose::Relay { member, waiter }) => self.connect(member, waiter),
            Some(Purpose::Route(id)) => self.message_owner_unknown(id, code),
            None => {}
        }
    }

    /// Ends all sessions with a peer that sends forged statements.
    fn part_with_forger(&mut self, peer: &PeerId) {
        while let Some(index) = self.peers.preferred(peer) {
            self.close_connection(index, Code::BadSignature);
        }
    }

    /// A number for a command of the ring that answers for `purpose`.
    pub(super) fn ring_command(&mut self, purpose: Purpose) -> u32 {
        loop {
            self.ring_driver.next_command = self.ring_driver.next_command.wrapping_add(1);
            let command = self.ring_driver.next_command;
            if !self.ring_driver.purposes.contains_key(&command) {
                self.ring_driver.purposes.insert(command, purpose);
                return command;
            }
        }
    }

    /// Gives up the ring's command behind an application's.
    pub(super) fn cancel_ring_command(&mut self, tag: u32) {
        let of_tag = |purpose: &Purpose| matches!(purpose, Purpose::Command(other) | Purpose::Join(Some(other)) if *other == tag);
        let found = self
            .ring_driver
            .purposes
            .iter()
            .find(|(_, purpose)| of_tag(purpose))
            .map(|(command, _)| *command);
        if let Some(command) = found {
            self.ring_driver.take_purpose(command);
            self.ring.cancel(command);
            self.fail(tag, Code::Cancelled);
        }
    }

    pub(super) fn send_ring_request(&mut self, call: u64, index: u32) {
        let Some(request) = self.ring_driver.requests.get_mut(&call) else {
            return;
        };
        let body = if request.may_repeat {
            request.body.clone()
        } else {
            core::mem::take(&mut request.body)
        };
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        let id = connection.next_request;
        connection.next_request = id.wrapping_add(1);
        connection.requests.insert(id, call);
        self.queue(index, &Frame::Request { id, body: &body });
    }

    pub(super) fn ring_request_answered(&mut self, call: u64, body: &[u8]) {
        if let Some(request) = self.ring_driver.requests.remove(&call) {
            self.timers.clear(request.deadline_ms, Timer::RingRequest(call));
            self.ring_with(|ring, cx| ring.response(cx, call, Ok(body)));
        }
    }

    /// The connection ended on which a request went out.
    pub(super) fn ring_request_lost(&mut self, call: u64, why: Code) {
        let repeated = self.ring_driver.requests.get_mut(&call).filter(|request| {
            // A peer that ended it in words may have closed what was idle while the request was on its way.
            request.may_repeat && matches!(why, Code::Disconnected | Code::PeerClosed)
        });
        match repeated {
            Some(request) => {
                request.may_repeat = false;
                let to = request.to;
                self.connect(to, Waiter::RingRequest(call));
            }
            None => self.ring_request_failed(call, why),
        }
    }

    pub(super) fn ring_request_failed(&mut self, call: u64, why: Code) {
        if let Some(request) = self.ring_driver.requests.remove(&call) {
            self.timers.clear(request.deadline_ms, Timer::RingRequest(call));
            self.ring_with(|ring, cx| ring.response(cx, call, Err(why)));
        }
    }

    pub(super) fn ring_request_timed_out(&mut self, call: u64) {
        for connection in self.connections.values_mut() {
            connection.requests.retain(|_, other| *other != call);
        }
        self.ring_request_failed(call, Code::TimedOut);
    }

    fn respond(&mut self, token: u64, body: &[u8]) {
        let (index, id) = ((token >> 32) as u32, token as u32);
        if let Some(connection) = self.connections.get_mut(&index) {
            connection.unanswered = connection.unanswered.saturating_sub(1);
            #[cfg(feature = "simulation")]
            if body.is_empty() {
                return;
            }
            self.queue(index, &Frame::Response { id, body });
        }
    }

    /// The command `Join`: reaches the bootstraps, then joins through those that answer.
    pub(super) fn join(&mut self, tag: u32) {
        if let Err(code) = self.check_admitted() {
            return self.fail(tag, code);
        }
        self.ring_driver.wants_ring = true;
        self.ring_driver.retry_ms = FIRST_RETRY_MS;
        if self.settings.bootstraps.is_empty() {
            return self.join_through(Some(tag), Vec::new());
        }
        match &mut self.ring_driver.joining {
            // Whoever joins meanwhile waits with the first.
            Some(joining) if self.ring.is_out() || !joining.tags.is_empty() => joining.tags.push(tag),
            _ => self.reach_bootstraps(Vec::from([tag])),
        }
    }

    fn reach_bootstraps(&mut self, tags: Vec<u32>) {
        let bootstraps = self.settings.bootstraps.clone();
        self.ring_driver.joining = Some(Joining {
            tags,
            outstanding: bootstraps.len(),
        });
        for bootstrap in &bootstraps {
            match parse_bootstrap(bootstrap, self.settings.trust_on_first_use) {
                Ok((_, Some(id))) if id == self.identity.id() => self.bootstrap_failed(Code::NoBootstrap),
                Ok((address, id)) => self.connect_to_address(address, id, Waiter::Bootstrap),
                Err(code) => self.bootstrap_failed(code),
            }
        }
    }

    pub(super) fn bootstrap_reached(&mut self, peer: PeerId) {
        self.ring_driver.retry_ms = FIRST_RETRY_MS;
        let Some(joining) = &mut self.ring_driver.joining else {
            return;
        };
        joining.outstanding = joining.outstanding.saturating_sub(1);
        let mut tags: Vec<Option<u32>> = joining.tags.drain(..).map(Some).collect();
        if joining.outstanding == 0 {
            self.ring_driver.joining = None;
        }
        // Later bootstraps are told to the ring as connected peers; the first one is joined through.
        if tags.is_empty() && !self.ring.is_joined() {
            tags.push(None);
        }
        for tag in tags {
            self.join_through(tag, Vec::from([peer]));
        }
    }

    fn join_through(&mut self, tag: Option<u32>, members: Vec<PeerId>) {
        let command = self.ring_command(Purpose::Join(tag));
        self.ring_with(|ring, cx| ring.join(cx, command, members));
    }

    pub(super) fn bootstrap_failed(&mut self, why: Code) {
        let Some(joining) = &mut self.ring_driver.joining else {
            return;
        };
        joining.outstanding = joining.outstanding.saturating_sub(1);
        if joining.outstanding > 0 {
            return;
        }
        let is_own_wish = joining.tags.is_empty();
        self.fail_joins(why);
        let remembered = self.ring.remembered();
        if is_own_wish && self.ring.is_out() && !remembered.is_empty() {
            return self.join_through(None, remembered);
        }
        self.retry_bootstraps_later();
    }

    /// Waits for bootstraps no more, and tells the commands that do why.
    fn fail_joins(&mut self, why: Code) {
        if let Some(joining) = self.ring_driver.joining.take() {
            joining.tags.iter().for_each(|tag| self.fail(*tag, why));
        }
    }

    fn retry_bootstraps_later(&mut self) {
        let wait_ms = self.ring_driver.retry_ms;
        self.ring_driver.retry_ms = (wait_ms * 2).min(LAST_RETRY_MS);
        self.timers.set(self.now_ms + wait_ms, Timer::Bootstrap);
    }

    /// The ring that this node was in has gone while it was away: it joins as it did at first.
    fn rejoin_if_lost(&mut self) {
        if !self.ring_driver.wants_ring || !self.ring.is_out() || self.ring_driver.joining.is_some() {
            return;
        }
        if self.settings.bootstraps.is_empty() {
            self.join_through(None, Vec::new());
        } else {
            self.reach_bootstraps(Vec::new());
        }
    }

    /// A node that stands alone although it knows bootstraps goes on trying them.
    pub(super) fn retry_bootstraps(&mut self) {
        let alone = self.ring.successors().is_empty() && self.ring.relays().is_empty();
        let knows_some = !self.settings.bootstraps.is_empty();
        if self.ring_driver.wants_ring && alone && knows_some && self.ring_driver.joining.is_none() {
            self.reach_bootstraps(Vec::new());
        }
    }

    /// Joins no ring any more.
    pub(super) fn give_up_ring(&mut self, why: Code) {
        self.ring_driver.wants_ring = false;
        self.fail_joins(why);
    }

    /// Takes part no more, for a reason that the whole node has.
    pub(super) fn stop_for(&mut self, why: Code) {
        self.give_up_ring(why);
        self.ring_with(|ring, _| ring.stop(why));
        self.fail(0, why);
    }

    /// The command `Leave`.
    pub(super) fn leave(&mut self, tag: u32) {
        self.give_up_ring(Code::Cancelled);
        let command = self.ring_command(Purpose::Command(tag));
        self.ring_with(|ring, cx| ring.leave(cx, command));
    }
}
