//! Random bytes out of the entropy that the host gives.

use alloc::vec::Vec;

use selfsame_sodium::hash::{derive_key, keyed_wide};
use zeroize::Zeroizing;

const SEED: &str = "selfsame/1 capsule client random";

/// Bytes of one draw.
const DRAW: usize = 32;

/// A generator whose key is replaced with every draw, so that a later leak tells nothing of earlier bytes
pub(super) struct Random {
    key: Zeroizing<[u8; 32]>,
}

impl core::fmt::Debug for Random {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Random(..)")
    }
}

impl Random {
    /// A generator that knows nothing but `entropy`, which must be fresh.
    pub(super) fn new(entropy: &[u8; 32]) -> Self {
        Self {
            key: Zeroizing::new(derive_key(SEED, entropy)),
        }
    }

    /// Draws `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        for chunk in out.chunks_mut(DRAW) {
            let wide = Zeroizing::new(keyed_wide(&self.key, &[]));
            self.key.copy_from_slice(&wide[..DRAW]);
            chunk.copy_from_slice(&wide[DRAW..DRAW + chunk.len()]);
        }
        out
    }

    /// Draws `N` bytes, which divides 64, at least so many times.
    pub(super) fn many<const N: usize>(&mut self, count: usize) -> Vec<[u8; N]> {
        let seed = Zeroizing::new(self.bytes());
        let mut draws = Vec::with_capacity(count);
        while draws.len() < count {
            draws.extend_from_slice(
                keyed_wide(&seed, &(draws.len() as u32).to_le_bytes())
                    .as_chunks()
                    .0,
            );
        }
        draws
    }
}
