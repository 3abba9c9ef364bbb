//! Ways from signatures to records: one that shows that a record is its writer's before any other, and of these the shortest.

use super::entry::Entry;
use super::index::Index;
use crate::hash::RecordName;
use crate::header::HeaderView;
use crate::witness::Witness;

/// Steps fewer than this are no reason to note a way anew that leads through the same record as before.
const SLACK: u32 = 16;

impl Index {
    /// Whether what proves a record is its writer's own, from the signature on.
    pub(super) fn is_own(&self, entry: &Entry) -> bool {
        match entry.witness() {
            Witness::Through { is_own, .. } => *is_own && self.steps(entry) < u32::MAX,
            _ => self.steps(entry) == 0,
        }
    }

    /// The way to a record with this header through one that points to it; nothing if that one is not proven.
    pub(super) fn through(
        &self,
        next: &RecordName,
        entry: &Entry,
        header: &HeaderView<'_>,
    ) -> Option<Witness> {
        let steps = self.steps(entry).checked_add(1)?;
        let above = entry.header();
        let is_same = above.writer() == header.writer() && above.sequence() > header.sequence();
        Some(Witness::Through {
            age: self.age(),
            next: *next,
            steps,
            is_own: is_same && self.is_own(entry),
        })
    }

    /// Whether a record's witness is to be replaced, as another way shows that it is its writer's, or is shorter. If it leads through
    /// the same record already, it has become shorter by itself and is noted anew only when it is less than half as long: a signature
    /// that gives many records a shortcut need not rewrite them all.
    pub(super) fn is_improved(&self, entry: &Entry, through: &Witness) -> bool {
        let Witness::Through {
            next, steps, is_own, ..
        } = through
        else {
            return false;
        };
        let noted = self.steps(entry);
        if noted < u32::MAX && self.is_own(entry) != *is_own {
            return *is_own;
        }
        match entry.witness() {
            Witness::Through { next: before, .. } if before == next => {
                noted > steps.saturating_mul(2).saturating_add(SLACK)
            }
            _ => noted > *steps,
        }
    }
}
