//! Replay window of a session: which counters were used, in memory that does not grow.

/// Counters behind the largest one that are told apart; earlier ones count as used.
pub(crate) const WINDOW: u64 = 2048;
const WORDS: usize = (WINDOW / 64) as usize;

/// What a window says of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    New,
    Used,
    /// Too far behind to tell.
    TooOld,
}

/// The last [`WINDOW`] counters, a bit each.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// One above the largest counter that was used.
    end: u64,
    bits: [u64; WORDS],
}

impl ReplayWindow {
    pub(crate) fn new() -> Self {
        Self {
            end: 0,
            bits: [0; WORDS],
        }
    }

    pub(crate) fn check(&self, counter: u64) -> Use {
        if counter >= self.end {
            Use::New
        } else if self.end - counter > WINDOW {
            Use::TooOld
        } else if self.bits[word(counter)] & bit(counter) != 0 {
            Use::Used
        } else {
            Use::New
        }
    }

    /// Marks a counter as used, which [`ReplayWindow::check`] called new; the largest possible one is never used.
    pub(crate) fn mark(&mut self, counter: u64) {
        if counter >= self.end {
            let skipped = counter - self.end;
            if skipped >= WINDOW {
                self.bits = [0; WORDS];
            } else {
                (self.end..counter).for_each(|unused| self.bits[word(unused)] &= !bit(unused));
            }
            self.end = counter + 1;
        }
        self.bits[word(counter)] |= bit(counter);
    }
}

fn word(counter: u64) -> usize {
    (counter / 64) as usize % WORDS
}

fn bit(counter: u64) -> u64 {
    1 << (counter % 64)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn window_agrees_with_a_set() {
        let mut window = ReplayWindow::new();
        let mut used = BTreeSet::new();
        let mut state = 1_u64;
        for _ in 0..200_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let end = used.last().map_or(0, |last| last + 1);
            let step = state >> 33;
            let counter = match step % 100 {
                0 => end + step % 5_000,
                1..40 => end,
                _ => end.saturating_sub(step % 3_000),
            };
            let expected = if used.contains(&counter) && end - counter <= WINDOW {
                Use::Used
            } else if end > WINDOW + counter {
                Use::TooOld
            } else {
                Use::New
            };
            assert_eq!(window.check(counter), expected, "{counter} of {end}");
            if expected == Use::New {
                window.mark(counter);
                used.insert(counter);
            }
        }
    }
}
