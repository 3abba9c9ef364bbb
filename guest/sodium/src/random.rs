//! Random bytes out of entropy that the caller gives.

use core::fmt;

use crate::hash::{derive_key, keyed_wide};
use crate::memory::wipe;

/// Bytes of one draw.
const DRAW: usize = 32;

/// A generator whose key is replaced with every draw, so that a later leak tells nothing of earlier bytes.
pub struct Random {
    key: [u8; DRAW],
}

impl Random {
    /// A generator for the one purpose that `context` names, that knows nothing but `entropy`, which must be fresh.
    #[must_use]
    pub fn new(context: &'static str, entropy: &[u8; 32]) -> Self {
        Self {
            key: derive_key(context, entropy),
        }
    }

    /// Draws `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        for chunk in out.chunks_mut(DRAW) {
            let mut wide = keyed_wide(&self.key, &[]);
            self.key.copy_from_slice(&wide[..DRAW]);
            chunk.copy_from_slice(&wide[DRAW..DRAW + chunk.len()]);
            wipe(&mut wide);
        }
        out
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        wipe(&mut self.key);
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}
