//! How much this member passes on for each of its peers.

use crate::quota::{Holder, admits};
use selfsame_sorted_map::Map;

/// How long a share lasts.
const WINDOW_MS: u64 = 1_000;
/// KiB that are routed through a member in one window: more than a core passes on in that time. One previous hop gets a fifth.
const CAPACITY: usize = 65_536;

/// What was routed in this window, by who brought it
#[derive(Default)]
pub(super) struct Toll {
    window: u64,
    taken: usize,
    brought: Map<Holder, usize>,
}

impl Toll {
    /// Takes a frame of a previous hop into account; says whether it is within the shares of those who bring it.
    pub(super) fn admits(&mut self, bringers: [Holder; 2], bytes: usize, now_ms: u64) -> bool {
        let window = now_ms / WINDOW_MS;
        if self.window != window {
            *self = Self {
                window,
                ..Self::default()
            };
        }
        let brought = |holder: &Holder| self.brought.get(holder).copied().unwrap_or(0);
        let is_over = |holder: &Holder| !admits(CAPACITY, self.taken, *holder, brought(holder));
        if bringers.iter().any(is_over) {
            return false;
        }
        let cost = 1 + bytes / 1024;
        self.taken += cost;
        for holder in bringers.into_iter().filter(|holder| *holder != Holder::EXEMPT) {
            *self.brought.get_or_insert_with(holder, || 0) += cost;
        }
        true
    }
}
