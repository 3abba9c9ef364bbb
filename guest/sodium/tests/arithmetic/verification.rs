//! Verification with a prepared key, which is code of ours: it must take what libsodium's takes, and refuse what that refuses, also
//! of keys and points that only an attacker makes.

use core::ffi::{c_int, c_uchar, c_ulonglong};

use selfsame_sodium::sign::{self, MULTIPLES_WORDS, Multiples};

use super::base_multiplication::times_base;
use super::scalars::{Bytes, ORDER, random};
use super::small_order::TORSION;

unsafe extern "C" {
    fn crypto_sign_ed25519_verify_detached(
        sig: *const c_uchar,
        m: *const c_uchar,
        mlen: c_ulonglong,
        pk: *const c_uchar,
    ) -> c_int;
    fn crypto_hash_sha512(out: *mut c_uchar, input: *const c_uchar, len: c_ulonglong) -> c_int;
    fn crypto_core_ed25519_add(r: *mut c_uchar, p: *const c_uchar, q: *const c_uchar) -> c_int;
    fn crypto_core_ed25519_scalar_reduce(r: *mut c_uchar, s: *const c_uchar);
    fn crypto_core_ed25519_scalar_mul(z: *mut c_uchar, x: *const c_uchar, y: *const c_uchar);
    fn crypto_core_ed25519_scalar_add(z: *mut c_uchar, x: *const c_uchar, y: *const c_uchar);
}

type Signature = [u8; 64];

const SIGNERS: usize = 200;

fn libsodium_takes(signature: &Signature, message: &[u8], key: &Bytes) -> bool {
    let len = message.len() as c_ulonglong;
    // SAFETY: the pointers are to 64, `len` and 32 bytes, as the C function requires.
    unsafe {
        crypto_sign_ed25519_verify_detached(signature.as_ptr(), message.as_ptr(), len, key.as_ptr()) == 0
    }
}

fn sum(one: &Bytes, other: &Bytes) -> Bytes {
    let mut sum = [0; 32];
    // SAFETY: all three pointers are to 32 bytes, as the C function requires.
    let code = unsafe { crypto_core_ed25519_add(sum.as_mut_ptr(), one.as_ptr(), other.as_ptr()) };
    assert_eq!(code, 0, "{one:02x?} and {other:02x?} are points");
    sum
}

/// What the hash says that the key is multiplied with (RFC 8032, section 5.1.7).
fn challenge(point: &Bytes, key: &Bytes, message: &[u8]) -> Bytes {
    let (mut hash, mut reduced) = ([0; 64], [0; 32]);
    let input = [point, key, message].concat();
    // SAFETY: the pointers are to 64 and `input.len()` bytes, and to 32 and 64, as the C functions require.
    unsafe {
        crypto_hash_sha512(hash.as_mut_ptr(), input.as_ptr(), input.len() as c_ulonglong);
        crypto_core_ed25519_scalar_reduce(reduced.as_mut_ptr(), hash.as_ptr());
    }
    reduced
}

/// A signature of who adds what of `TORSION` they like to their key and to the signature's point.
fn signature_of(secret: &Bytes, nonce: &Bytes, point: &Bytes, key: &Bytes, message: &[u8]) -> Signature {
    let hash = challenge(point, key, message);
    let (mut product, mut scalar) = ([0; 32], [0; 32]);
    // SAFETY: all pointers are to 32 bytes, as the C functions require.
    unsafe {
        crypto_core_ed25519_scalar_mul(product.as_mut_ptr(), hash.as_ptr(), secret.as_ptr());
        crypto_core_ed25519_scalar_add(scalar.as_mut_ptr(), product.as_ptr(), nonce.as_ptr());
    }
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(point);
    signature[32..].copy_from_slice(&scalar);
    signature
}

/// The same signature with the order added to its scalar, which is not reduced any more.
fn unreduced(signature: &Signature) -> Signature {
    let mut changed = *signature;
    let mut carry = 0;
    for (byte, added) in changed[32..].iter_mut().zip(ORDER) {
        carry += u16::from(*byte) + u16::from(added);
        *byte = carry.to_le_bytes()[0];
        carry >>= 8;
    }
    changed
}

