//! The servers of a router: how much each has to do, and which is next.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use selfsame_sodium::random::Random;

use crate::endpoint::Endpoint;
use crate::forward::Tag;

/// How a router chooses a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Any.
    Random,
    /// One after the other.
    RoundRobin,
    /// The one with the fewest requests of this router.
    ShortestQueue,
    /// As [`Self::ShortestQueue`], but at most so many at each: others wait here, so that none waits behind a long one while another
    /// server is idle (R2P2, JBSQ).
    Bounded(u16),
    /// The one of two drawn that has fewer requests of this router.
    PowerOfTwo,
    /// The one of three drawn that said last that it carries out the fewest calls, of whatever router (after Prequal).
    Probed,
}

/// A server of a router.
#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) endpoint: Endpoint,
    /// Requests without feedback: their tags, and until when they count, in the order in which they were forwarded.
    outstanding: VecDeque<(Tag, u64)>,
    /// Calls that it said it carries out.
    running: u16,
}

/// The servers, and the state of the choice among them.
#[derive(Debug)]
pub(super) struct Pool {
    selection: Selection,
    servers: Vec<ServerState>,
    next: usize,
}

impl Pool {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            selection,
            servers: Vec::new(),
            next: 0,
        }
    }

    /// Replaces the servers; those that stay keep what they have to do.
    pub(super) fn set(&mut self, endpoints: impl Iterator<Item = Endpoint>) {
        let mut before = core::mem::take(&mut self.servers);
        self.servers.extend(endpoints.map(|endpoint| {
            match before.iter().position(|server| server.endpoint == endpoint) {
                Some(at) => before.swap_remove(at),
                None => ServerState {
                    endpoint,
                    outstanding: VecDeque::new(),
                    running: 0,
                },
            }
        }));
    }

    pub(super) fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        self.servers.iter().map(|server| server.endpoint)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Returns the server that a request was forwarded to which has no feedback yet.
    pub(super) fn holder(&self, tag: &Tag) -> Option<Endpoint> {
        let holds = |server: &&ServerState| server.outstanding.iter().any(|(one, _)| one == tag);
        self.servers.iter().find(holds).map(|server| server.endpoint)
    }

    /// Returns the server that all requests with a number go to as long as the servers are the same.
    pub(super) fn fixed(&self, number: u64) -> Option<usize> {
        let count = self.servers.len() as u64;
        (count > 0).then(|| (number % count) as usize)
    }

    /// Chooses a server; `None` if each has as much as it may.
    pub(super) fn choose(&mut self, random: &mut Random) -> Option<usize> {
        let count = self.servers.len();
        if count == 0 {
            return None;
        }
        let mut draw = || u32::from_le_bytes(random.bytes()) as usize % count;
        Some(match self.selection {
            Selection::Random => draw(),
            Selection::RoundRobin => {
                self.next = (self.next + 1) % count;
                self.next
            }
            Selection::ShortestQueue => self.least(0..count, |server| server.outstanding.len())?,
            Selection::Bounded(most) => {
                let least = self.least(0..count, |server| server.outstanding.len())?;
                let has_room = self.servers[least].outstanding.len() < usize::from(most);
                return has_room.then_some(least);
            }
            Selection::PowerOfTwo => {
                let drawn = [draw(), draw()];
                self.least(drawn.into_iter(), |server| server.outstanding.len())?
            }
            Selection::Probed => {
                let drawn = [draw(), draw(), draw()];
                self.least(drawn.into_iter(), |server| usize::from(server.running))?
            }
        })
    }

    /// The first of those that have the least, from where the last choice was on, so that equals take turns.
    fn least(
        &mut self,
        among: impl Iterator<Item = usize>,
        load: impl Fn(&ServerState) -> usize,
    ) -> Option<usize> {
        let count = self.servers.len();
        let turn = |at: usize| (at + count - self.next) % count;
        let least = among.min_by_key(|at| (load(&self.servers[*at]), turn(*at)))?;
        self.next = (least + 1) % count;
        Some(least)
    }

    /// Notes that a server has a request until it gives feedback, or until then, and returns where the server is.
    pub(super) fn begin(&mut self, at: usize, tag: Tag, until_us: u64) -> Endpoint {
        let server = &mut self.servers[at];
        server.outstanding.push_back((tag, until_us));
        server.endpoint
    }

    /// Takes a server's feedback; whether the request was one of its.
    pub(super) fn end(&mut self, source: &Endpoint, tag: &Tag, running: u16) -> bool {
        let Some(server) = self.servers.iter_mut().find(|server| server.endpoint == *source) else {
            return false;
        };
        let Some(at) = server.outstanding.iter().position(|(one, _)| one == tag) else {
            return false;
        };
        server.outstanding.remove(at);
        server.running = running;
        true
    }

    /// Forgets requests whose feedback got lost.
    pub(super) fn expire(&mut self, now_us: u64) {
        for server in &mut self.servers {
            while server
                .outstanding
                .front()
                .is_some_and(|(_, until_us)| *until_us <= now_us)
            {
                server.outstanding.pop_front();
            }
        }
    }

    /// Returns when the next feedback counts as lost.
    pub(super) fn expires_at_us(&self) -> Option<u64> {
        let fronts = self
            .servers
            .iter()
            .filter_map(|server| server.outstanding.front());
        fronts.map(|(_, until_us)| *until_us).min()
    }
}
