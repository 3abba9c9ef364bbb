//! What will happen, in order of time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens to a host
#[derive(Debug)]
pub(crate) enum Event {
    /// A core asked to be woken.
    Wake { host: usize },
    /// A frame arrives.
    Frame {
        host: usize,
        path: u32,
        frame: Box<[u8]>,
    },
    /// Somebody dials this host.
    Accept { link: u64 },
    /// A host hears of a connection that its system has accepted.
    Opened { host: usize, path: u32, remote: String },
    /// The dialled host has accepted.
    Established { link: u64 },
    /// A dial comes to nothing.
    DialFailed {
        host: usize,
        incarnation: u32,
        dial: u32,
    },
    /// A path closes, as the operating system tells it.
    Closed { host: usize, path: u32 },
}

struct Entry {
    at_ms: u64,
    number: u64,
    event: Event,
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.at_ms, self.number)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Event {
    /// The host whose process takes part in it.
    pub(crate) fn host(&self) -> Option<usize> {
        match self {
            Self::Wake { host }
            | Self::Frame { host, .. }
            | Self::Opened { host, .. }
            | Self::DialFailed { host, .. }
            | Self::Closed { host, .. } => Some(*host),
            Self::Accept { .. } | Self::Established { .. } => None,
        }
    }
}

/// Events by their time; those of one millisecond happen in the order in which they were added
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    added: u64,
}

impl Queue {
    pub(crate) fn add(&mut self, at_ms: u64, event: Event) {
        self.added += 1;
        self.heap.push(Reverse(Entry {
            at_ms,
            number: self.added,
            event,
        }));
    }

    /// The next event that happens at `until_ms` or before.
    pub(crate) fn next(&mut self, until_ms: u64) -> Option<(u64, Event)> {
        if self.heap.peek()?.0.at_ms > until_ms {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at_ms, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_in_which_they_were_added() {
        let mut queue = Queue::default();
        for (at_ms, host) in [(5, 1), (3, 2), (5, 3), (9, 4)] {
            queue.add(at_ms, Event::Wake { host });
        }
        let mut order = Vec::new();
        while let Some((_, Event::Wake { host })) = queue.next(8) {
            order.push(host);
        }
        assert_eq!(order, [2, 1, 3]);
        assert!(queue.next(8).is_none());
        assert!(queue.next(9).is_some());
    }
}
