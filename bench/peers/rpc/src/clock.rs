//! Processor time and memory of the process.

use core::time::Duration;

use bench_pair::Outcome;
use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time that all threads of the process have used.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Returns the bytes of memory that the process has.
pub(crate) fn resident_bytes() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let kilobytes = status.lines().find_map(|line| {
        let value = line.strip_prefix("VmRSS:")?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    Ok(kilobytes.ok_or("the system does not tell the memory of a process")? * 1024)
}
