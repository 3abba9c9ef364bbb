//! What was committed lately, in memory: the batches as they came, and where in them each key was written last.

use core::hash::BuildHasher as _;
use std::hash::RandomState;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use selfsame_write_batch::{Row, WriteBatch};

use super::rows::is_long;

/// So many keys that came since the last scan are sorted in one by one.
const FEW: usize = 64;

/// So many rows are looked up together, as they are anywhere in memory and none of them has to wait for the one before.
const TOGETHER: usize = 16;

/// Bytes that a processor fetches from memory at once.
const LINE: usize = 64;

/// Bytes of a row that is a short one: for more of them than fill a table no memory is taken beforehand.
const SHORT: usize = 128;

/// Bytes of rows up to which the memory for their keys grows by doubling: the store of a small node takes no more than it needs.
const SMALL: usize = 1 << 20;

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

/// The numbers of keys, the first of them in the order of the keys
#[derive(Debug, Default)]
struct Order {
    keys: Vec<u32>,
    sorted: usize,
}

/// Where a row is
#[derive(Clone, Copy, Debug)]
struct At {
    batch: u32,
    /// Where it begins in that.
    at: u32,
}

/// Batches; those that no frame has yet are the last ones
#[derive(Debug, Default)]
pub(crate) struct Table {
    batches: Vec<WriteBatch>,
    /// Bytes of them all.
    len: usize,
    places: HashTable<Place>,
    /// Where each key was written last, by its number.
    rows: Vec<At>,
    /// What each key begins with, by its number.
    heads: Vec<Head>,
    /// SipHash with keys of its own: others choose what keys of the store are, in part, and must not know which fall together.
    hasher: RandomState,
    order: Mutex<Order>,
    /// Numbers of keys that have long values, or had some.
    long: Vec<u32>,
    /// How many batches are in frames.
    framed: usize,
}

impl Table {
    /// Bytes of its rows.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Forgets all, and keeps the memory for what comes next if it is not much more than most tables need: to get as much from the
    /// system anew takes longer than to fill it.
    pub(crate) fn clear(&mut self, room: usize) {
        if self.heads.capacity() > GROWN * (room / SHORT) {
            *self = Self::default();
            return;
        }
        self.batches.clear();
        self.len = 0;
        self.places.clear();
        self.rows.clear();
        self.heads.clear();
        self.long.clear();
        self.framed = 0;
        let order = self.order.get_mut().unwrap_or_else(PoisonError::into_inner);
        order.keys.clear();
        order.sorted = 0;
    }

    /// Sees to memory for the keys of so many bytes of rows more. A table that grows past [`SMALL`] gets that for all keys that will
    /// be in its `room`, if they go on as they began: by doubling it would be copied again and again into memory that the system must
    /// first clear.
    pub(crate) fn reserve(&mut self, more: usize, room: usize) {
        if self.len <= SMALL && self.len + more > SMALL && self.len + more <= room {
            let keys = self.rows.len() * (room / self.len.max(1));
            let keys = keys.min(room / SHORT);
            self.heads.reserve(keys);
            self.rows.reserve(keys);
            self.places.reserve(keys, |place| place.hash);
        }
    }

    /// Appends a batch; nobody sees its rows before [`Self::keep`].
    pub(crate) fn append(&mut self, batch: &WriteBatch) {
        if !batch.is_empty() {
            self.len += batch.len();
            self.batches.push(batch.clone());
        }
    }

    /// Takes back the batch that was appended.
    pub(crate) fn cut(&mut self, batch: &WriteBatch) {
        if !batch.is_empty() {
            self.len -= batch.len();
            self.batches.pop();
            self.framed = self.framed.min(self.batches.len());
        }
    }

    /// Shows the batch that was appended.
    pub(crate) fn keep(&mut self, batch: &WriteBatch) {
        if !batch.is_empty() {
            self.learn(batch);
        }
    }

    /// The batches that no frame has.
    pub(crate) fn unframed(&self) -> &[WriteBatch] {
        &self.batches[self.framed..]
    }

