//! What signing does with scalars, a * b + c modulo the order of the curve: WebAssembly has it in another form than native
//! code. It must give what libsodium's multiplication and addition give one after the other.

use core::ffi::c_uchar;

use super::scalars::{Bytes, ORDER, digest, random};

unsafe extern "C" {
    fn sc25519_muladd(s: *mut c_uchar, a: *const c_uchar, b: *const c_uchar, c: *const c_uchar);
    fn crypto_core_ed25519_scalar_mul(z: *mut c_uchar, x: *const c_uchar, y: *const c_uchar);
    fn crypto_core_ed25519_scalar_add(z: *mut c_uchar, x: *const c_uchar, y: *const c_uchar);
    fn crypto_core_ed25519_scalar_reduce(r: *mut c_uchar, s: *const c_uchar);
}

const RANDOM_SCALARS: usize = 16;
/// The hash of every pair of [`scalars`], reduced as one number of 64 bytes, in their order.
const REDUCED_PAIRS: &str = "ebffd1e7784e6044e796d832947ceed8f381fb379ca22e2ced2aafc82d7d10d0";

fn reduced(scalar: &Bytes) -> Bytes {
    reduced_pair(scalar, &[0; 32])
}

fn reduced_pair(low: &Bytes, high: &Bytes) -> Bytes {
    let mut wide = [0; 64];
    wide[..32].copy_from_slice(low);
    wide[32..].copy_from_slice(high);
    let mut result = [0; 32];
    // SAFETY: the C function reads 64 bytes and writes 32.
    unsafe { crypto_core_ed25519_scalar_reduce(result.as_mut_ptr(), wide.as_ptr()) };
    result
}

fn at_once(a: &Bytes, b: &Bytes, c: &Bytes) -> Bytes {
    let mut result = [0; 32];
    // SAFETY: all pointers are to 32 bytes, as the C function requires.
    unsafe { sc25519_muladd(result.as_mut_ptr(), a.as_ptr(), b.as_ptr(), c.as_ptr()) };
    result
}

fn one_after_the_other(a: &Bytes, b: &Bytes, c: &Bytes) -> Bytes {
    let c = reduced(c);
    let mut product = [0; 32];
    let mut result = [0; 32];
    // SAFETY: all pointers are to 32 bytes, as the C functions require, and none overlap.
    unsafe {
        crypto_core_ed25519_scalar_mul(product.as_mut_ptr(), a.as_ptr(), b.as_ptr());
        crypto_core_ed25519_scalar_add(result.as_mut_ptr(), product.as_ptr(), c.as_ptr());
    }
    result
}

/// The smallest and the largest, such as fill some limbs, the order's neighbours, and any.
fn scalars() -> Vec<Bytes> {
    let mut found: Vec<Bytes> = [0, 1, 0x55, 0x7f, 0x80, 0xaa, 0xff].map(|byte| [byte; 32]).into();
    for limb in 0..8 {
        let mut filled = [0; 32];
        filled[4 * limb..4 * (limb + 1)].fill(0xff);
        found.push(filled);
    }
    let mut one = [0; 32];
    one[0] = 1;
    found.push(one);
    for last in [0xec, 0xed, 0xee] {
        let mut neighbour = ORDER;
        neighbour[0] = last;
        found.push(neighbour);
    }
    found.extend(random(RANDOM_SCALARS));
    found
}

/// Compares the two ways for every triple.
#[cfg_attr(test, test)]
pub(crate) fn product_and_sum_are_the_same_at_once() {
    let scalars = scalars();
    for a in &scalars {
        for b in &scalars {
            for c in &scalars {
                let result = at_once(a, b, c);
                assert_eq!(
                    result,
                    one_after_the_other(a, b, c),
                    "{a:02x?} * {b:02x?} + {c:02x?}"
                );
                assert_eq!(result, reduced(&result), "{a:02x?} * {b:02x?} + {c:02x?}");
            }
        }
    }
}

/// Compares the reduction with native code's.
#[cfg_attr(test, test)]
pub(crate) fn numbers_of_64_bytes_are_reduced_the_same_everywhere() {
    let scalars = scalars();
    let mut results = blake3::Hasher::new();
    for low in &scalars {
        for high in &scalars {
            results.update(&reduced_pair(low, high));
        }
    }
    assert_eq!(digest(&results), REDUCED_PAIRS);
}
