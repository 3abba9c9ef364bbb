//! Ways to a peer: a connection that is up, an address that can be dialled, a member that relays.

use alloc::string::String;
use alloc::vec::{self, Vec};

use selfsame_codec::{Code, LogLevel, Output};

use super::Node;
use super::ring_driver::Purpose;
use super::timers::Timer;
use crate::address::scheme_of;
use crate::channel::Side;
use crate::gather::Gather as _;
use crate::hex;
use crate::identity::PeerId;
use crate::record::{NodeRecord, addresses_allowed, relay_of};
use selfsame_sorted_map::Map;

/// How long an address may take until a session is up over it.
const ATTEMPT_MS: u64 = 5_000;
/// Most attempts at once.
const MAX_ATTEMPTS: usize = 1024;
/// Most attempts at once while another one begins for the ring, which dials whom others have named: the rest is the
/// application's.
const MAX_RING_ATTEMPTS: usize = MAX_ATTEMPTS / 2;
/// Attempts among which one goes on to its next address that nobody waits for any more, as few as lookups leave behind that
/// meet the dead: beyond, whoever invents members would choose what is dialled for most of a minute.
const MAX_UNAWAITED: usize = 64;

/// Who wants the connection
#[derive(Clone, Debug)]
pub(super) enum Waiter {
    /// A request of the ring.
    RingRequest(u64),
    /// A call of the application.
    Call { tag: u32, peer: PeerId },
    /// The command `Connect`.
    Command(u32),
    /// A bootstrap of the command `Join`, if that still waits.
    Bootstrap,
    /// Whether another run of this node lives.
    Rival,
    /// Another attempt, which goes on through this peer.
    Relay { attempt: u32, peer: PeerId },
    /// Frames to come, which are passed on to this peer.
    Hop,
}

pub(super) enum Candidate {
    Address(String),
    Relay(PeerId),
}

impl Candidate {
    pub(super) fn is_address(&self, other: &str) -> bool {
        matches!(self, Self::Address(address) if address == other)
    }
}

struct Attempt {
    /// Whom to reach; `None` when whoever answers will do.
    target: Option<PeerId>,
    candidates: vec::IntoIter<Candidate>,
    waiters: Vec<Waiter>,
    deadline_ms: u64,
    last: Code,
    path: Option<u32>,
}

/// Connections that are being made
#[derive(Default)]
pub(super) struct Attempts {
    table: Map<u32, Attempt>,
    next: u32,
}

/// Splits `url#peer-id`.
///
/// # Errors
/// [`Code::BadAddress`], or [`Code::UnpinnedBootstrap`] when there is no id and none may be missing.
pub(super) fn parse_bootstrap(text: &str, trust_on_first_use: bool) -> Result<(&str, Option<PeerId>), Code> {
    let Some(at) = text.bytes().position(|byte| byte == b'#') else {
        return if trust_on_first_use {
            Ok((text, None))
        } else {
            Err(Code::UnpinnedBootstrap)
        };
    };
    let (address, id) = (text.get(..at), text.get(at + 1..).and_then(hex::parse));
    match (address, id) {
        (Some(address), Some(id)) => Ok((address, Some(PeerId(id)))),
        _ => Err(Code::BadAddress),
    }
}

impl Node {
    /// Reaches a peer by what is known of it, then tells the waiter.
    pub(super) fn connect(&mut self, peer: PeerId, waiter: Waiter) {
        if let Some(index) = self.live_connection(&peer) {
            self.reached(waiter, index);
            return;
        }
        if let Some(attempt) = self
            .attempts
            .table
            .values_mut()
            .find(|attempt| attempt.target == Some(peer))
        {
            attempt.waiters.push(waiter);
            return;
        }
        let through_relay = matches!(waiter, Waiter::Relay { .. });
        let candidates = self.candidates(&peer, through_relay);
        self.begin(Some(peer), candidates, waiter);
    }

    /// Reaches whoever is at an address, and must be `target` if that is given.
    pub(super) fn connect_to_address(&mut self, address: &str, target: Option<PeerId>, waiter: Waiter) {
        if let Some(index) = target.and_then(|target| self.peers.preferred(&target)) {
            self.reached(waiter, index);
            return;
        }
        self.begin(target, Vec::from([Candidate::Address(address.into())]), waiter);
    }

