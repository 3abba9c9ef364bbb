//! A file that is being written.

use std::fs;
use std::io;
use std::path::PathBuf;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::super::StoreError;
use super::super::appender::Appender;
use super::super::file::sync_folder_of;
use super::{Listed, Place};

/// Of each so many rows one has a mark: where it begins, as a u64 behind all rows. A few of them tell how much of a file is garbage.
pub(super) const MARKED: u32 = 16;

/// A file of long values until it is whole.
///
/// Nothing is created before there is something to write.
pub(crate) struct Draft {
    path: PathBuf,
    /// Until it is whole, from the first row on.
    file: Option<Appender>,
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

    /// Writes a row; where it is.
    ///
    /// # Errors
    /// [`StoreError::Io`] with what the system says.
    pub(crate) fn append(&mut self, row: &[u8]) -> Result<Place, StoreError> {
        let place = self.place_next(row);
        let written = self.file().and_then(|file| file.append(row));
        written.map_err(|error| StoreError::io(&self.path, error))?;
        Ok(place)
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

    fn file(&mut self) -> io::Result<&mut Appender> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(Appender::create(&self.path)?)),
        }
    }

    /// Puts the file on the disk, where it stays; nothing if it has no rows.
    ///
    /// # Errors
    /// [`StoreError::Io`] with what the system says.
    pub(crate) fn finish(mut self) -> Result<Option<Listed>, StoreError> {
        let Some(mut file) = self.file.take() else {
            return Ok(None);
        };
        let ended = file
            .append(&self.marks)
            .and_then(|()| file.finish())
            .and_then(|()| sync_folder_of(&self.path));
        if let Err(error) = ended {
            self.remove();
            return Err(StoreError::io(&self.path, error));
        }
        self.listed.sum = self.sums.digest();
        Ok(Some(self.listed))
    }

    fn remove(&self) {
        // What stays is removed when the store is opened.
        _ = fs::remove_file(&self.path);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.file.is_some() {
            self.remove();
        }
    }
}
