//! A file that is being written.

use std::fs::{self, File};
use std::io::{self, ErrorKind, IoSlice, Write as _};
use std::path::PathBuf;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::super::StoreError;
use super::super::file::sync_folder_of;
use super::{Listed, Place};

/// Of each so many rows one has a mark: where it begins, as a u64 behind all rows. A few of them tell how much of a file is garbage.
pub(super) const MARKED: u32 = 16;
/// Rows that go to the file at once, and bytes: far more than what a call costs, and what a processor has in its cache still when they
/// are written after their sums.
const ROWS_AT_ONCE: usize = 512;
const BYTES_AT_ONCE: usize = 256 << 10;

/// A file of long values until it is whole.
///
/// Nothing is created before there is something to write.
pub(crate) struct Draft {
    path: PathBuf,
    /// Until it is whole, from the first row on.
    file: Option<File>,
    listed: Listed,
    sums: Box<Xxh3Default>,
    marks: Vec<u8>,
}

impl Draft {
    pub(super) fn new(path: PathBuf, number: u64) -> Self {
        Self {
            path,
            file: None,
            listed: Listed {
                number,
                len: 0,
                rows: 0,
                sum: 0,
            },
            sums: Box::default(),
            marks: Vec::new(),
        }
    }

    /// Writes rows from where they are, without copying them together; `note` is told where each is, in their order.
    ///
    /// # Errors
    /// [`StoreError::Io`] with what the system says.
    pub(crate) fn append<'a>(
        &mut self,
        rows: impl Iterator<Item = &'a [u8]>,
        mut note: impl FnMut(Place),
    ) -> Result<(), StoreError> {
        let (mut waiting, mut bytes) = (Vec::with_capacity(ROWS_AT_ONCE), 0);
        for row in rows {
            note(self.place_next(row));
            waiting.push(IoSlice::new(row));
            bytes += row.len();
            if waiting.len() == ROWS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                self.write(&mut waiting)?;
                waiting.clear();
                bytes = 0;
            }
        }
        self.write(&mut waiting)
    }

    fn place_next(&mut self, row: &[u8]) -> Place {
        let place = Place {
            file: self.listed.number,
            at: self.listed.len,
            len: row.len() as u32,
            sum: xxh3_64(row),
        };
        if self.listed.rows.is_multiple_of(MARKED) {
            self.marks.extend_from_slice(&place.at.to_le_bytes());
        }
        self.sums.update(&place.sum.to_le_bytes());
        self.listed.rows += 1;
        self.listed.len += row.len() as u64;
        place
    }

    fn write(&mut self, rows: &mut [IoSlice<'_>]) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.file().and_then(|file| write_all(file, rows));
        written.map_err(|error| StoreError::io(&self.path, error))
    }

    fn file(&mut self) -> io::Result<&mut File> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(File::create(&self.path)?)),
        }
    }

    /// Puts the file on the disk, where it stays; nothing if it has no rows.
    ///
    /// # Errors
    /// [`StoreError::Io`] with what the system says.
    pub(crate) fn finish(mut self) -> Result<Option<Listed>, StoreError> {
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        let ended = file
            .write_all(&self.marks)
            .and_then(|()| file.sync_data())
            .and_then(|()| sync_folder_of(&self.path));
        ended.map_err(|error| StoreError::io(&self.path, error))?;
        self.listed.sum = self.sums.digest();
        self.file = None;
        Ok(Some(self.listed))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.file.is_some() {
            // What stays is removed when the store is opened.
            _ = fs::remove_file(&self.path);
        }
    }
}

fn write_all(file: &mut File, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !parts.is_empty() {
        match file.write_vectored(parts) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut parts, written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
