//! URLs that a client leaves alone for a while.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;

use tokio::time::Instant;

/// URLs of which a pause is remembered; beyond that all are forgotten.
const MAX_PAUSES: usize = 4096;

/// The pauses, by the endpoints of the URLs.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    ends: HashMap<SocketAddr, Instant>,
}

impl Pauses {
    /// Begins a pause.
    pub(super) fn begin(&mut self, target: SocketAddr, pause: Duration) {
        if self.ends.len() >= MAX_PAUSES {
            self.ends.clear();
        }
        self.ends.insert(target, Instant::now() + pause);
    }

    /// Whether a pause is not over yet.
    pub(super) fn includes(&mut self, target: SocketAddr) -> bool {
        let is_paused = self.ends.get(&target).is_some_and(|end| Instant::now() < *end);
        if !is_paused {
            self.ends.remove(&target);
        }
        is_paused
    }
}
