//! X-Wing hybrid key encapsulation: X25519 and ML-KEM-768 (draft-connolly-cfrg-xwing-kem).
//!
//! The draft lets a peer's X25519 point be of small order; this module does not: it refuses both to encapsulate to and
//! to decapsulate from one, because the X25519 part of the secret would then be zero.
//!
//! libsodium's own `crypto_kem_xwing_dec` makes the whole key pair again from its seed each time. Here the secret key
//! stays expanded, which the draft allows, and decapsulation costs a third less; the parts are libsodium's all the same.

use core::fmt;

use crate::{Rejected, SharedSecret, ffi, memory, mlkem768, x25519};

/// Length of a public key: ML-KEM-768's, then X25519's.
pub const PUBLIC_KEY_BYTES: usize = mlkem768::PUBLIC_KEY_BYTES + x25519::PUBLIC_KEY_BYTES;
/// Length of a ciphertext: ML-KEM-768's, then an ephemeral X25519 public key.
pub const CIPHERTEXT_BYTES: usize = mlkem768::CIPHERTEXT_BYTES + x25519::PUBLIC_KEY_BYTES;
/// Length of the seed that a key pair is made from.
pub const SEED_BYTES: usize = 32;
/// Length of the randomness that one encapsulation consumes.
pub const ENCAPSULATION_SEED_BYTES: usize = 64;

/// What the combiner hashes after everything else: `\.//^\`, a drawing of an X-wing.
const LABEL: [u8; 6] = *b"\\.//^\\";

/// A secret key, expanded from its seed; wiped when dropped.
pub struct SecretKey {
    mlkem: mlkem768::SecretKey,
    scalar: [u8; x25519::SCALAR_BYTES],
    point: [u8; x25519::PUBLIC_KEY_BYTES],
}

impl Drop for SecretKey {
    fn drop(&mut self) {
        memory::wipe(&mut self.scalar);
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("xwing::SecretKey(..)")
    }
}

/// The key pair that belongs to a seed.
pub fn keypair(seed: &[u8; SEED_BYTES]) -> (SecretKey, [u8; PUBLIC_KEY_BYTES]) {
    let mut expanded = [0; mlkem768::SEED_BYTES + x25519::SCALAR_BYTES];
    ffi::shake256(&mut expanded, seed);
    let mut mlkem_seed = [0; mlkem768::SEED_BYTES];
    let mut scalar = [0; x25519::SCALAR_BYTES];
    mlkem_seed.copy_from_slice(&expanded[..mlkem768::SEED_BYTES]);
    scalar.copy_from_slice(&expanded[mlkem768::SEED_BYTES..]);
    let (mlkem, mlkem_public) = mlkem768::keypair(&mlkem_seed);
    let point = x25519::base(&scalar);
    memory::wipe(&mut expanded);
    memory::wipe(&mut mlkem_seed);

    let mut public = [0; PUBLIC_KEY_BYTES];
    public[..mlkem768::PUBLIC_KEY_BYTES].copy_from_slice(&mlkem_public);
    public[mlkem768::PUBLIC_KEY_BYTES..].copy_from_slice(&point);
    (SecretKey { mlkem, scalar, point }, public)
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
    let mut mlkem_ciphertext = [0; mlkem768::CIPHERTEXT_BYTES];
    let mut ephemeral = [0; x25519::PUBLIC_KEY_BYTES];
    mlkem_ciphertext.copy_from_slice(&ciphertext[..mlkem768::CIPHERTEXT_BYTES]);
    ephemeral.copy_from_slice(&ciphertext[mlkem768::CIPHERTEXT_BYTES..]);
    let from_curve = x25519::scalarmult(&secret.scalar, &ephemeral)?;
    let from_lattice = mlkem768::decapsulate(&secret.mlkem, &mlkem_ciphertext)?;

    // The draft's combiner: SHA3-256(ss_M || ss_X || ct_X || pk_X || label).
    let mut input = [0; 4 * 32 + LABEL.len()];
    let parts = [
        from_lattice.as_bytes(),
        from_curve.as_bytes(),
        &ephemeral,
        &secret.point,
    ];
    for (place, part) in input.chunks_exact_mut(32).zip(parts) {
        place.copy_from_slice(part);
    }
    input[4 * 32..].copy_from_slice(&LABEL);
    let mut shared = SharedSecret::zeroed();
    *shared.as_mut() = ffi::sha3_256(&input);
    memory::wipe(&mut input);
    Ok(shared)
}
