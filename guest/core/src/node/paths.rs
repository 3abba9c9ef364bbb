use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::{Code, Output, PathKind};

use super::Node;
use super::timers::Timer;
use crate::identity::PeerId;
use crate::quota::{Entry, Hold, Holder, Room, room};
use selfsame_sorted_map::Map;

/// Most paths of the host on which no session is up and which this node did not dial. Each has a few half-open handshakes.
const MAX_HALF_OPEN_PATHS: u64 = 1024;
/// How long an incoming path may stay without a session.
const UNUSED_PATH_MS: u64 = 10_000;
/// Longest remote address that a host may give.
const MAX_REMOTE: usize = 512;
/// Paths from here on lead through a member and are numbered by the core.
pub(super) const RELAY_PATHS: u32 = 0x8000_0000;

/// How frames reach the other end
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The host sends them.
    Host(PathKind),
    /// A member passes them on, inside our session with it.
    Relay { member: PeerId, peer: PeerId },
    /// Members pass them on through the ring, each inside its session with the next.
    Routed { peer: PeerId },
}

pub(super) struct Path {
    pub(super) way: Way,
    pub(super) remote: String,
    /// The network or relay that it comes from or leads to; exempt if this node dialled a name.
    pub(super) source: Holder,
    pub(super) opened_ms: u64,
    /// The attempt that dialled it.
    pub(super) attempt: Option<u32>,
    /// How often something was lost on it, if it leads through the ring.
    pub(super) detour: u8,
    /// Handshakes that the peer began here and did not finish.
    pub(super) half_open: usize,
    /// Oldest first.
    pub(super) connections: Vec<u32>,
    pub(super) busy: bool,
    /// Whether its snapshot is out of date.
    pub(super) unsaved: bool,
}

impl Path {
    pub(super) fn new(way: Way, remote: &str, attempt: Option<u32>, now_ms: u64) -> Self {
        let source = match way {
            Way::Relay { member, .. } => Holder::bringing(&member),
            Way::Routed { .. } => Holder::EXEMPT,
            Way::Host(_) => match Holder::network(remote) {
                // Names lead anywhere.
                Holder::UNKNOWN if attempt.is_some() => Holder::EXEMPT,
                source => source,
            },
        };
        Self {
            way,
            remote: remote.into(),
            source,
            opened_ms: now_ms,
            attempt,
            detour: 0,
            half_open: 0,
            connections: Vec::new(),
            busy: false,
            unsaved: false,
        }
    }

    /// Whether the host answers each request of the peer and can send nothing else.
    pub(super) fn is_exchange(&self) -> bool {
        self.way == Way::Host(PathKind::Exchange)
    }

    /// Whether frames arrive in the order in which they were sent. A relay may be reached by an exchange path.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self.way, Way::Host(kind) if kind != PathKind::Exchange)
    }

    /// Whether no session, handshake or attempt uses it.
    fn is_unused(&self) -> bool {
        self.is_half_open() && self.half_open == 0
    }

    /// Whether a peer opened it and no session is up.
    pub(super) fn is_half_open(&self) -> bool {
        self.connections.is_empty() && self.attempt.is_none()
    }
}

#[derive(Default)]
pub(super) struct Paths {
    pub(super) table: Map<u32, Path>,
    pub(super) next_relay: u32,
    /// Hibernating paths whose snapshot is out of date.
    pub(super) unsaved: Vec<u32>,
}

impl Node {
    pub(super) fn path_opened(
        &mut self,
        number: u32,
        dial: u32,
        kind: PathKind,
        remote: &str,
    ) -> Result<(), Code> {
        if number >= RELAY_PATHS || self.paths.table.contains_key(&number) {
            return Err(Code::UnknownPath);
        }
        if remote.len() > MAX_REMOTE {
            return Err(Code::TooLarge);
        }
        let attempt = (dial != 0).then_some(dial);
        self.paths
            .table
            .insert(number, Path::new(Way::Host(kind), remote, attempt, self.now_ms));
        match attempt {
            None => {
                self.timers.set(self.now_ms + UNUSED_PATH_MS, Timer::Path(number));
                self.bound_half_open_paths(number);
            }
            Some(attempt) => self.attempt_path_opened(attempt, number),
        }
        Ok(())
    }