    /// A frame has them all.
    pub(crate) fn close(&mut self) {
        self.framed = self.batches.len();
    }

    /// Takes note of the rows of the last batch.
    fn learn(&mut self, batch: &WriteBatch) {
        let Self {
            batches,
            places,
            rows,
            heads,
            hasher,
            order,
            long,
            ..
        } = self;
        let order = order.get_mut().unwrap_or_else(PoisonError::into_inner);
        let last = batches.len() as u32 - 1;
        let mut some = Vec::with_capacity(TOGETHER);
        let mut all = batch.rows();
        loop {
            some.extend(
                all.by_ref()
                    .take(TOGETHER)
                    .map(|row| (hasher.hash_one(row.key), row)),
            );
            if some.is_empty() {
                return;
            }
            // Nothing comes of it, but the processor fetches what the next step needs of all of them.
            let looked = some
                .iter()
                .filter(|(hash, _)| places.find(*hash, |old| old.hash == *hash).is_some());
            core::hint::black_box(looked.count());
            for (hash, row) in some.drain(..) {
                let here = At {
                    batch: last,
                    at: (row.end - row.bytes.len()) as u32,
                };
                let is_same =
                    |old: &Place| old.hash == hash && key_at(batches, rows[old.number as usize]) == row.key;
                let number = match places.find(hash, is_same) {
                    Some(old) => {
                        rows[old.number as usize] = here;
                        old.number
                    }
                    None => {
                        let number = rows.len() as u32;
                        places.insert_unique(hash, Place { hash, number }, |old| old.hash);
                        order.keys.push(number);
                        rows.push(here);
                        heads.push(head_of(row.key));
                        number
                    }
                };
                if is_long(&row) {
                    long.push(number);
                }
            }
        }
    }

    /// What was written last under a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Row<'_>> {
        let hash = self.hasher.hash_one(key);
        let is_same = |place: &Place| place.hash == hash && self.key(place.number) == key;
        let place = self.places.find(hash, is_same)?;
        self.row(place.number)
    }

    fn row(&self, number: u32) -> Option<Row<'_>> {
        row_at(&self.batches, self.rows[number as usize])
    }

    fn key(&self, number: u32) -> &[u8] {
        key_at(&self.batches, self.rows[number as usize])
    }

    /// What was written last under each key with `start <= key < end`, in the order of the keys.
    pub(crate) fn range<'a>(&'a self, start: &[u8], end: &'a [u8]) -> impl Iterator<Item = Row<'a>> {
        let order = self.sorted();
        let first = order.keys.partition_point(|number| self.key(*number) < start);
        let rows = (first..).map_while(move |place| self.row(*order.keys.get(place)?));
        rows.take_while(move |row| row.key < end)
    }

    /// What was written last under each key, in the order of the keys, and the number of each.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, Row<'_>)> {
        // A copy, so that others may scan meanwhile.
        let keys = self.sorted().keys.clone();
        let mut begin = 0;
        let several = core::iter::from_fn(move || {
            let numbers = keys.get(begin..keys.len().min(begin + TOGETHER))?;
            begin += TOGETHER;
            let row = |number: &u32| Some((*number, self.row(*number)?));
            let rows: Vec<_> = numbers.iter().map_while(row).collect();
            // Of a long value nothing more is read.
            let short = rows.iter().filter(|(_, row)| !is_long(row));
            short.for_each(|(_, row)| fetch(row.bytes));
            Some(rows)
        });
        several.flatten()
    }

    /// Rows with long values, in the order of their numbers, which is nearly that of memory.
    pub(crate) fn long_rows(&self) -> impl Iterator<Item = (u32, Row<'_>)> {
        let mut numbers = self.long.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let rows = numbers
            .into_iter()
            .filter_map(|number| Some((number, self.row(number)?)));
        rows.filter(|(_, row)| is_long(row))
    }

    /// The numbers of all keys, sorted.
    fn sorted(&self) -> MutexGuard<'_, Order> {
        // A panic leaves it in some order, with as many sorted as is said.
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let Order { keys, sorted } = &mut *order;
        if keys.len() - *sorted > FEW {
            self.sort(keys);
            *sorted = keys.len();
        }
        while let Some(number) = keys.get(*sorted).copied() {
            let place = keys[..*sorted].partition_point(|other| self.key(*other) < self.key(number));
            keys.copy_within(place..*sorted, place + 1);
            keys[place] = number;
            *sorted += 1;
        }
        order
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

