//! A table of values by key, which lie in the order in which they came: what was written together is found together.

use alloc::vec::Vec;
use core::hash::BuildHasher as _;
use core::mem::replace;

use hashbrown::HashTable;

use super::layout::Key;
use super::space::Known;
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

/// Entries by their number, in parts: only the first is copied when they become more, and nobody has all of them twice.
#[derive(Debug, Default)]
struct Entries {
    parts: Vec<Vec<Entry>>,
    len: u32,
}

type Entry = (Key, Known);

/// Entries of a part: some hundred kilobytes.
const PART: usize = 1 << PART_LOG2;
const PART_LOG2: u32 = 12;

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
    /// The value of a key.
    pub(super) fn get(&self, key: &Key) -> Option<&Known> {
        let hash = hash(key);
        let is_it = |place: &Place| place.hash == hash && self.entries.get(place.index).0 == *key;
        let place = self.places.find(Place::spread(hash), is_it)?;
        Some(&self.entries.get(place.index).1)
    }

    /// The values of many keys. Each step is done for all of them before the next one, so that the processor fetches what it
    /// needs of many from memory at a time.
    pub(super) fn get_all(&self, keys: &[Key]) -> Vec<Option<&Known>> {
        let hashes: Vec<u32> = keys.iter().map(hash).collect();
        let index = |hash: &u32| {
            let place = self
                .places
                .find(Place::spread(*hash), |place| place.hash == *hash)?;
            Some(place.index)
        };
        let indexes: Vec<Option<u32>> = hashes.iter().map(index).collect();
        let value = |(key, index): (&Key, Option<u32>)| match self.entries.get(index?) {
            (other, value) if other == key => Some(value),
            // Another one with the same hash.
            _ => self.get(key),
        };
        keys.iter().zip(indexes).map(value).collect()
    }

    /// Lets the processor fetch where the values of keys are, or will be, of many at a time.
    pub(super) fn fetch<'a>(&self, keys: impl Iterator<Item = &'a Key>) {
        let is_there = |hash: u32| {
            let place = self.places.find(Place::spread(hash), |place| place.hash == hash);
            place.is_some()
        };
        core::hint::black_box(keys.map(hash).filter(|hash| is_there(*hash)).count());
    }

    /// Sets the value of a key; the one before, if it had one.
    pub(super) fn insert(&mut self, key: Key, value: Known) -> Option<Known> {
        let hash = hash(&key);
        let entries = &mut self.entries;
        let is_it = |place: &Place| place.hash == hash && entries.get(place.index).0 == key;
        if let Some(place) = self.places.find(Place::spread(hash), is_it) {
            return Some(replace(&mut entries.get_mut(place.index).1, value));
        }
        let index = entries.push((key, value));
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
    use crate::replica::stored::Stored;

    fn key(number: u32) -> Key {
        let mut name = [7; 32];
        name[20..24].copy_from_slice(&number.to_le_bytes());
        of_record(&CapsuleName([1; 32]), RECORD, &RecordName(name))
    }

    fn value(number: u32) -> Stored {
        Stored::seal(&key(number), number.to_le_bytes().to_vec())
    }

    #[test]
    fn values_are_found_though_their_keys_have_the_same_hash() {
        assert_eq!(hash(&key(1)), hash(&key(2)));
        let mut values = Values::default();
        let last = 2 * PART as u32;
        for number in 0..last {
            assert_eq!(values.insert(key(number), Some(value(number))), None);
        }
        assert_eq!(values.insert(key(7), None), Some(Some(value(7))));
        assert_eq!(values.get(&key(7)), Some(&None));
        assert_eq!(values.get(&key(last - 1)), Some(&Some(value(last - 1))));
        assert_eq!(values.get(&key(last)), None);
        let keys: Vec<Key> = (0..=last).map(key).collect();
        for (key, value) in keys.iter().zip(values.get_all(&keys)) {
            assert_eq!(value, values.get(key));
        }
    }
}
