//! Random choices that a seed repeats.

/// SplitMix64
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number from 0 to before `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// The place of one of so many.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.index(times) == 0
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for index in (1..all.len()).rev() {
            all.swap(index, self.index(index + 1));
        }
    }
}
