//! Which sequence numbers the stored records of each writer have at most: a record with a higher one is surely new, so that
//! nothing need be looked up of it.

use alloc::collections::BTreeMap;

use super::layout;
use super::space::{Missing, Space};
use crate::hash::CapsuleName;
use crate::header::HeaderView;

/// How far ahead of a writer the store is told: one write for so many records, and after an opening so many are looked up.
const AHEAD: u64 = 1 << 14;

/// What is known of a writer's stored records
#[derive(Clone, Copy, Debug, Default)]
struct Highest {
    /// None has a higher sequence; nothing if there is none.
    stored: Option<u64>,
    /// What the store says of it, which is not less.
    told: Option<u64>,
}

/// The highest sequence numbers of the writers of one capsule
#[derive(Debug, Default)]
pub(super) struct Sequences {
    of: BTreeMap<u16, Highest>,
}

impl Sequences {
    /// How many writers are known.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether no stored record has this header, as all of its writer come before it.
    ///
    /// # Errors
    /// [`Missing`], once for each writer.
    pub(super) fn is_new(
        &mut self,
        space: &mut Space,
        capsule: &CapsuleName,
        header: &HeaderView<'_>,
    ) -> Result<bool, Missing> {
        let writer = header.writer();
        let highest = match self.of.get(&writer) {
            Some(highest) => *highest,
            None => {
                let told = space.get(&layout::sequences(capsule, writer))?;
                // Of a number that cannot be read nothing is known: then everything is looked up.
                let told = told.map(|told| told[..].try_into().map_or(u64::MAX, u64::from_le_bytes));
                let highest = Highest { stored: told, told };
                // Whoever makes up writers that have stored nothing takes no memory.
                if told.is_some() {
                    self.of.insert(writer, highest);
                }
                highest
            }
        };
        Ok(highest.stored.is_none_or(|stored| header.sequence() > stored))
    }

    /// A record is about to be stored; the store is told so before.
    pub(super) fn note(&mut self, space: &mut Space, capsule: &CapsuleName, header: &HeaderView<'_>) {
        let (writer, sequence) = (header.writer(), header.sequence());
        let highest = self.of.entry(writer).or_default();
        highest.stored = highest.stored.max(Some(sequence));
        if highest.told < highest.stored {
            let told = sequence.saturating_add(AHEAD);
            highest.told = Some(told);
            space.put_first(layout::sequences(capsule, writer), told.to_le_bytes().into());
        }
    }
}
