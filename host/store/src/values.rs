//! Long values, beside the tree that says where each is: files of rows in the order in which they came, written once and read at their
//! places, until most of a file's rows are not what their keys have any more.
//!
//! Bytes of the tree's own about them are little-endian: of a [`Place`] `file u64 | at u64 | length u32 | sum u64`, of a [`Listed`]
//! file `number u64 | bytes of its rows u64 | rows u32 | sum u64`. Sums are XXH3 of 64 bits.

use alloc::sync::Arc;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use selfsame_write_batch::Row;
use xxhash_rust::xxh3::xxh3_64;

use super::StoreError;
use super::file::failed;

mod draft;
pub(crate) use draft::Draft;

mod garbage;
pub(crate) use garbage::{Kept, keep};

mod whole;

/// Files that are open to be read at a time.
const OPEN: usize = 64;

/// Where the row of a long value is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    file: u64,
    at: u64,
    len: u32,
    /// Of the row's bytes.
    sum: u64,
}

impl Place {
    pub(crate) fn to_bytes(self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..8].copy_from_slice(&self.file.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    /// Nothing if these are not the bytes of one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (file, rest) = bytes.split_first_chunk()?;
        let (at, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        Some(Self {
            file: u64::from_le_bytes(*file),
            at: u64::from_le_bytes(*at),
            len: u32::from_le_bytes(*len),
            sum: u64::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

/// A file that the tree names
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    number: u64,
    /// Bytes of its rows, behind which are the [marks](Draft).
    len: u64,
    rows: u32,
    /// Of its rows' sums, one after the other.
    sum: u64,
}

impl Listed {
    /// Bytes of one.
    pub(crate) const BYTES: usize = 28;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.rows.to_le_bytes());
        bytes[20..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        // The lengths of the parts are the same.
        let Place {
            file: number,
            at: len,
            len: rows,
            sum,
        } = Place::from_bytes(bytes)?;
        Some(Self {
            number,
            len,
            rows,
            sum,
        })
    }
}

/// What is known of the files
#[derive(Debug, Default)]
struct Files {
    /// Those that the tree names, by their numbers.
    listed: Vec<Listed>,
    /// Those that it named before the last run.
    retired: Vec<u64>,
    /// What comes next has this number.
    next: u64,
    /// Which one garbage was looked for in last.
    looked: u64,
}

/// The folder of the files
#[derive(Debug)]
pub(crate) struct Values {
    folder: PathBuf,
    files: Mutex<Files>,
    open: Mutex<HashMap<u64, Arc<File>>>,
}

impl Values {
    /// Creates the folder where there is none.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be created.
    pub(crate) fn create(folder: &Path) -> Result<(), StoreError> {
        fs::create_dir_all(folder).map_err(|error| StoreError::io(folder, error))
    }

    /// Opens the folder; what is in it is not looked at.
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self {
            folder,
            files: Mutex::default(),
            open: Mutex::default(),
        }
    }

    /// Checks each file that the tree names, and removes all others: they are left from before.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with the file that is damaged or missing.
    pub(crate) fn check(&self, listed: Vec<Listed>) -> Result<(), StoreError> {
        for file in &listed {
            let path = self.path_of(file.number);
            whole::check(&path, file).map_err(|error| failed(&path, &error))?;
        }
        // Not everything that copies folders copies empty ones.
        Self::create(&self.folder)?;
        let left = self
            .not_in(&listed)
            .map_err(|error| failed(&self.folder, &error))?;
        for path in left {
            fs::remove_file(&path).map_err(|error| StoreError::io(&path, error))?;
        }
        let mut files = self.files();
        files.next = listed.iter().map(|file| file.number + 1).max().unwrap_or(0);
        files.listed = listed;
        Ok(())
    }

    fn not_in(&self, listed: &[Listed]) -> io::Result<Vec<PathBuf>> {
        let is_listed = |path: &PathBuf| listed.iter().any(|file| self.path_of(file.number) == *path);
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            left.push(entry?.path());
        }
        left.retain(|path| !is_listed(path));
        Ok(left)
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.folder.join(number.to_string())
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        // Each change of it is whole.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a file.
    pub(crate) fn draft(&self) -> Draft {
        let mut files = self.files();
        let number = files.next;
        files.next += 1;
        drop(files);
        Draft::new(self.path_of(number), number)
    }

    /// Takes a file that is whole. Whatever becomes of the run that is to name it, the next one does.
    pub(crate) fn add(&self, file: Listed) {
        self.files().listed.push(file);
    }

    /// What the tree names without files that are not needed any more.
    pub(crate) fn listed_without(&self, kept: &Kept) -> Vec<Listed> {
        let mut listed = self.files().listed.clone();
        listed.retain(|file| !kept.replaces(file.number));
        listed
    }

    /// The tree names those files no more.
    pub(crate) fn retire(&self, kept: &Kept) {
        let mut files = self.files();
        let gone = files.listed.extract_if(.., |file| kept.replaces(file.number));
        let gone: Vec<u64> = gone.map(|file| file.number).collect();
        files.retired.extend(gone);
    }

    /// Removes the files that the tree does not name any more. Whoever has asked it for a place has read that by now.
    pub(crate) fn remove_retired(&self) {
        let retired = core::mem::take(&mut self.files().retired);
        for number in retired {
            self.open().remove(&number);
            // What stays is removed when the store is opened.
            _ = fs::remove_file(self.path_of(number));
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<File>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, number: u64) -> io::Result<Arc<File>> {
        let mut open = self.open();
        if let Some(file) = open.get(&number) {
            return Ok(Arc::clone(file));
        }
        if open.len() >= OPEN
            && let Some(any) = open.keys().next().copied()
        {
            open.remove(&any);
        }
        let file = Arc::new(File::open(self.path_of(number))?);
        open.insert(number, Arc::clone(&file));
        Ok(file)
    }

    /// Reads bytes of a file.
    fn read_at(&self, number: u64, bytes: &mut [u8], at: u64) -> Result<(), StoreError> {
        let read = self.file(number).and_then(|file| read_at(&file, bytes, at));
        read.map_err(|error| failed(&self.path_of(number), &error))
    }

    /// The value of a key whose row is in a place.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when something else is there.
    pub(crate) fn read(&self, place: Place, key: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut row = vec![0; place.len as usize];
        self.read_at(place.file, &mut row, place.at)?;
        let value = Row::at(&row, 0)
            .filter(|row| row.key == key && row.bytes.len() == place.len as usize)
            .and_then(|row| row.value);
        match value {
            Some(value) if xxh3_64(&row) == place.sum => {
                let start = row.len() - value.len();
                row.drain(..start);
                Ok(row)
            }
            _ => Err(StoreError::corrupt(
                &self.path_of(place.file),
                "the checksum of a value is another one",
            )),
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, bytes, at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[read..];
        at += read as u64;
    }
    Ok(())
}