/// Reads a byte of each line of a row, so that the processor fetches several rows from memory at a time.
fn fetch(row: &[u8]) {
    let sum = row.iter().step_by(LINE).fold(0_u8, |sum, byte| sum ^ byte);
    core::hint::black_box(sum);
}

fn row_at(batches: &[WriteBatch], place: At) -> Option<Row<'_>> {
    Row::at(batches[place.batch as usize].as_bytes(), place.at as usize)
}

fn key_at(batches: &[WriteBatch], place: At) -> &[u8] {
    row_at(batches, place).map_or(&[], |row| row.key)
}

#[cfg(test)]
mod tests {
    use selfsame_codec::Operation;

    use super::*;

    #[test]
    fn a_table_that_grew_takes_the_memory_for_its_keys_at_once() {
        let room = 4 * SMALL;
        let mut table = Table::default();
        let value = vec![7; 10_000];
        let mut rooms = Vec::new();
        while table.len() + 2 * value.len() < room {
            let key = (table.len() as u64).to_le_bytes();
            let batch = WriteBatch::of(&[put(&key, &value)]);
            table.reserve(batch.len(), room);
            table.append(&batch);
            table.keep(&batch);
            rooms.push((table.len(), table.heads.capacity()));
        }
        let (_, last) = rooms[rooms.len() - 1];
        assert!(last >= rooms.len());
        let grown = rooms.iter().filter(|(len, _)| *len > SMALL);
        assert!(grown.clone().count() > 100 && grown.into_iter().all(|(_, keys)| *keys == last));
    }

    #[test]
    fn a_batch_that_is_cut_is_not_seen_and_of_no_frame() {
        let mut table = Table::default();
        let [kept, cut] = [b"1", b"2"].map(|value| WriteBatch::of(&[put(b"key", value)]));
        table.append(&kept);
        table.keep(&kept);
        table.append(&cut);
        assert_eq!(table.unframed(), [kept.clone(), cut.clone()]);
        table.cut(&cut);
        assert_eq!(table.unframed(), core::slice::from_ref(&kept));
        assert_eq!(table.len(), kept.len());
        assert_eq!(table.get(b"key").and_then(|row| row.value), Some(&b"1"[..]));
        table.close();
        assert!(table.unframed().is_empty());
    }

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
        Operation::Put { key, value }
    }

    fn order(keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut table = Table::default();
        let changes: Vec<Operation<'_>> = keys.iter().map(|key| put(key, b"1")).collect();
        let batch = WriteBatch::of(&changes);
        table.append(&batch);
        table.keep(&batch);
        table.rows().map(|(_, row)| row.key.to_vec()).collect()
    }

    #[test]
    fn keys_are_sorted_whatever_they_have_in_common() {
        let zeros = (0..200).map(|len| vec![0; len]).rev().collect();
        let steps = (0..300)
            .map(|step| [vec![7; 9 * step], vec![1, 2]].concat())
            .collect();
        let groups = (0..1000_u32)
            .map(|number| [&[9; 20][..], &[(number % 5) as u8; 11], &number.to_le_bytes()].concat())
            .collect();
        let short = (0..300_u32)
            .map(|number| number.to_le_bytes()[..1 + number as usize % 4].to_vec())
            .collect();
        let mut all: Vec<Vec<Vec<u8>>> = vec![zeros, steps, groups, short];
        all.push(all.concat());
        for keys in all {
            let mut expected = keys.clone();
            expected.sort();
            expected.dedup();
            assert!(order(&keys) == expected);
        }
    }
}
