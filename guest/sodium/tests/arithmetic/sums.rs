//! Sums of a point's multiple and of the base point's, of which verification consists where vectors multiply 52 bits: they must be
//! what libsodium's are, whatever the scalars are.

use core::ffi::{c_int, c_uchar};

use super::base_multiplication::scalars;
use super::scalars::{Bytes, ORDER, random};

/// Coordinates of five limbs.
type Point = [[u64; 5]; 4];
type Projective = [[u64; 5]; 3];
/// Multiples of a point and of what it is when it is doubled 32 times, 64 times and so on, in so many words.
type Parts = [u64; 8 * 4 * 20];

unsafe extern "C" {
    fn selfsame_ed25519_has_lanes() -> c_int;
    fn selfsame_ed25519_sum(
        sum: *mut Point,
        point: *const Point,
        scalar: *const c_uchar,
        of_base: *const c_uchar,
    );
    fn selfsame_ed25519_split(parts: *mut Parts, point: *const Point);
    fn selfsame_ed25519_sum_split(
        sum: *mut Point,
        parts: *const Parts,
        scalar: *const c_uchar,
        of_base: *const c_uchar,
    );
    fn ge25519_scalarmult_base(product: *mut Point, scalar: *const c_uchar);
    fn ge25519_double_scalarmult_vartime(
        sum: *mut Projective,
        scalar: *const c_uchar,
        point: *const Point,
        of_base: *const c_uchar,
    );
    fn ge25519_tobytes(bytes: *mut c_uchar, point: *const Projective);
    fn ge25519_p3_tobytes(bytes: *mut c_uchar, point: *const Point);
}

fn encoded(point: &Point) -> Bytes {
    let mut bytes = [0; 32];
    // SAFETY: 32 bytes are written, and a point of four coordinates is read.
    unsafe { ge25519_p3_tobytes(bytes.as_mut_ptr(), point) };
    bytes
}

/// A scalar below the order, as all are that a signature is verified with.
fn below_order(mut scalar: Bytes) -> Bytes {
    if scalar.iter().rev().ge(ORDER.iter().rev()) {
        scalar[31] &= 0x0f;
    }
    scalar
}

/// The sum as libsodium computes it.
fn expected(point: &Point, scalar: &Bytes, of_base: &Bytes) -> Bytes {
    let (mut sum, mut bytes) = (Projective::default(), [0; 32]);
    // SAFETY: the scalars have 32 bytes, the point has four coordinates, the sum three, and 32 bytes are written.
    unsafe {
        ge25519_double_scalarmult_vartime(&mut sum, scalar.as_ptr(), point, of_base.as_ptr());
        ge25519_tobytes(bytes.as_mut_ptr(), &sum);
    }
    bytes
}

/// The sums as ours computes them: of any point, and of one in parts.
fn ours(point: &Point, parts: &Parts, scalar: &Bytes, of_base: &Bytes) -> [Bytes; 2] {
    let mut sums = [Point::default(); 2];
    // SAFETY: the scalars have 32 bytes, points have four coordinates, and the parts are those of the point.
    unsafe {
        selfsame_ed25519_sum(&mut sums[0], point, scalar.as_ptr(), of_base.as_ptr());
        selfsame_ed25519_sum_split(&mut sums[1], parts, scalar.as_ptr(), of_base.as_ptr());
    }
    sums.map(|sum| encoded(&sum))
}

#[test]
fn sums_in_vectors_are_those_of_libsodium() {
    // Any signature has libsodium and the tables prepared.
    _ = selfsame_sodium::sign::verify(&[0; 64], &[], &[0; 32]);
    // SAFETY: it takes nothing.
    if unsafe { selfsame_ed25519_has_lanes() } == 0 {
        return;
    }
    let mut point = Point::default();
    let mut parts = [0; 8 * 4 * 20];
    // SAFETY: the scalar has 32 bytes, the point has four coordinates, and the parts as many words as the C function fills.
    unsafe {
        ge25519_scalarmult_base(&mut point, random(1)[0].map(|byte| byte & 0x0f).as_ptr());
        selfsame_ed25519_split(&mut parts, &point);
    }
    let scalars: Vec<Bytes> = scalars().into_iter().map(below_order).collect();
    let (mut reversed, mut rotated) = (scalars.clone(), scalars.clone());
    reversed.reverse();
    rotated.rotate_left(7);
    for others in [&scalars, &reversed, &rotated] {
        for (scalar, other) in scalars.iter().zip(others) {
            let expected = expected(&point, scalar, other);
            assert_eq!(
                ours(&point, &parts, scalar, other),
                [expected; 2],
                "{scalar:02x?} and {other:02x?}"
            );
        }
    }
}
