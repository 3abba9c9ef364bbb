//! X-Wing in a build without cryptography: the same lengths, no work, the same secret for everybody.

use core::fmt;

use crate::{Rejected, SharedSecret, mlkem768, x25519};

/// Length of a public key: ML-KEM-768's, then X25519's.
pub const PUBLIC_KEY_BYTES: usize = mlkem768::PUBLIC_KEY_BYTES + x25519::PUBLIC_KEY_BYTES;
/// Length of a ciphertext: ML-KEM-768's, then an ephemeral X25519 public key.
pub const CIPHERTEXT_BYTES: usize = mlkem768::CIPHERTEXT_BYTES + x25519::PUBLIC_KEY_BYTES;
/// Length of the seed that a key pair is made from.
pub const SEED_BYTES: usize = 32;
/// Length of the randomness that one encapsulation consumes.
pub const ENCAPSULATION_SEED_BYTES: usize = 64;

/// Stands where a secret key would.
pub struct SecretKey(());

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("xwing::SecretKey(..)")
    }
}

/// A key pair that is no key.
pub fn keypair(_seed: &[u8; SEED_BYTES]) -> (SecretKey, [u8; PUBLIC_KEY_BYTES]) {
    (SecretKey(()), [0; PUBLIC_KEY_BYTES])
}

/// The secret that everybody knows.
///
/// # Errors
///
/// None.
pub fn encapsulate(
    _public_key: &[u8; PUBLIC_KEY_BYTES],
    _seed: &[u8; ENCAPSULATION_SEED_BYTES],
) -> Result<([u8; CIPHERTEXT_BYTES], SharedSecret), Rejected> {
    Ok(([0; CIPHERTEXT_BYTES], SharedSecret::zeroed()))
}

/// The secret that everybody knows.
///
/// # Errors
///
/// None.
pub fn decapsulate(
    _secret: &SecretKey,
    _ciphertext: &[u8; CIPHERTEXT_BYTES],
) -> Result<SharedSecret, Rejected> {
    Ok(SharedSecret::zeroed())
}
