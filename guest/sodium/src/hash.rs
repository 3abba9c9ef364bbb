//! BLAKE3: keyed hash and key derivation.

use crate::ffi;
use crate::memory::wipe;

/// Length of a hash, of a key and of a derived key.
pub const HASH_BYTES: usize = 32;

/// The hash of `data` under a secret key: a key derived from that key, or a message authentication code, to be compared
/// with [`crate::memory::equal`].
pub fn keyed(key: &[u8; HASH_BYTES], data: &[u8]) -> [u8; HASH_BYTES] {
    let mac = blake3::keyed_hash(key, data);
    wipe_stack();
    mac.into()
}

/// Twice as much of the output of [`keyed`], whose first half is what that gives.
pub fn keyed_wide(key: &[u8; HASH_BYTES], data: &[u8]) -> [u8; 2 * HASH_BYTES] {
    let mut wide = [0; 2 * HASH_BYTES];
    blake3::Hasher::new_keyed(key)
        .update(data)
        .finalize_xof()
        .fill(&mut wide);
    wipe_stack();
    wide
}

/// SHA-256 (FIPS 180-4) of public `data`.
pub fn sha256(data: &[u8]) -> [u8; HASH_BYTES] {
    ffi::sha256(data)
}

/// HMAC-SHA-256 (RFC 2104) of `parts` in a row under a secret key of any length, to be compared with [`crate::memory::equal`].
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; HASH_BYTES] {
    ffi::hmac_sha256(key, parts)
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

/// The hash of public `data` under a public key: what [`keyed`] gives, but nothing is wiped.
pub fn hash_with(key: &[u8; HASH_BYTES], data: &[u8]) -> [u8; HASH_BYTES] {
    blake3::keyed_hash(key, data).into()
}

/// More than what hashing one chunk leaves on the stack.
const STACK_BYTES: usize = 1024;

/// Wipes what the last call left below this function's caller.
#[inline(never)]
fn wipe_stack() {
    wipe(&mut [0; STACK_BYTES]);
}
