//! Ed25519 signatures (RFC 8032).

use core::fmt;

use crate::{Rejected, memory, primitives};

/// Length of a public key.
pub const PUBLIC_KEY_BYTES: usize = 32;
/// Length of the seed that a key pair is made from.
pub const SEED_BYTES: usize = 32;
/// Length of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// Words of [`Multiples`]: 26 rows of 16 points of four coordinates.
pub const MULTIPLES_WORDS: usize = 26 * 16 * 20;

/// Multiples of a point that signatures are verified with, 66,560 bytes
pub type Multiples = [u64; MULTIPLES_WORDS];

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

/// Computes what [`verify_prepared`] needs of a key: as much work as about three verifications.
///
/// # Errors
/// [`Rejected`] for a key that no signature is valid under.
pub fn prepare(multiples: &mut Multiples, public_key: &[u8; PUBLIC_KEY_BYTES]) -> Result<(), Rejected> {
    primitives::sign_prepare(multiples, public_key)
}

/// Computes what [`verify_prepared`] needs for all keys.
pub fn prepare_base(multiples: &mut Multiples) {
    primitives::sign_prepare_base(multiples);
}

/// What [`verify`] says, in less than half the time, with what [`prepare`] computed of this key and [`prepare_base`].
pub fn verify_prepared(
    signature: &[u8; SIGNATURE_BYTES],
    message: &[u8],
    public_key: &[u8; PUBLIC_KEY_BYTES],
    of_key: &Multiples,
    of_base: &Multiples,
) -> bool {
    primitives::sign_verify_prepared(signature, message, public_key, of_key, of_base)
}