    /// Evicts a path without a session if a newcomer needs its place.
    fn bound_half_open_paths(&mut self, newcomer: u32) {
        let mut numbers = Vec::new();
        let mut entries = Vec::new();
        for (number, path) in self.paths.table.split(&RELAY_PATHS).0 {
            if path.is_half_open() && *number != newcomer {
                numbers.push(*number);
                entries.push(Entry {
                    holders: [path.source, Holder::EXEMPT],
                    size: 1,
                    used_ms: path.opened_ms,
                    hold: Hold::Idle,
                });
            }
        }
        if let Room::Evict(position) = room(MAX_HALF_OPEN_PATHS, &entries) {
            self.out.dropped(Code::TooManyPaths, numbers[position]);
            self.close_path(numbers[position], Code::TooManyPaths);
        }
    }

    /// A number for a path that leads through members.
    pub(super) fn new_path_number(&mut self) -> u32 {
        loop {
            let number = RELAY_PATHS | self.paths.next_relay;
            self.paths.next_relay = (self.paths.next_relay + 1) & !RELAY_PATHS;
            if !self.paths.table.contains_key(&number) {
                return number;
            }
        }
    }

    /// The host says that a path is gone.
    pub(super) fn path_closed(&mut self, number: u32) -> Result<(), Code> {
        // A path that the core asked to close is forgotten already.
        self.forget_path(number, Code::Disconnected);
        Ok(())
    }

    /// Closes a path and all that runs over it.
    pub(super) fn close_path(&mut self, number: u32, why: Code) {
        if number < RELAY_PATHS && self.paths.table.contains_key(&number) {
            self.flush();
            self.out.push(&Output::ClosePath { path: number });
        }
        self.forget_path(number, why);
    }

    fn forget_path(&mut self, number: u32, why: Code) {
        let Some(path) = self.paths.table.remove(&number) else {
            return;
        };
        if let Way::Routed { peer } = path.way {
            self.routes.forget(&peer);
        }
        self.timers
            .clear(path.opened_ms + UNUSED_PATH_MS, Timer::Path(number));
        for index in path.connections {
            self.drop_connection(index, why);
        }
        self.forget_handshakes_on(number);
        if let Some(attempt) = path.attempt {
            self.attempt_failed(attempt, why);
        }
    }

    pub(super) fn path_timed_out(&mut self, number: u32) {
        if self
            .paths
            .table
            .get(&number)
            .is_some_and(|path| path.is_half_open())
        {
            self.out.dropped(Code::TimedOut, number);
            self.close_path(number, Code::TimedOut);
        }
    }

    /// Notes that keys or counters of a path have changed.
    pub(super) fn mark_unsaved(&mut self, number: u32) {
        if let Some(path) = self.paths.table.get_mut(&number)
            && path.way == Way::Host(PathKind::Hibernating)
            && !core::mem::replace(&mut path.unsaved, true)
        {
            self.paths.unsaved.push(number);
        }
    }

    /// Closes a path that nothing uses any more.
    pub(super) fn close_if_unused(&mut self, number: u32) {
        if self.paths.table.get(&number).is_some_and(|path| path.is_unused()) {
            self.close_path(number, Code::Disconnected);
        }
    }

    /// Tells the host when an exchange path begins or ceases to await something.
    pub(super) fn update_busy(&mut self, number: u32) {
        let Some(path) = self.paths.table.get(&number) else {
            return;
        };
        if !path.is_exchange() {
            return;
        }
        let busy = path.attempt.is_some()
            || path.half_open > 0
            || path
                .connections
                .iter()
                .any(|index| self.connections.get(index).is_some_and(|c| c.is_awaiting()));
        if let Some(path) = self.paths.table.get_mut(&number)
            && path.busy != busy
        {
            path.busy = busy;
            self.out.push(&Output::Busy { path: number, busy });
        }
    }
}
