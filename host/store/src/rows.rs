//! Changes as bytes: `key length u32 | value length u32 | key | value`, where a removed key has the length [`REMOVED`] and no value.

use selfsame_codec::Operation;

/// In place of a value's length: the key was removed.
const REMOVED: u32 = u32::MAX;
/// Bytes of the two lengths.
pub(crate) const LENGTHS: usize = 8;
/// Most bytes of the keys and values of one commit.
const MAX_COMMIT: usize = 1 << 30;
/// Most bytes of a key: the length of one in the tree, where it has one byte more, is a u16.
const MAX_KEY: usize = u16::MAX as usize - 1;

/// Values of so many bytes and more are long: they lie beside the runs, which name their places. Only those are merged, as most values
/// stay as long as the store.
const LONG_VALUE: usize = 512;

/// One change
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) key: &'a [u8],
    /// None if it was removed.
    pub(crate) value: Option<&'a [u8]>,
    /// All of the row.
    pub(crate) bytes: &'a [u8],
    /// Where the next row begins.
    pub(crate) end: usize,
}

impl Row<'_> {
    /// Whether its value is long.
    pub(crate) fn is_long(&self) -> bool {
        self.value.is_some_and(|value| value.len() >= LONG_VALUE)
    }
}

fn parts<'a>(change: &Operation<'a>) -> (&'a [u8], Option<&'a [u8]>) {
    match *change {
        Operation::Put { key, value } => (key, Some(value)),
        Operation::Delete { key } => (key, None),
    }
}

/// Bytes of changes as rows.
pub(crate) fn len(changes: &[Operation<'_>]) -> usize {
    let bytes = |change| {
        let (key, value) = parts(change);
        LENGTHS + key.len() + value.map_or(0, <[u8]>::len)
    };
    changes.iter().map(bytes).sum()
}

/// Whether the keys are short enough, and changes few enough for one commit.
pub(crate) fn check(changes: &[Operation<'_>]) -> Result<(), &'static str> {
    if changes.iter().any(|change| parts(change).0.len() > MAX_KEY) {
        return Err("a key has more than 65,534 bytes");
    }
    match len(changes) {
        0..=MAX_COMMIT => Ok(()),
        _ => Err("a commit has more than 1 GiB"),
    }
}

/// Appends a change.
pub(crate) fn push(out: &mut Vec<u8>, change: &Operation<'_>) {
    let (key, value) = parts(change);
    let value_len = value.map_or(REMOVED, |value| value.len() as u32);
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&value_len.to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value.unwrap_or_default());
}

/// The row that begins at a place; nothing if there is no whole one.
pub(crate) fn row_at(bytes: &[u8], at: usize) -> Option<Row<'_>> {
    let begun = bytes.get(at..)?;
    let (key_len, rest) = begun.split_first_chunk()?;
    let (value_len, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
    let value = match u32::from_le_bytes(*value_len) {
        REMOVED => None,
        len => Some(rest.get(..len as usize)?),
    };
    let len = LENGTHS + key.len() + value.map_or(0, <[u8]>::len);
    Some(Row {
        key,
        value,
        bytes: &begun[..len],
        end: at + len,
    })
}

/// Bytes of a row behind its lengths.
pub(crate) fn len_behind(lengths: [u8; LENGTHS]) -> u64 {
    let both = u64::from_le_bytes(lengths);
    let (key_len, value_len) = (both as u32, (both >> 32) as u32);
    u64::from(key_len)
        + if value_len == REMOVED {
            0
        } else {
            u64::from(value_len)
        }
}
