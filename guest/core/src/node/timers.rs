use selfsame_codec::Code;

use super::Node;
use crate::admission::KNOWS_CLOSED;
use selfsame_sorted_map::Map;

/// What is due at some time
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// When to give up a request of the ring.
    RingRequest(u64),
    /// When to give up dialling an address and try the next.
    Attempt(u32),
    /// When to forget a half-open handshake that a peer began.
    HalfOpen(u32),
    /// When to erase the previous receive key of a connection.
    PreviousKey(u32),
    /// When to look whether the peer of a connection still answers.
    Liveness(u32),
    /// When to close an incoming path on which no session came up.
    Path(u32),
    /// When to try the bootstraps again.
    Bootstrap,
    /// When to give up a call that has no stream yet.
    Call(u32),
    /// When to try another provider beside those that a call waits for.
    Hedge(u32),
    /// When to give up a stream on which no answer has begun.
    Answer(u32),
    /// When to ask the ring again for the names that are watched.
    Watches,
    /// When the certificate of the peer of a connection expires.
    Certificate(u32),
    /// When this node's certificate expires.
    OwnCertificate,
    /// When to give up look-ups that the host has not answered.
    LookUps,
    /// When to send a message again, or to give it up.
    Message(u64),
    /// When to forget messages of others.
    Inbox,
}

/// Timers in the order in which they are due
#[derive(Default)]
pub(super) struct Timers {
    due: Map<(u64, Timer), ()>,
}

impl Timers {
    pub(super) fn set(&mut self, at_ms: u64, timer: Timer) {
        self.due.insert((at_ms, timer), ());
    }

    pub(super) fn clear(&mut self, at_ms: u64, timer: Timer) {
        self.due.remove(&(at_ms, timer));
    }

    #[cfg(test)]
    pub(super) fn has(&self, timer: Timer) -> bool {
        self.due.keys().any(|(_, other)| *other == timer)
    }

    pub(super) fn next_ms(&self) -> u64 {
        self.due.first().map_or(u64::MAX, |((at_ms, _), ())| *at_ms)
    }

    fn pop_due(&mut self, now_ms: u64) -> Option<(u64, Timer)> {
        if self.next_ms() <= now_ms {
            self.due.pop_first().map(|(due, _)| due)
        } else {
            None
        }
    }
}

impl Node {
    pub(super) fn run_timers(&mut self) {
        while let Some((at_ms, timer)) = self.timers.pop_due(self.now_ms) {
            self.run_timer(at_ms, timer);
        }
    }

    // Engines compile a function when it is first called: a start needs none of this.
    #[inline(never)]
    fn run_timer(&mut self, at_ms: u64, timer: Timer) {
        match timer {
            Timer::RingRequest(call) => self.ring_request_timed_out(call),
            Timer::Attempt(attempt) => self.attempt_timed_out(attempt, at_ms),
            Timer::HalfOpen(index) => self.end_half_open(index, Code::TimedOut),
            Timer::PreviousKey(index) => self.drop_previous_key(index),
            Timer::Liveness(index) => self.check_liveness(index),
            Timer::Path(path) => self.path_timed_out(path),
            Timer::Bootstrap => self.retry_bootstraps(),
            Timer::Call(tag) => self.call_timed_out(tag),
            Timer::Hedge(tag) => self.hedge_call(tag),
            Timer::Answer(handle) => self.answer_timed_out(handle),
            Timer::Watches => self.refresh_watches(),
            Timer::Certificate(index) if KNOWS_CLOSED => self.check_certificate(index),
            Timer::OwnCertificate if KNOWS_CLOSED => self.check_own_certificate(),
            Timer::LookUps if KNOWS_CLOSED => self.look_ups_timed_out(),
            Timer::Message(id) => self.message_timed_out(id, at_ms),
            Timer::Inbox => self.expire_messages(),
            Timer::Certificate(_) | Timer::OwnCertificate | Timer::LookUps => {}
        }
    }
}
