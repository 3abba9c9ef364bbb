//! The multiplication of Ed25519's base point, which WebAssembly has in another form than native code: it must give
//! what the multiplication of any point gives, and the same bytes everywhere.

use core::ffi::{c_int, c_uchar};

use super::scalars::{Bytes, ORDER, digest, random};

unsafe extern "C" {
    fn crypto_scalarmult_ed25519_base_noclamp(q: *mut c_uchar, n: *const c_uchar) -> c_int;
    fn crypto_scalarmult_ed25519_noclamp(q: *mut c_uchar, n: *const c_uchar, p: *const c_uchar) -> c_int;
}

/// The base point B: y is 4/5, x is even.
const BASE: Bytes = {
    let mut point = [0x66; 32];
    point[0] = 0x58;
    point
};
const RANDOM_SCALARS: usize = 1000;
/// The hash of every product of [`scalars`], in their order.
const PRODUCTS: &str = "b63eaf71dfa8e79a3eba9307503fc9a360ea43660a5397a64829c31dca1c75ad";

/// What is done with a scalar: whether libsodium accepted the product, and the product.
pub(super) type Product = (bool, Bytes);

pub(super) fn times_base(scalar: &Bytes) -> Product {
    let mut product = [0; 32];
    // SAFETY: both pointers are to 32 bytes, as the C function requires, and do not overlap.
    let code = unsafe { crypto_scalarmult_ed25519_base_noclamp(product.as_mut_ptr(), scalar.as_ptr()) };
    (code == 0, product)
}

fn times(scalar: &Bytes, point: &Bytes) -> Product {
    let mut product = [0; 32];
    // SAFETY: all three pointers are to 32 bytes, as the C function requires, and do not overlap.
    let code =
        unsafe { crypto_scalarmult_ed25519_noclamp(product.as_mut_ptr(), scalar.as_ptr(), point.as_ptr()) };
    (code == 0, product)
}

/// The scalar `factor * ORDER + offset`.
fn near_order(factor: u8, offset: i32) -> Bytes {
    let mut sum = offset;
    ORDER.map(|byte| {
        sum += i32::from(byte) * i32::from(factor);
        let low = sum.to_le_bytes()[0];
        sum >>= 8;
        low
    })
}

/// Scalars below 2^255, the even and the odd, on both sides of every carry.
fn scalars() -> Vec<Bytes> {
    let mut found: Vec<Bytes> = (0..=u8::MAX).map(|byte| [byte; 32]).collect();
    for bit in 0..255_usize {
        let mut power = [0; 32];
        power[bit / 8] = 1 << (bit % 8);
        found.push(power);
        found.push(power.map(|byte| !byte));
    }
    for small in 0..32 {
        found.push(near_order(0, small));
    }
    for factor in 1..8 {
        found.extend((-9..=9).map(|offset| near_order(factor, offset)));
    }
    found.extend(random(RANDOM_SCALARS));
    for scalar in &mut found {
        scalar[31] &= 0x7f;
    }
    found
}

/// Compares the two ways to multiply B.
#[cfg_attr(test, test)]
pub(crate) fn base_point_is_multiplied_like_any_other() {
    let mut products = blake3::Hasher::new();
    let mut refused = 0;
    for scalar in scalars() {
        let product = times_base(&scalar);
        assert_eq!(product, times(&scalar, &BASE), "{scalar:02x?}");
        refused += usize::from(!product.0);
        products.update(&product.1);
    }
    // 0 as a byte that repeats and as a small number, and seven multiples of the order.
    assert_eq!(refused, 9);
    assert_eq!(digest(&products), PRODUCTS);
}
