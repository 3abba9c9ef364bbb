//! Elapsed time, and the processor's time of the whole process.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment on both clocks
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    at: Instant,
    cpu: Duration,
}

/// What passed between two moments
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Elapsed time.
    pub(crate) elapsed: Duration,
    /// The processor's time, in all threads.
    pub(crate) cpu: Duration,
}

impl Spent {
    /// Nanoseconds of one of so many operations, as the harness reads them.
    pub(crate) fn of_each(self, operations: u64) -> String {
        let [ns, cpu_ns] = [self.elapsed, self.cpu].map(|took| took.as_nanos() as f64 / operations as f64);
        format!(r#"{{"ns":{ns},"cpu_ns":{cpu_ns}}}"#)
    }
}

impl Clock {
    /// This moment.
    pub(crate) fn now() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Self {
            at: Instant::now(),
            cpu: Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default()),
        }
    }

    /// The one of two that came first.
    pub(crate) fn earlier(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    /// The one of two that came last.
    pub(crate) fn later(self, other: Self) -> Self {
        if other.at > self.at { other } else { self }
    }

    /// What passed since another one.
    pub(crate) fn since(self, begin: Self) -> Spent {
        Spent {
            elapsed: self.at.saturating_duration_since(begin.at),
            cpu: self.cpu.saturating_sub(begin.cpu),
        }
    }
}

impl core::ops::AddAssign for Spent {
    fn add_assign(&mut self, more: Self) {
        self.elapsed += more.elapsed;
        self.cpu += more.cpu;
    }
}
