//! Changes as bytes: `key length u32 | value length u32 | key | value`, where a removed key has the length [`REMOVED`] and no value.

use alloc::vec::Vec;

use selfsame_codec::Operation;

/// In place of a value's length: the key was removed.
const REMOVED: u32 = u32::MAX;
/// Bytes of the two lengths.
pub const LENGTHS: usize = 8;

/// One change
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Whose value it is.
    pub key: &'a [u8],
    /// None if it was removed.
    pub value: Option<&'a [u8]>,
    /// All of the row.
    pub bytes: &'a [u8],
    /// Where the next row begins.
    pub end: usize,
}

impl<'a> Row<'a> {
    /// The row that begins at a place; nothing if there is no whole one.
    #[must_use]
    pub fn at(bytes: &'a [u8], at: usize) -> Option<Self> {
        let begun = bytes.get(at..)?;
        let (key_len, rest) = begun.split_first_chunk()?;
        let (value_len, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
        let value = match u32::from_le_bytes(*value_len) {
            REMOVED => None,
            len => Some(rest.get(..len as usize)?),
        };
        let len = LENGTHS + key.len() + value.map_or(0, <[u8]>::len);
        Some(Self {
            key,
            value,
            bytes: &begun[..len],
            end: at + len,
        })
    }

    /// What is changed.
    #[must_use]
    pub fn operation(&self) -> Operation<'a> {
        match self.value {
            Some(value) => Operation::Put { key: self.key, value },
            None => Operation::Delete { key: self.key },
        }
    }
}

/// Bytes of a row behind its lengths.
#[must_use]
pub fn len_behind(lengths: [u8; LENGTHS]) -> u64 {
    let both = u64::from_le_bytes(lengths);
    let (key_len, value_len) = (both as u32, (both >> 32) as u32);
    u64::from(key_len)
        + if value_len == REMOVED {
            0
        } else {
            u64::from(value_len)
        }
}

/// Bytes of a change as a row.
pub(crate) fn len(change: &Operation<'_>) -> usize {
    match change {
        Operation::Put { key, value } => LENGTHS + key.len() + value.len(),
        Operation::Delete { key } => LENGTHS + key.len(),
    }
}

/// Appends a key whose value `write` appends.
pub(crate) fn put(out: &mut Vec<u8>, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    begin(out, key, 0);
    let start = out.len();
    write(out);
    let value_len = ((out.len() - start) as u32).to_le_bytes();
    out[at + LENGTHS / 2..at + LENGTHS].copy_from_slice(&value_len);
}

/// Appends a key that is removed.
pub(crate) fn delete(out: &mut Vec<u8>, key: &[u8]) {
    begin(out, key, REMOVED);
}

fn begin(out: &mut Vec<u8>, key: &[u8], value_len: u32) {
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&value_len.to_le_bytes());
    out.extend_from_slice(key);
}
