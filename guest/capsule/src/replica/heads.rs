//! The heads of an open capsule.

use alloc::collections::BTreeMap;

use crate::authority::MAX_WRITERS;
use crate::hash::RecordName;
use crate::heads::Origin;

/// Heads among which any writer may add one more: they are in memory as long as the capsule is open, and all are named before
/// anything is merged. A writer that makes further branches merges some first.
pub(super) const SHARED_HEADS: usize = 1 << 14;
/// Heads that a writer may have whatever others have: no writer keeps another from writing by its branches.
const OWN_HEADS: usize = 16;
/// Most heads.
pub(crate) const MAX_HELD_HEADS: usize = SHARED_HEADS + OWN_HEADS * MAX_WRITERS;

/// Proven records to which no proven record points, and whose they are.
#[derive(Debug, Default)]
pub(super) struct Heads {
    of: BTreeMap<RecordName, Origin>,
    /// How many each writer has.
    by_writer: BTreeMap<u16, usize>,
}

/// Stands for the origin of a signed record that may be a head and was not read yet: a revocation makes many of them at once. It is
/// put right when its record is read, which is soon.
pub(super) const UNREAD: Origin = Origin {
    writer: u16::MAX,
    sequence: u64::MAX,
};

impl Heads {
    /// Those that the store names.
    pub(super) fn new(heads: &[(RecordName, Origin)]) -> Self {
        let mut all = Self::default();
        for (name, origin) in heads {
            all.insert(*name, *origin);
        }
        all
    }

    /// Adds a head; what was said of it before.
    pub(super) fn insert(&mut self, name: RecordName, origin: Origin) -> Option<Origin> {
        let before = self.of.insert(name, origin);
        if let Some(before) = before {
            self.uncount(before.writer);
        }
        *self.by_writer.entry(origin.writer).or_default() += 1;
        before
    }

    /// Takes a head out; what was said of it.
    pub(super) fn remove(&mut self, name: &RecordName) -> Option<Origin> {
        let origin = self.of.remove(name)?;
        self.uncount(origin.writer);
        Some(origin)
    }

    fn uncount(&mut self, writer: u16) {
        if let Some(count) = self.by_writer.get_mut(&writer) {
            *count -= 1;
            if *count == 0 {
                self.by_writer.remove(&writer);
            }
        }
    }

    /// Whether a writer may have one more.
    pub(super) fn has_room_for(&self, writer: u16) -> bool {
        let own = self.by_writer.get(&writer).copied().unwrap_or(0);
        self.of.len() < SHARED_HEADS || own < OWN_HEADS
    }

    /// What is said of a head.
    pub(super) fn origin(&self, name: &RecordName) -> Option<Origin> {
        self.of.get(name).copied()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RecordName, Origin)> {
        self.of.iter().map(|(name, origin)| (*name, *origin))
    }
}
