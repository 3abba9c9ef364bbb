//! BLAKE3: hash, keyed hash and key derivation.

use core::fmt;

use zeroize::Zeroize;

use crate::memory::wipe;

/// Length of a hash, of a key and of a derived key.
pub const HASH_BYTES: usize = 32;

/// The hash of `data`.
pub fn hash(data: &[u8]) -> [u8; HASH_BYTES] {
    blake3::hash(data).into()
}

/// A message authentication code: the hash of `data` under a secret key. Compare it with [`crate::memory::equal`].
pub fn keyed(key: &[u8; HASH_BYTES], data: &[u8]) -> [u8; HASH_BYTES] {
    blake3::keyed_hash(key, data).into()
}

/// A key derived from secret `material` for the one purpose that `context` names.
pub fn derive_key(context: &'static str, material: &[u8]) -> [u8; HASH_BYTES] {
    let key = hash_for(context, material);
    wipe_stack();
    key
}

/// The hash of public `data` for the one purpose that `context` names: what [`derive_key`] gives, but nothing is wiped.
pub fn hash_for(context: &'static str, data: &[u8]) -> [u8; HASH_BYTES] {
    blake3::derive_key(context, data)
}

/// More than what hashing one chunk leaves on the stack.
const STACK_BYTES: usize = 1024;

/// Wipes what the last call left below this function's caller.
#[inline(never)]
fn wipe_stack() {
    wipe(&mut [0; STACK_BYTES]);
}

/// A hash computed piece by piece; wiped when dropped if it holds a secret.
pub struct Hasher {
    state: blake3::Hasher,
    secret: bool,
}

impl Hasher {
    /// Starts what [`hash`] computes.
    pub fn new() -> Self {
        Self {
            state: blake3::Hasher::new(),
            secret: false,
        }
    }

    /// Starts what [`keyed`] computes.
    pub fn new_keyed(key: &[u8; HASH_BYTES]) -> Self {
        Self {
            state: blake3::Hasher::new_keyed(key),
            secret: true,
        }
    }

    /// Starts what [`derive_key`] computes.
    pub fn new_derive_key(context: &'static str) -> Self {
        Self {
            state: blake3::Hasher::new_derive_key(context),
            secret: true,
        }
    }

    /// Adds bytes to what is hashed. Where one piece ends does not matter: prefix lengths where that is ambiguous.
    pub fn update(&mut self, data: &[u8]) -> &mut Self {
        self.state.update(data);
        self
    }

    /// The hash of all that was added so far.
    pub fn finish(&self) -> [u8; HASH_BYTES] {
        self.state.finalize().into()
    }

    /// Fills `output`, of any length; its first 32 bytes are [`Self::finish`].
    pub fn finish_into(&self, output: &mut [u8]) {
        if output.len() <= HASH_BYTES {
            let mut hash = self.finish();
            output.copy_from_slice(&hash[..output.len()]);
            hash.zeroize();
            return;
        }
        self.extend_into(output);
    }

    // Engines compile a function when it is first called, and few hashes are longer than others.
    #[inline(never)]
    fn extend_into(&self, output: &mut [u8]) {
        let mut reader = self.state.finalize_xof();
        reader.fill(output);
        if self.secret {
            reader.zeroize();
        }
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Hasher {
    fn drop(&mut self) {
        if self.secret {
            self.state.zeroize();
            wipe_stack();
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher(..)")
    }
}
