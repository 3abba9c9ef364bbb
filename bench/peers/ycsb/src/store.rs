//! The store under a replica: the one that the host embeds.

use std::path::Path;

use bench_pair::Outcome;
use selfsame_store::{DiskStore, Ended, Storage as _, Value};
use selfsame_write_batch::WriteBatch;

/// Bytes of what was written lately in memory: what a million operations with short values write, as RocksDB's 64 MiB are of what
/// they write there, where a record is not sealed and has no name. With as many RocksDB is no faster, and slower with long values.
const WRITE_BUFFER: usize = 256 << 20;

/// A store on disk
#[derive(Debug)]
pub(crate) struct Store(DiskStore);

fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

impl Store {
    /// Creates it.
    ///
    /// # Errors
    /// What the store says, here and in all that follows.
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        DiskStore::open_with_write_buffer(path, WRITE_BUFFER)
            .map(Self)
            .map_err(said)
    }

    /// The values of keys.
    pub(crate) fn get(&self, keys: &[&[u8]]) -> Outcome<Vec<Value<'_>>> {
        self.0.get_all(keys).map_err(said)
    }

    /// The first `limit` keys from `start` to before `end`.
    pub(crate) fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Outcome<Vec<Vec<u8>>> {
        self.0.keys(start, end, limit).map_err(said)
    }

    /// Writes all changes or none.
    pub(crate) fn commit(&mut self, batch: &WriteBatch) -> Outcome<()> {
        self.0.commit(batch, false).map_err(said)
    }

    /// Begins to put on the disk what was written; false if it is there.
    pub(crate) fn begin_sync(&mut self, ended: Ended) -> Outcome<bool> {
        self.0.begin_sync(ended).map_err(said)
    }

    /// Waits for what was begun.
    pub(crate) fn end_sync(&mut self) -> Outcome<()> {
        self.0.end_sync().map_err(said)
    }
}
