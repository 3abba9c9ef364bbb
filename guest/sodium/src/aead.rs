//! Authenticated encryption: ChaCha20-Poly1305 (RFC 8439).
//!
//! It works in place on the caller's buffer and keeps the tag apart, so that a frame is sealed without a copy.

use core::fmt;

use crate::{Rejected, memory, primitives};

/// Length of a key.
pub const KEY_BYTES: usize = 32;
/// Length of a nonce: use a counter, each value once for each key.
pub const NONCE_BYTES: usize = 12;
/// Length of an authentication tag.
pub const TAG_BYTES: usize = 16;

/// A symmetric key; wiped when dropped.
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// Takes the bytes of a key, which should come from a key derivation.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the key, for a snapshot that its owner stores in a safe place.
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        memory::wipe(&mut self.0);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("aead::Key(..)")
    }
}

/// Encrypts `data` in place and returns its tag, which also covers the associated data `ad`.
pub fn seal_in_place(key: &Key, nonce: &[u8; NONCE_BYTES], ad: &[u8], data: &mut [u8]) -> [u8; TAG_BYTES] {
    let mut tag = [0; TAG_BYTES];
    primitives::chacha20poly1305_encrypt(data, &mut tag, ad, nonce, &key.0);
    tag
}

/// Checks the tag and decrypts `data` in place.
///
/// # Errors
///
/// [`Rejected`] when the tag does not match; `data` is then overwritten with zeros.
pub fn open_in_place(
    key: &Key,
    nonce: &[u8; NONCE_BYTES],
    ad: &[u8],
    data: &mut [u8],
    tag: &[u8; TAG_BYTES],
) -> Result<(), Rejected> {
    primitives::chacha20poly1305_decrypt(data, tag, ad, nonce, &key.0)
}
