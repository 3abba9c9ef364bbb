//! The tree that holds the bulk: sorted runs that are merged, a folder of lsm-tree.

use alloc::sync::Arc;
use core::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use lsm_tree::compaction::Leveled;
use lsm_tree::config::PinningPolicy;
use lsm_tree::{
    AbstractTree as _, AnyTree, Cache, Config, DescriptorTable, Guard as _, SeqNo, SequenceNumberCounter,
};

use super::StoreError;
use super::merge::{Found, over_by};
use super::rows::is_long;
use super::runs;
use super::table::Table;
use super::values::{self, Draft, Listed, Place, Values};

/// What keys of the core's entries begin with.
const CORE: u8 = 1;
/// Key of what is the host's own: the last one.
const HOST: &[u8] = &[2];
/// What values begin with that are in the tree.
const SHORT: u8 = 0;
/// What begins what is in place of values that are beside it.
const LONG: u8 = 1;
/// Memory for blocks.
const CACHE: u64 = 16 * 1024 * 1024;
/// Files of runs that are open at a time.
const FILES: usize = 64;
/// So many runs are merged into the level below. Keys are hashes, so a merge writes nearly all of that level again: with lsm-tree's 4,
/// 1.9 GiB take 8.2 s to write, with these 4.8 s. In return a read looks into more filters: one of what is there takes 8.5 us in place
/// of 7, of what is not 2.7 in place of 1.5, when there are the most runs.
const RUNS: u8 = 12;
/// Rows of a run after which others have their turn, who have more haste: they take some tens of microseconds.
const BETWEEN_TURNS: usize = 128;
/// Merges before a table is taken, at most: one moves runs down a level, and there are seven.
const MERGES: usize = 16;
/// What was written last.
const LATEST: SeqNo = SeqNo::MAX;

/// An open tree
pub(crate) struct Tree {
    runs: AnyTree,
    values: Values,
    /// Bytes of a small file of values, at most.
    small: u64,
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
    pub(crate) fn create(path: &Path, values: &Path) -> Result<(), StoreError> {
        Values::create(values)?;
        let tree = Self::open_as(path, values, 0, draw_salt(path)?)?;
        tree.take(&Table::with_room(0), 0)
    }

    /// Opens the tree in `path`, with the long values in `values`, each file of both checked; what its journals are.
    ///
    /// # Errors
    /// [`StoreError`]; the files are left as they are.
    pub(crate) fn open(path: &Path, values: &Path, small: u64) -> Result<(Self, Journaled), StoreError> {
        runs::check(path)?;
        let mut tree = Self::open_as(path, values, small, 0)?;
        let newest = tree.runs.get_highest_persisted_seqno();
        tree.next.set(newest.map_or(0, |number| number + 1));
        let host = tree.runs.get(HOST, LATEST).map_err(|error| tree.failed(error))?;
        let Some((journaled, listed)) = host.as_deref().and_then(parts_of) else {
            return Err(StoreError::corrupt(path, "it does not say what its journals are"));
        };
        tree.values.check(listed)?;
        tree.salt = journaled.salt;
        Ok((tree, journaled))
    }

