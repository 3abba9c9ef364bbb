use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::{Code, Output, PathKind};

use super::Node;
use super::timers::Timer;
use crate::identity::PeerId;
use crate::map::Map;

/// Most paths at once; a host with more sockets than that runs several nodes.
const MAX_PATHS: usize = 4096;
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
}

pub(super) struct Path {
    pub(super) way: Way,
    pub(super) remote: String,
    /// The attempt that dialled it.
    pub(super) attempt: Option<u32>,
    /// Handshakes that the peer began here and did not finish.
    pub(super) half_open: usize,
    /// Oldest first.
    pub(super) connections: Vec<u32>,
    pub(super) busy: bool,
    /// Whether its snapshot is out of date.
    pub(super) unsaved: bool,
}

impl Path {
    pub(super) fn new(way: Way, remote: &str, attempt: Option<u32>) -> Box<Self> {
        Box::new(Self {
            way,
            remote: remote.into(),
            attempt,
            half_open: 0,
            connections: Vec::new(),
            busy: false,
            unsaved: false,
        })
    }

    /// Whether frames arrive in the order in which they were sent.
    pub(super) fn is_ordered(&self) -> bool {
        self.way != Way::Host(PathKind::Exchange)
    }
}

#[derive(Default)]
pub(super) struct Paths {
    pub(super) table: Map<u32, Box<Path>>,
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
        if self.paths.table.len() >= MAX_PATHS {
            self.out.dropped(Code::TooManyPaths, number);
            self.out.push(&Output::ClosePath { path: number });
            return Ok(());
        }
        let attempt = (dial != 0).then_some(dial);
        self.paths
            .table
            .insert(number, Path::new(Way::Host(kind), remote, attempt));
        match attempt {
            None => self.timers.set(self.now_ms + UNUSED_PATH_MS, Timer::Path(number)),
            Some(attempt) => self.attempt_path_opened(attempt, number),
        }
        Ok(())
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
            .is_some_and(|path| path.connections.is_empty() && path.attempt.is_none())
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
        let unused =
            self.paths.table.get(&number).is_some_and(|path| {
                path.connections.is_empty() && path.half_open == 0 && path.attempt.is_none()
            });
        if unused {
            self.close_path(number, Code::Disconnected);
        }
    }

    /// Tells the host when an exchange path begins or ceases to await something.
    pub(super) fn update_busy(&mut self, number: u32) {
        let Some(path) = self.paths.table.get(&number) else {
            return;
        };
        if path.way != Way::Host(PathKind::Exchange) {
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
