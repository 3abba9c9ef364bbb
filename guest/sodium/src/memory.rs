//! Comparing and wiping secrets.

use crate::ffi;

/// Whether two byte strings are equal, in time that depends only on their lengths.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && ffi::memcmp(a, b)
}

/// Overwrites the bytes with zeros in a way that the compiler may not leave out.
pub fn wipe(bytes: &mut [u8]) {
    ffi::memzero(bytes);
}