    fn open_as(path: &Path, values: &Path, small: u64, salt: u64) -> Result<Self, StoreError> {
        let next = SequenceNumberCounter::default();
        // Parts of indexes and filters come into memory when they are needed, like all other blocks.
        let opened = Config::new(path, next.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::new(Cache::with_capacity_bytes(CACHE)))
            .use_descriptor_table(Some(Arc::new(DescriptorTable::new(FILES))))
            .index_block_partitioning_policy(PinningPolicy::all(true))
            .filter_block_partitioning_policy(PinningPolicy::all(true))
            .open();
        Ok(Self {
            runs: opened.map_err(|error| described(path, error))?,
            values: Values::at(values.into()),
            small,
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
        value.map(|value| self.resolve(key, &value)).transpose()
    }

    /// The value that a key has if this is in its place in the tree.
    fn resolve(&self, key: &[u8], value: &[u8]) -> Result<Vec<u8>, StoreError> {
        match value.split_first() {
            Some((&SHORT, value)) => Ok(value.to_vec()),
            _ => self.values.read(self.placed(value)?, key),
        }
    }

    fn placed(&self, value: &[u8]) -> Result<Place, StoreError> {
        let place = value.strip_prefix(&[LONG]).and_then(Place::from_bytes);
        place.ok_or_else(|| StoreError::corrupt(&self.path, "another program wrote it"))
    }

    /// Where the value of a key is, if it lies beside the tree.
    fn place_of(&self, key: &[u8]) -> Result<Option<Place>, StoreError> {
        let value = self.runs.get(stored(key), LATEST);
        match value.map_err(|error| self.failed(error))?.as_deref() {
            None | Some([SHORT, ..]) => Ok(None),
            Some(value) => self.placed(value).map(Some),
        }
    }

    /// The entries with `start <= key < end`, in the order of their keys.
    pub(crate) fn range(&self, start: &[u8], end: &[u8]) -> impl Iterator<Item = Found> {
        let entries = self.runs.range(stored(start)..stored(end), LATEST, None);
        entries.map(|entry| {
            let (key, value) = entry.into_inner().map_err(|error| self.failed(error))?;
            let key = key.get(1..).unwrap_or_default();
            Ok((key.to_vec(), Some(self.resolve(key, &value)?)))
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
        let mut draft = self.values.draft();
        let placed = write_long(&mut draft, table)?;
        let place_of = |key: &[u8]| match table.get(key) {
            Some(_) => Ok(None),
            None => self.place_of(key),
        };
        let kept = values::keep(&self.values, self.small, &mut draft, place_of)?;
        if let Some(file) = draft.finish()? {
            self.values.add(file);
        }
        let listed = self.values.listed_without(&kept);
        let written = self.write(table, &placed, &kept.rows, &host_of(self.salt, applied, &listed));
        written.map_err(|error| self.failed(error))?;
        self.values.retire(&kept);
        Ok(())
    }

    /// Writes a run: a table whose long values are in their places, keys whose values have new ones, and what is the host's own.
    fn write(
        &self,
        table: &Table,
        placed: &[Option<Place>],
        kept: &[(Vec<u8>, Place)],
        host: &[u8],
    ) -> lsm_tree::Result<()> {
        let of_table = table.rows().map(|(number, row)| {
            let place = if is_long(&row) {
                placed[number as usize]
            } else {
                None
            };
            let written = match (place, row.value) {
                (Some(place), _) => Written::Long(place),
                (None, Some(value)) => Written::Short(value),
                (None, None) => Written::Removed,
            };
            (row.key, written)
        });
        let kept = kept.iter().map(|(key, place)| (&key[..], Written::Long(*place)));
        let mut run = self.runs.ingestion()?;
        let (mut key, mut value) = (vec![CORE], Vec::new());
        let all = over_by(of_table, kept, |one, other| one.0.cmp(other.0));
        for (number, (row_key, written)) in all.enumerate() {
            if number % BETWEEN_TURNS == 0 {
                thread::yield_now();
            }
            key.truncate(1);
            key.extend_from_slice(row_key);
            value.clear();
            match written {
                Written::Removed => {
                    run.write_tombstone(&key[..])?;
                    continue;
                }
                Written::Short(short) => {
                    value.push(SHORT);
                    value.extend_from_slice(short);
                }
                Written::Long(place) => {
                    value.push(LONG);
                    value.extend_from_slice(&place.to_bytes());
                }
            }
            run.write(&key[..], &value[..])?;
        }
        run.write(HOST, host)?;
        run.finish()
    }

    /// Removes files that the last table has made useless. Nobody may be reading.
    pub(crate) fn remove_retired(&self) {
        self.values.remove_retired();
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

/// What a run has for a key
enum Written<'a> {
    Removed,
    Short(&'a [u8]),
    Long(Place),
}

/// Writes the long values of a table; the place of each, at the number of its key.
fn write_long(draft: &mut Draft, table: &Table) -> Result<Vec<Option<Place>>, StoreError> {
    let mut placed = Vec::new();
    for (number, row) in table.long_rows() {
        placed.resize(number as usize + 1, None);
        placed[number as usize] = Some(draft.append(row.bytes)?);
    }
    Ok(placed)
}

/// What is the host's own: `salt u64 | number of the last frame u64 | each file of long values`.
fn host_of(salt: u64, applied: u64, listed: &[Listed]) -> Vec<u8> {
    let mut host = [salt.to_le_bytes(), applied.to_le_bytes()].concat();
    host.extend(listed.iter().flat_map(|file| file.to_bytes()));
    host
}

fn parts_of(host: &[u8]) -> Option<(Journaled, Vec<Listed>)> {
    let (salt, rest) = host.split_first_chunk()?;
    let (applied, files) = rest.split_first_chunk()?;
    let (files, []) = files.as_chunks::<{ Listed::BYTES }>() else {
        return None;
    };
    let journaled = Journaled {
        salt: u64::from_le_bytes(*salt),
        applied: u64::from_le_bytes(*applied),
    };
    Some((
        journaled,
        files.iter().map(Listed::from_bytes).collect::<Option<_>>()?,
    ))
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
