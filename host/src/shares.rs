//! What one source may hold of what there is for all, so that none can take everything.

use alloc::sync::Arc;
use core::hash::Hash;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much each source holds. One that holds more than one leaves about as much as it holds: so any number of large ones leave something to
/// newcomers.
#[derive(Debug)]
pub(crate) struct Shares<S> {
    /// What one source may hold.
    most: usize,
    /// What all may hold together.
    all: usize,
    held: Mutex<Held<S>>,
}

#[derive(Debug)]
struct Held<S> {
    total: usize,
    by_source: HashMap<S, usize>,
}

/// What one holder has; given back when it is dropped
#[derive(Debug)]
pub(crate) struct Share<S: Hash + Eq> {
    shares: Arc<Shares<S>>,
    /// `None` when the source is counted among all only.
    source: Option<S>,
    amount: usize,
}

impl<S: Hash + Eq + Copy> Shares<S> {
    /// Lets each source hold at most `most`, and all together `all`.
    pub(crate) fn new(most: usize, all: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            all,
            held: Mutex::new(Held {
                total: 0,
                by_source: HashMap::new(),
            }),
        })
    }

    /// A share of a source, or of one that is counted among all only; `None` when it or all would hold too much.
    pub(crate) fn take(self: &Arc<Self>, source: Option<S>, amount: usize) -> Option<Share<S>> {
        let mut share = Share {
            shares: Arc::clone(self),
            source,
            amount: 0,
        };
        share.grow(amount).then_some(share)
    }
}

impl<S: Hash + Eq> Shares<S> {
    fn lock(&self) -> MutexGuard<'_, Held<S>> {
        // Nothing panics between two changes of the table.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room when a source holds this much and all hold that much.
    fn has_room(&self, source: usize, total: usize) -> bool {
        let left = self.all.checked_sub(total);
        left.is_some_and(|left| source <= self.most.min(left + 1))
    }
}

impl<S: Hash + Eq + Copy> Share<S> {
    /// Adds to the share; whether the source may hold that much.
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let mut held = self.shares.lock();
        let total = held.total + more;
        let before = self.source.and_then(|source| held.by_source.get(&source));
        let own = before.map_or(0, |before| *before) + if self.source.is_some() { more } else { 0 };
        if !self.shares.has_room(own, total) {
            return false;
        }
        held.total = total;
        if let Some(source) = self.source {
            held.by_source.insert(source, own);
        }
        self.amount += more;
        true
    }
}

impl<S: Hash + Eq> Drop for Share<S> {
    fn drop(&mut self) {
        let mut held = self.shares.lock();
        held.total -= self.amount;
        let Some(source) = self.source.take() else {
            return;
        };
        let left = held.by_source.get(&source).copied().unwrap_or_default() - self.amount;
        // Only sources that hold something are remembered, so the table is as bounded as what they hold.
        if left == 0 {
            held.by_source.remove(&source);
        } else {
            held.by_source.insert(source, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_share_and_others_get_theirs() {
        let shares = Shares::new(2, 7);
        let first = shares.take(Some(1), 1).expect("a share");
        let mut second = shares.take(Some(1), 1).expect("a share");
        assert!(shares.take(Some(1), 1).is_none());
        assert!(!second.grow(1));
        assert!(shares.take(Some(2), 2).is_some());
        drop(first);
        assert!(second.grow(1));
        drop(second);
        assert!(shares.take(Some(1), 2).is_some());
        assert!(
            shares.lock().by_source.is_empty(),
            "what nobody holds is forgotten"
        );
        assert_eq!(shares.lock().total, 0);
    }

    #[test]
    fn large_sources_leave_room_to_newcomers() {
        let shares = Shares::new(128, 512);
        let large = (0..4).map(|source| shares.take(Some(source), 128));
        let large: Vec<_> = large.collect();
        // The last of them would have left nothing.
        assert_eq!(large.iter().flatten().count(), 3);
        let rest = shares.take(Some(3), 64).expect("half of what is left");
        assert!(shares.take(Some(3), 1).is_none());
        let little: Vec<_> = (10..74)
            .map_while(|source| shares.take(Some(source), 1))
            .collect();
        assert_eq!(little.len(), 64, "each newcomer is let in");
        assert!(
            shares.take(Some(80), 1).is_none(),
            "nobody gets more than there is"
        );
        drop((large, rest, little));
        assert_eq!(shares.lock().total, 0);
    }

    #[test]
    fn any_number_of_sources_leave_room_to_newcomers() {
        let shares = Shares::new(1024, 4096);
        let mut held = Vec::new();
        // As many as one network has sessions, each of which takes what it can.
        loop {
            let more: Vec<_> = (0..512)
                .filter_map(|source| shares.take(Some(source), 1))
                .collect();
            if more.is_empty() {
                break;
            }
            held.extend(more);
        }
        for newcomer in 512..515 {
            held.push(shares.take(Some(newcomer), 2).expect("room"));
        }
    }

    #[test]
    fn a_source_that_is_not_counted_gets_what_there_is() {
        let shares = Shares::<u8>::new(1, 8);
        let mut all = shares.take(None, 7).expect("a share");
        assert!(!all.grow(2));
        assert!(all.grow(1));
        assert!(shares.take(Some(1), 1).is_none());
        drop(all);
        assert!(shares.take(Some(1), 1).is_some());
    }
}
