//! Calls of services whose tickets a client does not have yet.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use crate::lock::lock;

/// Most of them that travel in sessions at a time, where streams are few and requests hold room: others ask for a ticket first.
const MAX_RUNNING: usize = 64;
/// How long the call that brings a ticket may take before another one brings one, too: its handler may wait for something.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many of a client are under way.
#[derive(Debug, Default)]
pub(super) struct FirstCalls {
    running: AtomicUsize,
}

impl FirstCalls {
    /// Begins one, unless there are too many; `bringing_since` says when that began which brings the ticket of its service.
    pub(super) fn begin<'a>(&'a self, bringing_since: &'a Mutex<Option<Instant>>) -> Option<FirstCall<'a>> {
        if self.running.fetch_add(1, Ordering::AcqRel) >= MAX_RUNNING {
            self.running.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let begun = Instant::now();
        let mut since = lock(bringing_since);
        let takes_ticket = since.is_none_or(|since| begun.duration_since(since) > PATIENCE);
        if takes_ticket {
            *since = Some(begun);
        }
        Some(FirstCall {
            takes_ticket,
            begun,
            running: &self.running,
            bringing_since,
        })
    }
}

/// A call that is under way until this is dropped.
pub(super) struct FirstCall<'a> {
    /// Whether it brings the ticket of its service.
    pub(super) takes_ticket: bool,
    begun: Instant,
    running: &'a AtomicUsize,
    bringing_since: &'a Mutex<Option<Instant>>,
}

impl Drop for FirstCall<'_> {
    fn drop(&mut self) {
        if self.takes_ticket {
            lock(self.bringing_since).take_if(|since| *since == self.begun);
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_at_a_time_takes_a_ticket_unless_it_takes_long() {
        let (calls, since) = (FirstCalls::default(), Mutex::new(None));
        let begin = || calls.begin(&since).expect("a place");
        let first = begin();
        assert!(first.takes_ticket && !begin().takes_ticket);
        drop(first);
        let slow = begin();
        assert!(slow.takes_ticket);
        *lock(&since) = slow.begun.checked_sub(2 * PATIENCE);
        let other = begin();
        assert!(other.takes_ticket);
        drop(slow);
        assert!(!begin().takes_ticket, "another one still brings it");
    }

    #[test]
    fn calls_beyond_the_bound_ask_for_a_ticket() {
        let (calls, since) = (FirstCalls::default(), Mutex::new(None));
        let mut begun: Vec<_> = (0..MAX_RUNNING).map(|_| calls.begin(&since)).collect();
        assert!(begun.iter().all(Option::is_some));
        assert!(calls.begin(&since).is_none());
        begun.pop();
        assert!(calls.begin(&since).is_some());
    }
}
