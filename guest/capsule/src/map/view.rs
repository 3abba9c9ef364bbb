//! What a map is, as far as it was read: a tree of what is old, and what has come since.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

use selfsame_codec::Code;

use super::command::Place;
use super::format::{Head, Holds, Index, MAX_COVERED, Version};
use super::tree::Root;
use crate::hash::RecordName;
use crate::refusal::{Refusal, Result};

/// Records after which a writer writes an index: each is read by whoever opens the map.
const INDEXED_RECORDS: usize = 128;
/// Keys after which it does.
const INDEXED_KEYS: usize = 1024;
/// Most records that are held, if no writer has written an index: a hundred megabytes are less than any platform gives.
pub(super) const MAX_RECORDS: usize = 1 << 16;
/// Most bytes of keys that are held.
const MAX_KEY_BYTES: usize = 32 << 20;

/// A record that was read
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// What it says; nothing if it is no record of a map.
    pub(super) head: Option<Head>,
    /// Records whose state it goes on with.
    pub(super) follows: Vec<RecordName>,
    /// Others that it points to: records further back.
    pub(super) shortcuts: Vec<RecordName>,
}

impl Found {
    /// The clock that it says; 0 of a record that is none of a map's.
    pub(super) fn clock(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.clock)
    }

    /// It is no index: its nodes stay where they are.
    pub(super) fn forget_index(&mut self) {
        if self.index().is_some()
            && let Some(head) = &mut self.head
        {
            head.holds = Holds::Pages;
        }
    }

    /// The tree that it holds.
    pub(super) fn index(&self) -> Option<&Index> {
        match self.head.as_ref()?.holds {
            Holds::Index(ref index) => Some(index),
            _ => None,
        }
    }
}

/// A record that the view has taken in
#[derive(Debug)]
struct Known {
    /// That with which it counts, and that which it says.
    clock: u64,
    said: u64,
    follows: Vec<RecordName>,
    is_index: bool,
}

/// An index record
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) name: RecordName,
    pub(super) clock: u64,
    pub(super) root: Root,
    /// Index records whose state is in it, the newest first, as far as it says.
    pub(super) covered: Vec<RecordName>,
}

impl Base {
    /// Which of two goes on from the other, as far as they say: that with the larger clock or, of equal ones, the one that covers the
    /// other.
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        let covers = |one: &Self, other: &Self| one.covered.contains(&other.name);
        let covering = covers(self, other).cmp(&covers(other, self));
        self.clock
            .cmp(&other.clock)
            .then(covering)
            .then(self.name.cmp(&other.name))
    }

    /// What an index record says.
    pub(super) fn new(name: RecordName, clock: u64, index: &Index) -> Self {
        Self {
            name,
            clock,
            root: Root {
                place: index.root.place(name),
                height: index.height,
                clock,
            },
            covered: index.covered.clone(),
        }
    }
}

/// What a map is: the tree, overlaid with newer operations
#[derive(Debug, Default)]
pub(super) struct View {
    /// The tree.
    pub(super) base: Option<Base>,
    /// The newest records.
    pub(super) heads: Vec<RecordName>,
    records: BTreeMap<RecordName, Known>,
    overlay: BTreeMap<Vec<u8>, Version>,
    key_bytes: usize,
}

impl View {
    /// Whether a record's operations are in it.
    pub(super) fn knows(&self, name: &RecordName) -> bool {
        self.records.contains_key(name)
    }

    /// What has come since the tree was written, on a key.
    pub(super) fn newest(&self, key: &[u8]) -> Option<Version> {
        self.overlay.get(key).copied()
    }

    /// The clock with which a record counts; 0 of one that is not known.
    pub(super) fn clock_of(&self, name: &RecordName) -> u64 {
        self.records.get(name).map_or(0, |known| known.clock)
    }

    /// The largest clock of these records.
    pub(super) fn latest(&self, names: &[RecordName]) -> u64 {
        names.iter().map(|name| self.clock_of(name)).max().unwrap_or(0)
    }

    /// What records say whose clocks count for more: with no more may a tree hold their operations.
    pub(super) fn understated(&self) -> BTreeMap<RecordName, u64> {
        let understated = self.records.iter().filter(|(_, known)| known.said < known.clock);
        understated.map(|(name, known)| (*name, known.said)).collect()
    }

    /// Whether an operation that is not in the tree counts whatever the tree says.
    pub(super) fn is_settled(&self, version: &Version) -> bool {
        self.base.as_ref().is_none_or(|base| version.clock > base.clock)
    }

