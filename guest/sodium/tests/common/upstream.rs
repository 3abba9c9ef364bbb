//! Calls functions of libsodium that the crate does not offer: vectors of others test parts of what it offers alone.

use core::ffi::{c_int, c_uchar, c_ulonglong};
use core::ptr;

use selfsame_sodium::Rejected;

unsafe extern "C" {
    fn crypto_kem_mlkem768_seed_keypair(pk: *mut c_uchar, sk: *mut c_uchar, seed: *const c_uchar) -> c_int;
    fn crypto_kem_mlkem768_enc_deterministic(
        ct: *mut c_uchar,
        ss: *mut c_uchar,
        pk: *const c_uchar,
        seed: *const c_uchar,
    ) -> c_int;
    fn crypto_aead_xchacha20poly1305_ietf_encrypt_detached(
        c: *mut c_uchar,
        mac: *mut c_uchar,
        maclen: *mut c_ulonglong,
        m: *const c_uchar,
        mlen: c_ulonglong,
        ad: *const c_uchar,
        adlen: c_ulonglong,
        nsec: *const c_uchar,
        npub: *const c_uchar,
        k: *const c_uchar,
    ) -> c_int;
    fn crypto_aead_xchacha20poly1305_ietf_decrypt_detached(
        m: *mut c_uchar,
        nsec: *mut c_uchar,
        c: *const c_uchar,
        clen: c_ulonglong,
        mac: *const c_uchar,
        ad: *const c_uchar,
        adlen: c_ulonglong,
        npub: *const c_uchar,
        k: *const c_uchar,
    ) -> c_int;
}

/// The secret key of ML-KEM-768 that belongs to a seed.
pub(super) fn mlkem768_secret_key(seed: &[u8; 64]) -> Vec<u8> {
    let (mut public, mut secret) = (vec![0; 1184], vec![0; 2400]);
    // SAFETY: crypto_kem_mlkem768.h declares 1184, 2400 and 64 bytes. It always returns 0.
    unsafe { crypto_kem_mlkem768_seed_keypair(public.as_mut_ptr(), secret.as_mut_ptr(), seed.as_ptr()) };
    secret
}

/// The ciphertext and the shared secret of ML-KEM-768.
pub(super) fn mlkem768_encapsulate(
    public_key: &[u8; 1184],
    seed: &[u8; 32],
) -> Result<([u8; 1088], [u8; 32]), Rejected> {
    let (mut ciphertext, mut shared) = ([0; 1088], [0; 32]);
    // SAFETY: crypto_kem_mlkem768.h declares 1088, 32, 1184 and 32 bytes.
    let code = unsafe {
        crypto_kem_mlkem768_enc_deterministic(
            ciphertext.as_mut_ptr(),
            shared.as_mut_ptr(),
            public_key.as_ptr(),
            seed.as_ptr(),
        )
    };
    accepted(code).map(|()| (ciphertext, shared))
}

/// Encrypts in place with XChaCha20-Poly1305; the tag.
pub(super) fn xchacha20poly1305_seal(
    key: &[u8; 32],
    nonce: &[u8; 24],
    ad: &[u8],
    data: &mut [u8],
) -> [u8; 16] {
    selfsame_sodium::init();
    let mut tag = [0; 16];
    let (data, len) = (data.as_mut_ptr(), data.len() as c_ulonglong);
    // SAFETY: crypto_aead_xchacha20poly1305.h declares `len`, 16, `ad.len()`, 24 and 32 bytes; the manual allows message and
    // ciphertext to be the same buffer, the length pointer and `nsec` to be null. It returns 0 for messages of this length.
    unsafe {
        crypto_aead_xchacha20poly1305_ietf_encrypt_detached(
            data,
            tag.as_mut_ptr(),
            ptr::null_mut(),
            data,
            len,
            ad.as_ptr(),
            ad.len() as c_ulonglong,
            ptr::null(),
            nonce.as_ptr(),
            key.as_ptr(),
        )
    };
    tag
}

/// Decrypts in place what [`xchacha20poly1305_seal`] encrypted.
pub(super) fn xchacha20poly1305_open(
    key: &[u8; 32],
    nonce: &[u8; 24],
    ad: &[u8],
    data: &mut [u8],
    tag: &[u8; 16],
) -> Result<(), Rejected> {
    selfsame_sodium::init();
    let (data, len) = (data.as_mut_ptr(), data.len() as c_ulonglong);
    // SAFETY: as in `xchacha20poly1305_seal`.
    accepted(unsafe {
        crypto_aead_xchacha20poly1305_ietf_decrypt_detached(
            data,
            ptr::null_mut(),
            data,
            len,
            tag.as_ptr(),
            ad.as_ptr(),
            ad.len() as c_ulonglong,
            nonce.as_ptr(),
            key.as_ptr(),
        )
    })
}

fn accepted(code: c_int) -> Result<(), Rejected> {
    if code == 0 { Ok(()) } else { Err(Rejected) }
}
