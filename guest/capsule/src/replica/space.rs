//! What a replica knows of its store: values that it has read or written lately, and which it still has to read.

use alloc::rc::Rc;
use alloc::vec::Vec;

use super::layout::{Key, SEQUENCES};
use super::stored::Stored;
use super::values::Values;
use crate::fetch::fetch;

/// A value as the store has it, or that there is none.
pub type Value = Option<Rc<[u8]>>;

/// What is known of a key: its value, or that there is none.
pub(super) type Known = Option<Stored>;

/// Something has to be read from the store first
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing;

/// A change that the store has not been told yet
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes a value.
    Put(Vec<u8>, Rc<[u8]>),
    /// Removes a value.
    Delete(Vec<u8>),
}

/// Most changes of one commit, and their bytes: what the smallest store takes.
const MAX_PART: usize = 500;
const MAX_PART_BYTES: usize = 480 * 1024;
/// Changes and their bytes with which what belongs together is written: less than a commit takes, by what the next step adds.
const FULL: usize = 400;
const FULL_BYTES: usize = 256 * 1024;

/// What is not written yet of a key; nothing if it is removed
type Pending = (Key, Known);

fn len((key, value): &Pending) -> usize {
    key.len() + value.as_ref().map_or(0, Stored::sealed_len)
}

impl From<Pending> for Change {
    fn from((key, value): Pending) -> Self {
        match value {
            Some(value) => Self::Put(key.to_vec(), value.into_sealed(&key)),
            None => Self::Delete(key.to_vec()),
        }
    }
}

/// Most damaged values that are known of before their capsule heeds them; further ones are met again.
const MAX_DAMAGED: usize = 1024;

/// A key and its damaged value, or that there is none where there must be one
pub(super) type Damaged = (Key, Value);

/// Values by key; of those that were not used for long, half are forgotten when there are too many
#[derive(Debug)]
pub(super) struct Space {
    young: Values,
    /// What was not used since; of a key that is among the young ones too, its value is the one before.
    old: Values,
    young_bytes: usize,
    limit: usize,
    wanted: Vec<Key>,
    changes: Vec<Pending>,
    change_bytes: usize,
    /// What is written before all other changes.
    first: Vec<Pending>,
    /// Between which changes what was changed so far may be written without the rest.
    marks: Vec<usize>,
    damaged: Vec<Damaged>,
    /// Where values are put together, one after the other in the same memory.
    draft: Vec<u8>,
}

/// The changes of a part, which are written all or none, without those that others in it undo.
fn last_of_each_key(part: Vec<Pending>) -> Vec<Change> {
    let mut seen = Values::with_capacity(part.len());
    let mut changes: Vec<Change> = Vec::with_capacity(part.len());
    let newest = part
        .into_iter()
        .rev()
        .filter(|(key, _)| seen.insert(*key, None).is_none());
    changes.extend(newest.map(Change::from));
    changes.reverse();
    changes
}

/// What an entry takes beside the bytes of its value: key, pointer and counters, its place, and the room that tables leave.
const ENTRY_BYTES: usize = 160;

