use alloc::borrow::Cow;
use alloc::sync::Arc;
use std::path::Path;

use bytes::Bytes;
use selfsame_write_batch::{Row, WriteBatch};

use super::drain::{Drain, Full};
use super::folder::{self, Lock};
use super::journal::Journal;
use super::merge::{Found, over};
use super::recovery::{Recovered, recover};
use super::rows;
use super::syncer::{Ended, Syncer};
use super::table::Table;
use super::tree::{Journaled, Tree};
use super::{Entry, Storage, StoreError, Value};

/// Bytes of what was committed lately in memory, and so in a journal, until it goes into the tree; twice as much is there while
/// it does. As many as RocksDB has by default, and one run of the tree.
pub const WRITE_BUFFER: usize = 64 << 20;
/// Which part of the room a file of long values has at most that is small.
const SMALL_FILE: usize = 16;

/// A store in a folder that survives a crash at any moment
///
/// What is committed goes to a journal, and stays in memory until there is enough to be written at once as a sorted run, in a
/// thread of its own ([`lsm_tree`]). Every run and frame has a checksum that is checked when the store is opened, so that a
/// damaged one is refused instead of being trusted.
pub struct DiskStore {
    tree: Arc<Tree>,
    salt: u64,
    table: Table,
    journal: Journal,
    /// The number of the last frame that is on the disk.
    last: u64,
    /// The other journal, while it is not used.
    spare: Option<Journal>,
    drain: Option<Drain>,
    /// The number of the frame that is written in a thread of its own. The next one is written when it is on the disk: one that is
    /// there vouches for all before.
    syncing: Option<u64>,
    /// That thread, once there was something to write.
    syncer: Option<Syncer>,
    /// The table that was drained last, empty.
    empty: Option<Table>,
    room: usize,
    /// Why nothing can be written any more.
    failed: Option<StoreError>,
    /// Given up last.
    _lock: Lock,
}

impl core::fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DiskStore")
            .field("tree", &self.tree)
            .finish_non_exhaustive()
    }
}

impl DiskStore {
    /// Opens the store in the folder `path`, or creates it when there is none.
    ///
    /// # Errors
    /// [`StoreError`] says which file cannot be used, why, and what to do; the files are left as they are.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with_write_buffer(path, WRITE_BUFFER)
    }

    /// Opens it as [`Self::open`] does, with `room` bytes in memory of what was committed lately in place of [`WRITE_BUFFER`]: with
    /// more, a busy store takes less of the processor's time, and longer to open after a crash.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_with_write_buffer(path: &Path, room: usize) -> Result<Self, StoreError> {
        let lock = folder::open(path)?;
        let (runs, values) = (folder::runs_of(path), folder::values_of(path));
        let small = (room / SMALL_FILE) as u64;
        let (tree, Journaled { salt, applied }) = Tree::open(&runs, &values, small)?;
        let [first, second] = folder::journals_of(path);
        let ((mut journal, bytes), (mut spare, others)) = (Journal::open(&first)?, Journal::open(&second)?);
        let found = [
            (first.as_path(), Bytes::from(bytes)),
            (&second, Bytes::from(others)),
        ];
        let Recovered { table, last } = recover(&found, salt, applied)?;
        if last > applied {
            tree.take(&table, last)?;
            tree.remove_retired();
            journal.clear()?;
            spare.clear()?;
        }
        Ok(Self {
            tree: Arc::new(tree),
            salt,
            table: Table::with_room(room),
            journal,
            last,
            spare: Some(spare),
            drain: None,
            syncing: None,
            syncer: None,
            empty: None,
            room,
            failed: None,
            _lock: lock,
        })
    }

    /// Makes room for what is committed next: a full table goes into the tree, once the one before is there.
    fn make_room(&mut self) -> Result<(), StoreError> {
        if self.drain.as_ref().is_some_and(Drain::has_ended) {
            self.end_drain()?;
        }
        if !self.table.is_full() {
            return Ok(());
        }
        self.end_drain()?;
        self.end_sync()?;
        if self.journal.is_used() {
            self.sync()?;
        }
        if let Some(syncer) = &mut self.syncer {
            // When the journal begins anew, nothing of before may be written to it.
            syncer.rest();
        }
        let Some(next) = self.spare.take() else {
            return Ok(());
        };
        let empty = self.empty.take();
        let empty = empty.unwrap_or_else(|| Table::with_room(self.room));
        let full = Full {
            is_durable: self.journal.is_used(),
            table: core::mem::replace(&mut self.table, empty),
            journal: core::mem::replace(&mut self.journal, next),
            last: self.last,
        };
        self.drain = Some(Drain::begin(&self.tree, full));
        Ok(())
    }

    /// Waits for the table that is on its way into the tree, if there is one.
    fn end_drain(&mut self) -> Result<(), StoreError> {
        if let Some(drain) = &mut self.drain {
            drain.wait()?;
        }
        if let Some(drain) = self.drain.take() {
            self.tree.remove_retired();
            let (journal, table) = drain.into_parts();
            self.spare = Some(journal);
            self.empty = table.map(Table::emptied);
        }
        Ok(())
    }

    /// Waits until no file is being written: they stay as they are until something is committed or made durable.
    pub(crate) fn rest(&mut self) -> Result<(), StoreError> {
        if let Some(syncer) = &mut self.syncer {
            syncer.rest();
        }
        self.journal.rest();
        self.end_drain()?;
        if let Some(spare) = &mut self.spare {
            spare.rest();
        }
        Ok(())
    }

    /// Puts all that was committed on the disk.
    fn sync(&mut self) -> Result<(), StoreError> {
        self.begin(Box::new(|| {}))?;
        self.end_sync()
    }

    /// Begins to write all that was committed to the journal, once what is there is on the disk; false if there is nothing new.
    fn begin(&mut self, ended: Ended) -> Result<bool, StoreError> {
        self.end_sync()?;
        if self.drain.as_ref().is_some_and(|drain| !drain.is_durable()) {
            self.end_drain()?;
        }
        let batches = self.table.unframed();
        if batches.is_empty() {
            return Ok(false);
        }
        let syncer = match &mut self.syncer {
            Some(syncer) => syncer,
            none => {
                let started = Syncer::start();
                none.insert(started.map_err(|error| StoreError::io(self.journal.path(), error))?)
            }
        };
        self.journal.grow(batches.iter().map(WriteBatch::len).sum())?;
        let number = self.last + 1;
        let frame = self.journal.frame(batches, syncer.memory(), (self.salt, number));
        syncer.begin(frame, ended);
        self.syncing = Some(number);
        self.table.close();
        Ok(true)
    }

    /// Whether the store can be written.
    fn check(&self) -> Result<(), StoreError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// What was written last under a key and is not in the tree, or was not a moment ago.
    fn recent(&self, key: &[u8]) -> Option<Row<'_>> {
        let draining = || self.drain.as_ref()?.table().get(key);
        self.table.get(key).or_else(draining)
    }

    /// What [`Self::recent`] gives of keys, in their order.
    fn recent_of(&self, keys: &[&[u8]]) -> Vec<Option<Row<'_>>> {
        let mut rows = self.table.get_all(keys);
        if let Some(drain) = &self.drain {
            let places: Vec<usize> = (0..rows.len()).filter(|place| rows[*place].is_none()).collect();
            let others: Vec<&[u8]> = places.iter().map(|place| keys[*place]).collect();
            for (place, row) in places.into_iter().zip(drain.table().get_all(&others)) {
                rows[place] = row;
            }
        }
        rows
    }

    /// What was written last under the keys with `start <= key < end` and is not in the tree; of its values what is wanted.
    fn recent_in<'a>(
        &'a self,
        start: &'a [u8],
        end: &'a [u8],
        wanted: impl Fn(&[u8]) -> Vec<u8> + Copy + 'a,
    ) -> impl Iterator<Item = Found> + 'a {
        let found = move |row: Row<'_>| -> Found { Ok((row.key.to_vec(), row.value.map(wanted))) };
        let draining = self.drain.iter();
        let draining = draining.flat_map(move |drain| drain.table().range(start, end));
        over(self.table.range(start, end).map(found), draining.map(found))
    }

    /// Moves all into the tree, so that the journals are empty.
    fn close(&mut self) -> Result<(), StoreError> {
        // What the journal may not have is in the table.
        _ = self.end_sync();
        self.rest()?;
        if !self.table.is_empty() {
            self.tree.take(&self.table, self.last)?;
            self.tree.remove_retired();
        }
        self.journal.clear()?;
        self.spare.as_mut().map_or(Ok(()), Journal::clear)
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        // What was durable is in the journals if it does not come into the tree.
        _ = self.close();
    }
}

