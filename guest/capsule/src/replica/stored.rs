//! Values as they are stored: `value | checksum of key and value u64`, so that one that was damaged is not taken for whole.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Deref;

use super::layout::Key;
use super::sum::xxh64;

/// Bytes of a checksum.
pub(super) const SUM: usize = 8;

/// A whole value; of a key that says all by being there it is empty, and then has no checksum
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored(Rc<[u8]>);

impl Stored {
    /// Seals a value for its key.
    #[inline(never)]
    pub(super) fn seal(key: &Key, mut value: Vec<u8>) -> Self {
        if !value.is_empty() {
            value.extend_from_slice(&sum(key, &value));
        }
        Self(value.into())
    }

    /// What the store has under a key; nothing if it is damaged.
    pub(super) fn open(key: &Key, value: Rc<[u8]>) -> Option<Self> {
        if key.says_all() {
            return Some(Self::empty());
        }
        let (value_of, found) = value.split_last_chunk::<SUM>()?;
        (sum(key, value_of) == *found).then_some(Self(value))
    }

    /// A damaged value, to see what of it is whole.
    pub(super) fn unchecked(value: Rc<[u8]>) -> Self {
        Self(value)
    }

    /// An empty value.
    pub(super) fn empty() -> Self {
        Self(Rc::from([]))
    }

    /// The value with its checksum, as it goes into the store.
    pub(super) fn into_sealed(self) -> Rc<[u8]> {
        self.0
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

/// Of the key as well: a value that stands under another one is none.
#[inline(never)]
fn sum(key: &Key, value: &[u8]) -> [u8; SUM] {
    xxh64(xxh64(0, key), value).to_le_bytes()
}