impl Space {
    /// An empty space that remembers about `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            young: Values::default(),
            old: Values::default(),
            young_bytes: 0,
            limit,
            wanted: Vec::new(),
            changes: Vec::new(),
            change_bytes: 0,
            first: Vec::new(),
            marks: Vec::new(),
            damaged: Vec::new(),
            draft: Vec::new(),
        }
    }

    /// What was changed so far may be written without what follows.
    pub(super) fn mark(&mut self) {
        if self.marks.last() != Some(&self.changes.len()) {
            self.marks.push(self.changes.len());
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Missing`] when the store has to be asked, which [`Self::take_wanted`] says.
    pub(super) fn get(&mut self, key: &Key) -> Result<Known, Missing> {
        if let Some(value) = self.young.get(key) {
            return Ok(value.clone());
        }
        if let Some(value) = self.old.get(key).cloned() {
            self.remember(*key, value.clone());
            return Ok(value);
        }
        self.wanted.push(*key);
        Err(Missing)
    }

    /// Asks for the values of those keys that are not known, and shows those that are, with the number of their key.
    pub(super) fn expect(&mut self, keys: &[Key], mut known: impl FnMut(usize, &[u8])) {
        let mut missing = Vec::new();
        for (number, value) in self.young.get_all(keys).into_iter().enumerate() {
            match value {
                Some(Some(value)) => {
                    fetch(value);
                    known(number, value);
                }
                Some(None) => {}
                None => missing.push(number),
            }
        }
        for number in missing {
            _ = self.get(&keys[number]);
        }
    }

    /// Writes a value.
    pub(super) fn put(&mut self, key: Key, value: Vec<u8>) {
        self.change(key, Some(Stored::seal(&key, value)));
    }

    /// Where to put a value together for [`Self::put_draft`]: there is nothing in it.
    pub(super) fn draft(&mut self) -> &mut Vec<u8> {
        self.draft.clear();
        &mut self.draft
    }

    /// Writes the value that was put together.
    pub(super) fn put_draft(&mut self, key: Key) {
        let value = Stored::seal_in(&key, &mut self.draft);
        self.change(key, Some(value));
    }

    /// As [`Self::put_draft`], a value that most likely gives way to another one before it is written.
    pub(super) fn put_open_draft(&mut self, key: Key) {
        let value = Stored::leave_open(&mut self.draft);
        self.change(key, Some(value));
    }

    /// Writes a value before all other changes, none of which has to be written with it.
    pub(super) fn put_first(&mut self, key: Key, value: Vec<u8>) {
        let value = Stored::seal(&key, value);
        self.first.push((key, Some(value.clone())));
        self.remember(key, Some(value));
    }

    /// Removes a value.
    pub(super) fn delete(&mut self, key: Key) {
        self.change(key, None);
    }

    fn change(&mut self, key: Key, value: Known) {
        let change = (key, value.clone());
        self.change_bytes += len(&change);
        self.changes.push(change);
        self.remember(key, value);
    }

    /// What the store said.
    pub(super) fn learn(&mut self, key: Key, value: Known) {
        if self.young.get(&key).is_none() {
            self.remember(key, value);
        }
    }

    /// What the store said, as it said it. A damaged value is none.
    pub(super) fn learn_sealed(&mut self, key: Key, value: Value) {
        let opened = value.as_ref().map(|value| Stored::open(&key, value.clone()));
        match opened {
            None => self.learn(key, None),
            Some(Some(whole)) => self.learn(key, Some(whole)),
            // What is known of a writer's numbers cannot be read, and that is all: see there.
            Some(None) if key.kind() == Some(SEQUENCES) => self.learn(key, Some(Stored::empty())),
            Some(None) => {
                self.learn(key, None);
                self.report((key, value));
            }
        }
    }

    /// A value is damaged, or is not where it must be.
    pub(super) fn report(&mut self, damaged: Damaged) {
        if self.damaged.len() < MAX_DAMAGED {
            self.damaged.push(damaged);
        }
    }

    /// Whether anything was found damaged.
    pub(super) fn has_damaged(&self) -> bool {
        !self.damaged.is_empty()
    }

    /// What is damaged, once. What is not heeded is met again.
    pub(super) fn take_damaged(&mut self) -> Vec<Damaged> {
        core::mem::take(&mut self.damaged)
    }

    /// Whether a value is known to be damaged.
    pub(super) fn is_damaged(&self, key: &Key) -> bool {
        self.damaged.iter().any(|(other, _)| other == key)
    }

    /// What the store has to be asked, each key once.
    pub(super) fn take_wanted(&mut self) -> Vec<Key> {
        self.wanted.sort_unstable_by(|one, other| one[..].cmp(&other[..]));
        self.wanted.dedup();
        core::mem::take(&mut self.wanted)
    }

    /// What the store has to be told, cut where it was marked into parts that the smallest store takes.
    pub(super) fn take_changes(&mut self) -> Vec<Vec<Change>> {
        self.mark();
        let mut marks = core::mem::take(&mut self.marks).into_iter().peekable();
        let first = core::mem::take(&mut self.first);
        let changes = |part: &[Pending]| part.iter().cloned().map(Change::from).collect();
        let mut parts: Vec<Vec<Change>> = first.chunks(MAX_PART).map(changes).collect();
        self.change_bytes = 0;
        let (mut part, mut bytes) = (Vec::new(), 0);
        let mut group = Vec::new();
        for (index, change) in core::mem::take(&mut self.changes).into_iter().enumerate() {
            group.push(change);
            if marks.next_if(|mark| *mark <= index + 1).is_none() {
                continue;
            }
            let more: usize = group.iter().map(len).sum();
            if !part.is_empty() && (part.len() + group.len() > MAX_PART || bytes + more > MAX_PART_BYTES) {
                parts.push(last_of_each_key(core::mem::take(&mut part)));
                bytes = 0;
            }
            bytes += more;
            part.append(&mut group);
        }
        if !part.is_empty() {
            parts.push(last_of_each_key(part));
        }
        self.forget_old();
        parts
    }

    /// Whether there are as many changes as belong into one commit.
    pub(super) fn is_full(&self) -> bool {
        self.changes.len() >= FULL || self.change_bytes >= FULL_BYTES
    }

    /// Forgets everything: the store did not do what it was told.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.limit);
    }

    fn remember(&mut self, key: Key, value: Known) {
        let bytes = |value: &Known| value.as_ref().map_or(0, Stored::sealed_len);
        self.young_bytes += bytes(&value);
        match self.young.insert(key, value) {
            Some(before) => self.young_bytes -= bytes(&before),
            None => self.young_bytes += ENTRY_BYTES,
        }
        self.forget_old();
    }

    /// What is not written yet must not be forgotten: the store would give the value before.
    fn forget_old(&mut self) {
        if self.young_bytes > self.limit / 2 && self.changes.is_empty() && self.first.is_empty() {
            self.old = core::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{CapsuleName, RecordName};
    use crate::replica::layout::{RECORD, of_record};

    fn key(number: u8) -> Key {
        of_record(&CapsuleName([1; 32]), RECORD, &RecordName([number; 32]))
    }

    #[test]
    fn what_is_written_again_and_again_takes_the_place_of_nothing_else() {
        let mut space = Space::new(20 * ENTRY_BYTES);
        space.put(key(1), Vec::from([1; 8]));
        for number in 0..100 {
            space.put(key(2), Vec::from([number; 8]));
            _ = space.take_changes();
        }
        assert!(space.get(&key(1)).is_ok_and(|value| value.is_some()));
        for number in 3..30 {
            space.put(key(number), Vec::new());
            _ = space.take_changes();
        }
        assert_eq!(space.get(&key(1)), Err(Missing));
    }
}
