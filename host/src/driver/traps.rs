//! The traps of a node's cores: how long the host waits before each new one (boundary.md, "Traps").

use alloc::collections::VecDeque;
use core::time::Duration;

use tokio::time::Instant;

/// Traps count for so long.
const WINDOW: Duration = Duration::from_mins(10);
/// Pause after the first of them, doubled with each other one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// So many in the window are told as an event: somebody should look.
const UNSTABLE: u32 = 5;

/// What is done after a trap
pub(super) struct AfterTrap {
    /// How long until the core is started again.
    pub(super) pause: Duration,
    /// How many traps there were lately, this one included, if these are so many that an event tells of them.
    pub(super) unstable: Option<u32>,
}

/// When the cores of a node have trapped lately
#[derive(Default)]
pub(super) struct Traps(VecDeque<Instant>);

impl Traps {
    /// Notes a trap.
    pub(super) fn note(&mut self, now: Instant) -> AfterTrap {
        self.0.retain(|at| now.duration_since(*at) < WINDOW);
        self.0.push_back(now);
        let traps = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        let doubled = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(traps - 1));
        AfterTrap {
            pause: doubled.min(LONGEST_PAUSE),
            unstable: (traps >= UNSTABLE).then_some(traps),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Case {
        at_s: u64,
        pause_s: u64,
        #[serde(rename = "isUnstable")]
        is_unstable: bool,
    }

    #[test]
    fn pause_after_a_trap_and_whether_it_is_told_are_those_of_all_hosts() {
        let cases = include_str!("../../../runtime/test/traps.json");
        let cases: Vec<Case> = serde_json::from_str(cases).expect("JSON");
        let (mut traps, began) = (Traps::default(), Instant::now());
        for Case {
            at_s,
            pause_s,
            is_unstable,
        } in cases
        {
            let after = traps.note(began + Duration::from_secs(at_s));
            assert_eq!(after.pause, Duration::from_secs(pause_s), "at {at_s} s");
            assert_eq!(after.unstable.is_some(), is_unstable, "at {at_s} s");
        }
    }
}
