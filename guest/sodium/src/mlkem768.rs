//! The owner's side of ML-KEM-768 key encapsulation (FIPS 203), half of X-Wing.

use core::fmt;

use crate::{Rejected, SharedSecret, ffi, memory};

/// Length of a public (encapsulation) key.
pub const PUBLIC_KEY_BYTES: usize = 1184;
/// Length of the expanded secret (decapsulation) key.
pub const SECRET_KEY_BYTES: usize = 2400;
/// Length of a ciphertext.
pub const CIPHERTEXT_BYTES: usize = 1088;
/// Length of the seed (d, then z) that a key pair is made from.
pub const SEED_BYTES: usize = 64;

/// A secret key; wiped when dropped.
///
/// It can only be made from a seed, so a malformed one cannot exist.
pub struct SecretKey([u8; SECRET_KEY_BYTES]);

impl Drop for SecretKey {
    fn drop(&mut self) {
        memory::wipe(&mut self.0);
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mlkem768::SecretKey(..)")
    }
}

/// The key pair that belongs to a seed.
pub fn keypair(seed: &[u8; SEED_BYTES]) -> (SecretKey, [u8; PUBLIC_KEY_BYTES]) {
    let mut secret = SecretKey([0; SECRET_KEY_BYTES]);
    let mut public = [0; PUBLIC_KEY_BYTES];
    ffi::mlkem768_seed_keypair(&mut public, &mut secret.0, seed);
    (secret, public)
}

/// The secret inside a ciphertext. A ciphertext made for another key gives an unrelated secret, not an error.
///
/// # Errors
///
/// [`Rejected`] when libsodium refuses the input, which version 1.0.22 never does.
pub fn decapsulate(
    secret: &SecretKey,
    ciphertext: &[u8; CIPHERTEXT_BYTES],
) -> Result<SharedSecret, Rejected> {
    let mut shared = SharedSecret::zeroed();
    ffi::mlkem768_dec(shared.as_mut(), ciphertext, &secret.0)?;
    Ok(shared)
}
