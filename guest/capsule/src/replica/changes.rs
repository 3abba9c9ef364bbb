//! What was changed and the store has not been told yet: the last of each key, in memory that is used again for each request.

use alloc::vec::Vec;

use hashbrown::hash_table::Entry as At;
use hashbrown::{HashSet, HashTable};
use selfsame_write_batch::LENGTHS;

use super::entry::Entry;
use super::layout::Key;
use super::space::Known;
use super::stored::Stored;
use super::values::{Place, hash};
use crate::spread::BuildSpread;

/// Most changes of one commit, and their bytes: what the smallest store takes.
pub(super) const MAX_PART: usize = 500;
const MAX_PART_BYTES: usize = 480 * 1024;
/// Changes and their bytes with which what belongs together is written: less than a commit takes, by what the next step adds.
const FULL: usize = 300;
const FULL_BYTES: usize = 256 * 1024;

/// For so many changes memory is kept: more than most requests have.
const KEPT: usize = 2 * MAX_PART;

/// What is new of a key
#[derive(Clone, Debug)]
pub(super) enum New {
    /// Nothing: the store has none, as is known without asking it.
    Assumed,
    /// A value, or that there is none any more.
    Value(Known),
    /// A record, whose value is put together when the store is told.
    Record(Entry),
}

impl New {
    /// The value.
    pub(super) fn to_known(&self, key: &Key) -> Known {
        match self {
            Self::Assumed => None,
            Self::Value(known) => known.clone(),
            Self::Record(entry) => {
                let mut value = Vec::with_capacity(entry.sealed_len());
                entry.write(&mut value);
                Some(Stored::seal(key, value))
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Assumed | Self::Value(None) => 0,
            Self::Value(Some(value)) => value.sealed_len(),
            Self::Record(entry) => entry.sealed_len(),
        }
    }
}

/// Changes in their order
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Where the last of each key is.
    places: HashTable<Place>,
    list: Vec<(Key, New)>,
    assumed: usize,
    bytes: usize,
    /// Between which of them what was changed so far may be written without the rest.
    marks: Vec<usize>,
    /// Whether some key was changed more than once.
    repeats: bool,
}

impl Changes {
    /// What is new of a key.
    #[inline(never)]
    pub(super) fn get(&self, key: &Key) -> Option<&New> {
        // Of a request that only reads there is never anything.
        if self.list.is_empty() {
            return None;
        }
        let hash = hash(key);
        let is_it = |place: &Place| place.hash == hash && self.list[place.index as usize].0 == *key;
        let place = self.places.find(Place::spread(hash), is_it)?;
        Some(&self.list[place.index as usize].1)
    }

    /// Notes that the store has nothing under a key, unless it is to be told something.
    pub(super) fn assume(&mut self, key: Key) {
        if self.get(&key).is_none() {
            self.put(key, New::Assumed);
        }
    }

    /// Changes a key. What it was changed to before, the store is never told, unless there is enough for a commit: until then all that
    /// is here, and what this step adds, goes into the first part.
    #[inline(never)]
    pub(super) fn put(&mut self, key: Key, new: New) {
        let may_replace = !self.is_full();
        match new {
            New::Assumed => self.assumed += 1,
            _ => self.bytes += key.len() + new.len(),
        }
        let (hash, list) = (hash(&key), &mut self.list);
        let here = Place {
            hash,
            index: list.len() as u32,
        };
        let is_it = |place: &Place| place.hash == hash && list[place.index as usize].0 == key;
        let spread = |place: &Place| Place::spread(place.hash);
        match self.places.entry(spread(&here), is_it, spread) {
            At::Vacant(at) => _ = at.insert(here),
            At::Occupied(mut at) => {
                let index = at.get().index as usize;
                let before = &mut list[index].1;
                let is_change = !matches!(before, New::Assumed);
                if is_change && may_replace {
                    self.bytes -= key.len() + before.len();
                    *before = new;
                    return;
                }
                self.repeats |= is_change;
                *at.get_mut() = here;
            }
        }
        list.push((key, new));
    }

    /// What was changed so far may be written without what follows.
    pub(super) fn mark(&mut self) {
        if self.marks.last() != Some(&self.list.len()) {
            self.marks.push(self.list.len());
        }
    }

    /// Whether there are as many changes as belong into one commit.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() - self.assumed >= FULL || self.bytes >= FULL_BYTES
    }

    /// Cuts all changes where it was marked into parts that the smallest store takes; how long each is. A part is written all or none,
    /// and so there is one change of each key in it.
    pub(super) fn cut(&mut self) -> Vec<usize> {
        self.mark();
        let lens = self.parts();
        if self.repeats {
            self.leave_last(&lens);
        }
        lens
    }

    /// How many bytes the next part has as a batch, or some more.
    pub(super) fn len_of(&self, part: usize) -> usize {
        let len = |(key, new): &(Key, New)| LENGTHS + key.len() + new.len();
        self.list[..part].iter().map(len).sum()
    }

    /// The changes of the next part.
    pub(super) fn part(&self, len: usize) -> &[(Key, New)] {
        &self.list[..len]
    }

    /// Takes them.
    pub(super) fn take(&mut self, len: usize) -> impl Iterator<Item = (Key, New)> {
        let part = self.list.drain(..len);
        part.filter(|(_, new)| !matches!(new, New::Assumed))
    }

    /// Forgets all, and keeps the memory for what comes next if it is not much.
    pub(super) fn clear(&mut self) {
        if self.list.capacity() > KEPT {
            *self = Self::default();
            return;
        }
        self.places.clear();
        self.list.clear();
        self.marks.clear();
        (self.assumed, self.bytes, self.repeats) = (0, 0, false);
    }

    /// How many of the list belong to each part.
    fn parts(&self) -> Vec<usize> {
        let (mut parts, mut len, mut count, mut bytes) = (Vec::new(), 0, 0, 0);
        let mut start = 0;
        for end in &self.marks {
            let group = &self.list[start..*end];
            let real = group.iter().filter(|(_, new)| !matches!(new, New::Assumed));
            let (more, more_bytes) = real.fold((0, 0), |(count, bytes), (key, new)| {
                (count + 1, bytes + key.len() + new.len())
            });
            if count > 0 && (count + more > MAX_PART || bytes + more_bytes > MAX_PART_BYTES) {
                parts.push(core::mem::take(&mut len));
                (count, bytes) = (0, 0);
            }
            len += group.len();
            (count, bytes) = (count + more, bytes + more_bytes);
            start = *end;
        }
        if count > 0 {
            parts.push(len);
        }
        parts
    }

    /// Leaves the last change of each key in each part; of those before there is nothing to tell.
    fn leave_last(&mut self, lens: &[usize]) {
        let mut rest = self.list.as_mut_slice();
        for len in lens {
            let (part, others) = rest.split_at_mut(*len);
            let mut seen: HashSet<Key, BuildSpread> = HashSet::default();
            for (key, new) in part.iter_mut().rev() {
                if !matches!(new, New::Assumed) && !seen.insert(*key) {
                    *new = New::Assumed;
                }
            }
            rest = others;
        }
    }
}
