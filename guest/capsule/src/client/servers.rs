//! The servers as a client knows them: which of them answer, and what each is known to have proven.

use selfsame_sodium::random::Random;

use super::catch_up::CatchUp;
use crate::cache::{MAX_SLOTS_LOG2, MIN_SLOTS_LOG2, Verified};
use crate::introduction::Introduction;
use crate::keys::Key;
use crate::message::SessionId;

/// Most requests under way to one server: as many as it remembers responses of a session.
const MAX_IN_FLIGHT: usize = 16;
/// How long a server is left alone that did not answer once; twice as long each time.
const FIRST_PAUSE_MS: u64 = 50;
/// How many times larger than what the server mirrors the reader's cache is, as a power of two. Who inserts the same in the same
/// order into a larger cache holds all that the smaller one holds, and still more when responses come in another order.
const WIDER_LOG2: u8 = 2;

/// How long a server is left alone that has failed so often before.
pub(super) fn pause_after(failures: u32) -> u64 {
    FIRST_PAUSE_MS << failures.min(10)
}

/// A session with a server
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) id: SessionId,
    is_open: bool,
    /// The serial of the last response whose proofs were verified.
    pub(super) verified: u32,
    cache: Option<Verified>,
}

/// A server
#[derive(Debug)]
pub(super) struct Server {
    pub(super) key: Key,
    retry_at: u64,
    failures: u32,
    pub(super) in_flight: usize,
    pub(super) session: Session,
    pub(super) catch_up: CatchUp,
    /// How this client has made itself known there, and in which session.
    pub(super) introduced: Option<(SessionId, Introduction)>,
}

impl Server {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            retry_at: 0,
            failures: 0,
            in_flight: 0,
            session: Session::default(),
            catch_up: CatchUp::default(),
            introduced: None,
        }
    }

    /// Whether it may be asked now.
    pub(super) fn is_ready(&self, now: u64) -> bool {
        now >= self.retry_at && !self.is_busy() && !self.catch_up.is_under_way
    }

    /// Whether as many requests are under way to it as may be.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight >= MAX_IN_FLIGHT
    }

    /// When it may be asked again, if it is left alone.
    pub(super) fn retry_at(&self, now: u64) -> Option<u64> {
        (self.retry_at > now).then_some(self.retry_at)
    }

    /// It has answered.
    pub(super) fn answered(&mut self) {
        self.failures = 0;
    }

    /// It did not answer.
    pub(super) fn fail(&mut self, now: u64, most: u64) {
        let pause = pause_after(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.avoid(now + pause.min(most));
    }

    /// It is left alone until then.
    pub(super) fn avoid(&mut self, until: u64) {
        self.retry_at = self.retry_at.max(until);
    }

    /// As many slots as the server is to mirror.
    pub(super) fn slots_log2(&self, wanted: u8) -> u8 {
        wanted.clamp(MIN_SLOTS_LOG2, MAX_SLOTS_LOG2 - WIDER_LOG2)
    }

    /// Begins a session unless there is one; whether it did.
    pub(super) fn open_session(&mut self, random: &mut Random, slots_log2: u8) -> bool {
        let slots = self.slots_log2(slots_log2) + WIDER_LOG2;
        let session = &mut self.session;
        session.cache.get_or_insert_with(|| Verified::new(slots));
        if session.is_open {
            return false;
        }
        session.id = random.bytes();
        session.is_open = true;
        session.verified = 0;
        true
    }

    /// The server has another idea of the session: the next request begins one anew.
    pub(super) fn close_session(&mut self) {
        self.session.is_open = false;
    }

    /// What was verified counts no more.
    pub(super) fn forget(&mut self) {
        self.session.is_open = false;
        if let Some(cache) = &mut self.session.cache {
            cache.clear();
        }
    }

    /// What was verified in its session, if anything was.
    pub(super) fn verified(&self) -> Option<&Verified> {
        self.session.cache.as_ref()
    }

    /// What was verified in its session.
    pub(super) fn cache(&mut self) -> &mut Verified {
        self.session
            .cache
            .get_or_insert_with(|| Verified::new(MIN_SLOTS_LOG2))
    }
}
