//! Poly1305 of ciphertexts, as ChaCha20-Poly1305 without associated data takes it (RFC 8439, sections 2.5 and 2.8).

#[cfg(target_arch = "x86_64")]
mod ifma;

use alloc::vec::Vec;

use crate::KEY_BYTES;

/// Length of a tag.
pub const TAG_BYTES: usize = 16;

/// A key that is used for nothing else, and a ciphertext
pub type Sealed<'a> = (&'a [u8; KEY_BYTES], &'a [u8]);

/// The tag of each ciphertext; nothing if they are faster one after the other: fewer than half of the lanes would have one, or
/// the processor does not multiply 52 bits in each lane of a vector (AVX-512 with IFMA).
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn tags(sealed: &[Sealed<'_>]) -> Option<Vec<[u8; TAG_BYTES]>> {
    use crate::lanes::{MOST, level};

    if sealed.len() < MOST / 2 {
        return None;
    }
    Some(ifma::tags(level().as_avx512()?, sealed))
}

/// The tag of each ciphertext; nothing if they are faster one after the other, as they are on this processor.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn tags(_sealed: &[Sealed<'_>]) -> Option<Vec<[u8; TAG_BYTES]>> {
    None
}
