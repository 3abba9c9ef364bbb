//! What was committed lately, in memory: the batches as they came.

use std::sync::{Mutex, MutexGuard, PoisonError};

use selfsame_write_batch::{Row, WriteBatch};

use super::fetch::fetch;
use super::index::{At, Index, TOGETHER};
use super::rows::is_long;

/// Batches; those that no frame has yet are the last ones
///
/// Where their keys are is found out when somebody looks for one, or when the table goes into the tree, in a thread of its own: who
/// writes need not wait for it, as most of what is written is not read from here. Whoever looks first after much was written waits for
/// about 0.1 us for each row.
#[derive(Debug)]
pub(crate) struct Table {
    batches: Vec<WriteBatch>,
    /// Bytes of them all.
    len: usize,
    /// Of the first of them.
    index: Mutex<Index>,
    /// How many batches are in frames.
    framed: usize,
    /// Bytes of rows after which it is full.
    room: usize,
}

impl Table {
    /// An empty table that is full with so many bytes of rows.
    pub(crate) fn with_room(room: usize) -> Self {
        Self {
            batches: Vec::new(),
            len: 0,
            index: Mutex::default(),
            framed: 0,
            room,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether it takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.room
    }

    /// The table without what is in it, and with memory for what comes next.
    pub(crate) fn emptied(mut self) -> Self {
        self.batches.clear();
        self.len = 0;
        self.framed = 0;
        let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner);
        index.clear(self.room);
        self
    }

    /// Appends a batch.
    pub(crate) fn append(&mut self, batch: &WriteBatch) {
        if !batch.is_empty() {
            self.len += batch.len();
            self.batches.push(batch.clone());
        }
    }

    /// Takes back the batch that was appended last; nobody has looked for anything since.
    pub(crate) fn cut(&mut self, batch: &WriteBatch) {
        if !batch.is_empty() {
            self.len -= batch.len();
            self.batches.pop();
            self.framed = self.framed.min(self.batches.len());
        }
    }

