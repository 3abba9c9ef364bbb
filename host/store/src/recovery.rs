//! What journals hold that the tree does not.

use std::path::Path;

use bytes::Bytes;
use selfsame_write_batch::WriteBatch;

use super::StoreError;
use super::frame::{self, Frame};
use super::table::Table;

/// Rows that are to go into the tree
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) table: Table,
    /// The number of the last frame that is or was in a journal.
    pub(crate) last: u64,
}

/// Reads the frames that follow the one that the tree has last. One that was being written when all ended is left out: it was
/// not acknowledged.
///
/// # Errors
/// [`StoreError::Corrupt`] when one is missing that was on the disk, as a later one tells.
pub(crate) fn recover(journals: &[(&Path, Bytes)], salt: u64, applied: u64) -> Result<Recovered, StoreError> {
    let mut frames: Vec<(Frame, usize)> = Vec::new();
    for (journal, (_, bytes)) in journals.iter().enumerate() {
        let found = frame::find(bytes, salt).into_iter();
        frames.extend(found.map(|frame| (frame, journal)));
    }
    // Of those with the same number the ones that only vouch come first.
    frames.sort_by_key(|(frame, _)| (frame.number, frame.rows.len()));
    let mut table = Table::with_room(0);
    let (mut last, mut at) = (applied, 0);
    for (frame, journal) in frames.iter().filter(|(frame, _)| frame.number > applied) {
        let (path, bytes) = &journals[*journal];
        if frame.number > last + 1 {
            let why = format!("frame {} in it, or in the other journal, is damaged", last + 1);
            return Err(StoreError::corrupt(journals[at].0, why));
        }
        if frame.rows.is_empty() {
            continue;
        }
        let Some(batch) = WriteBatch::read(bytes.slice(frame.rows.clone())) else {
            return Err(StoreError::corrupt(path, "another program wrote it"));
        };
        table.append(&batch);
        (last, at) = (frame.number, *journal);
    }
    Ok(Recovered { table, last })
}
