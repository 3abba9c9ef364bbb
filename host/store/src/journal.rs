//! The file of a journal: written and on the disk before a commit is acknowledged, and written again from its beginning once the
//! rows in it are in the tree.
//!
//! It grows in steps, with zeros: to write where a file has bytes already takes the disk a fraction of what a new length does.

use alloc::sync::Arc;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::StoreError;
use super::frame::{self, HEADER};

/// The first step, and the largest.
const STEPS: [usize; 2] = [64 << 10, 4 << 20];
/// Zeros that are written at once.
const ZEROS: [u8; 16 << 10] = [0; 16 << 10];

/// A journal
#[derive(Debug)]
pub(crate) struct Journal {
    file: Arc<File>,
    path: PathBuf,
    /// Bytes that the file has.
    len: usize,
    /// Bytes of it that are on the disk since it began anew.
    written: usize,
}

impl Journal {
    /// Creates one, empty.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be created, or one is there.
    pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
        let created = File::create_new(path);
        created.map(drop).map_err(|error| StoreError::io(path, error))
    }

    /// Opens one; its bytes.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read or is not there.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<u8>), StoreError> {
        let mut bytes = Vec::new();
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let read = opened.and_then(|mut file| {
            file.read_to_end(&mut bytes)?;
            Ok(file)
        });
        let file = read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::corrupt(path, "it is missing"),
            _ => StoreError::io(path, error),
        })?;
        let journal = Self {
            file: Arc::new(file),
            path: path.into(),
            len: bytes.len(),
            written: 0,
        };
        Ok((journal, bytes))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something is on the disk since it began anew.
    pub(crate) fn is_used(&self) -> bool {
        self.written > 0
    }

    /// Writes the bytes that follow those that are written.
    ///
    /// # Errors
    /// [`StoreError`]; the next try writes them again.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.grow(bytes.len() + HEADER).and_then(|()| {
            let mut file = &*self.file;
            file.seek(SeekFrom::Start(self.written as u64))?;
            file.write_all(&bytes[self.written..])
        });
        written.map_err(|error| StoreError::io(&self.path, error))
    }

    /// The file, to be waited for.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Takes note that so many bytes are on the disk.
    pub(crate) fn synced(&mut self, written: usize) {
        self.written = written;
    }

    /// Vouches for the frames before this number, so that damage to the last of them is seen even if no other follows. The next
    /// frame takes its place.
    pub(crate) fn vouch(&mut self, salt: u64, number: u64) {
        let mut frame = [0; HEADER];
        frame::seal(&mut frame, salt, number);
        // What it is for is on the disk already.
        _ = (&*self.file).write_all(&frame);
    }

    fn grow(&mut self, needed: usize) -> io::Result<()> {
        if needed <= self.len {
            return Ok(());
        }
        let [least, most] = STEPS;
        let goal = needed + needed.clamp(least, most);
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(self.len as u64))?;
        while self.len < goal {
            let zeros = &ZEROS[..ZEROS.len().min(goal - self.len)];
            file.write_all(zeros)?;
            self.len += zeros.len();
        }
        Ok(())
    }

    /// Begins anew: its rows are in the tree.
    pub(crate) fn restart(&mut self) {
        self.written = 0;
    }

    /// Empties the file.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn clear(&mut self) -> Result<(), StoreError> {
        self.restart();
        self.len = 0;
        self.file
            .set_len(0)
            .map_err(|error| StoreError::io(&self.path, error))
    }
}