    /// Takes back the batches that no frame has, also if somebody has looked there since.
    pub(crate) fn cut_unframed(&mut self) {
        if self.unframed().is_empty() {
            return;
        }
        self.batches.truncate(self.framed);
        self.len = self.batches.iter().map(WriteBatch::len).sum();
        let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner);
        index.clear(self.room);
    }

    /// The batches that no frame has.
    pub(crate) fn unframed(&self) -> &[WriteBatch] {
        &self.batches[self.framed..]
    }

    /// A frame has them all.
    pub(crate) fn close(&mut self) {
        self.framed = self.batches.len();
    }

    /// Where each key is.
    fn index(&self) -> MutexGuard<'_, Index> {
        // A panic leaves a batch unknown, and keys in some order, with as many sorted as is said.
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.learn(&self.batches, self.room);
        index
    }

    /// What was written last under a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Row<'_>> {
        let at = self.index().find(&self.batches, key)?;
        at.row(&self.batches)
    }

    /// What was written last under keys, in their order.
    pub(crate) fn get_all(&self, keys: &[&[u8]]) -> Vec<Option<Row<'_>>> {
        let places = self.index().find_all(&self.batches, keys);
        places.into_iter().map(|at| at?.row(&self.batches)).collect()
    }

    /// What was written last under each key with `start <= key < end`, in the order of the keys.
    pub(crate) fn range<'a>(&'a self, start: &[u8], end: &'a [u8]) -> impl Iterator<Item = Row<'a>> {
        let mut index = self.index();
        let mut place = index.place_from(&self.batches, start);
        let rows = core::iter::from_fn(move || {
            let at = index.at_place(place)?;
            place += 1;
            at.row(&self.batches)
        });
        rows.take_while(move |row| row.key < end)
    }

    /// What was written last under each key, in the order of the keys, and the number of each.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, Row<'_>)> {
        // A copy, so that others may look meanwhile.
        let places = self.index().in_order(&self.batches);
        let mut begin = 0;
        let several = core::iter::from_fn(move || {
            let some = places.get(begin..places.len().min(begin + TOGETHER))?;
            begin += TOGETHER;
            let row = |(number, at): &(u32, At)| Some((*number, at.row(&self.batches)?));
            let rows: Vec<_> = some.iter().map_while(row).collect();
            // Of a long value nothing more is read.
            let short = rows.iter().filter(|(_, row)| !is_long(row));
            short.for_each(|(_, row)| fetch(row.bytes));
            Some(rows)
        });
        several.flatten()
    }

    /// Rows with long values, in the order of their numbers, which is nearly that of memory.
    pub(crate) fn long_rows(&self) -> impl Iterator<Item = (u32, Row<'_>)> {
        let places = self.index().long();
        let rows = places
            .into_iter()
            .filter_map(|(number, at)| Some((number, at.row(&self.batches)?)));
        rows.filter(|(_, row)| is_long(row))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use selfsame_codec::Operation;

    use super::super::index::SMALL;
    use super::*;

    #[test]
    fn a_table_that_grew_takes_the_memory_for_its_keys_at_once() {
        let room = 4 * SMALL;
        let mut table = Table::with_room(room);
        let value = vec![7; 10_000];
        let mut rooms = Vec::new();
        while table.len + 2 * value.len() < room {
            let key = (table.len as u64).to_le_bytes();
            let batch = WriteBatch::of(&[put(&key, &value)]);
            table.append(&batch);
            rooms.push((table.len, table.index().capacity()));
        }
        let (_, last) = rooms[rooms.len() - 1];
        assert!(last >= rooms.len());
        let grown = rooms.iter().filter(|(len, _)| *len > SMALL);
        assert!(grown.clone().count() > 100 && grown.into_iter().all(|(_, keys)| *keys == last));
    }

    #[test]
    fn batches_of_no_frame_that_are_cut_are_not_seen_by_who_saw_them() {
        let mut table = Table::with_room(1000);
        let [kept, first, second] =
            [[b"a", b"1"], [b"a", b"2"], [b"b", b"3"]].map(|[key, value]| WriteBatch::of(&[put(key, value)]));
        table.append(&kept);
        table.close();
        let len = table.len;
        [first, second].iter().for_each(|batch| table.append(batch));
        let value = |table: &Table, key: &[u8]| table.get(key).and_then(|row| row.value.map(<[u8]>::to_vec));
        assert_eq!(value(&table, b"a"), Some(b"2".to_vec()));
        table.cut_unframed();
        assert_eq!(value(&table, b"a"), Some(b"1".to_vec()));
        assert_eq!(value(&table, b"b"), None);
        assert!(table.len == len && table.unframed().is_empty());
        assert_eq!(table.range(b"", b"z").count(), 1);
    }

    #[test]
    fn a_batch_that_is_cut_is_not_seen_and_of_no_frame() {
        let mut table = Table::with_room(0);
        let [kept, cut] = [b"1", b"2"].map(|value| WriteBatch::of(&[put(b"key", value)]));
        table.append(&kept);
        table.append(&cut);
        assert_eq!(table.unframed(), [kept.clone(), cut.clone()]);
        table.cut(&cut);
        assert_eq!(table.unframed(), core::slice::from_ref(&kept));
        assert_eq!(table.len, kept.len());
        assert_eq!(table.get(b"key").and_then(|row| row.value), Some(&b"1"[..]));
        table.close();
        assert!(table.unframed().is_empty());
    }

    #[test]
    fn when_somebody_looks_makes_no_difference() {
        let batches: Vec<WriteBatch> = (0..500_u32)
            .map(|number| {
                let [one, other] = [number % 90, number * 7 % 200].map(u32::to_be_bytes);
                let value = number.to_le_bytes();
                WriteBatch::of(&[put(&one, &value), Operation::Delete { key: &other }])
            })
            .collect();
        let mut last = BTreeMap::new();
        let (mut watched, mut unwatched) = (Table::with_room(0), Table::with_room(0));
        for batch in &batches {
            last.extend(batch.rows().map(|row| (row.key, row.value)));
            watched.append(batch);
            unwatched.append(batch);
            for (key, value) in &last {
                assert_eq!(watched.get(key).map(|row| row.value), Some(*value));
            }
        }
        let expected: Vec<_> = last.into_iter().collect();
        for table in [watched, unwatched] {
            let found: Vec<_> = table.rows().map(|(_, row)| (row.key, row.value)).collect();
            assert_eq!(found, expected);
        }
    }

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
        Operation::Put { key, value }
    }

    fn order(keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut table = Table::with_room(0);
        let changes: Vec<Operation<'_>> = keys.iter().map(|key| put(key, b"1")).collect();
        let batch = WriteBatch::of(&changes);
        table.append(&batch);
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
