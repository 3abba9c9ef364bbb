//! Runs of a node: told apart, and put in the order in which they give way to each other.

use crate::random::Random;

/// Length of a boot id.
pub(crate) const BOOT_ID_BYTES: usize = 16;

/// Bytes that rank a run; the rest is random.
const RANK_BYTES: usize = 6;
/// Rank between runs that take over and those that do not: half of what the bytes hold, and 4461 years of milliseconds.
const TAKE_OVER_BELOW: u64 = 1 << 47;

/// One run of a node: its rank, 6 bytes big-endian, and 10 random bytes
///
/// Two runs at once share one identity, as after a copy of a node's folder was started. The one with the lower id stays: the
/// earlier start, or the latest one that was told to take over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootId(pub [u8; 16]);

impl BootId {
    /// Draws the id of a run that starts now.
    #[must_use]
    pub fn draw(random: &mut Random, now_ms: u64, takes_over: bool) -> Self {
        let age = now_ms.min(TAKE_OVER_BELOW - 1);
        let rank = if takes_over {
            TAKE_OVER_BELOW - 1 - age
        } else {
            TAKE_OVER_BELOW + age
        };
        let mut id: [u8; BOOT_ID_BYTES] = random.bytes();
        id[..RANK_BYTES].copy_from_slice(&rank.to_be_bytes()[size_of::<u64>() - RANK_BYTES..]);
        Self(id)
    }

    /// Whether this run is to stop when the other one lives too.
    #[must_use]
    pub fn gives_way_to(&self, other: &Self) -> bool {
        other < self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_run_and_latest_take_over_stay() {
        let mut random = Random::new(&[1; 32]);
        let mut draw = |now_ms, takes_over| BootId::draw(&mut random, now_ms, takes_over);
        let (first, second) = (draw(1_800_000_000_000, false), draw(1_800_000_000_001, false));
        let (third, fourth) = (draw(1_800_000_000_002, true), draw(1_800_000_000_003, true));
        assert!(second.gives_way_to(&first) && !first.gives_way_to(&second));
        assert!(first.gives_way_to(&third) && third.gives_way_to(&fourth));
        assert!(!first.gives_way_to(&first));
        assert!(draw(u64::MAX, false).gives_way_to(&draw(u64::MAX, true)));
    }
}