    /// A connection on which something can be asked of a peer now.
    ///
    /// What is asked on an exchange path that the peer dialled would lie there until the peer sends something itself: it
    /// serves only where the peer cannot be dialled.
    pub(super) fn live_connection(&self, peer: &PeerId) -> Option<u32> {
        let can_begin = |index: &u32| {
            self.connections.get(index).is_some_and(|connection| {
                let path = self.paths.table.get(&connection.path);
                path.is_some_and(|path| !path.is_exchange() || connection.session.side() == Side::Initiator)
            })
        };
        let usable = self.peers.connections(peer).iter().copied().find(can_begin);
        usable.or_else(|| {
            let preferred = self.peers.preferred(peer)?;
            self.candidates(peer, true).is_empty().then_some(preferred)
        })
    }

    fn candidates(&self, peer: &PeerId, through_relay: bool) -> Vec<Candidate> {
        match self.ring.record_of(peer) {
            Some(record) => self.ways_to(record, through_relay),
            None => Vec::new(),
        }
    }

    /// Ways to the node that a record describes, in the order in which it names them.
    pub(super) fn ways_to(&self, record: &NodeRecord, through_relay: bool) -> Vec<Candidate> {
        let allowed =
            addresses_allowed(record.role(), record.addresses(), self.settings.allow_private).is_ok();
        let mut ways = Vec::new();
        for address in record.addresses() {
            match relay_of(address) {
                Some(member) if !through_relay && member != self.identity.id() => {
                    ways.push(Candidate::Relay(member));
                }
                None if allowed && self.can_dial(address) => ways.push(Candidate::Address(address.clone())),
                _ => {}
            }
        }
        ways
    }

    fn can_dial(&self, address: &str) -> bool {
        scheme_of(address).is_some_and(|scheme| self.settings.dials.iter().any(|known| known == scheme))
    }

    pub(super) fn begin(&mut self, target: Option<PeerId>, candidates: Vec<Candidate>, waiter: Waiter) {
        if let Some(why) = target.and_then(|peer| self.refusals.why(&peer, self.now_ms)) {
            self.not_reached(waiter, why);
            return;
        }
        let most = match waiter {
            Waiter::RingRequest(_) | Waiter::Hop => MAX_RING_ATTEMPTS,
            _ => MAX_ATTEMPTS,
        };
        if self.attempts.table.len() >= most {
            self.not_reached(waiter, Code::TooManyRequests);
            return;
        }
        let number = loop {
            self.attempts.next = self.attempts.next.wrapping_add(1);
            if self.attempts.next != 0 && !self.attempts.table.contains_key(&self.attempts.next) {
                break self.attempts.next;
            }
        };
        let attempt = Attempt {
            target,
            candidates: candidates.into_iter(),
            waiters: Vec::from([waiter]),
            deadline_ms: 0,
            last: Code::NoRoute,
            path: None,
        };
        self.attempts.table.insert(number, attempt);
        self.try_next(number);
    }

    fn try_next(&mut self, number: u32) {
        if self.attempts.table.len() > MAX_UNAWAITED && !self.is_awaited(number) {
            self.attempt_over(number);
            return;
        }
        let deadline_ms = self.now_ms + ATTEMPT_MS;
        let Some(attempt) = self.attempts.table.get_mut(&number) else {
            return;
        };
        self.timers.clear(attempt.deadline_ms, Timer::Attempt(number));
        let Some(candidate) = attempt.candidates.next() else {
            self.give_up(number);
            return;
        };
        attempt.deadline_ms = deadline_ms;
        self.timers.set(deadline_ms, Timer::Attempt(number));
        match (candidate, attempt.target) {
            (Candidate::Address(address), _) => self.out.push(&Output::Dial {
                dial: number,
                address: &address,
            }),
            (Candidate::Relay(member), Some(peer)) => {
                let attempt = number;
                self.reach_relay(member, Waiter::Relay { attempt, peer });
            }
            (Candidate::Relay(_), None) => self.attempt_failed(number, Code::NoRoute),
        }
    }

