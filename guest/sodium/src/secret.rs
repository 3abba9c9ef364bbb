use core::fmt;

use crate::memory;

/// 32 bytes that two parties share; wiped when dropped.
///
/// It is raw key material: derive keys from it with [`crate::hash::derive_key`], never use it as one.
pub struct SharedSecret([u8; 32]);

impl SharedSecret {
    pub(crate) const fn zeroed() -> Self {
        Self([0; 32])
    }

    pub(crate) const fn as_mut(&mut self) -> &mut [u8; 32] {
        &mut self.0
    }

    /// The secret itself, to feed a key derivation.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Drop for SharedSecret {
    fn drop(&mut self) {
        memory::wipe(&mut self.0);
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(..)")
    }
}
