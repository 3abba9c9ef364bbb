//! What was committed lately, in memory: the bytes of its journal, and where in them each key was written last.

use core::hash::BuildHasher as _;
use std::hash::RandomState;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use selfsame_codec::Operation;

use super::frame::{self, HEADER};
use super::rows::{self, Row, row_at};

/// So many keys that came since the last scan are sorted in one by one.
const FEW: usize = 64;

/// Where a key was written last
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u64,
    row: u32,
}

/// The first row of each key, the first of them in the order of their keys
#[derive(Debug, Default)]
struct Order {
    rows: Vec<u32>,
    sorted: usize,
}

/// Rows in frames; the last frame is open until it is sealed
#[derive(Debug, Default)]
pub(crate) struct Table {
    bytes: Vec<u8>,
    places: HashTable<Place>,
    hasher: RandomState,
    order: Mutex<Order>,
    /// Where the open frame begins.
    open: Option<usize>,
}

/// What a table was before changes were appended
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    len: usize,
    open: Option<usize>,
}

impl Table {
    /// All frames; the header of one that was not sealed is still empty.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Appends changes to the open frame; nobody sees them before [`Self::keep`].
    pub(crate) fn append(&mut self, changes: &[Operation<'_>]) -> Mark {
        let mark = Mark {
            len: self.bytes.len(),
            open: self.open,
        };
        if self.open.is_none() && !changes.is_empty() {
            self.open = Some(mark.len);
            self.bytes.extend_from_slice(&[0; HEADER]);
        }
        changes
            .iter()
            .for_each(|change| rows::push(&mut self.bytes, change));
        mark
    }

    /// Takes back what was appended.
    pub(crate) fn cut(&mut self, mark: Mark) {
        self.bytes.truncate(mark.len);
        self.open = mark.open;
    }

    /// Shows what was appended.
    pub(crate) fn keep(&mut self, mark: Mark) {
        let header = if mark.open.is_none() { HEADER } else { 0 };
        self.learn(mark.len + header);
    }

    /// Appends the rows of a frame that was read; false if they are none.
    pub(crate) fn recall(&mut self, rows: &[u8]) -> bool {
        let first = self.bytes.len();
        self.bytes.extend_from_slice(rows);
        self.learn(first) == self.bytes.len()
    }

    /// Takes note of the rows from a place on; where they end.
    fn learn(&mut self, mut at: usize) -> usize {
        let Self {
            bytes,
            places,
            hasher,
            order,
            ..
        } = self;
        let order = order.get_mut().unwrap_or_else(PoisonError::into_inner);
        while let Some(row) = row_at(bytes, at) {
            let hash = hasher.hash_one(row.key);
            let place = Place { hash, row: at as u32 };
            let is_same = |old: &Place| old.hash == hash && key_at(bytes, old.row) == row.key;
            match places.find_mut(hash, is_same) {
                Some(old) => *old = place,
                None => {
                    places.insert_unique(hash, place, |old| old.hash);
                    order.rows.push(place.row);
                }
            }
            at = row.end;
        }
        at
    }

    /// Writes the header of the open frame; false if there is none. More rows may follow it until it is closed.
    pub(crate) fn seal(&mut self, salt: u64, number: u64) -> bool {
        let Some(open) = self.open else { return false };
        frame::seal(&mut self.bytes[open..], salt, number);
        true
    }

    /// Closes the open frame: what comes is another one.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// What was written last under a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Row<'_>> {
        let hash = self.hasher.hash_one(key);
        let is_same = |place: &Place| place.hash == hash && key_at(&self.bytes, place.row) == key;
        let place = self.places.find(hash, is_same)?;
        row_at(&self.bytes, place.row as usize)
    }

    /// What was written last under each key with `start <= key < end`, in the order of the keys.
    pub(crate) fn range<'a>(&'a self, start: &[u8], end: &'a [u8]) -> impl Iterator<Item = Row<'a>> {
        let rows = self.sorted();
        let first = rows.rows.partition_point(|row| key_at(&self.bytes, *row) < start);
        let keys = (first..).map_while(move |number| {
            let row = rows.rows.get(number)?;
            Some(key_at(&self.bytes, *row)).filter(|key| *key < end)
        });
        keys.filter_map(|key| self.get(key))
    }

    /// What was written last under each key, in the order of the keys.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        // A copy, so that others may scan meanwhile.
        let rows = self.sorted().rows.clone();
        rows.into_iter()
            .filter_map(|row| self.get(key_at(&self.bytes, row)))
    }

    /// The first rows of all keys, sorted.
    fn sorted(&self) -> MutexGuard<'_, Order> {
        // A panic leaves it in some order, with as many sorted as is said.
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let Order { rows, sorted } = &mut *order;
        let key = |row: &u32| key_at(&self.bytes, *row);
        if rows.len() - *sorted > FEW {
            // It takes the part that is sorted as it is.
            rows.sort_by(|one, other| key(one).cmp(key(other)));
            *sorted = rows.len();
        }
        while let Some(row) = rows.get(*sorted).copied() {
            let place = rows[..*sorted].partition_point(|other| key(other) < key(&row));
            rows.copy_within(place..*sorted, place + 1);
            rows[place] = row;
            *sorted += 1;
        }
        order
    }
}

fn key_at(bytes: &[u8], row: u32) -> &[u8] {
    row_at(bytes, row as usize).map_or(&[], |row| row.key)
}