    /// Reaches a member that relays. The leaf behind it names only its id: the ring knows where it is.
    fn reach_relay(&mut self, member: PeerId, waiter: Waiter) {
        if self.ring.record_of(&member).is_some() {
            self.connect(member, waiter);
        } else {
            let command = self.ring_command(Purpose::Relay { member, waiter });
            self.ring_with(|ring, cx| ring.find_node(cx, command, member.place()));
        }
    }

    fn is_awaited(&self, number: u32) -> bool {
        let attempt = self.attempts.table.get(&number);
        attempt.is_some_and(|attempt| {
            attempt.waiters.iter().any(|waiter| match waiter {
                Waiter::RingRequest(call) => self.ring_driver.awaits(*call),
                _ => true,
            })
        })
    }

    fn give_up(&mut self, number: u32) {
        let Some(attempt) = self.attempts.table.remove(&number) else {
            return;
        };
        // It cannot be dialled, but it has dialled us.
        if let Some(index) = attempt.target.and_then(|peer| self.peers.preferred(&peer)) {
            for waiter in attempt.waiters {
                self.reached(waiter, index);
            }
            return;
        }
        if let Some(peer) = attempt.target {
            self.mesh.unreachable(peer, self.now_ms);
        }
        self.out.log(LogLevel::Debug, attempt.last, 0, "");
        for waiter in attempt.waiters {
            self.not_reached(waiter, attempt.last);
        }
    }

    /// The host could not open a path.
    pub(super) fn dial_failed(&mut self, dial: u32) -> Result<(), Code> {
        self.attempt_failed(dial, Code::DialFailed);
        Ok(())
    }

    /// A path that an attempt asked for is open: the handshake begins.
    pub(super) fn attempt_path_opened(&mut self, number: u32, path: u32) {
        let Some(attempt) = self.attempts.table.get_mut(&number) else {
            if let Some(path) = self.paths.table.get_mut(&path) {
                path.attempt = None;
            }
            self.close_path(path, Code::Cancelled);
            return;
        };
        attempt.path = Some(path);
        let target = attempt.target;
        self.initiate(path, number, target);
    }

    /// What an attempt tried came to nothing: on to the next way.
    pub(super) fn attempt_failed(&mut self, number: u32, why: Code) {
        let Some(attempt) = self.attempts.table.get_mut(&number) else {
            return;
        };
        attempt.last = why;
        self.leave_path(number);
        self.try_next(number);
    }

    /// A handshake of an attempt is done.
    pub(super) fn attempt_succeeded(&mut self, number: u32, index: u32) {
        for waiter in self.attempt_ended(number) {
            self.reached(waiter, index);
        }
    }

    /// An attempt has done what it was for, without a session.
    pub(super) fn attempt_over(&mut self, number: u32) {
        self.leave_path(number);
        self.attempt_ended(number);
    }

    /// Forgets an attempt; gives who waits for it.
    fn attempt_ended(&mut self, number: u32) -> Vec<Waiter> {
        let Some(attempt) = self.attempts.table.remove(&number) else {
            return Vec::new();
        };
        self.timers.clear(attempt.deadline_ms, Timer::Attempt(number));
        if let Some(path) = attempt.path.and_then(|path| self.paths.table.get_mut(&path)) {
            path.attempt = None;
        }
        attempt.waiters
    }

    /// A connection with a peer came up, perhaps from its side: whoever waits for it need not wait longer.
    pub(super) fn attempts_reached(&mut self, peer: PeerId, index: u32) {
        let waiting: Vec<u32> = self
            .attempts
            .table
            .iter()
            .filter(|(_, attempt)| attempt.target == Some(peer))
            .map(|(n, _)| *n)
            .gather();
        for number in waiting {
            if let Some(attempt) = self.attempts.table.get_mut(&number) {
                let waiters = core::mem::take(&mut attempt.waiters);
                waiters.into_iter().for_each(|waiter| self.reached(waiter, index));
            }
        }
    }

