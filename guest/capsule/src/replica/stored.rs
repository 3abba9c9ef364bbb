//! Values as they are stored: `value | checksum of key and value u64`, so that one that was damaged is not taken for whole.

use alloc::vec::Vec;
use core::ops::Deref;

use bytes::Bytes;
use twox_hash::XxHash64;

use super::layout::{Key, MAX_INLINE};

/// Bytes of a checksum.
pub(super) const SUM: usize = 8;

/// A whole value; of a key that says all by being there it is empty, and then has no checksum
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored(Bytes);

impl Stored {
    /// Seals a value for its key.
    pub(super) fn seal(key: &Key, mut value: Vec<u8>) -> Self {
        Self::seal_at(key, &mut value, 0);
        Self(Bytes::from(value))
    }

    /// Seals what begins at a place of `out`, and is all that follows.
    pub(super) fn seal_at(key: &Key, out: &mut Vec<u8>, start: usize) {
        if out.len() > start {
            let sum = sum(key, &out[start..]);
            out.extend_from_slice(&sum);
        }
    }

    /// A value that was sealed, or a damaged one, to see what of it is whole.
    pub(super) fn unchecked(value: Bytes) -> Self {
        Self(value)
    }

    /// An empty value.
    pub(super) fn empty() -> Self {
        Self(Bytes::new())
    }

    /// The value with its checksum, as it goes into the store.
    pub(super) fn sealed(&self) -> &[u8] {
        &self.0
    }

    /// The value in memory of its own.
    pub(super) fn alone(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Whether it is remembered where it was written: a part of a body is written once, and not again and again.
    pub(super) fn is_long(&self) -> bool {
        self.0.len() >= MAX_INLINE
    }

    /// How many bytes it takes.
    pub(super) fn sealed_len(&self) -> usize {
        self.0.len()
    }
}

impl Deref for Stored {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[..self.0.len().saturating_sub(SUM)]
    }
}

/// Whether what the store has under a key is not damaged.
pub(super) fn is_whole(key: &Key, sealed: &[u8]) -> bool {
    let parts = sealed.split_last_chunk::<SUM>();
    parts.is_some_and(|(value, found)| sum(key, value) == *found)
}

/// XXH64, which tells a damaged value from a whole one in a fraction of the time of a hash that nobody can forge. Who can write to
/// the store forges nothing by it: readers verify all that they get. Of the key as well: a value that stands under another one is
/// none.
#[inline(never)]
fn sum(key: &Key, value: &[u8]) -> [u8; SUM] {
    XxHash64::oneshot(XxHash64::oneshot(0, key), value).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::XxHash64;

    /// As the author's own program of the checksum has them: what is stored must be read by later versions.
    #[test]
    fn sums_are_those_of_xxh64() {
        let spammish = b"Nobody inspects the spammish repetition";
        assert_eq!(XxHash64::oneshot(0, b""), 0xef46_db37_51d8_e999);
        assert_eq!(XxHash64::oneshot(0, b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(XxHash64::oneshot(0, b"abc"), 0x44bc_2cf5_ad77_0999);
        assert_eq!(XxHash64::oneshot(0, spammish), 0xfbce_a83c_8a37_8bf1);
    }
}
