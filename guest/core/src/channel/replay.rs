/// Packets that may overtake each other: enough for requests in flight side by side on an exchange path.
pub(super) const WINDOW: u64 = 2048;
const WORDS: usize = 32;

/// Remembers which of the last 2048 counters were seen
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayWindow {
    /// One more than the highest counter seen.
    next: u64,
    seen: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self {
            next: 0,
            seen: [0; WORDS],
        }
    }
}

impl ReplayWindow {
    /// Whether a packet with this counter is new; asked before it is opened.
    #[must_use]
    pub fn is_new(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        if self.next - counter > WINDOW {
            return false;
        }
        let (word, bit) = place(counter);
        self.seen[word] & bit == 0
    }

    /// Remembers the counter of a packet that opened.
    pub fn mark(&mut self, counter: u64) {
        if counter >= self.next {
            self.slide_to(counter);
        }
        let (word, bit) = place(counter);
        self.seen[word] |= bit;
    }

    /// Forgets what falls out of the window when `counter` becomes the highest.
    fn slide_to(&mut self, counter: u64) {
        if counter - self.next >= WINDOW {
            self.seen = [0; WORDS];
        } else {
            for passed in self.next..=counter {
                let (word, bit) = place(passed);
                self.seen[word] &= !bit;
            }
        }
        self.next = counter.saturating_add(1);
    }

    /// Whether nothing was seen.
    pub(super) fn is_empty(&self) -> bool {
        self.next == 0
    }

    pub(super) fn to_parts(&self) -> (u64, &[u64; WORDS]) {
        (self.next, &self.seen)
    }

    pub(super) fn from_parts(next: u64, seen: [u64; WORDS]) -> Self {
        Self { next, seen }
    }
}

fn place(counter: u64) -> (usize, u64) {
    let slot = counter % WINDOW;
    ((slot / 64) as usize, 1 << (slot % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_new_once_in_any_order() {
        let mut window = ReplayWindow::default();
        for counter in [0, 5, 3, 2047, 2048, 1, 4, 5000, 4999, 2953] {
            assert!(window.is_new(counter), "{counter}");
            window.mark(counter);
            assert!(!window.is_new(counter), "{counter}");
        }
    }

    #[test]
    fn what_is_older_than_the_window_is_not_new() {
        let mut window = ReplayWindow::default();
        window.mark(10_000);
        assert!(window.is_new(10_001 - WINDOW));
        assert!(!window.is_new(10_000 - WINDOW));
        assert!(!window.is_new(0));
    }

    #[test]
    fn a_slot_is_reused_only_for_a_later_counter() {
        let mut window = ReplayWindow::default();
        window.mark(7);
        window.mark(7 + WINDOW - 1);
        assert!(!window.is_new(7));
        window.mark(7 + WINDOW);
        assert!(!window.is_new(7));
        assert!(window.is_new(8));
    }

    #[test]
    fn the_last_counter_does_not_overflow() {
        let mut window = ReplayWindow::default();
        window.mark(u64::MAX - 1);
        assert!(!window.is_new(u64::MAX - 1));
        assert!(!window.is_new(0));
    }
}
