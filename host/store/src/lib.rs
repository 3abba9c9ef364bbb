//! Where a node or a replica keeps its state: one contract, a durable store on disk and one in memory.
//!
//! The core chooses keys and values; what is the host's own, as the schema number, lives outside its key space.

extern crate alloc;

use alloc::borrow::Cow;
use core::fmt;
use std::path::{Path, PathBuf};

use selfsame_write_batch::WriteBatch;

mod aligned;
mod appender;

#[cfg(feature = "contract")]
pub mod contract;

mod direct;
mod disk;
pub use disk::{DiskStore, WRITE_BUFFER};

mod drain;
mod fetch;

mod file;
pub use file::sync_folder_of;

mod folder;
mod frame;
mod index;
mod journal;

mod memory;
pub use memory::MemoryStore;

mod merge;
mod recovery;
mod rows;
mod runs;

mod syncer;
pub use syncer::Ended;

mod table;
mod tree;
mod values;

#[cfg(test)]
mod tests;

/// Number of the layout that this version writes.
pub const SCHEMA: u64 = 5;

/// Key and value
pub type Entry = (Vec<u8>, Vec<u8>);

/// A value where it lies, or in memory of its own; none where there is none
pub type Value<'a> = Option<Cow<'a, [u8]>>;

/// What a store must do; one thread at a time uses it
///
/// Calls may block: replicas and clients of capsules share at least eight threads, so one that blocks holds up others only while seven
/// more do.
///
/// A replica or a client of capsules can keep its state in any engine that implements this. Keys have at most 256 bytes, values
/// 60 KiB, and a commit 500 operations and 512 KiB.
///
/// With the feature `contract` the module of that name has the tests that [`MemoryStore`] and [`DiskStore`] pass: `contract::check`
/// takes any store, `contract::check_persistent` one that keeps its state in a folder. Turn the feature on among the development
/// dependencies, so that no test code is in the program.
pub trait Storage: Send + 'static {
    /// The value of a key.
    ///
    /// # Errors
    /// [`StoreError`] when the store failed.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The values of keys, in their order. Stores that look up many keys in less time than each of them do.
    ///
    /// # Errors
    /// [`StoreError`] when the store failed.
    fn get_all<'a>(&'a self, keys: &[&[u8]]) -> Result<Vec<Value<'a>>, StoreError> {
        keys.iter()
            .map(|key| Ok(self.get(key)?.map(Cow::Owned)))
            .collect()
    }

    /// At most `limit` entries with `start <= key < end`, in the order of their keys.
    ///
    /// # Errors
    /// [`StoreError`] when the store failed.
    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Entry>, StoreError>;

    /// The keys of what [`Self::scan`] gives. Stores that can read them without the values do.
    ///
    /// # Errors
    /// [`StoreError`] when the store failed.
    fn keys(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let entries = self.scan(start, end, limit)?;
        Ok(entries.into_iter().map(|(key, _)| key).collect())
    }

    /// Applies all changes in their order, or none. When `durable`, they and everything committed before them
    /// survive a power loss once this returns; otherwise readers see them and they may be lost in a crash.
    ///
    /// # Errors
    /// [`StoreError`] when the store failed; nothing was applied then.
    fn commit(&mut self, batch: &WriteBatch, durable: bool) -> Result<(), StoreError>;

    /// Begins to make durable all that was committed, while more is; false if it is already. Else `ended` is called in another
    /// thread, once, when [`Self::end_sync`] need not wait. One that was begun before is waited for first.
    ///
    /// # Errors
    /// [`StoreError`] when the store failed; `ended` is not called then, and what was committed since the last one may be gone.
    fn begin_sync(&mut self, ended: Ended) -> Result<bool, StoreError> {
        drop(ended);
        self.commit(&WriteBatch::default(), true)?;
        Ok(false)
    }

    /// Waits for what [`Self::begin_sync`] has begun, if it has: what was committed before that is durable then.
    ///
    /// # Errors
    /// [`StoreError`] when the store failed: then nobody knows what is durable, and nothing can be committed any more.
    fn end_sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Why a store cannot be used
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// A file holds something that no version of this program wrote, or was damaged.
    Corrupt {
        /// The file, or the folder of the store.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The store was written by an earlier version that this one does not read.
    TooOld {
        /// The file or folder.
        path: PathBuf,
    },
    /// The store was written by a newer version.
    TooNew {
        /// The folder.
        path: PathBuf,
        /// Its schema number.
        found: u64,
    },
    /// Another process has the store open.
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Reading or writing failed.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
}

impl StoreError {
    /// What is wrong with a file.
    #[must_use]
    pub fn corrupt(path: &Path, why: impl fmt::Display) -> Self {
        Self::Corrupt {
            path: path.into(),
            why: why.to_string(),
        }
    }

    /// What the system says of a file.
    #[must_use]
    pub fn io(path: &Path, why: impl fmt::Display) -> Self {
        Self::Io {
            path: path.into(),
            why: why.to_string(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { path, why } => write!(
                f,
                "the store {} is corrupt ({why}): restore a copy of the store's whole folder, or move it away and start again, \
                 then the node keeps its identity and fetches its state anew",
                path.display()
            ),
            Self::TooOld { path } => write!(
                f,
                "the store {} was written by an earlier version: run that one, or move it away, with its journals, and start \
                 again, then the node keeps its identity and fetches its state anew",
                path.display()
            ),
            Self::TooNew { path, found } => write!(
                f,
                "the store {} has schema {found} and this version knows {SCHEMA}: run the newer version that wrote it",
                path.display()
            ),
            Self::InUse { path } => write!(
                f,
                "the store {} is in use by another process: stop that node, or give this one a folder of its own",
                path.display()
            ),
            Self::Io { path, why } => write!(f, "the store {} cannot be used: {why}", path.display()),
        }
    }
}

impl core::error::Error for StoreError {}
