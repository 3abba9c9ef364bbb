//! Random bytes of a client, out of the entropy that the host gives.

use alloc::vec::Vec;

use selfsame_sodium::hash::keyed_wide;
use selfsame_sodium::random::Random;
use zeroize::Zeroizing;

const CONTEXT: &str = "selfsame/1 capsule client random";

/// Returns a client's generator.
pub(super) fn generator(entropy: &[u8; 32]) -> Random {
    Random::new(CONTEXT, entropy)
}

/// Draws `N` bytes, which divides 64, at least so many times.
pub(super) fn many<const N: usize>(random: &mut Random, count: usize) -> Vec<[u8; N]> {
    let seed = Zeroizing::new(random.bytes());
    let mut draws = Vec::with_capacity(count);
    while draws.len() < count {
        let wide = keyed_wide(&seed, &(draws.len() as u32).to_le_bytes());
        draws.extend_from_slice(wide.as_chunks().0);
    }
    draws
}
