//! A sparse table in which each name has one place, and takes it from the name that was there.
//!
//! It holds what an array of places would hold, in memory for the names that were seen: most readers see few, and an array would have
//! to be cleared first. Names lie in the order in which they came, so that those of one batch are near each other in memory.

use alloc::vec::Vec;
use core::hash::Hasher as _;

use hashbrown::HashTable;

use crate::hash::HASH_BYTES;
use crate::spread::Spread;

/// Names, and of each what is known of it
#[derive(Clone, Debug)]
pub(crate) struct Places<T> {
    mask: u32,
    held: Vec<([u8; HASH_BYTES], T)>,
    /// Where in `held` the name of each place is.
    index: HashTable<u32>,
}

impl<T> Places<T> {
    /// An empty table; the number of places is two to this power.
    pub(crate) fn new(places_log2: u8) -> Self {
        Self {
            mask: u32::MAX >> (u32::BITS - u32::from(places_log2)),
            held: Vec::new(),
            index: HashTable::new(),
        }
    }

    /// What is known of a name, if it has its place.
    pub(crate) fn get(&self, name: &[u8; HASH_BYTES]) -> Option<&T> {
        let (held, known) = &self.held[self.find(name)?];
        (held == name).then_some(known)
    }

    /// Gives a name its place; `learn` is told what was known of it.
    pub(crate) fn learn(&mut self, name: &[u8; HASH_BYTES], learn: impl FnOnce(Option<&T>) -> T) {
        if let Some(number) = self.find(name) {
            let (held, known) = &mut self.held[number];
            *known = learn((held == name).then_some(known));
            *held = *name;
            return;
        }
        let number = self.held.len() as u32;
        self.held.push((*name, learn(None)));
        let (mask, held) = (self.mask, &self.held);
        let hash = |number: &u32| spread(place(&held[*number as usize].0, mask));
        self.index.insert_unique(hash(&number), number, hash);
    }

    /// Where in `held` the name is that has this name's place.
    fn find(&self, name: &[u8; HASH_BYTES]) -> Option<usize> {
        let wanted = place(name, self.mask);
        let has_place = |number: &u32| place(&self.held[*number as usize].0, self.mask) == wanted;
        let number = self.index.find(spread(wanted), has_place)?;
        Some(*number as usize)
    }

    /// Forgets all names.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.index.clear();
    }
}

/// Tables are equal that hold the same names and know the same of them, in whatever order these came.
impl<T: PartialEq> PartialEq for Places<T> {
    fn eq(&self, other: &Self) -> bool {
        let is_known = |(name, known): &([u8; HASH_BYTES], T)| other.get(name) == Some(known);
        self.mask == other.mask && self.held.len() == other.held.len() && self.held.iter().all(is_known)
    }
}

impl<T: Eq> Eq for Places<T> {}

/// The first four bytes of a name, little-endian, modulo the number of places.
fn place(name: &[u8; HASH_BYTES], mask: u32) -> u32 {
    u32::from_le_bytes([name[0], name[1], name[2], name[3]]) & mask
}

fn spread(place: u32) -> u64 {
    let mut hasher = Spread::default();
    hasher.write_u64(u64::from(place));
    hasher.finish()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A name of which the first bytes give the place.
    pub(crate) fn name(first: u32, rest: u8) -> [u8; HASH_BYTES] {
        let mut name = [rest; HASH_BYTES];
        name[..4].copy_from_slice(&first.to_le_bytes());
        name
    }

    #[test]
    fn a_name_takes_the_place_of_another() {
        let mut places = Places::new(4);
        places.learn(&name(3, 1), |_| 1);
        places.learn(&name(4, 1), |_| 2);
        assert_eq!(places.get(&name(3, 1)), Some(&1));
        places.learn(&name(3 + 16, 2), |known| {
            assert_eq!(known, None, "that was another one");
            3
        });
        assert_eq!(places.get(&name(3, 1)), None);
        assert_eq!(places.get(&name(3 + 16, 2)), Some(&3));
        assert_eq!(places.get(&name(4, 1)), Some(&2));
    }

    #[test]
    fn what_was_known_of_a_name_is_told() {
        let mut places = Places::new(4);
        for expected in [None, Some(0), Some(1)] {
            places.learn(&name(7, 1), |known| {
                assert_eq!(known.copied(), expected);
                known.map_or(0, |known| known + 1)
            });
        }
    }

    #[test]
    fn no_more_names_are_held_than_there_are_places() {
        let mut places = Places::new(6);
        for first in 0..1000 {
            places.learn(&name(first, 1), |_| ());
        }
        assert_eq!(places.held.len(), 64);
        places.clear();
        assert!((0..1000).all(|first| places.get(&name(first, 1)).is_none()));
    }
}
