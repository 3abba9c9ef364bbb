//! Random bytes out of the entropy that the host gives.

use selfsame_sodium::hash::derive_key;
use zeroize::Zeroizing;

const NEXT_KEY: &str = "selfsame/1 random next key";
const OUTPUT: &str = "selfsame/1 random output";

/// Draws after which fresh entropy is asked for: forward secrecy comes from the key that changes with each draw,
/// fresh entropy only heals a leak of the state.
const DRAWS_BEFORE_RESEED: u32 = 4096;

/// A generator whose key is replaced with every draw, so that a later leak tells nothing of earlier bytes
pub struct Random {
    key: Zeroizing<[u8; 32]>,
    draws: u32,
}

impl Random {
    /// A generator that knows nothing but `entropy`, which must be fresh.
    #[must_use]
    pub fn new(entropy: &[u8; 32]) -> Self {
        Self {
            key: Zeroizing::new(*entropy),
            draws: 0,
        }
    }

    /// Mixes in fresh entropy.
    pub fn reseed(&mut self, entropy: &[u8; 32]) {
        let mut material = Zeroizing::new([0; 64]);
        material[..32].copy_from_slice(&self.key[..]);
        material[32..].copy_from_slice(entropy);
        self.key = Zeroizing::new(derive_key(NEXT_KEY, &material[..]));
        self.draws = 0;
    }

    /// Whether fresh entropy is due.
    #[must_use]
    pub fn wants_entropy(&self) -> bool {
        self.draws >= DRAWS_BEFORE_RESEED
    }

    /// Draws 32 bytes.
    fn draw(&mut self) -> Zeroizing<[u8; 32]> {
        let drawn = Zeroizing::new(derive_key(OUTPUT, &self.key[..]));
        self.key = Zeroizing::new(derive_key(NEXT_KEY, &self.key[..]));
        self.draws = self.draws.saturating_add(1);
        drawn
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(32) {
            chunk.copy_from_slice(&self.draw()[..chunk.len()]);
        }
    }

    /// Draws `N` bytes that are wiped when dropped.
    #[must_use]
    pub fn secret<const N: usize>(&mut self) -> Zeroizing<[u8; N]> {
        let mut out = Zeroizing::new([0; N]);
        self.fill(&mut out[..]);
        out
    }

    /// Draws `N` bytes that need not stay secret.
    #[must_use]
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// Draws a number below `bound`, which is not 0; the bias is below 2^-32 for the bounds that occur.
    #[must_use]
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u64::from_le_bytes(self.bytes());
        (wide % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_and_replay_from_the_same_entropy() {
        let mut one = Random::new(&[1; 32]);
        let mut two = Random::new(&[1; 32]);
        let first: [u8; 32] = one.bytes();
        assert_eq!(first, two.bytes());
        assert_ne!(first, one.bytes::<32>());
        two.reseed(&[2; 32]);
        assert_ne!(one.bytes::<32>(), two.bytes());
    }

    #[test]
    fn entropy_is_asked_for_after_many_draws() {
        let mut random = Random::new(&[1; 32]);
        while !random.wants_entropy() {
            let _ = random.bytes::<1>();
        }
        random.reseed(&[2; 32]);
        assert!(!random.wants_entropy());
    }
}
