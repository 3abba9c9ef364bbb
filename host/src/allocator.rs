//! The allocator of the command: what a thread allocates another one frees, as messages go from the sockets' threads to the
//! core's and its store's.
//!
//! Without huge pages (its feature `no_thp`): in a virtual machine that gives free memory back to its host, as many do, the first
//! touch of one takes milliseconds. With them one request in a hundred of a busy replica took 6.5 ms, without them 0.9.
#![expect(unsafe_code, reason = "an option of the allocator is set by a function of C")]

use core::ffi::{c_int, c_long};

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// After so many milliseconds memory that was freed goes back to the system, in place of after one second: what a node needs
/// again soon, the system would have to clear first.
const PURGE_DELAY_MS: c_long = 10_000;
/// The number of the option (`mi_option_purge_delay` in `mimalloc.h`).
const PURGE_DELAY: c_int = 15;

unsafe extern "C" {
    /// Sets an option that the environment does not set.
    safe fn mi_option_set_default(option: c_int, value: c_long);
}

/// Chooses the allocator's options.
pub(crate) fn configure() {
    mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS);
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        safe fn mi_option_get(option: c_int) -> c_long;
    }

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // No other one has this value unless it is set.
        assert_eq!(mi_option_get(PURGE_DELAY), 1000);
        configure();
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_MS);
    }
}
