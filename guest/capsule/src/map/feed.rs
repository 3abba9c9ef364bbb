//! Which keys have changed lately, for those who wait for it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::command::Range;

/// Changes that are remembered: who is further behind lists anew.
const MAX_CHANGES: usize = 4096;
/// Most bytes of keys that are remembered.
const MAX_BYTES: usize = 1 << 20;

/// What an application waits for
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) command: u32,
    pub(super) range: Range,
    pub(super) since: u64,
    pub(super) every_ms: u64,
}

/// The changes that are remembered, each with its number
#[derive(Debug, Default)]
pub(super) struct Feed {
    ring: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The number of the last one.
    last: u64,
}

/// What has changed
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Nothing,
    /// These keys, each once, sorted, and up to which change that is.
    Keys(Vec<Vec<u8>>, u64),
    /// Not all changes are remembered.
    Unknown(u64),
}

impl Feed {
    /// A key may have changed.
    pub(super) fn push(&mut self, key: Vec<u8>) {
        self.last += 1;
        self.bytes += key.len();
        self.ring.push_back(key);
        while self.ring.len() > MAX_CHANGES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.ring.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
        }
    }

    /// Changes were missed.
    pub(super) fn lose(&mut self) {
        self.last += 1;
        self.ring.clear();
        self.bytes = 0;
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// What has changed since, at most so many keys.
    pub(super) fn since(&self, since: u64, range: &Range, limit: usize) -> Changed {
        let behind = self.last.saturating_sub(since);
        let behind = usize::try_from(behind).unwrap_or(usize::MAX);
        let Some(first) = self.ring.len().checked_sub(behind) else {
            return Changed::Unknown(self.last);
        };
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut upto = since;
        for key in self.ring.iter().skip(first) {
            if range.contains(key) && !keys.contains(key) {
                if keys.len() == limit {
                    break;
                }
                keys.push(key.clone());
            }
            upto += 1;
        }
        match keys.is_empty() {
            true => Changed::Nothing,
            false => Changed::Keys(keys, upto),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Range {
        Range::default()
    }

    #[test]
    fn each_key_is_told_once_and_who_is_too_far_behind_is_told_so() {
        let mut feed = Feed::default();
        assert_eq!(feed.since(0, &all(), 9), Changed::Nothing);
        for key in ["b", "a", "b", "c"] {
            feed.push(key.into());
        }
        let keys = |keys: &[&str]| keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        assert_eq!(feed.since(0, &all(), 9), Changed::Keys(keys(&["b", "a", "c"]), 4));
        assert_eq!(feed.since(0, &all(), 2), Changed::Keys(keys(&["b", "a"]), 3));
        assert_eq!(feed.since(3, &all(), 2), Changed::Keys(keys(&["c"]), 4));
        let range = Range {
            start: "a".into(),
            end: "b".into(),
        };
        assert_eq!(feed.since(0, &range, 9), Changed::Keys(keys(&["a"]), 4));
        assert_eq!(feed.since(4, &all(), 9), Changed::Nothing);
        for _ in 0..MAX_CHANGES {
            feed.push("d".into());
        }
        assert_eq!(feed.since(3, &all(), 9), Changed::Unknown(feed.last()));
        assert_eq!(feed.since(4, &all(), 9), Changed::Keys(keys(&["d"]), feed.last()));
        feed.lose();
        assert_eq!(
            feed.since(feed.last() - 1, &all(), 9),
            Changed::Unknown(feed.last())
        );
    }
}
