//! Changes that a store makes all or none, as bytes in one piece of memory: whoever made them, the store and its journal all read them
//! there.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use selfsame_codec::Operation;

mod row;
pub use row::{LENGTHS, Row, len_behind};

/// Changes in their order, one [`Row`] after the other; shared, not copied, when it is cloned
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    rows: Bytes,
}

impl WriteBatch {
    /// Of changes that are elsewhere.
    #[must_use]
    pub fn of(changes: &[Operation<'_>]) -> Self {
        let mut writer = WriteBatchBuilder::default();
        writer.reserve(changes.iter().map(row::len).sum());
        changes.iter().for_each(|change| writer.push(change));
        writer.finish()
    }

    /// Of a key whose value `write` appends.
    #[must_use]
    pub fn put(key: &[u8], write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut writer = WriteBatchBuilder::default();
        writer.put_with(key, write);
        writer.finish()
    }

    /// Of bytes that were read; nothing if they are no rows.
    #[must_use]
    pub fn read(rows: Bytes) -> Option<Self> {
        let batch = Self { rows };
        let end = batch.rows().last().map_or(0, |row| row.end);
        (end == batch.len()).then_some(batch)
    }

    /// The changes.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let row = Row::at(&self.rows, at)?;
            at = row.end;
            Some(row)
        })
    }

    /// Their bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.rows
    }

    /// How many bytes they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Batches of which a piece of memory holds no more than so many have memory of their own.
const FEW: usize = 4;

/// Memory for batches that are made one after the other and kept about as long
#[derive(Debug)]
pub struct BatchMemory {
    piece: usize,
    rest: BytesMut,
}

impl BatchMemory {
    /// Memory that is taken in pieces of so many bytes, each of which is kept until all batches in it are given up.
    #[must_use]
    pub fn in_pieces_of(bytes: usize) -> Self {
        Self {
            piece: bytes,
            rest: BytesMut::new(),
        }
    }

    /// A copy of a row, or of a part of one, in memory of its own if it is a long one.
    pub fn keep_row(&mut self, row: &[u8]) -> Bytes {
        if self.is_long(row) {
            Bytes::copy_from_slice(row)
        } else {
            self.keep(row)
        }
    }

    /// Whether bytes are too long to share a piece with others.
    fn is_long(&self, rows: &[u8]) -> bool {
        rows.len() >= self.piece / FEW
    }

    fn keep(&mut self, rows: &[u8]) -> Bytes {
        if self.rest.capacity() < rows.len() {
            self.rest = BytesMut::with_capacity(self.piece);
        }
        self.rest.extend_from_slice(rows);
        self.rest.split().freeze()
    }
}

/// Puts a batch together
#[derive(Debug, Default)]
pub struct WriteBatchBuilder {
    rows: Vec<u8>,
}

impl WriteBatchBuilder {
    /// Sees to memory for so many bytes, and no more.
    pub fn reserve(&mut self, bytes: usize) {
        self.rows.reserve_exact(bytes);
    }

    /// Appends a change.
    pub fn push(&mut self, change: &Operation<'_>) {
        match *change {
            Operation::Put { key, value } => {
                self.put_with(key, |out| out.extend_from_slice(value));
            }
            Operation::Delete { key } => row::delete(&mut self.rows, key),
        }
    }

    /// Appends a key whose value `write` appends.
    pub fn put_with(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        row::put(&mut self.rows, key, write);
    }

    /// The batch.
    #[must_use]
    pub fn finish(self) -> WriteBatch {
        WriteBatch {
            rows: Bytes::from(self.rows),
        }
    }

    /// The batch, in memory that it shares with those before and after it unless it is a long one; what comes next is another one.
    pub fn finish_in(&mut self, memory: &mut BatchMemory) -> WriteBatch {
        if memory.is_long(&self.rows) {
            return core::mem::take(self).finish();
        }
        let rows = memory.keep(&self.rows);
        self.rows.clear();
        WriteBatch { rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGES: [Operation<'static>; 4] = [
        Operation::Put {
            key: b"a",
            value: b"1",
        },
        Operation::Delete { key: b"b" },
        Operation::Put { key: b"", value: b"" },
        Operation::Put {
            key: b"a",
            value: b"22",
        },
    ];

    #[test]
    fn changes_come_back_as_they_were_pushed() {
        let batch = WriteBatch::of(&CHANGES);
        let changes: Vec<Operation<'_>> = batch.rows().map(|row| row.operation()).collect();
        assert_eq!(changes, CHANGES);
        assert_eq!(WriteBatch::read(batch.as_bytes().clone()), Some(batch));
        assert!(WriteBatch::default().is_empty() && WriteBatch::default().rows().next().is_none());
    }

    #[test]
    fn a_value_is_put_together_in_place() {
        let put = WriteBatch::put(b"a", |out| out.push(b'1'));
        assert_eq!(put, WriteBatch::of(&CHANGES[..1]));
        let mut writer = WriteBatchBuilder::default();
        writer.push(&CHANGES[1]);
        writer.put_with(b"key", |out| out.extend_from_slice(b"value"));
        writer.push(&CHANGES[0]);
        let batch = writer.finish();
        assert_eq!(batch.rows().nth(1).and_then(|row| row.value), Some(&b"value"[..]));
    }

    #[test]
    fn batches_lie_beside_one_another_but_for_long_ones() {
        let mut memory = BatchMemory::in_pieces_of(100);
        let mut writer = WriteBatchBuilder::default();
        let mut batch = |len: u8| {
            writer.put_with(&[len], |out| out.extend((0..len).map(|byte| byte ^ len)));
            writer.finish_in(&mut memory)
        };
        let batches: Vec<(u8, WriteBatch)> = (0..60).map(|len| (len, batch(len))).collect();
        for (len, batch) in &batches {
            let value: Vec<u8> = (0..*len).map(|byte| byte ^ len).collect();
            let rows: Vec<_> = batch.rows().map(|row| (row.key, row.value)).collect();
            assert_eq!(rows, [(&[*len][..], Some(&value[..]))]);
            let is_long = batch.len() >= 25;
            assert_eq!(batch.as_bytes().is_unique(), is_long, "of {len} bytes");
        }
        let [first, second] = [&batches[0].1, &batches[1].1].map(|batch| batch.as_bytes().as_ptr_range());
        assert_eq!(first.end, second.start);
    }

    #[test]
    fn bytes_that_end_within_a_row_are_no_batch() {
        let rows = WriteBatch::of(&CHANGES).as_bytes().clone();
        let ends: Vec<usize> = WriteBatch::of(&CHANGES).rows().map(|row| row.end).collect();
        for len in 1..rows.len() {
            let read = WriteBatch::read(rows.slice(..len));
            assert_eq!(read.is_some(), ends.contains(&len), "{len} bytes");
        }
        assert_eq!(WriteBatch::read(Bytes::from_static(&[255; 40])), None);
    }

    #[test]
    fn how_long_a_row_is_its_lengths_say() {
        let batch = WriteBatch::of(&CHANGES);
        for row in batch.rows() {
            let lengths = row.bytes.first_chunk().expect("lengths");
            assert_eq!(len_behind(*lengths) as usize + LENGTHS, row.bytes.len());
        }
    }
}