fn multiples() -> Box<Multiples> {
    Box::new([0; MULTIPLES_WORDS])
}

fn multiples_of_base() -> Box<Multiples> {
    let mut of_base = multiples();
    sign::prepare_base(&mut of_base);
    of_base
}

/// A key with its multiples, unless it has none because no signature is valid under it.
struct Prepared<'a> {
    key: Bytes,
    of_key: Option<Box<Multiples>>,
    of_base: &'a Multiples,
}

impl<'a> Prepared<'a> {
    fn of(key: Bytes, of_base: &'a Multiples) -> Self {
        let mut of_key = multiples();
        let prepared = sign::prepare(&mut of_key, &key);
        Self {
            key,
            of_key: prepared.is_ok().then_some(of_key),
            of_base,
        }
    }

    /// How many of these libsodium takes, each of which the prepared key takes too, and no other.
    fn taken(&self, signature: &Signature, message: &[u8]) -> usize {
        let Self { key, of_key, of_base } = self;
        let takes = libsodium_takes(signature, message, key);
        let prepared = of_key.as_deref();
        let ours =
            prepared.is_some_and(|of_key| sign::verify_prepared(signature, message, key, of_key, of_base));
        assert_eq!(ours, takes, "{signature:02x?} of {message:02x?} by {key:02x?}");
        usize::from(takes)
    }
}

#[test]
fn what_libsodium_takes_is_taken_and_nothing_else() {
    let numbers = random(2 * SIGNERS);
    let torsion: Vec<Bytes> = core::iter::successors(Some(TORSION), |point| Some(sum(point, &TORSION)))
        .take(8)
        .collect();
    let of_base = multiples_of_base();
    let prepared = |key: &Bytes| Prepared::of(*key, &of_base);
    let mut with_torsion = 0;
    for pair in numbers.chunks_exact(2) {
        let [secret, nonce] = [pair[0], pair[1]].map(|mut scalar| {
            scalar[31] &= 0x0f;
            scalar
        });
        let ((has_point, point), (has_key, key)) = (times_base(&nonce), times_base(&secret));
        assert!(has_point && has_key, "neither is 0");
        let message = &secret[..usize::from(nonce[0]) % 33];
        let honest = signature_of(&secret, &nonce, &point, &key, message);
        let signer = prepared(&key);
        assert_eq!(signer.taken(&honest, message), 1);
        assert_eq!(signer.taken(&unreduced(&honest), message), 0);
        for bit in 0..512_usize {
            let mut changed = honest;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(signer.taken(&changed, message), 0);
        }
        for to_key in &torsion {
            let attacker = prepared(&sum(&key, to_key));
            for to_point in &torsion {
                let point = sum(&point, to_point);
                let crafted = signature_of(&secret, &nonce, &point, &attacker.key, message);
                with_torsion += attacker.taken(&crafted, message);
            }
        }
        for point in &torsion {
            assert_eq!(prepared(point).taken(&honest, message), 0);
            // Without a nonce the equation holds for the neutral element.
            for nonce in [nonce, [0; 32]] {
                let crafted = signature_of(&secret, &nonce, point, &key, message);
                assert_eq!(signer.taken(&crafted, message), 0);
            }
        }
    }
    // About one in eight: the torsion of the point makes up for that of the key, multiplied with the hash.
    assert_eq!(with_torsion, 1584);
}

#[test]
fn keys_that_are_no_points_are_refused_alike() {
    let of_base = multiples_of_base();
    for number in random(SIGNERS / 5) {
        let signature = sign::SigningKey::from_seed(&number).sign(&number);
        for last in 0..=u8::MAX {
            let mut key = number;
            key[31] = last;
            assert_eq!(Prepared::of(key, &of_base).taken(&signature, &number), 0);
            let mut near_prime = [0xff; 32];
            near_prime[0] = number[0];
            near_prime[31] = last;
            assert_eq!(Prepared::of(near_prime, &of_base).taken(&signature, &number), 0);
        }
    }
}
