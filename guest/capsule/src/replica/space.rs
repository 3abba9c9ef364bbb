//! What a replica knows of its store: values that it has read or written lately, and which it still has to read.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::Operation;
use selfsame_write_batch::{BatchMemory, Row, WriteBatch, WriteBatchBuilder};

use super::changes::{Changes, MAX_PART, New};
use super::entry::Entry;
use super::layout::{Key, SEQUENCES};
use super::stored::{self, Stored};
use super::strays::Strays;
use super::values::{self, ENTRY_BYTES, Values};
use crate::refusal;

/// A value as the store has it, or that there is none.
pub type Value<'a> = Option<&'a [u8]>;

/// What is known of a key: its value, or that there is none.
pub(super) type Known = Option<Stored>;

/// Something has to be read from the store first
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing;

/// What is not written yet of a key; nothing if it is removed
type Pending = (Key, Known);

/// Most damaged values that are known of before their capsule heeds them; further ones are met again.
const MAX_DAMAGED: usize = 1024;

/// A key and its damaged value, or that there is none where there must be one
pub(super) type Damaged = (Key, Option<Bytes>);

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
    /// Records that nobody may miss.
    pub(super) strays: Strays,
    /// Where batches are put together, and where they are kept.
    batch: WriteBatchBuilder,
    memory: BatchMemory,
}

fn push(batch: &mut WriteBatchBuilder, key: &Key, value: &Known) {
    batch.push(&match value {
        Some(value) => Operation::Put {
            key,
            value: value.sealed(),
        },
        None => Operation::Delete { key },
    });
}

fn batch_of(pending: &[Pending]) -> WriteBatch {
    let mut batch = WriteBatchBuilder::default();
    for (key, value) in pending {
        push(&mut batch, key, value);
    }
    batch.finish()
}

fn decoded(value: Known) -> refusal::Result<Option<Entry>> {
    value.map(Entry::decode).transpose()
}

