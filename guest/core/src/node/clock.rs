//! The host's clock, which may be set back, and the node's own time, which never goes back.

use super::Node;
use super::timers::Timer;
use crate::record::CLOCK_SKEW_MS;

/// What the host said, and how far its clock was set back since the start
#[derive(Default)]
pub(super) struct Clock {
    pub(super) wall_ms: u64,
    set_back_ms: u64,
}

impl Clock {
    /// The time at the host at a time of the node.
    pub(super) fn host_ms(&self, at_ms: u64) -> u64 {
        if at_ms == u64::MAX {
            at_ms
        } else {
            at_ms.saturating_sub(self.set_back_ms)
        }
    }
}

impl Node {
    /// Takes the time that the host says.
    pub(super) fn advance(&mut self, wall_ms: u64) {
        let back_ms = self.clock.wall_ms.saturating_sub(wall_ms);
        self.clock.set_back_ms = self.clock.set_back_ms.saturating_add(back_ms);
        self.clock.wall_ms = wall_ms;
        let has_started = self.now_ms > 0;
        self.now_ms = wall_ms.saturating_add(self.clock.set_back_ms);
        self.out.set_time(self.now_ms);
        if !has_started && self.now_ms > 0 {
            self.begin_run();
            self.watch_own_certificate();
            self.load_store();
        }
        if back_ms > CLOCK_SKEW_MS {
            self.clock_corrected();
        }
    }

    /// The clock was ahead, so that this node may have parted with everybody: it looks for them at once.
    fn clock_corrected(&mut self) {
        // Its run began in the future: a copy that starts now would take the place of this one.
        self.begin_run();
        self.ring_driver.expect_success();
        self.timers.set(self.now_ms, Timer::Bootstrap);
        self.ring_with(|ring, cx| ring.clock_corrected(cx));
    }
}
