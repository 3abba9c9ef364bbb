//! The tree that holds the bulk: sorted runs that are merged, a folder of lsm-tree.

use alloc::sync::Arc;
use core::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use lsm_tree::compaction::Leveled;
use lsm_tree::config::PinningPolicy;
use lsm_tree::{
    AbstractTree as _, AnyTree, Cache, Config, DescriptorTable, Guard as _, KvSeparationOptions, SeqNo,
    SequenceNumberCounter,
};

use super::StoreError;
use super::merge::Found;
use super::runs;
use super::table::Table;

/// Key of what is the host's own.
const HOST: &[u8] = &[0];
/// What keys of the core's entries begin with.
const CORE: u8 = 1;
/// Memory for blocks.
const CACHE: u64 = 16 * 1024 * 1024;
/// Files of runs that are open at a time.
const FILES: usize = 64;
/// So many runs are merged into the level below. Keys are hashes, so a merge writes nearly all of that level again: with lsm-tree's 4,
/// half a GiB takes 1.6 s to write, with these 1.3 s. In return a read looks into more filters: one of what is there takes 8 us with
/// either, of what is not 3.2 in place of 2.3, when there are the most runs (`examples/cold.rs`).
const RUNS: u8 = 8;
/// Values of so many bytes and more lie beside the runs, which name their places: only those are merged, as most values stay as long
/// as the store. Half a GiB takes 1.3 s to write in place of 1.7 s; a read of such a value looks into one file more, and takes 8 us in
/// place of 6.7.
const LONG_VALUE: u32 = 512;
/// Merges before a table is taken, at most: one moves runs down a level, and there are seven.
const MERGES: usize = 16;
/// What was written last.
const LATEST: SeqNo = SeqNo::MAX;

/// An open tree
pub(crate) struct Tree {
    runs: AnyTree,
    /// The number of the next run.
    next: SequenceNumberCounter,
    path: PathBuf,
    salt: u64,
    /// What was found when a block was damaged.
    damage: OnceLock<StoreError>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// What a tree says of its journals
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journaled {
    /// What its frames begin with.
    pub(crate) salt: u64,
    /// The number of the last frame whose rows are here.
    pub(crate) applied: u64,
}

impl Tree {
    /// Creates an empty one, whose journals' salt is drawn.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be written, or there is no randomness.
    pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
        let tree = Self::open_as(path, draw_salt(path)?)?;
        tree.take(&Table::default(), 0)
    }

    /// Opens the tree in `path`, each file of it checked; what its journals are.
    ///
    /// # Errors
    /// [`StoreError`]; the files are left as they are.
    pub(crate) fn open(path: &Path) -> Result<(Self, Journaled), StoreError> {
        runs::check(path)?;
        let mut tree = Self::open_as(path, 0)?;
        let newest = tree.runs.get_highest_persisted_seqno();
        tree.next.set(newest.map_or(0, |number| number + 1));
        let host = tree.runs.get(HOST, LATEST).map_err(|error| tree.failed(error))?;
        let Some((salt, applied)) = host.as_deref().and_then(parts_of) else {
            return Err(StoreError::corrupt(path, "it does not say what its journals are"));
        };
        tree.salt = salt;
        Ok((tree, Journaled { salt, applied }))
    }

