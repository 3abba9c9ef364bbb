//! Which records have a signature that was verified, or that this client has made: it need not be verified again.

use core::hash::Hasher as _;

use hashbrown::HashTable;

use crate::hash::RecordName;
use crate::spread::Spread;

/// Most names of each age: half a megabyte of them, and as many as fill a table. With a batch of a hundred for each signature those of
/// the last one and a half to three million records are known.
const MOST: usize = 14_336;

/// Names of records, of which the oldest are forgotten
#[derive(Debug, Default)]
pub(super) struct Signed {
    recent: HashTable<RecordName>,
    before: HashTable<RecordName>,
}

impl Signed {
    /// Whether this record is known to be signed.
    pub(super) fn contains(&self, name: &RecordName) -> bool {
        let is_in = |names: &HashTable<RecordName>| names.find(spread(name), |known| known == name).is_some();
        is_in(&self.recent) || is_in(&self.before)
    }

    /// This record is signed.
    pub(super) fn insert(&mut self, name: &RecordName) {
        if self.contains(name) {
            return;
        }
        if self.recent.len() == MOST {
            self.before = core::mem::take(&mut self.recent);
        }
        self.recent.insert_unique(spread(name), *name, spread);
    }

    /// A writer was revoked: nothing that was signed counts unless it is verified again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Names are hashes already.
fn spread(name: &RecordName) -> u64 {
    let (words, _) = name.0.as_chunks();
    let mut hasher = Spread::default();
    hasher.write_u64(u64::from_le_bytes(words[0]));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> RecordName {
        let mut name = [7; 32];
        name[..8].copy_from_slice(&(number as u64).to_le_bytes());
        RecordName(name)
    }

    #[test]
    fn the_last_are_known_and_no_more_than_fit_are_kept() {
        let mut signed = Signed::default();
        for number in 0..3 * MOST {
            signed.insert(&name(number));
            signed.insert(&name(number));
        }
        assert!((MOST..3 * MOST).all(|number| signed.contains(&name(number))));
        assert!((0..MOST).all(|number| !signed.contains(&name(number))));
        assert!(!signed.contains(&name(3 * MOST)));
    }

    #[test]
    fn a_name_that_begins_alike_is_another_one() {
        let mut signed = Signed::default();
        signed.insert(&name(1));
        let mut other = name(1);
        other.0[31] ^= 1;
        assert!(!signed.contains(&other));
    }

    #[test]
    fn nothing_is_known_once_it_was_cleared() {
        let mut signed = Signed::default();
        (0..2 * MOST).for_each(|number| signed.insert(&name(number)));
        signed.clear();
        assert!((0..2 * MOST).all(|number| !signed.contains(&name(number))));
    }
}
