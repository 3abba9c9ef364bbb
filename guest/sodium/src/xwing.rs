//! X-Wing hybrid key encapsulation: X25519 and ML-KEM-768 (draft-connolly-cfrg-xwing-kem).
//!
//! The draft lets a peer's X25519 point be of small order; libsodium does not: it refuses both to encapsulate to and
//! to decapsulate from one, because the X25519 part of the secret would then be zero.

use core::fmt;

use crate::{Rejected, SharedSecret, ffi, memory};

/// Length of a public key: ML-KEM-768's, then X25519's.
pub const PUBLIC_KEY_BYTES: usize = 1216;
/// Length of a ciphertext: ML-KEM-768's, then an ephemeral X25519 public key.
pub const CIPHERTEXT_BYTES: usize = 1120;
/// Length of the shared secret.
pub const SHARED_BYTES: usize = 32;
/// Length of the seed that a key pair is made from.
pub const SEED_BYTES: usize = 32;
/// Length of the randomness that one encapsulation consumes.
pub const ENCAPSULATION_SEED_BYTES: usize = 64;

/// A secret key; wiped when dropped.
pub struct SecretKey([u8; SEED_BYTES]);

impl Drop for SecretKey {
    fn drop(&mut self) {
        memory::wipe(&mut self.0);
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("xwing::SecretKey(..)")
    }
}

/// The key pair that belongs to a seed.
pub fn keypair(seed: &[u8; SEED_BYTES]) -> (SecretKey, [u8; PUBLIC_KEY_BYTES]) {
    let mut secret = SecretKey([0; SEED_BYTES]);
    let mut public = [0; PUBLIC_KEY_BYTES];
    ffi::xwing_seed_keypair(&mut public, &mut secret.0, seed);
    (secret, public)
}

/// A fresh shared secret and its ciphertext for the owner of `public_key`; `seed` must never be used twice.
///
/// # Errors
///
/// [`Rejected`] when the ML-KEM part of the key is not reduced or the X25519 part is of small order.
pub fn encapsulate(
    public_key: &[u8; PUBLIC_KEY_BYTES],
    seed: &[u8; ENCAPSULATION_SEED_BYTES],
) -> Result<([u8; CIPHERTEXT_BYTES], SharedSecret), Rejected> {
    let mut ciphertext = [0; CIPHERTEXT_BYTES];
    let mut shared = SharedSecret::zeroed();
    ffi::xwing_enc_deterministic(&mut ciphertext, shared.as_mut(), public_key, seed)?;
    Ok((ciphertext, shared))
}

/// The secret inside a ciphertext. A ciphertext made for another key gives an unrelated secret, not an error.
///
/// # Errors
///
/// [`Rejected`] when the X25519 part of the ciphertext is of small order.
pub fn decapsulate(
    secret: &SecretKey,
    ciphertext: &[u8; CIPHERTEXT_BYTES],
) -> Result<SharedSecret, Rejected> {
    let mut shared = SharedSecret::zeroed();
    ffi::xwing_dec(shared.as_mut(), ciphertext, &secret.0)?;
    Ok(shared)
}
