//! What a store takes of the rows of a batch.

use selfsame_write_batch::{Row, WriteBatch};

/// Most bytes of the rows of one commit.
const MAX_COMMIT: usize = 1 << 30;
/// Most bytes of a key: the length of one in the tree, where it has one byte more, is a u16.
const MAX_KEY: usize = u16::MAX as usize - 1;

/// Values of so many bytes and more are long: they lie beside the runs, which name their places. Only those are merged, as most values
/// stay as long as the store.
const LONG_VALUE: usize = 512;

/// Whether the value of a row is long.
pub(crate) fn is_long(row: &Row<'_>) -> bool {
    row.value.is_some_and(|value| value.len() >= LONG_VALUE)
}

/// Whether the keys are short enough, and changes few enough for one commit.
pub(crate) fn check(batch: &WriteBatch) -> Result<(), &'static str> {
    if batch.len() > MAX_COMMIT {
        return Err("a commit has more than 1 GiB");
    }
    if batch.rows().any(|row| row.key.len() > MAX_KEY) {
        return Err("a key has more than 65,534 bytes");
    }
    Ok(())
}
