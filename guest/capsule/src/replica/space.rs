//! What a replica knows of its store: values that it has read or written lately, and which it still has to read.

use alloc::rc::Rc;
use alloc::vec::Vec;

use super::changes::{Changes, MAX_PART, New};
use super::entry::Entry;
use super::layout::{Key, SEQUENCES};
use super::stored::Stored;
use super::values::Values;
use crate::fetch::fetch;
use crate::refusal;

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

/// What is not written yet of a key; nothing if it is removed
type Pending = (Key, Known);

impl From<Pending> for Change {
    fn from((key, value): Pending) -> Self {
        match value {
            Some(value) => Self::Put(key.to_vec(), value.into_sealed()),
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
    changes: Changes,
    /// What is written before all other changes.
    first: Vec<Pending>,
    damaged: Vec<Damaged>,
    /// Where values are put together, one after the other in the same memory.
    draft: Vec<u8>,
}

fn decoded(value: Known) -> refusal::Result<Option<Entry>> {
    value.map(Entry::decode).transpose()
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
            changes: Changes::default(),
            first: Vec::new(),
            damaged: Vec::new(),
            draft: Vec::new(),
        }
    }

    /// What was changed so far may be written without what follows.
    pub(super) fn mark(&mut self) {
        self.changes.mark();
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Missing`] when the store has to be asked, which [`Self::take_wanted`] says.
    pub(super) fn get(&mut self, key: &Key) -> Result<Known, Missing> {
        match self.changes.get(key) {
            Some(new) => Ok(new.clone().into_known(key, &mut self.draft)),
            None => self.written(key),
        }
    }

    /// The record of a key; see [`Self::get`].
    ///
    /// # Errors
    /// [`Missing`], or [`Code::StoreCorrupt`](selfsame_codec::Code::StoreCorrupt) inside.
    pub(super) fn record(&mut self, key: &Key) -> Result<refusal::Result<Option<Entry>>, Missing> {
        match self.changes.get(key) {
            Some(New::Record(entry)) => Ok(Ok(Some(entry.clone()))),
            Some(_) => self.get(key).map(decoded),
            None => self.written(key).map(decoded),
        }
    }

    /// Whether there is a value under a key; see [`Self::get`].
    ///
    /// # Errors
    /// [`Missing`].
    pub(super) fn has(&mut self, key: &Key) -> Result<bool, Missing> {
        match self.changes.get(key) {
            Some(New::Assumed | New::Value(None)) => Ok(false),
            Some(_) => Ok(true),
            None => self.written(key).map(|value| value.is_some()),
        }
    }

    /// What the store has.
    fn written(&mut self, key: &Key) -> Result<Known, Missing> {
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

    /// Writes a record.
    pub(super) fn put_record(&mut self, key: Key, entry: Entry) {
        self.changes.put(key, New::Record(entry));
    }

    /// Notes that the store has nothing under a key, unless it is to be told something: until then it is not asked for it.
    pub(super) fn assume(&mut self, key: Key) {
        self.changes.assume(key);
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
        self.changes.put(key, New::Value(value));
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

    /// What the store has to be told, in parts that the smallest store takes.
    pub(super) fn take_changes(&mut self) -> Vec<Vec<Change>> {
        let first = core::mem::take(&mut self.first);
        let changes = |part: &[Pending]| part.iter().cloned().map(Change::from).collect();
        let mut parts: Vec<Vec<Change>> = first.chunks(MAX_PART).map(changes).collect();
        let mut changes = core::mem::take(&mut self.changes);
        self.young.fetch(changes.keys());
        for len in changes.cut() {
            let mut told = Vec::with_capacity(len);
            for (key, new) in changes.take(len) {
                let value = new.into_known(&key, &mut self.draft);
                self.remember(key, value.clone());
                told.push(Change::from((key, value)));
            }
            parts.push(told);
        }
        changes.clear();
        self.changes = changes;
        self.forget_old();
        parts
    }

    /// Whether there are as many changes as belong into one commit.
    pub(super) fn is_full(&self) -> bool {
        self.changes.is_full()
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
        if self.young_bytes > self.limit / 2 && self.first.is_empty() {
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

    fn key(number: u32) -> Key {
        let mut name = [7; 32];
        name[..4].copy_from_slice(&number.to_le_bytes());
        of_record(&CapsuleName([1; 32]), RECORD, &RecordName(name))
    }

    fn put(space: &mut Space, number: u32, value: u8) {
        space.put(key(number), Vec::from([value; 8]));
    }

    /// The first bytes of the values that the store is told, by the numbers of their keys.
    fn told(parts: Vec<Vec<Change>>) -> Vec<Vec<(u32, u8)>> {
        let told = |change: &Change| match change {
            Change::Put(key, value) => {
                let name = Key::read(key).and_then(|key| key.record()).expect("a record");
                let number = name.0.first_chunk().expect("four bytes");
                (u32::from_le_bytes(*number), value[0])
            }
            Change::Delete(_) => panic!("nothing is removed"),
        };
        parts.iter().map(|part| part.iter().map(told).collect()).collect()
    }

    #[test]
    fn what_is_changed_again_is_told_once_with_what_changed_it() {
        let mut space = Space::new(1 << 20);
        put(&mut space, 0, 1);
        for number in 1..300 {
            space.mark();
            put(&mut space, number, 1);
        }
        put(&mut space, 0, 2);
        for number in 300..600 {
            put(&mut space, number, 1);
            space.mark();
        }
        let parts = told(space.take_changes());
        assert_eq!(parts[0][0], (0, 2));
        assert!(parts[0].len() > 300, "cut after {}", parts[0].len());
        let all: Vec<u32> = parts.iter().flatten().map(|(number, _)| *number).collect();
        assert!(all.iter().copied().eq(0..600));
    }

    #[test]
    fn of_more_than_a_commit_takes_each_part_has_the_last_of_each_key() {
        let mut space = Space::new(1 << 20);
        for number in 0..1300 {
            put(&mut space, number, 1);
            put(&mut space, number / 2, 2);
            put(&mut space, number % 10, (number % 250) as u8);
            space.mark();
        }
        let parts = told(space.take_changes());
        assert!(parts.len() > 2);
        let mut last = alloc::collections::BTreeMap::new();
        for part in parts {
            assert!(part.len() <= MAX_PART);
            let mut numbers: Vec<u32> = part.iter().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), part.len(), "a key is twice in a part");
            last.extend(part);
        }
        for (number, value) in last {
            let known = space.get(&key(number)).expect("it is known").expect("a value");
            assert_eq!(known[0], value, "key {number}");
            let expected = match number {
                0..10 => (1290 + number) % 250,
                10..650 => 2,
                _ => 1,
            };
            assert_eq!(u32::from(value), expected, "key {number}");
        }
    }

    #[test]
    fn what_is_assumed_is_not_asked_for_and_never_told() {
        let mut space = Space::new(1 << 20);
        space.assume(key(1));
        put(&mut space, 2, 1);
        space.assume(key(2));
        assert_eq!(space.get(&key(1)), Ok(None));
        assert_eq!(space.has(&key(1)), Ok(false));
        assert_eq!(space.has(&key(2)), Ok(true));
        assert!(space.take_wanted().is_empty());
        put(&mut space, 1, 1);
        space.assume(key(3));
        assert_eq!(told(space.take_changes()), [[(2, 1), (1, 1)]]);
        assert_eq!(space.get(&key(3)), Err(Missing));
    }

    #[test]
    fn what_is_written_again_and_again_takes_the_place_of_nothing_else() {
        let mut space = Space::new(20 * ENTRY_BYTES);
        put(&mut space, 1, 1);
        for number in 0..100 {
            put(&mut space, 2, number);
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
