//! Ed25519 signatures (RFC 8032).

use core::fmt;

use crate::{memory, primitives};

/// Length of a public key.
pub const PUBLIC_KEY_BYTES: usize = 32;
/// Length of the seed that a key pair is made from.
pub const SEED_BYTES: usize = 32;
/// Length of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// A private signing key; wiped when dropped.
pub struct SigningKey([u8; 64]);

impl SigningKey {
    /// The key pair that belongs to a seed: always the same one.
    pub fn from_seed(seed: &[u8; SEED_BYTES]) -> Self {
        let mut key = Self([0; 64]);
        // libsodium's secret key ends with the public key, which the first argument repeats.
        let mut public = [0; PUBLIC_KEY_BYTES];
        primitives::sign_seed_keypair(&mut public, &mut key.0, seed);
        key
    }

    /// The key pair of a seed whose public key is known already.
    ///
    /// `public` must be the one that belongs to the seed: two signatures of one message under different public keys give
    /// the private key away, so a key that anybody else could have written is to be proven first.
    pub fn from_parts(seed: &[u8; SEED_BYTES], public: &[u8; PUBLIC_KEY_BYTES]) -> Self {
        let mut key = Self([0; 64]);
        key.0[..SEED_BYTES].copy_from_slice(seed);
        key.0[SEED_BYTES..].copy_from_slice(public);
        key
    }

    /// The public key that verifies this key's signatures.
    pub fn public(&self) -> [u8; PUBLIC_KEY_BYTES] {
        let mut public = [0; PUBLIC_KEY_BYTES];
        public.copy_from_slice(&self.0[SEED_BYTES..]);
        public
    }

    /// Signs a message; the same message always gives the same signature.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut signature = [0; SIGNATURE_BYTES];
        primitives::sign_detached(&mut signature, message, &self.0);
        signature
    }
}

impl Drop for SigningKey {
    fn drop(&mut self) {
        memory::wipe(&mut self.0);
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// Whether `signature` is `public_key`'s signature of `message`.
///
/// libsodium's strict rules hold: a non-canonical S, R or key and a point of small order are refused, so that nobody
/// can turn one valid signature into another.
pub fn verify(
    signature: &[u8; SIGNATURE_BYTES],
    message: &[u8],
    public_key: &[u8; PUBLIC_KEY_BYTES],
) -> bool {
    primitives::sign_verify_detached(signature, message, public_key)
}
