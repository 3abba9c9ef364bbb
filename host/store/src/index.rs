//! Where in the batches of a table each key was written last.

use core::hash::BuildHasher as _;
use std::hash::RandomState;

use hashbrown::HashTable;
use selfsame_write_batch::{Row, WriteBatch};

use super::fetch::fetch;
use super::rows::is_long;

/// So many keys that came since the last scan are sorted in one by one.
const FEW: usize = 64;

/// So many rows are looked up together, as they are anywhere in memory and none of them has to wait for the one before.
pub(crate) const TOGETHER: usize = 16;

/// Bytes of a row that is a short one: for more of them than fill a table no memory is taken beforehand.
const SHORT: usize = 128;

/// Bytes of rows up to which the memory for their keys grows by doubling: the store of a small node takes no more than it needs.
pub(crate) const SMALL: usize = 1 << 20;

/// How many times as many keys as [`SHORT`] rows have a table may have memory for that is filled again.
const GROWN: usize = 3;

/// A key's hash and number
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u64,
    number: u32,
}

/// What a key begins with, and zeros behind it if it is shorter. They lie together, and rows anywhere in memory: mostly they are enough to
/// sort keys by.
type Head = [u8; 48];

/// Where a row is
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    batch: u32,
    /// Where it begins in that.
    at: u32,
}

impl At {
    /// The row there.
    pub(crate) fn row(self, batches: &[WriteBatch]) -> Option<Row<'_>> {
        Row::at(batches[self.batch as usize].as_bytes(), self.at as usize)
    }

    fn key(self, batches: &[WriteBatch]) -> &[u8] {
        self.row(batches).map_or(&[], |row| row.key)
    }
}

/// The place of each key of the first batches of a table
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// How many batches it knows.
    batches: usize,
    /// Bytes of their rows.
    len: usize,
    places: HashTable<Place>,
    /// Where each key was written last, by its number.
    rows: Vec<At>,
    /// What each key begins with, by its number.
    heads: Vec<Head>,
    /// SipHash with keys of its own: others choose what keys of the store are, in part, and must not know which fall together.
    hasher: RandomState,
    /// The numbers of keys, the first of them in the order of the keys.
    order: Vec<u32>,
    sorted: usize,
    /// Numbers of keys that have long values, or had some.
    long: Vec<u32>,
}

impl Index {
    /// Forgets all, and keeps the memory for what comes next if it is not much more than most tables need: to get as much from the
    /// system anew takes longer than to fill it.
    pub(crate) fn clear(&mut self, room: usize) {
        if self.heads.capacity() > GROWN * (room / SHORT) {
            *self = Self::default();
            return;
        }
        self.batches = 0;
        self.len = 0;
        self.places.clear();
        self.rows.clear();
        self.heads.clear();
        self.order.clear();
        self.sorted = 0;
        self.long.clear();
    }

    /// Takes note of the batches that it does not know of a table that has so much `room`.
    pub(crate) fn learn(&mut self, batches: &[WriteBatch], room: usize) {
        while let Some(batch) = batches.get(self.batches) {
            self.reserve(batch.len(), room);
            self.learn_rows(batches, batch);
            self.batches += 1;
            self.len += batch.len();
        }
    }

    /// Sees to memory for the keys of so many bytes of rows more. A table that grows past [`SMALL`] gets that for all keys that will
    /// be in its `room`, if they go on as they began: by doubling it would be copied again and again into memory that the system must
    /// first clear.
    fn reserve(&mut self, more: usize, room: usize) {
        if self.len <= SMALL && self.len + more > SMALL && self.len + more <= room {
            let keys = self.rows.len() * (room / self.len.max(1));
            let keys = keys.min(room / SHORT);
            self.heads.reserve(keys);
            self.rows.reserve(keys);
            self.places.reserve(keys, |place| place.hash);
        }
    }

