//! What one source may hold of what there is for all, so that none can take everything.

use alloc::sync::Arc;
use core::hash::Hash;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much each source holds
#[derive(Debug)]
pub(crate) struct Shares<S> {
    most: usize,
    held: Mutex<HashMap<S, usize>>,
}

/// What one holder has; given back when it is dropped
#[derive(Debug)]
pub(crate) struct Share<S: Hash + Eq> {
    shares: Arc<Shares<S>>,
    /// `None` when the source is not counted.
    source: Option<S>,
    amount: usize,
}

impl<S: Hash + Eq + Copy> Shares<S> {
    /// Lets each source hold at most this much.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            held: Mutex::new(HashMap::new()),
        })
    }

    /// A share of a source, or of one that is not counted; `None` when it would hold too much.
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
    fn lock(&self) -> MutexGuard<'_, HashMap<S, usize>> {
        // Nothing panics between two changes of the table.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Hash + Eq + Copy> Share<S> {
    /// Adds to the share; whether the source may hold that much.
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let Some(source) = self.source else {
            return true;
        };
        let mut table = self.shares.lock();
        let held = table.get(&source).copied().unwrap_or_default() + more;
        if held > self.shares.most {
            return false;
        }
        table.insert(source, held);
        self.amount += more;
        true
    }
}

impl<S: Hash + Eq> Drop for Share<S> {
    fn drop(&mut self) {
        let Some(source) = self.source.take() else {
            return;
        };
        let mut table = self.shares.lock();
        let left = table.get(&source).copied().unwrap_or_default() - self.amount;
        // Only sources that hold something are remembered, so the table is as bounded as what they hold.
        if left == 0 {
            table.remove(&source);
        } else {
            table.insert(source, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_share_and_others_get_theirs() {
        let shares = Shares::new(2);
        let first = shares.take(Some(1), 1).expect("a share");
        let mut second = shares.take(Some(1), 1).expect("a share");
        assert!(shares.take(Some(1), 1).is_none());
        assert!(!second.grow(1));
        assert!(shares.take(Some(2), 2).is_some());
        drop(first);
        assert!(second.grow(1));
        drop(second);
        assert!(shares.take(Some(1), 2).is_some());
        assert!(shares.lock().is_empty(), "what nobody holds is forgotten");
    }

    #[test]
    fn a_source_that_is_not_counted_gets_any_share() {
        let shares = Shares::<u8>::new(0);
        assert!(shares.take(None, 1).is_some());
        assert!(shares.take(Some(1), 1).is_none());
    }
}
