//! Which points of the core's control flow were reached.
//!
//! With the feature `coverage`, `run.mjs` compiles the core with `-C instrument-coverage`: rustc puts a counter on
//! every branch of the source, and all of them lie in one section of the program. Without it, as by `cargo test`, there
//! are no counters and nothing is guided by them.

#[cfg(feature = "coverage")]
mod section {
    unsafe extern "C" {
        /// First and last counter, from the profiler that rustc links in.
        safe fn __llvm_profile_begin_counters() -> *mut u64;
        safe fn __llvm_profile_end_counters() -> *mut u64;
    }

    pub(super) fn counters() -> &'static mut [u64] {
        let start = __llvm_profile_begin_counters();
        let bytes = __llvm_profile_end_counters() as usize - start as usize;
        // SAFETY: the section holds so many bytes and lives as long as the program. Only instrumented code writes there
        // otherwise, on this one thread, and none of it runs while the slice is used.
        unsafe { core::slice::from_raw_parts_mut(start, bytes / size_of::<u64>()) }
    }
}

#[cfg(not(feature = "coverage"))]
mod section {
    pub(super) fn counters() -> &'static mut [u64] {
        &mut []
    }
}

use section::counters;

/// Sets all counters to zero.
pub(crate) fn reset() {
    counters().fill(0);
}

/// What an execution showed that none before it had
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Novelty {
    /// Points reached for the first time.
    pub(crate) points: usize,
    /// Points reached so many times for the first time.
    pub(crate) frequencies: usize,
}

/// All that was seen so far: for each point how often one execution reached it, a bit for each magnitude
#[derive(Debug, Default)]
pub(crate) struct Seen {
    magnitudes: Vec<u8>,
}

impl Seen {
    /// Nothing seen.
    pub(crate) fn new() -> Self {
        Self {
            magnitudes: vec![0; counters().len()],
        }
    }

    /// Adds what the counters show since [`reset`].
    pub(crate) fn add(&mut self) -> Novelty {
        self.add_counts(counters())
    }

    fn add_counts(&mut self, counts: &[u64]) -> Novelty {
        let mut novelty = Novelty::default();
        for (counts, seen) in counts.chunks(8).zip(self.magnitudes.chunks_mut(8)) {
            // Most points are not reached by most executions.
            if counts.iter().fold(0, |any, count| any | count) == 0 {
                continue;
            }
            for (count, seen) in counts.iter().zip(seen) {
                let magnitude = magnitude(*count);
                if magnitude & !*seen != 0 {
                    novelty.points += usize::from(*seen == 0);
                    novelty.frequencies += 1;
                    *seen |= magnitude;
                }
            }
        }
        novelty
    }

    /// How many points there are.
    pub(crate) fn total(&self) -> usize {
        self.magnitudes.len()
    }

    /// How many of them were reached.
    pub(crate) fn count(&self) -> usize {
        self.magnitudes.iter().filter(|seen| **seen != 0).count()
    }

    /// One bit for each point, the lowest first, in hexadecimal.
    pub(crate) fn to_hex(&self) -> String {
        let bits = self.magnitudes.chunks(8).map(|chunk| {
            let set = chunk.iter().enumerate().filter(|(_, seen)| **seen != 0);
            set.fold(0_u8, |byte, (at, _)| byte | 1 << at)
        });
        crate::hex::encode(&bits.collect::<Vec<u8>>())
    }
}

/// How often a point was reached, as one bit: 1, 2, 3, 4 to 7, 8 to 15, 16 to 31, 32 to 127, more.
fn magnitude(count: u64) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..8 => 8,
        8..16 => 16,
        16..32 => 32,
        32..128 => 64,
        128.. => 128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_counts() {
        let mut seen = Seen {
            magnitudes: vec![0; 9],
        };
        let novelty = |points, frequencies| Novelty { points, frequencies };
        let once = [1, 0, 0, 0, 0, 0, 0, 0, 5];
        assert_eq!(seen.add_counts(&once), novelty(2, 2));
        assert_eq!(seen.add_counts(&once), novelty(0, 0));
        assert_eq!(seen.add_counts(&[2, 0, 0, 0, 0, 0, 0, 0, 7]), novelty(0, 1));
        assert_eq!(
            (seen.total(), seen.count(), seen.to_hex().as_str()),
            (9, 2, "0101")
        );
    }
}