/// An entry that was not removed.
fn present(found: Found) -> Option<Result<Entry, StoreError>> {
    match found {
        Ok((key, value)) => Some(Ok((key, value?))),
        Err(error) => Some(Err(error)),
    }
}

impl Storage for DiskStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.recent(key) {
            Some(row) => Ok(row.value.map(<[u8]>::to_vec)),
            None => self.tree.get(key),
        }
    }

    fn get_all<'a>(&'a self, keys: &[&[u8]]) -> Result<Vec<Value<'a>>, StoreError> {
        let recent = self.recent_of(keys).into_iter().zip(keys);
        let values = recent.map(|(row, key)| match row {
            Some(row) => Ok(row.value.map(Cow::Borrowed)),
            None => Ok(self.tree.get(key)?.map(Cow::Owned)),
        });
        values.collect()
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Entry>, StoreError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let all = over(
            self.recent_in(start, end, |value| value.to_vec()),
            self.tree.range(start, end),
        );
        all.filter_map(present).take(limit).collect()
    }

    fn keys(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let all = over(
            self.recent_in(start, end, |_| Vec::new()),
            self.tree.keys(start, end),
        );
        let keys = all.filter_map(present).map(|entry| Ok(entry?.0));
        keys.take(limit).collect()
    }

    fn commit(&mut self, batch: &WriteBatch, durable: bool) -> Result<(), StoreError> {
        self.check()?;
        rows::check(batch).map_err(|why| StoreError::io(self.journal.path(), why))?;
        self.make_room()?;
        self.table.append(batch);
        if durable && let Err(error) = self.sync() {
            self.table.cut(batch);
            return Err(error);
        }
        Ok(())
    }

    fn begin_sync(&mut self, ended: Ended) -> Result<bool, StoreError> {
        self.check()?;
        let begun = self.begin(ended);
        if begun.is_err() {
            // What is not durable would be taken for it by whoever looks it up after this.
            self.table.cut_unframed();
        }
        begun
    }

    fn end_sync(&mut self) -> Result<(), StoreError> {
        let Some((number, syncer)) = self.syncing.take().zip(self.syncer.as_mut()) else {
            return Ok(());
        };
        if let Err(error) = syncer.end() {
            let error = StoreError::io(self.journal.path(), error);
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.last = number;
        self.journal.synced();
        Ok(())
    }
}
