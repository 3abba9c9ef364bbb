//! Which encodings are of a point whose order divides 8, which WebAssembly tells in another way than native code.

use core::ffi::{c_int, c_uchar};

use super::scalars::{Bytes, random};

unsafe extern "C" {
    fn ge25519_has_small_order(s: *const c_uchar) -> c_int;
}

const RANDOM_POINTS: usize = 1000;

fn is_small(encoding: &Bytes) -> bool {
    // SAFETY: the pointer is to 32 bytes, as the C function requires.
    unsafe { ge25519_has_small_order(encoding.as_ptr()) != 0 }
}

/// A number of 32 bytes that are equal but for the first and the last.
const fn filled(first: u8, middle: u8, last: u8) -> Bytes {
    let mut number = [middle; 32];
    number[0] = first;
    number[31] = last;
    number
}

/// A point of order 8.
pub(super) const TORSION: Bytes = [
    0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
    0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
];

/// The y of every point whose order divides 8, with those that are not reduced: 0, 1, p - 1, p, p + 1 and two of order 8
/// (RFC 8032, section 5.1: p = 2^255 - 19).
const SMALL: [Bytes; 7] = [
    filled(0, 0, 0),
    filled(1, 0, 0),
    filled(0xec, 0xff, 0x7f),
    filled(0xed, 0xff, 0x7f),
    filled(0xee, 0xff, 0x7f),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
        0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    TORSION,
];

/// Every small one with either sign, and none that differs from one in a single bit.
#[cfg_attr(test, test)]
pub(crate) fn exactly_the_points_of_small_order_are_told() {
    for y in SMALL {
        for sign in [0, 0x80] {
            let mut encoding = y;
            encoding[31] |= sign;
            assert!(is_small(&encoding), "{encoding:02x?}");
            for bit in 0..255_usize {
                let mut other = encoding;
                other[bit / 8] ^= 1 << (bit % 8);
                let mut reduced = other;
                reduced[31] &= 0x7f;
                assert_eq!(is_small(&other), SMALL.contains(&reduced), "{other:02x?}");
            }
        }
    }
    for byte in 0..=u8::MAX {
        for (middle, last) in [(0, 0), (0xff, 0x7f), (0xff, 0)] {
            let number = filled(byte, middle, last);
            assert_eq!(is_small(&number), SMALL.contains(&number), "{number:02x?}");
        }
    }
    for point in random(RANDOM_POINTS) {
        assert!(!is_small(&point), "{point:02x?}");
    }
}
