//! A table of values by key, which lie in the order in which they came: what was written together is found together.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasher as _;
use core::mem::replace;

use bytes::Bytes;
use hashbrown::HashTable;
use selfsame_write_batch::{BatchMemory, LENGTHS, Row, WriteBatch};

use super::layout::{Key, RECORD_KEY};
use super::space::Known;
use super::stored::{SUM, Stored};
use crate::spread::BuildSpread;

/// Where a key's value lies, with half of the key's hash: what the table holds stays in the processor's cache, and a value that
/// is not looked for is hardly ever touched
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) hash: u32,
    pub(super) index: u32,
}

impl Place {
    /// The hash by which the table finds it: it takes some bits from either end.
    pub(super) fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

/// Values by key
#[derive(Debug, Default)]
pub(super) struct Values {
    places: HashTable<Place>,
    entries: Entries,
}

/// What an entry takes wherever its value is: itself, its place, and the room that tables leave.
pub(super) const ENTRY_BYTES: usize = 64;
/// What a key and a value in memory of their own take beside their bytes: the key, counters, and the room that an allocator leaves.
const APART_BYTES: usize = 96;

/// A key and what is known of its value
#[derive(Debug)]
pub(super) enum Entry {
    /// A record's value behind its key, where they were written or read: in memory that is kept with them.
    Written(Bytes),
    /// Anything else.
    Apart(Box<Key>, Known),
}

impl Entry {
    /// That of a record which a batch has.
    pub(super) fn written(batch: &WriteBatch, row: &Row<'_>) -> Self {
        let len = row.bytes.len() - LENGTHS;
        Self::Written(batch.as_bytes().slice(row.end - len..row.end))
    }

    /// The same, without what was written with it.
    pub(super) fn moved(&self, memory: &mut BatchMemory) -> Self {
        match self {
            Self::Written(row) => Self::Written(memory.keep_row(row)),
            Self::Apart(key, Some(value)) if value.is_long() => Self::Apart(key.clone(), Some(value.alone())),
            Self::Apart(key, value) => Self::Apart(key.clone(), value.clone()),
        }
    }

    /// Whether it is about a key.
    fn is_of(&self, key: &Key) -> bool {
        match self {
            Self::Written(row) => row[..RECORD_KEY] == key[..],
            Self::Apart(other, _) => **other == *key,
        }
    }

    /// What is known.
    pub(super) fn known(&self) -> Known {
        match self {
            Self::Written(row) => Some(Stored::unchecked(row.slice(RECORD_KEY..))),
            Self::Apart(_, value) => value.clone(),
        }
    }

    /// The value; nothing if there is none.
    pub(super) fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Written(row) => Some(&row[RECORD_KEY..row.len() - SUM]),
            Self::Apart(_, value) => value.as_deref(),
        }
    }

    /// How many bytes it takes elsewhere.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Written(row) => row.len(),
            Self::Apart(..) => self.own_len(),
        }
    }

    /// How many bytes are given up with it.
    pub(super) fn own_len(&self) -> usize {
        match self {
            Self::Written(_) => 0,
            Self::Apart(_, value) => APART_BYTES + value.as_ref().map_or(0, Stored::sealed_len),
        }
    }
}

/// Entries by their number, in parts: only the first is copied when they become more, and nobody has all of them twice.
#[derive(Debug, Default)]
struct Entries {
    parts: Vec<Vec<Entry>>,
    len: u32,
}

/// Entries of a part: some hundred kilobytes.
const PART: usize = 1 << PART_LOG2;
const PART_LOG2: u32 = 13;

impl Entries {
    fn get(&self, index: u32) -> &Entry {
        &self.parts[(index >> PART_LOG2) as usize][index as usize % PART]
    }

    #[inline(never)]
    fn get_mut(&mut self, index: u32) -> &mut Entry {
        &mut self.parts[(index >> PART_LOG2) as usize][index as usize % PART]
    }

    /// Adds one; its number.
    #[inline(never)]
    fn push(&mut self, entry: Entry) -> u32 {
        let index = self.len;
        if (index as usize).is_multiple_of(PART) {
            let room = if self.parts.is_empty() { 0 } else { PART };
            self.parts.push(Vec::with_capacity(room));
        }
        if let Some(last) = self.parts.last_mut() {
            last.push(entry);
        }
        self.len += 1;
        index
    }
}

/// Half of a key's hash.
pub(super) fn hash(key: &Key) -> u32 {
    BuildSpread::default().hash_one(key) as u32
}

impl Values {
    /// What is known of a key.
    pub(super) fn get(&self, key: &Key) -> Option<&Entry> {
        let hash = hash(key);
        let is_it = |place: &Place| place.hash == hash && self.entries.get(place.index).is_of(key);
        let place = self.places.find(Place::spread(hash), is_it)?;
        Some(self.entries.get(place.index))
    }

    /// Sets what is known of a key, whose entry it is; what was before, if anything.
    pub(super) fn insert(&mut self, key: &Key, entry: Entry) -> Option<Entry> {
        let hash = hash(key);
        let entries = &mut self.entries;
        let is_it = |place: &Place| place.hash == hash && entries.get(place.index).is_of(key);
        if let Some(place) = self.places.find(Place::spread(hash), is_it) {
            return Some(replace(entries.get_mut(place.index), entry));
        }
        let index = entries.push(entry);
        self.places
            .insert_unique(Place::spread(hash), Place { hash, index }, |place| {
                Place::spread(place.hash)
            });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{CapsuleName, RecordName};
    use crate::replica::layout::{RECORD, of_record};

    fn key(number: u32) -> Key {
        let mut name = [7; 32];
        name[20..24].copy_from_slice(&number.to_le_bytes());
        of_record(&CapsuleName([1; 32]), RECORD, &RecordName(name))
    }

    fn value(number: u32) -> Stored {
        Stored::seal(&key(number), number.to_le_bytes().to_vec())
    }

    fn apart(number: u32, value: Known) -> Entry {
        Entry::Apart(Box::new(key(number)), value)
    }

    fn known(entry: Option<&Entry>) -> Option<Known> {
        entry.map(Entry::known)
    }

    /// Of even numbers as they are in a batch.
    fn entry(number: u32) -> Entry {
        if number % 2 == 1 {
            return apart(number, Some(value(number)));
        }
        let (key, value) = (key(number), value(number));
        let batch = WriteBatch::of(&[selfsame_codec::Operation::Put {
            key: &key,
            value: value.sealed(),
        }]);
        let row = batch.rows().next().expect("a row");
        Entry::written(&batch, &row)
    }

    #[test]
    fn values_are_found_though_their_keys_have_the_same_hash() {
        assert_eq!(hash(&key(1)), hash(&key(2)));
        let mut values = Values::default();
        let last = 2 * PART as u32;
        for number in 0..last {
            assert!(values.insert(&key(number), entry(number)).is_none());
        }
        let before = values.insert(&key(8), apart(8, None));
        assert_eq!(known(before.as_ref()), Some(Some(value(8))));
        assert_eq!(known(values.get(&key(8))), Some(None));
        assert_eq!(known(values.get(&key(last - 1))), Some(Some(value(last - 1))));
        assert_eq!(known(values.get(&key(last - 2))), Some(Some(value(last - 2))));
        let found = values.get(&key(4)).and_then(Entry::value);
        assert_eq!(found, Some(&4_u32.to_le_bytes()[..]));
        assert!(values.get(&key(last)).is_none());
    }
}