    /// What has come since, from a key on.
    pub(super) fn from<'a>(&'a self, start: &[u8]) -> impl Iterator<Item = (&'a [u8], Version)> {
        let range = (core::ops::Bound::Included(start), core::ops::Bound::Unbounded);
        let entries = self.overlay.range::<[u8], _>(range);
        entries.map(|(key, version)| (key.as_slice(), *version))
    }

    /// All that has come since.
    pub(super) fn changes(&self) -> Vec<(Vec<u8>, Version)> {
        let changes = self.overlay.iter();
        changes.map(|(key, version)| (key.clone(), *version)).collect()
    }

    /// Takes in a record that counts with a clock; returns the keys that it may have changed.
    ///
    /// # Errors
    /// [`Code::TooLarge`] when more would be held than can be.
    pub(super) fn apply(&mut self, name: RecordName, found: Found, clock: u64) -> Result<Vec<Vec<u8>>> {
        if self.records.len() >= MAX_RECORDS || self.key_bytes >= MAX_KEY_BYTES {
            return Err(Refusal::new(Code::TooLarge, self.records.len()));
        }
        let said = found.clock();
        let is_index = found.index().is_some();
        let keys = match found.head.map(|head| head.holds) {
            Some(Holds::Operations { keys, .. }) => keys,
            _ => Vec::new(),
        };
        let known = Known {
            clock,
            said,
            follows: found.follows,
            is_index,
        };
        self.records.insert(name, known);
        let mut changed = Vec::with_capacity(keys.len());
        for (index, (kind, key)) in (1..).zip(keys) {
            let record = name;
            let place = Place { record, index };
            let version = Version { kind, clock, place };
            let before = self.overlay.get_mut(&key);
            match before {
                Some(before) if !version.beats(before) => continue,
                Some(before) => *before = version,
                None => {
                    self.key_bytes += key.len();
                    self.overlay.insert(key.clone(), version);
                }
            }
            changed.push(key);
        }
        Ok(changed)
    }

    /// Records that were read and from which these go on, these included.
    pub(super) fn before(&self, names: &[RecordName]) -> BTreeSet<RecordName> {
        let mut found = BTreeSet::new();
        let mut rest = names.to_vec();
        while let Some(name) = rest.pop() {
            if let Some(known) = self.records.get(&name)
                && found.insert(name)
            {
                rest.extend_from_slice(&known.follows);
            }
        }
        found
    }

    /// Takes these for the newest records, beside those that were and of which they know nothing.
    pub(super) fn set_heads(&mut self, heads: &[RecordName]) {
        let mut all: BTreeSet<RecordName> = self.heads.iter().chain(heads).copied().collect();
        for name in all.clone() {
            let follows = self.records.get(&name).map_or(&[][..], |known| &known.follows);
            for covered in self.before(follows) {
                all.remove(&covered);
            }
        }
        // The one that is ahead comes first: it is the primary parent of what comes next.
        self.heads = newest_first(all.iter().map(|name| (self.clock_of(name), *name)));
    }

    /// Builds on another tree from now on, in which what these records say is.
    pub(super) fn rebase(&mut self, mut base: Base, covered: &BTreeSet<RecordName>) {
        let clock = self.clock_of(&base.name).max(base.clock);
        (base.clock, base.root.clock) = (clock, clock);
        self.records
            .retain(|name, _| *name == base.name || !covered.contains(name));
        self.overlay
            .retain(|_, version| !covered.contains(&version.place.record));
        self.key_bytes = self.overlay.keys().map(Vec::len).sum();
        self.records.entry(base.name).or_insert(Known {
            clock: base.clock,
            said: base.clock,
            follows: Vec::new(),
            is_index: true,
        });
        self.base = Some(base);
    }

    /// Index records that a new one covers, the newest first.
    pub(super) fn covered(&self) -> Vec<RecordName> {
        let known = self.records.iter().filter(|(_, known)| known.is_index);
        let mut names = newest_first(known.map(|(name, known)| (known.clock, *name)));
        let older = self.base.iter().flat_map(|base| &base.covered);
        names.extend(older);
        names.truncate(MAX_COVERED);
        names
    }

    /// Whether a writer is to write an index now.
    pub(super) fn is_long(&self) -> bool {
        self.records.len() > INDEXED_RECORDS || self.overlay.len() >= INDEXED_KEYS
    }
}

/// Names by their clocks, the largest first.
fn newest_first(names: impl Iterator<Item = (u64, RecordName)>) -> Vec<RecordName> {
    let names: BTreeSet<(u64, RecordName)> = names.collect();
    names.into_iter().rev().map(|(_, name)| name).collect()
}
