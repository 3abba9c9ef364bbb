//! What [`crate::sign`] and [`crate::aead`] call in a build without cryptography: the same lengths, no work.

use crate::Rejected;

/// Ids are made from keys, and are the same in both builds.
pub(crate) use crate::ffi::sign_seed_keypair;

pub(crate) fn sign_detached(sig: &mut [u8; 64], _message: &[u8], _sk: &[u8; 64]) {
    sig.fill(0);
}

pub(crate) fn sign_verify_detached(_sig: &[u8; 64], _message: &[u8], _pk: &[u8; 32]) -> bool {
    true
}

pub(crate) fn sign_prepare(_table: &mut [u64; 8320], _pk: &[u8; 32]) -> Result<(), Rejected> {
    Ok(())
}

pub(crate) fn sign_prepare_base(_table: &mut [u64; 8320]) {}

pub(crate) fn sign_verify_prepared(
    _sig: &[u8; 64],
    _message: &[u8],
    _pk: &[u8; 32],
    _of_key: &[u64; 8320],
    _of_base: &[u64; 8320],
) -> bool {
    true
}

pub(crate) fn chacha20poly1305_encrypt(
    _data: &mut [u8],
    tag: &mut [u8; 16],
    _ad: &[u8],
    _nonce: &[u8; 12],
    _key: &[u8; 32],
) {
    tag.fill(0);
}

pub(crate) fn chacha20poly1305_decrypt(
    _data: &mut [u8],
    _tag: &[u8; 16],
    _ad: &[u8],
    _nonce: &[u8; 12],
    _key: &[u8; 32],
) -> Result<(), Rejected> {
    Ok(())
}