    fn open_as(path: &Path, salt: u64) -> Result<Self, StoreError> {
        let next = SequenceNumberCounter::default();
        // Parts of indexes and filters come into memory when they are needed, like all other blocks.
        let opened = Config::new(path, next.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::new(Cache::with_capacity_bytes(CACHE)))
            .use_descriptor_table(Some(Arc::new(DescriptorTable::new(FILES))))
            .index_block_partitioning_policy(PinningPolicy::all(true))
            .filter_block_partitioning_policy(PinningPolicy::all(true))
            .with_kv_separation(Some(
                KvSeparationOptions::default().separation_threshold(LONG_VALUE),
            ))
            .open();
        Ok(Self {
            runs: opened.map_err(|error| described(path, error))?,
            next,
            path: path.into(),
            salt,
            damage: OnceLock::new(),
        })
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`StoreError`], here and in all that follows.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.runs.get(stored(key), LATEST);
        let value = value.map_err(|error| self.failed(error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// The entries with `start <= key < end`, in the order of their keys.
    pub(crate) fn range(&self, start: &[u8], end: &[u8]) -> impl Iterator<Item = Found> {
        let entries = self.runs.range(stored(start)..stored(end), LATEST, None);
        entries.map(|entry| {
            let (key, value) = entry.into_inner().map_err(|error| self.failed(error))?;
            let key = key.get(1..).unwrap_or_default();
            Ok((key.to_vec(), Some(value.to_vec())))
        })
    }

    /// The keys of those entries, with nothing in place of their values.
    pub(crate) fn keys(&self, start: &[u8], end: &[u8]) -> impl Iterator<Item = Found> {
        let entries = self.runs.range(stored(start)..stored(end), LATEST, None);
        entries.map(|entry| {
            let key = entry.key().map_err(|error| self.failed(error))?;
            Ok((key.get(1..).unwrap_or_default().to_vec(), Some(Vec::new())))
        })
    }

    /// Takes the rows of a table and the number of the last frame in it, all or nothing, and waits for the disk.
    pub(crate) fn take(&self, table: &Table, applied: u64) -> Result<(), StoreError> {
        // First what may fail again and again: the table would come as one run more each time.
        self.merge()?;
        self.write(table, applied).map_err(|error| self.failed(error))
    }

    fn write(&self, table: &Table, applied: u64) -> lsm_tree::Result<()> {
        let mut run = self.runs.ingestion()?;
        run.write(HOST, [self.salt.to_le_bytes(), applied.to_le_bytes()].concat())?;
        let mut key = vec![CORE];
        for row in table.rows() {
            key.truncate(1);
            key.extend_from_slice(row.key);
            match row.value {
                Some(value) => run.write(&key[..], value)?,
                None => run.write_tombstone(&key[..])?,
            }
        }
        run.finish()
    }

    /// Merges runs until they are few.
    fn merge(&self) -> Result<(), StoreError> {
        let strategy = Arc::new(Leveled::default().with_l0_threshold(RUNS));
        for _ in 0..MERGES {
            let before = self.runs.current_version().id();
            let merged = self.runs.compact(strategy.clone(), self.next.get());
            merged.map_err(|error| self.failed(error))?;
            if self.runs.current_version().id() == before {
                break;
            }
        }
        Ok(())
    }

    /// What is wrong, with the file that is damaged if one is.
    fn failed(&self, error: lsm_tree::Error) -> StoreError {
        let error = described(&self.path, error);
        if !matches!(error, StoreError::Corrupt { .. }) {
            return error;
        }
        let found = || runs::check(&self.path).err().unwrap_or(error);
        self.damage.get_or_init(found).clone()
    }
}

fn draw_salt(path: &Path) -> Result<u64, StoreError> {
    let salt = getrandom::u64().map_err(|error| StoreError::io(path, error))?;
    // Zeros are what a journal has where nothing was written yet.
    Ok(salt | 1)
}

/// Salt and number of the last frame.
fn parts_of(host: &[u8]) -> Option<(u64, u64)> {
    match host.as_chunks::<8>() {
        ([salt, applied], []) => Some((u64::from_le_bytes(*salt), u64::from_le_bytes(*applied))),
        _ => None,
    }
}

/// A key of the core as it is in the runs.
fn stored(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(1 + key.len());
    stored.push(CORE);
    stored.extend_from_slice(key);
    stored
}

fn described(path: &Path, error: lsm_tree::Error) -> StoreError {
    match error {
        lsm_tree::Error::Io(error) => match error.kind() {
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::NotFound => {
                StoreError::corrupt(path, error)
            }
            _ => StoreError::io(path, error),
        },
        error => StoreError::corrupt(path, error),
    }
}
