//! The heads of an open capsule.

use alloc::collections::BTreeMap;

use crate::hash::RecordName;
use crate::heads::Origin;

/// Proven records to which no proven record points, and whose they are.
#[derive(Debug, Default)]
pub(super) struct Heads {
    of: BTreeMap<RecordName, Origin>,
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
        self.of.insert(name, origin)
    }

    /// Takes a head out; what was said of it.
    pub(super) fn remove(&mut self, name: &RecordName) -> Option<Origin> {
        self.of.remove(name)
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
