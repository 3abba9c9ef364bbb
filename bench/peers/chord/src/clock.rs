//! Processor time of the process.

use core::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time that all threads of the process have used.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
