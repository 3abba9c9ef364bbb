//! The C functions of libsodium that this crate calls, each behind a safe function of the same shape.
//!
//! Array types carry the lengths that C expects. `BOUNDS` in the comments below means: every pointer comes from a
//! reference to an array of exactly the length that the C header declares for it, or from a slice whose own length
//! is passed beside it; input and output are different borrows, so they overlap only where one buffer is passed twice
//! on purpose; and libsodium keeps no pointer after it returns.
#![expect(
    unsafe_code,
    reason = "calling C is what this module is for; everything outside it is safe"
)]

use core::ffi::{c_int, c_uchar, c_ulonglong, c_void};
use core::ptr;

use crate::Rejected;

unsafe extern "C" {
    fn sodium_memcmp(a: *const c_void, b: *const c_void, len: usize) -> c_int;
    fn sodium_memzero(bytes: *mut c_void, len: usize);

    fn crypto_sign_ed25519_seed_keypair(pk: *mut c_uchar, sk: *mut c_uchar, seed: *const c_uchar) -> c_int;
    fn crypto_sign_ed25519_detached(
        sig: *mut c_uchar,
        siglen: *mut c_ulonglong,
        m: *const c_uchar,
        mlen: c_ulonglong,
        sk: *const c_uchar,
    ) -> c_int;
    fn crypto_sign_ed25519_verify_detached(
        sig: *const c_uchar,
        m: *const c_uchar,
        mlen: c_ulonglong,
        pk: *const c_uchar,
    ) -> c_int;
    fn selfsame_ed25519_prepare(table: *mut u64, pk: *const c_uchar) -> c_int;
    fn selfsame_ed25519_prepare_base(table: *mut u64) -> c_int;
    fn selfsame_ed25519_verify_prepared(
        sig: *const c_uchar,
        m: *const c_uchar,
        mlen: c_ulonglong,
        pk: *const c_uchar,
        of_key: *const u64,
        of_base: *const u64,
    ) -> c_int;

    fn crypto_scalarmult_curve25519_base(q: *mut c_uchar, n: *const c_uchar) -> c_int;
    fn crypto_scalarmult_curve25519(q: *mut c_uchar, n: *const c_uchar, p: *const c_uchar) -> c_int;

    fn crypto_kem_mlkem768_seed_keypair(pk: *mut c_uchar, sk: *mut c_uchar, seed: *const c_uchar) -> c_int;
    fn crypto_kem_mlkem768_dec(ss: *mut c_uchar, ct: *const c_uchar, sk: *const c_uchar) -> c_int;

    fn crypto_kem_xwing_enc_deterministic(
        ct: *mut c_uchar,
        ss: *mut c_uchar,
        pk: *const c_uchar,
        seed: *const c_uchar,
    ) -> c_int;

    fn crypto_hash_sha256(out: *mut c_uchar, input: *const c_uchar, len: c_ulonglong) -> c_int;
    fn crypto_auth_hmacsha256_init(state: *mut u64, key: *const c_uchar, keylen: usize) -> c_int;
    fn crypto_auth_hmacsha256_update(state: *mut u64, input: *const c_uchar, len: c_ulonglong) -> c_int;
    fn crypto_auth_hmacsha256_final(state: *mut u64, out: *mut c_uchar) -> c_int;
    fn crypto_hash_sha3256(out: *mut c_uchar, input: *const c_uchar, len: c_ulonglong) -> c_int;
    fn crypto_xof_shake256(
        out: *mut c_uchar,
        outlen: usize,
        input: *const c_uchar,
        len: c_ulonglong,
    ) -> c_int;

    fn crypto_aead_chacha20poly1305_ietf_encrypt_detached(
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
    fn crypto_aead_chacha20poly1305_ietf_decrypt_detached(
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

#[cfg(not(target_family = "wasm"))]
mod native;

/// Prepares the library: natively it picks the fastest code for this processor and takes away the random source.
///
/// Every function of this crate does so by itself; calling this first only moves the cost of some microseconds to a
/// moment of the caller's choice. It may be called any number of times, from any thread.
pub fn init() {
    #[cfg(not(target_family = "wasm"))]
    native::prepare();
}

const fn accepted(code: c_int) -> Result<(), Rejected> {
    if code == 0 { Ok(()) } else { Err(Rejected) }
}

pub(crate) fn memcmp(a: &[u8], b: &[u8]) -> bool {
    assert!(a.len() == b.len(), "only what is of one length can be compared");
    // SAFETY: both slices are readable for `a.len()` bytes, which the assertion makes equal to `b.len()`.
    unsafe { sodium_memcmp(a.as_ptr().cast(), b.as_ptr().cast(), a.len()) == 0 }
}

pub(crate) fn memzero(bytes: &mut [u8]) {
    // SAFETY: the slice is writable for its own length.
    unsafe { sodium_memzero(bytes.as_mut_ptr().cast(), bytes.len()) };
}

pub(crate) fn sign_seed_keypair(pk: &mut [u8; 32], sk: &mut [u8; 64], seed: &[u8; 32]) {
    init();
    // SAFETY: BOUNDS (crypto_sign_ed25519.h: 32, 64 and 32 bytes). It always returns 0.
    unsafe { crypto_sign_ed25519_seed_keypair(pk.as_mut_ptr(), sk.as_mut_ptr(), seed.as_ptr()) };
}

pub(crate) fn sign_detached(sig: &mut [u8; 64], message: &[u8], sk: &[u8; 64]) {
    init();
    let len = message.len() as c_ulonglong;
    // SAFETY: BOUNDS (crypto_sign_ed25519.h: 64, `len` and 64 bytes); the header allows a null length pointer. It
    // always returns 0.
    unsafe {
        crypto_sign_ed25519_detached(
            sig.as_mut_ptr(),
            ptr::null_mut(),
            message.as_ptr(),
            len,
            sk.as_ptr(),
        )
    };
}

pub(crate) fn sign_verify_detached(sig: &[u8; 64], message: &[u8], pk: &[u8; 32]) -> bool {
    init();
    let len = message.len() as c_ulonglong;
    // SAFETY: BOUNDS (crypto_sign_ed25519.h: 64, `len` and 32 bytes).
    unsafe { crypto_sign_ed25519_verify_detached(sig.as_ptr(), message.as_ptr(), len, pk.as_ptr()) == 0 }
}

pub(crate) fn sign_prepare(table: &mut [u64; 8320], pk: &[u8; 32]) -> Result<(), Rejected> {
    init();
    // SAFETY: BOUNDS (ed25519_verify.c: 26 rows of 16 points of 160 bytes, which are aligned as words, and 32 bytes).
    accepted(unsafe { selfsame_ed25519_prepare(table.as_mut_ptr(), pk.as_ptr()) })
}

pub(crate) fn sign_prepare_base(table: &mut [u64; 8320]) {
    init();
    // SAFETY: BOUNDS (ed25519_verify.c: as above). It always returns 0.
    unsafe { selfsame_ed25519_prepare_base(table.as_mut_ptr()) };
}

pub(crate) fn sign_verify_prepared(
    sig: &[u8; 64],
    message: &[u8],
    pk: &[u8; 32],
    of_key: &[u64; 8320],
    of_base: &[u64; 8320],
) -> bool {
    init();
    let len = message.len() as c_ulonglong;
    // SAFETY: BOUNDS (ed25519_verify.c: 64, `len` and 32 bytes, and tables as above). It computes with what it is given: a
    // table of anything else gives another answer, and no other access to memory.
    unsafe {
        selfsame_ed25519_verify_prepared(
            sig.as_ptr(),
            message.as_ptr(),
            len,
            pk.as_ptr(),
            of_key.as_ptr(),
            of_base.as_ptr(),
        ) == 0
    }
}

pub(crate) fn scalarmult_base(q: &mut [u8; 32], n: &[u8; 32]) {
    init();
    // SAFETY: BOUNDS (crypto_scalarmult_curve25519.h: 32 bytes each). It always returns 0.
    unsafe { crypto_scalarmult_curve25519_base(q.as_mut_ptr(), n.as_ptr()) };
}

pub(crate) fn scalarmult(q: &mut [u8; 32], n: &[u8; 32], p: &[u8; 32]) -> Result<(), Rejected> {
    init();
    // SAFETY: BOUNDS (crypto_scalarmult_curve25519.h: 32 bytes each).
    accepted(unsafe { crypto_scalarmult_curve25519(q.as_mut_ptr(), n.as_ptr(), p.as_ptr()) })
}

pub(crate) fn mlkem768_seed_keypair(pk: &mut [u8; 1184], sk: &mut [u8; 2400], seed: &[u8; 64]) {
    init();
    // SAFETY: BOUNDS (crypto_kem_mlkem768.h: 1184, 2400 and 64 bytes). It always returns 0.
    unsafe { crypto_kem_mlkem768_seed_keypair(pk.as_mut_ptr(), sk.as_mut_ptr(), seed.as_ptr()) };
}

pub(crate) fn mlkem768_dec(ss: &mut [u8; 32], ct: &[u8; 1088], sk: &[u8; 2400]) -> Result<(), Rejected> {
    init();
    // SAFETY: BOUNDS (crypto_kem_mlkem768.h: 32, 1088 and 2400 bytes).
    accepted(unsafe { crypto_kem_mlkem768_dec(ss.as_mut_ptr(), ct.as_ptr(), sk.as_ptr()) })
}

pub(crate) fn xwing_enc_deterministic(
    ct: &mut [u8; 1120],
    ss: &mut [u8; 32],
    pk: &[u8; 1216],
    seed: &[u8; 64],
) -> Result<(), Rejected> {
    init();
    // SAFETY: BOUNDS (crypto_kem_xwing.h: 1120, 32, 1216 and 64 bytes).
    accepted(unsafe {
        crypto_kem_xwing_enc_deterministic(ct.as_mut_ptr(), ss.as_mut_ptr(), pk.as_ptr(), seed.as_ptr())
    })
}

pub(crate) fn sha256(input: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    // SAFETY: BOUNDS (crypto_hash_sha256.h: 32 and `input.len()` bytes). It always returns 0.
    unsafe { crypto_hash_sha256(out.as_mut_ptr(), input.as_ptr(), input.len() as c_ulonglong) };
    out
}

pub(crate) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut state = [0_u64; 26];
    let mut out = [0; 32];
    // SAFETY: BOUNDS (crypto_auth_hmacsha256.h: a state of two hashes of 104 bytes, aligned as its counters, and `key.len()` bytes).
    // It always returns 0.
    unsafe { crypto_auth_hmacsha256_init(state.as_mut_ptr(), key.as_ptr(), key.len()) };
    for part in parts {
        // SAFETY: BOUNDS (crypto_auth_hmacsha256.h: the state that was begun, and `part.len()` bytes). It always returns 0.
        unsafe {
            crypto_auth_hmacsha256_update(state.as_mut_ptr(), part.as_ptr(), part.len() as c_ulonglong)
        };
    }
    // SAFETY: BOUNDS (crypto_auth_hmacsha256.h: the same state, and 32 bytes). It always returns 0, and wipes the state's hashes.
    unsafe { crypto_auth_hmacsha256_final(state.as_mut_ptr(), out.as_mut_ptr()) };
    out
}

pub(crate) fn sha3_256(input: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    // SAFETY: BOUNDS (crypto_hash_sha3.h: 32 and `input.len()` bytes). It always returns 0.
    unsafe { crypto_hash_sha3256(out.as_mut_ptr(), input.as_ptr(), input.len() as c_ulonglong) };
    out
}

pub(crate) fn shake256(out: &mut [u8], input: &[u8]) {
    // SAFETY: BOUNDS (crypto_xof_shake256.h: `out.len()` and `input.len()` bytes). It always returns 0.
    unsafe {
        crypto_xof_shake256(
            out.as_mut_ptr(),
            out.len(),
            input.as_ptr(),
            input.len() as c_ulonglong,
        )
    };
}

pub(crate) fn chacha20poly1305_encrypt(
    data: &mut [u8],
    tag: &mut [u8; 16],
    ad: &[u8],
    nonce: &[u8; 12],
    key: &[u8; 32],
) {
    init();
    let (data, len) = (data.as_mut_ptr(), data.len() as c_ulonglong);
    // SAFETY: BOUNDS (crypto_aead_chacha20poly1305.h: `len`, 16, `ad.len()`, 12 and 32 bytes); the manual allows
    // message and ciphertext to be the same buffer, the length pointer and `nsec` to be null. It always returns 0
    // below the maximum length of 256 GiB, which no slice that Rust can hold in practice reaches; above it, it aborts.
    unsafe {
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(
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
}

pub(crate) fn chacha20poly1305_decrypt(
    data: &mut [u8],
    tag: &[u8; 16],
    ad: &[u8],
    nonce: &[u8; 12],
    key: &[u8; 32],
) -> Result<(), Rejected> {
    init();
    let (data, len) = (data.as_mut_ptr(), data.len() as c_ulonglong);
    // SAFETY: BOUNDS (crypto_aead_chacha20poly1305.h: `len`, 16, `ad.len()`, 12 and 32 bytes); the manual allows
    // message and ciphertext to be the same buffer and `nsec` to be null.
    accepted(unsafe {
        crypto_aead_chacha20poly1305_ietf_decrypt_detached(
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