    fn learn_rows(&mut self, batches: &[WriteBatch], batch: &WriteBatch) {
        let mut some = Vec::with_capacity(TOGETHER);
        let mut all = batch.rows();
        loop {
            let hashed = |row: Row<'_>| self.hasher.hash_one(row.key);
            some.extend(all.by_ref().take(TOGETHER).map(|row| (hashed(row), row)));
            if some.is_empty() {
                return;
            }
            // Nothing comes of it, but the processor fetches what the next step needs of all of them.
            let looked = some
                .iter()
                .filter(|(hash, _)| self.places.find(*hash, |old| old.hash == *hash).is_some());
            core::hint::black_box(looked.count());
            for (hash, row) in some.drain(..) {
                let number = self.note(batches, hash, &row);
                if is_long(&row) {
                    self.long.push(number);
                }
            }
        }
    }

    /// Notes where a key of the batch that it learns was written; the number of the key.
    fn note(&mut self, batches: &[WriteBatch], hash: u64, row: &Row<'_>) -> u32 {
        let here = At {
            batch: self.batches as u32,
            at: (row.end - row.bytes.len()) as u32,
        };
        if let Some(number) = self.number(batches, hash, row.key) {
            self.rows[number as usize] = here;
            return number;
        }
        let number = self.rows.len() as u32;
        self.places
            .insert_unique(hash, Place { hash, number }, |old| old.hash);
        self.order.push(number);
        self.rows.push(here);
        self.heads.push(head_of(row.key));
        number
    }

    fn number(&self, batches: &[WriteBatch], hash: u64, key: &[u8]) -> Option<u32> {
        let is_same = |place: &Place| place.hash == hash && self.key(batches, place.number) == key;
        self.places.find(hash, is_same).map(|place| place.number)
    }

    fn key<'a>(&self, batches: &'a [WriteBatch], number: u32) -> &'a [u8] {
        self.rows[number as usize].key(batches)
    }

    /// Where a key was written last.
    pub(crate) fn find(&self, batches: &[WriteBatch], key: &[u8]) -> Option<At> {
        let number = self.number(batches, self.hasher.hash_one(key), key)?;
        Some(self.rows[number as usize])
    }

    /// Where keys were written last. Each step is done for several of them before the next one, so that the processor fetches what
    /// it needs of them from memory at a time.
    pub(crate) fn find_all(&self, batches: &[WriteBatch], keys: &[&[u8]]) -> Vec<Option<At>> {
        let mut found = Vec::with_capacity(keys.len());
        for some in keys.chunks(TOGETHER) {
            let hashes: Vec<u64> = some.iter().map(|key| self.hasher.hash_one(*key)).collect();
            let likely = |hash: u64| self.places.find(hash, |place| place.hash == hash);
            let places: Vec<Option<&Place>> = hashes.into_iter().map(likely).collect();
            let here = found.len();
            let row = |place: Option<&Place>| Some(self.rows[place?.number as usize]);
            found.extend(places.into_iter().map(row));
            let rows = found[here..].iter().filter_map(|at| (*at)?.row(batches));
            rows.for_each(|row| fetch(row.bytes));
            for (at, key) in found[here..].iter_mut().zip(some) {
                // Another one may have the same hash.
                if at.is_some_and(|at| at.key(batches) != *key) {
                    *at = self.find(batches, key);
                }
            }
        }
        found
    }

    fn numbered(&self, number: u32) -> (u32, At) {
        (number, self.rows[number as usize])
    }

    /// The numbers of keys that have long values, or had some, in their order, which is nearly that of memory, and where each was
    /// written last.
    pub(crate) fn long(&self) -> Vec<(u32, At)> {
        let mut numbers = self.long.clone();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| self.numbered(number)).collect()
    }

    /// The numbers of all keys, in the order of the keys, and where each was written last.
    pub(crate) fn in_order(&mut self, batches: &[WriteBatch]) -> Vec<(u32, At)> {
        self.sort(batches);
        self.order.iter().map(|number| self.numbered(*number)).collect()
    }

    /// At which place in the order of the keys the first is that is not before `start`.
    pub(crate) fn place_from(&mut self, batches: &[WriteBatch], start: &[u8]) -> usize {
        self.sort(batches);
        self.order
            .partition_point(|number| self.key(batches, *number) < start)
    }

    /// Where the key at a place of this order was written last.
    pub(crate) fn at_place(&self, place: usize) -> Option<At> {
        self.order.get(place).map(|number| self.rows[*number as usize])
    }

    fn sort(&mut self, batches: &[WriteBatch]) {
        let keys = Keys {
            batches,
            rows: &self.rows,
            heads: &self.heads,
        };
        let order = &mut self.order;
        if order.len() - self.sorted > FEW {
            keys.sort(order);
            self.sorted = order.len();
        }
        while let Some(number) = order.get(self.sorted).copied() {
            let key = keys.key(number);
            let place = order[..self.sorted].partition_point(|other| keys.key(*other) < key);
            order.copy_within(place..self.sorted, place + 1);
            order[place] = number;
            self.sorted += 1;
        }
    }

    /// For how many keys there is memory.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.heads.capacity()
    }
}