/// In how many pieces at least the memory of batches is taken: one is kept by the last that is needed of it.
const PIECES: usize = 256;
/// Longest piece: of many batches.
const MAX_PIECE: usize = 1 << 20;

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
            strays: Strays::default(),
            batch: WriteBatchBuilder::default(),
            memory: BatchMemory::in_pieces_of((limit / PIECES).min(MAX_PIECE)),
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
            Some(new) => Ok(new.to_known(key)),
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

    /// What `take` makes of the value of a key, or of that there is none; see [`Self::get`].
    ///
    /// # Errors
    /// [`Missing`].
    pub(super) fn view<R>(&mut self, key: &Key, take: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Missing> {
        match self.changes.get(key) {
            Some(new) => Ok(take(new.to_known(key).as_deref())),
            None => self.look(key, |entry| take(entry.value())),
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
            None => self.look(key, |entry| entry.value().is_some()),
        }
    }

    /// What the store has.
    fn written(&mut self, key: &Key) -> Result<Known, Missing> {
        self.look(key, values::Entry::known)
    }

    /// What `take` makes of what the store has.
    fn look<R>(&mut self, key: &Key, take: impl FnOnce(&values::Entry) -> R) -> Result<R, Missing> {
        if let Some(entry) = self.young.get(key) {
            return Ok(take(entry));
        }
        let Some(entry) = self.old.get(key) else {
            self.wanted.push(*key);
            return Err(Missing);
        };
        let taken = take(entry);
        // The others of its batch are forgotten.
        let entry = entry.moved(&mut self.memory);
        self.remember_entry(key, entry);
        Ok(taken)
    }

    /// Asks for the values of those keys that are not known, and shows those that are, with the number of their key.
    pub(super) fn expect(&mut self, keys: &[Key], mut known: impl FnMut(usize, &[u8])) {
        let mut missing = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            match self.young.get(key).map(values::Entry::value) {
                Some(Some(value)) => known(number, value),
                Some(None) => {}
                None => missing.push(key),
            }
        }
        for key in missing {
            _ = self.get(key);
        }
    }

    /// Writes a value.
    pub(super) fn put(&mut self, key: Key, value: Vec<u8>) {
        self.change(key, Some(Stored::seal(&key, value)));
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
        if key.kind() == Some(SEQUENCES) {
            self.first.retain(|(other, _)| *other != key);
        }
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

    /// What the store said of keys. A damaged value is none.
    pub(super) fn learn_all<'a>(&mut self, values: impl Iterator<Item = (Key, Value<'a>)>) {
        let mut records = Vec::new();
        for (key, value) in values {
            match value {
                Some(value) if key.is_of_record() && stored::is_whole(&key, value) => {
                    records.push((key, value));
                }
                _ => self.learn_one(key, value),
            }
        }
        self.learn_records(&records);
    }

    /// Remembers records that are whole, beside one another.
    fn learn_records(&mut self, records: &[(Key, &[u8])]) {
        let len = |(key, value): &(Key, &[u8])| key.len() + value.len();
        let mut rows = Vec::with_capacity(records.iter().map(len).sum());
        for (key, value) in records {
            rows.extend_from_slice(key);
            rows.extend_from_slice(value);
        }
        // Shared when all are copied: for each that is, the processor waits until what was written before is in memory.
        let mut rows = Bytes::from(rows);
        for record in records {
            let row = rows.split_to(len(record));
            self.learn(&record.0, values::Entry::Written(row));
        }
    }

    /// What the store said of a key.
    pub(super) fn learn_one(&mut self, key: Key, value: Value<'_>) {
        let known = match value {
            None => None,
            Some(_) if key.says_all() => Some(Stored::empty()),
            Some(value) if stored::is_whole(&key, value) => {
                Some(Stored::unchecked(Bytes::copy_from_slice(value)))
            }
            // What is known of a writer's numbers cannot be read, and that is all: see there.
            Some(_) if key.kind() == Some(SEQUENCES) => Some(Stored::empty()),
            Some(value) => {
                self.report((key, Some(Bytes::copy_from_slice(value))));
                None
            }
        };
        self.learn(&key, values::Entry::Apart(Box::new(key), known));
    }

    fn learn(&mut self, key: &Key, entry: values::Entry) {
        if self.young.get(key).is_none() {
            self.remember_entry(key, entry);
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
    pub(super) fn take_changes(&mut self) -> Vec<WriteBatch> {
        let first = core::mem::take(&mut self.first);
        let mut parts: Vec<WriteBatch> = first.chunks(MAX_PART).map(batch_of).collect();
        let mut changes = core::mem::take(&mut self.changes);
        for len in changes.cut() {
            parts.push(self.take_part(&mut changes, len));
        }
        changes.clear();
        self.changes = changes;
        self.forget_old();
        parts
    }

    /// The next part; what is known of its records, and long values, lie in it.
    fn take_part(&mut self, changes: &mut Changes, len: usize) -> WriteBatch {
        self.batch.reserve(changes.len_of(len));
        for (key, new) in changes.part(len) {
            match new {
                New::Record(entry) => self.batch.put_with(key, |out| {
                    let start = out.len();
                    entry.write(out);
                    Stored::seal_at(key, out, start);
                }),
                New::Value(value) => push(&mut self.batch, key, value),
                New::Assumed => {}
            }
        }
        let batch = self.batch.finish_in(&mut self.memory);
        let told = changes.take(len).zip(batch.rows());
        let entry = |((key, new), row): ((Key, New), Row<'_>)| match new {
            New::Value(Some(value)) if value.is_long() => {
                let value = batch.as_bytes().slice_ref(row.value.unwrap_or_default());
                (
                    key,
                    values::Entry::Apart(Box::new(key), Some(Stored::unchecked(value))),
                )
            }
            New::Value(value) => (key, values::Entry::Apart(Box::new(key), value)),
            _ => (key, values::Entry::written(&batch, &row)),
        };
        // What is counted is counted first: the processor would wait for all that was written to memory each time.
        let entries: Vec<(Key, values::Entry)> = told.map(entry).collect();
        for (key, entry) in entries {
            self.remember_entry(&key, entry);
        }
        batch
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
        self.remember_entry(&key, values::Entry::Apart(Box::new(key), value));
    }

    /// Remembers a key's entry.
    fn remember_entry(&mut self, key: &Key, entry: values::Entry) {
        self.young_bytes += entry.len();
        match self.young.insert(key, entry) {
            Some(before) => self.young_bytes -= before.own_len(),
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
    fn told(parts: Vec<WriteBatch>) -> Vec<Vec<(u32, u8)>> {
        let told = |row: Row<'_>| {
            let name = Key::read(row.key).and_then(|key| key.record()).expect("a record");
            let number = name.0.first_chunk().expect("four bytes");
            (
                u32::from_le_bytes(*number),
                row.value.expect("nothing is removed")[0],
            )
        };
        parts.iter().map(|part| part.rows().map(told).collect()).collect()
    }

    #[test]
    fn what_is_changed_again_is_told_once_with_what_changed_it() {
        let mut space = Space::new(1 << 20);
        put(&mut space, 0, 1);
        for number in 1..200 {
            space.mark();
            put(&mut space, number, 1);
        }
        put(&mut space, 0, 2);
        for number in 200..600 {
            put(&mut space, number, 1);
            space.mark();
        }
        let parts = told(space.take_changes());
        assert_eq!(parts[0][0], (0, 2));
        assert!(parts[0].len() > 200, "cut after {}", parts[0].len());
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
    fn what_is_used_of_a_batch_that_is_forgotten_lies_alone() {
        let mut space = Space::new(64 << 10);
        let write = |space: &mut Space, number: u32| {
            space.put(key(number), Vec::from([number as u8; 5000]));
            space.take_changes().remove(0)
        };
        let batch = write(&mut space, 0);
        let is_in_batch = |space: &mut Space| {
            let place = space.view(&key(0), |value| value.expect("a value").as_ptr());
            place.map(|place| batch.as_bytes().as_ptr_range().contains(&place))
        };
        assert_eq!(is_in_batch(&mut space), Ok(true));
        for number in 1..8 {
            write(&mut space, number);
        }
        assert_eq!(is_in_batch(&mut space), Ok(true), "it is old, and moves");
        assert_eq!(is_in_batch(&mut space), Ok(false));
        assert_eq!(
            space.get(&key(0)).map(|value| value.map(|value| value[0])),
            Ok(Some(0))
        );
    }

    #[test]
    fn what_the_store_says_is_known_whatever_its_key_is_like() {
        let mut space = Space::new(1 << 20);
        let short = |len: usize| Key::read(&key(1)[..len]).expect("a key");
        let keys = [short(0), short(33), short(50), key(1), key(2)];
        let sealed = |key: &Key| Stored::seal(key, Vec::from([key.len() as u8; 20]));
        let values: Vec<Stored> = keys.iter().map(sealed).collect();
        let mut given: Vec<(Key, Value<'_>)> = keys
            .iter()
            .zip(&values)
            .map(|(key, value)| (*key, Some(value.sealed())))
            .collect();
        given.push((key(3), None));
        given.push((key(4), Some(b"damaged!")));
        space.learn_all(given.into_iter());
        for (key, value) in keys.iter().zip(values) {
            assert_eq!(space.get(key), Ok(Some(value)), "{key:?}");
        }
        assert_eq!([space.get(&key(3)), space.get(&key(4))], [Ok(None), Ok(None)]);
        let damaged: Vec<Key> = space.take_damaged().into_iter().map(|(key, _)| key).collect();
        assert_eq!(damaged, [key(4)]);
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
