//! The hash for tables whose keys are hashes already, or places that are: one word, spread over all bits.

use core::hash::{BuildHasherDefault, Hasher};

use crate::hash::HASH_BYTES;

/// Makes it
pub(crate) type BuildSpread = BuildHasherDefault<Spread>;

/// Spreads the one word that a key gives
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
}

/// The first word of a hash.
pub(crate) fn first_word(hash: &[u8; HASH_BYTES]) -> u64 {
    let mut word = [0; size_of::<u64>()];
    word.copy_from_slice(&hash[..size_of::<u64>()]);
    u64::from_le_bytes(word)
}
