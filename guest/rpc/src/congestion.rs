//! Round-trip times (RFC 6298) and the congestion window (RFC 9002, section 7), in integers.

/// Until the first round trip was measured.
const INITIAL_TIMEOUT_US: u64 = 250_000;
/// A timer that fires earlier resends what only a busy machine delays.
const MIN_TIMEOUT_US: u64 = 10_000;
const MAX_TIMEOUT_US: u64 = 5_000_000;

/// Smoothed round-trip time of one peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    smoothed_us: u64,
    variation_us: u64,
}

impl RoundTrip {
    /// Takes the time between a packet, sent once, and its answer.
    pub(crate) fn sample(&mut self, took_us: u64) {
        let took_us = took_us.max(1);
        if self.smoothed_us == 0 {
            (self.smoothed_us, self.variation_us) = (took_us, took_us / 2);
        } else {
            let off = self.smoothed_us.abs_diff(took_us);
            self.variation_us = (3 * self.variation_us + off) / 4;
            self.smoothed_us = (7 * self.smoothed_us + took_us) / 8;
        }
    }

    /// Returns the retransmission timeout.
    pub(crate) fn timeout_us(&self) -> u64 {
        match self.smoothed_us {
            0 => INITIAL_TIMEOUT_US,
            smoothed => (smoothed + 4 * self.variation_us).clamp(MIN_TIMEOUT_US, MAX_TIMEOUT_US),
        }
    }

    /// Returns the timeout after so many without an answer in between.
    pub(crate) fn backed_off_us(&self, timeouts: u32) -> u64 {
        (self.timeout_us() << timeouts.min(10)).min(MAX_TIMEOUT_US)
    }

    fn smoothed_us(&self) -> u64 {
        if self.smoothed_us == 0 {
            INITIAL_TIMEOUT_US
        } else {
            self.smoothed_us
        }
    }
}

/// Packets in flight at first, and the burst that is not paced (RFC 9002, section 7.2 and 7.7).
const INITIAL_WINDOW: u64 = 10;
const MIN_WINDOW: u64 = 2;
/// With full packets about a megabyte, which a receiver has room for.
const MAX_WINDOW: u64 = 800;
/// The window is counted in fractions of a packet, so that it grows by one in a round trip.
const FRACTION: u64 = 1 << 10;

/// How many packets of one transfer may be in flight, and when the next may leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CongestionWindow {
    window: u64,
    threshold: u64,
    next_send_us: u64,
}

impl CongestionWindow {
    pub(crate) fn new() -> Self {
        Self {
            window: INITIAL_WINDOW * FRACTION,
            threshold: u64::MAX,
            next_send_us: 0,
        }
    }

    /// Returns how many packets may be in flight.
    pub(crate) fn packets(&self) -> usize {
        (self.window / FRACTION) as usize
    }

    /// Grows by an acknowledged packet: twice as large each round trip at first, then by one.
    pub(crate) fn acknowledged(&mut self) {
        let growth = if self.window < self.threshold {
            FRACTION
        } else {
            FRACTION * FRACTION / self.window
        };
        self.window = (self.window + growth).min(MAX_WINDOW * FRACTION);
    }

    /// Halves after a loss; the caller does so once in a round trip.
    pub(crate) fn lost(&mut self) {
        self.window = (self.window / 2).max(MIN_WINDOW * FRACTION);
        self.threshold = self.window;
    }

    /// Begins anew when nothing was acknowledged in time.
    pub(crate) fn collapsed(&mut self) {
        self.lost();
        self.window = MIN_WINDOW * FRACTION;
    }

    /// Returns when the next packet may leave: a burst of [`INITIAL_WINDOW`] at once, the others spread over a round trip.
    pub(crate) fn send_at_us(&self, rtt: &RoundTrip) -> u64 {
        self.next_send_us
            .saturating_sub(INITIAL_WINDOW * self.interval_us(rtt))
    }

    pub(crate) fn sent(&mut self, now_us: u64, rtt: &RoundTrip) {
        self.next_send_us = self.next_send_us.max(now_us) + self.interval_us(rtt);
    }

    /// A little faster than the window allows (RFC 9002, section 7.7), so that it is what limits.
    fn interval_us(&self, rtt: &RoundTrip) -> u64 {
        rtt.smoothed_us() * 4 * FRACTION / (5 * self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_follows_the_round_trip() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.timeout_us(), INITIAL_TIMEOUT_US);
        (0..50).for_each(|_| rtt.sample(100_000));
        assert!(
            (100_000..110_000).contains(&rtt.timeout_us()),
            "{}",
            rtt.timeout_us()
        );
        (0..50).for_each(|_| rtt.sample(20));
        assert_eq!(rtt.timeout_us(), MIN_TIMEOUT_US);
        assert_eq!(rtt.backed_off_us(40), MAX_TIMEOUT_US);
    }

    #[test]
    fn window_doubles_then_grows_by_one_and_halves() {
        let mut window = CongestionWindow::new();
        (0..10).for_each(|_| window.acknowledged());
        assert_eq!(window.packets(), 20);
        window.lost();
        assert_eq!(window.packets(), 10);
        (0..10).for_each(|_| window.acknowledged());
        assert_eq!(window.packets(), 10);
        (0..2).for_each(|_| window.acknowledged());
        assert_eq!(window.packets(), 11);
        window.collapsed();
        assert_eq!(window.packets(), 2);
        (0..5_000).for_each(|_| window.acknowledged());
        assert!(window.packets() <= MAX_WINDOW as usize);
    }

    #[test]
    fn packets_beyond_a_burst_are_spread_over_a_round_trip() {
        let mut rtt = RoundTrip::default();
        rtt.sample(10_000);
        let mut window = CongestionWindow::new();
        let at = 1_000_000;
        (0..10).for_each(|_| {
            assert!(window.send_at_us(&rtt) <= at);
            window.sent(at, &rtt);
        });
        window.sent(at, &rtt);
        assert!((at + 500..at + 1_000).contains(&window.send_at_us(&rtt)));
    }
}
