//! How many calls of a service may be retries, so that retries do not become the load that brings a service down.

/// A call earns this many parts of a retry: one retry for each five calls.
const EARNED: u32 = 2;
/// What a retry costs.
const COST: u32 = 10;
/// Retries that are always allowed, so that a service with few calls can be retried: this many, refilled within a second.
const RESERVE: u32 = 10 * COST;
/// Most retries that calls can earn in advance.
const MOST: u32 = 100 * COST;

/// The retries that the calls of a service have earned
#[derive(Debug)]
pub(super) struct Budget {
    earned: u32,
    reserve: u32,
    reserve_at_ms: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            earned: 0,
            reserve: RESERVE,
            reserve_at_ms: 0,
        }
    }
}

impl Budget {
    /// A first try.
    pub(super) fn earn(&mut self) {
        self.earned = (self.earned + EARNED).min(MOST);
    }

    /// Takes a retry, if one is left.
    pub(super) fn spend(&mut self, now_ms: u64) -> bool {
        let since_ms = now_ms.saturating_sub(self.reserve_at_ms).min(1_000) as u32;
        let refilled = self.reserve + RESERVE * since_ms / 1_000;
        self.reserve_at_ms = now_ms;
        self.reserve = refilled.min(RESERVE);
        let from = if self.earned >= COST {
            &mut self.earned
        } else {
            &mut self.reserve
        };
        let is_left = *from >= COST;
        if is_left {
            *from -= COST;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_calls_may_be_retries_beside_the_reserve() {
        let mut budget = Budget::default();
        (0..100).for_each(|_| budget.earn());
        let spent = (0..1_000).filter(|_| budget.spend(0)).count();
        assert_eq!(spent, 20 + 10);
        assert!(!budget.spend(0));
    }

    #[test]
    fn the_reserve_comes_back_within_a_second() {
        let mut budget = Budget::default();
        assert_eq!((0..100).filter(|_| budget.spend(0)).count(), 10);
        assert_eq!((0..100).filter(|_| budget.spend(500)).count(), 5);
        assert_eq!((0..100).filter(|_| budget.spend(10_000)).count(), 10);
    }

    #[test]
    fn what_is_earned_in_advance_is_bounded() {
        let mut budget = Budget::default();
        (0..1_000_000).for_each(|_| budget.earn());
        assert_eq!((0..1_000).filter(|_| budget.spend(0)).count(), 110);
    }
}