/// Keys by their numbers
struct Keys<'a> {
    batches: &'a [WriteBatch],
    rows: &'a [At],
    heads: &'a [Head],
}

impl Keys<'_> {
    fn key(&self, number: u32) -> &[u8] {
        self.rows[number as usize].key(self.batches)
    }

    /// Sorts keys by some bytes that follow what their heads have in common, and those that have these in common too likewise.
    fn sort(&self, keys: &mut [u32]) {
        let mut unsorted = Vec::from([(0..keys.len(), 0)]);
        while let Some((range, known)) = unsorted.pop() {
            let keys = &mut keys[range.clone()];
            let shared = known + self.shared(keys, known);
            let begin = |number: &u32| (begin_of(&self.heads[*number as usize][shared..]), *number);
            let mut begun: Vec<(u64, u32)> = keys.iter().map(begin).collect();
            // Stable: keys that begin alike stay in the order in which they are in memory.
            begun.sort_by_key(|(begin, _)| *begin);
            for (key, (_, number)) in keys.iter_mut().zip(&begun) {
                *key = *number;
            }
            let mut start = 0;
            for same in begun.chunk_by(|(one, _), (other, _)| one == other) {
                let end = start + same.len();
                // If all have the same, their heads have no more.
                if same.len() > FEW && same.len() < keys.len() {
                    unsorted.push((range.start + start..range.start + end, shared));
                } else if same.len() > 1 {
                    keys[start..end].sort_unstable_by_key(|number| self.key(*number));
                }
                start = end;
            }
        }
    }

    /// How many bytes heads have in common from a place on, up to which they are the same.
    fn shared(&self, keys: &[u32], known: usize) -> usize {
        let Some((first, others)) = keys.split_first() else {
            return 0;
        };
        let head = |number: &u32| &self.heads[*number as usize][known..];
        let first = head(first);
        others.iter().fold(first.len(), |shared, number| {
            in_common(&first[..shared], head(number))
        })
    }
}

fn head_of(key: &[u8]) -> Head {
    let mut head = [0; size_of::<Head>()];
    let len = key.len().min(head.len());
    head[..len].copy_from_slice(&key[..len]);
    head
}

/// How many bytes two heads have in common.
fn in_common(one: &[u8], other: &[u8]) -> usize {
    let both = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let same = 8 * both.take_while(|(one, other)| one == other).count();
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(one, other)| one == other).count()
}

/// The first bytes, so that what is less has less of them, or as many.
fn begin_of(key: &[u8]) -> u64 {
    let mut begin = [0; 8];
    let len = key.len().min(begin.len());
    begin[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(begin)
}
