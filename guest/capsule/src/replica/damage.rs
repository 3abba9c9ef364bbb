//! What of a capsule was damaged in the store and is not mended yet.
//!
//! A record whose body is lost keeps its header and its witness, so that proofs lead through it, and counts as missing: other
//! replicas bring it. Whatever else is damaged tears the graph, which is then [looked through](super::mend).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::layout::{self, single};
use super::mend::Mend;
use super::space::Space;
use super::stored::Stored;
use crate::hash::{CapsuleName, RecordName};

/// Most records whose headers are kept without their bodies: their names are one value of the store.
const MAX_VOID: usize = 1024;

/// Damage of one capsule
#[derive(Debug, Default)]
pub(super) struct Damage {
    /// Whether what points where has to be found out anew.
    is_torn: bool,
    /// How many epoch records were in force before one of them was lost.
    awaited: u64,
    /// Records whose bodies are lost.
    void: BTreeSet<RecordName>,
    /// The look through the graph that is under way.
    pub(super) mend: Option<Mend>,
}

impl Damage {
    /// As the store says.
    pub(super) fn read(value: Option<Stored>) -> Self {
        let parts = value.as_deref().and_then(<[u8]>::split_first);
        let Some((torn, (awaited, names))) =
            parts.and_then(|(torn, rest)| Some((torn, rest.split_first_chunk()?)))
        else {
            return Self::default();
        };
        Self {
            is_torn: *torn != 0,
            awaited: u64::from_le_bytes(*awaited),
            void: layout::names(names).collect(),
            mend: None,
        }
    }

    fn keep(&self, space: &mut Space, capsule: &CapsuleName) {
        let key = single(capsule, layout::DAMAGE);
        if !self.is_torn && self.awaited == 0 && self.void.is_empty() {
            return space.delete(key);
        }
        let mut value = Vec::from([u8::from(self.is_torn)]);
        value.extend_from_slice(&self.awaited.to_le_bytes());
        self.void.iter().for_each(|name| value.extend_from_slice(&name.0));
        space.put(key, value);
    }

    /// Whether the body of a record is lost.
    pub(super) fn is_void(&self, name: &RecordName) -> bool {
        self.void.contains(name)
    }

    /// How many bodies are lost.
    pub(super) fn len(&self) -> usize {
        self.void.len()
    }

    /// A body is lost; false if there are too many.
    pub(super) fn lose(&mut self, space: &mut Space, capsule: &CapsuleName, name: RecordName) -> bool {
        if self.void.len() < MAX_VOID && self.void.insert(name) {
            self.keep(space, capsule);
        }
        self.is_void(&name)
    }

    /// A record is whole again, or gone; whether its body was lost.
    pub(super) fn regain(&mut self, space: &mut Space, capsule: &CapsuleName, name: &RecordName) -> bool {
        let was_void = self.void.remove(name);
        if was_void {
            self.keep(space, capsule);
        }
        was_void
    }

    /// One of so many epoch records that were in force is lost.
    pub(super) fn lose_epoch(&mut self, space: &mut Space, capsule: &CapsuleName, in_force: u64) {
        self.awaited = self.awaited.max(in_force);
        self.keep(space, capsule);
    }

    /// So many epoch records are in force again.
    pub(super) fn regain_epochs(&mut self, space: &mut Space, capsule: &CapsuleName, in_force: u64) {
        if self.awaited != 0 && !self.awaits_epochs(in_force) {
            self.awaited = 0;
            self.keep(space, capsule);
        }
    }

    /// Whether more epoch records than these were in force once: who was revoked in them is not known.
    pub(super) fn awaits_epochs(&self, in_force: u64) -> bool {
        in_force < self.awaited
    }

    /// The graph is torn.
    pub(super) fn tear(&mut self, space: &mut Space, capsule: &CapsuleName) {
        self.is_torn = true;
        self.keep(space, capsule);
        if let Some(mend) = &mut self.mend {
            mend.again();
        }
    }

    /// The graph is looked through.
    pub(super) fn mended(&mut self, space: &mut Space, capsule: &CapsuleName) {
        self.is_torn = false;
        self.keep(space, capsule);
    }

    /// Begins to look through the graph, if it is torn and nobody does.
    pub(super) fn begin_mending(&mut self) -> bool {
        let begins = self.is_torn && self.mend.is_none();
        if begins {
            self.mend = Some(Mend::default());
        }
        begins
    }
}