    pub(super) fn attempt_timed_out(&mut self, number: u32, at_ms: u64) {
        if self
            .attempts
            .table
            .get(&number)
            .is_some_and(|attempt| attempt.deadline_ms == at_ms)
        {
            self.attempt_failed(number, Code::TimedOut);
        }
    }

    /// Gives up the path that an attempt was using.
    fn leave_path(&mut self, number: u32) {
        self.forget_handshakes_of(number);
        let Some(path) = self
            .attempts
            .table
            .get_mut(&number)
            .and_then(|attempt| attempt.path.take())
        else {
            return;
        };
        if let Some(open) = self.paths.table.get_mut(&path) {
            open.attempt = None;
        }
        self.close_if_unused(path);
    }

    /// A member is connected through which an attempt goes on.
    fn relay_reached(&mut self, number: u32, member: PeerId, peer: PeerId) {
        match self.relay_path(member, peer) {
            Ok(path) => {
                if let Some(attempt) = self.attempts.table.get_mut(&number) {
                    attempt.path = Some(path);
                    if let Some(open) = self.paths.table.get_mut(&path) {
                        open.attempt = Some(number);
                    }
                    self.initiate(path, number, Some(peer));
                }
            }
            Err(code) => self.attempt_failed(number, code),
        }
    }

    fn reached(&mut self, waiter: Waiter, index: u32) {
        let Some(peer) = self
            .connections
            .get(&index)
            .map(|connection| connection.session.peer())
        else {
            return;
        };
        match waiter {
            Waiter::RingRequest(call) => self.send_ring_request(call, index),
            Waiter::Call { tag, peer } => self.call_reached(tag, peer, index),
            Waiter::Command(tag) => self.reply(tag, &peer.0),
            Waiter::Bootstrap => self.bootstrap_reached(peer),
            // No session is made with oneself.
            Waiter::Rival | Waiter::Hop => {}
            Waiter::Relay {
                attempt,
                peer: behind,
            } => self.relay_reached(attempt, peer, behind),
        }
    }

    fn not_reached(&mut self, waiter: Waiter, why: Code) {
        match waiter {
            Waiter::RingRequest(call) => self.ring_request_failed(call, why),
            Waiter::Call { tag, peer } => self.call_failed(tag, peer, why),
            Waiter::Command(tag) => self.fail(tag, why),
            Waiter::Bootstrap => self.bootstrap_failed(why),
            Waiter::Rival => self.rival_gone(),
            Waiter::Relay { attempt, .. } => self.attempt_failed(attempt, why),
            Waiter::Hop => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use selfsame_codec::{Admission, Config, Role};

    use super::*;
    use crate::ring::Parameters;

    /// A node that has joined no ring.
    pub(in super::super) fn node() -> Node {
        let config = Config {
            seed: [1; 32],
            entropy: [2; 32],
            known_key: Vec::new(),
            network: "n".into(),
            role: Role::Member,
            addresses: Vec::new(),
            bootstraps: Vec::new(),
            dials: Vec::from(["ws".into()]),
            allow_private: false,
            trust_on_first_use: false,
            idle_ms: 15_000,
            domain: String::new(),
            admission: Admission::Open,
            authority: Vec::new(),
            certificate: Vec::new(),
            take_over: false,
            confirms: false,
        };
        Node::new(&config.encode(), &Parameters::DEFAULT).expect("a usable configuration")
    }

    #[test]
    fn attempts_of_the_ring_leave_half_to_the_application() {
        let mut node = node();
        let begin = |node: &mut Node, number: u16, waiter| {
            let mut peer = [0; 32];
            peer[..2].copy_from_slice(&number.to_le_bytes());
            let candidates = Vec::from([Candidate::Address("ws://a.example/".into())]);
            node.begin(Some(PeerId(peer)), candidates, waiter);
        };
        for number in 0..700 {
            node.ring_driver.expect_answer(number.into());
            begin(&mut node, number, Waiter::RingRequest(number.into()));
        }
        assert_eq!(node.attempts.table.len(), MAX_RING_ATTEMPTS);
        for number in 1000..2000 {
            begin(&mut node, number, Waiter::Command(number.into()));
        }
        assert_eq!(node.attempts.table.len(), MAX_ATTEMPTS);
    }
}
