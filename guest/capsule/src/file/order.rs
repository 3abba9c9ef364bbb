//! The order of records in an export: a record comes after all that point to it, and of those that can come next the one with the
//! smallest name.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec::Vec;
use core::cmp::Reverse;

use selfsame_codec::Code;

use crate::hash::RecordName;
use crate::header::HeaderView;
use crate::refusal::{Refusal, Result};

/// Most records that are pointed to and not come yet: 8 MiB of memory. Branches, holes and open shortcuts are that many.
const MAX_AWAITED: usize = 1 << 17;

/// Most records of a plan: 128 MiB of memory, which the module of an export has.
pub const MAX_PLANNED: usize = 1 << 21;

/// A record is there.
const THERE: u64 = 1;
/// A record points to it.
const POINTER: u64 = 2;

/// Finds the order of records whose headers are read twice: once each in any order, and once each in the order found
///
/// It takes about 64 bytes of memory for each record.
#[derive(Debug, Default)]
pub struct Plan {
    /// `POINTER` for each record that points to it and has not come yet, and `THERE` if it is there: one number, so that the code of
    /// this map is that of [`Walk`]'s.
    records: BTreeMap<RecordName, u64>,
    ready: BinaryHeap<Reverse<RecordName>>,
    has_begun: bool,
}

impl Plan {
    /// A plan without records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a proven record; those that it points to and no record did before.
    ///
    /// # Errors
    /// [`Code::TooLarge`] when there are more than [`MAX_PLANNED`].
    pub fn add(&mut self, name: RecordName, header: &HeaderView<'_>) -> Result<Vec<RecordName>> {
        let mut fresh = Vec::new();
        if self.records.len() > MAX_PLANNED {
            return Err(Refusal::new(Code::TooLarge, MAX_PLANNED));
        }
        let state = self.records.entry(name).or_default();
        if *state & THERE != 0 {
            return Ok(fresh);
        }
        *state |= THERE;
        for pointer in distinct(header) {
            let state = self.records.entry(pointer).or_default();
            if *state == 0 {
                fresh.push(pointer);
            }
            *state += POINTER;
        }
        Ok(fresh)
    }

    /// The record that comes next, whose header is then to be given to [`Self::came`].
    pub fn next_record(&mut self) -> Option<RecordName> {
        if !self.has_begun {
            self.has_begun = true;
            let heads = self.records.iter().filter(|(_, state)| **state == THERE);
            self.ready.extend(heads.map(|(name, _)| Reverse(*name)));
        }
        self.ready.pop().map(|Reverse(name)| name)
    }

    /// The record that [`Self::next_record`] gave has come.
    pub fn came(&mut self, header: &HeaderView<'_>) {
        for pointer in distinct(header) {
            if let Some(state) = self.records.get_mut(&pointer) {
                *state -= POINTER;
                if *state == THERE {
                    self.ready.push(Reverse(pointer));
                }
            }
        }
    }
}

/// What a header points to, each once.
fn distinct(header: &HeaderView<'_>) -> impl Iterator<Item = RecordName> {
    let all = header.backpointers();
    all.clone()
        .enumerate()
        .filter(move |(index, name)| !all.clone().take(*index).any(|other| other == *name))
        .map(|(_, name)| name)
}

/// Checks the order while records come
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Records that are pointed to and have not come, and when the last came that points there.
    awaited: BTreeMap<RecordName, u64>,
    /// Of the records that came, those with no larger name after them, and when.
    largest: Vec<(u64, RecordName)>,
    came: u64,
}

impl Walk {
    /// A record comes; whether others that came point to it.
    ///
    /// # Errors
    /// [`Code::BadFile`] when it is not its turn, [`Code::TooLarge`] when too many are awaited.
    pub(super) fn come(&mut self, name: &RecordName, header: &HeaderView<'_>) -> Result<bool> {
        let since = self.awaited.remove(name);
        let ready_at = since.unwrap_or(0);
        let after = self.largest.partition_point(|(at, _)| *at <= ready_at);
        if self.largest.get(after).is_some_and(|(_, other)| other >= name) {
            return Err(Refusal::new(Code::BadFile, 0));
        }
        self.came += 1;
        while self.largest.last().is_some_and(|(_, other)| other < name) {
            self.largest.pop();
        }
        self.largest.push((self.came, *name));
        for pointer in header.backpointers() {
            self.awaited.insert(pointer, self.came);
        }
        if self.awaited.len() > MAX_AWAITED || self.largest.len() > MAX_AWAITED {
            return Err(Refusal::new(Code::TooLarge, MAX_AWAITED));
        }
        Ok(since.is_some())
    }

    /// How many came.
    pub(super) fn came(&self) -> u64 {
        self.came
    }

    /// What did not come, sorted.
    pub(super) fn holes(&self) -> impl ExactSizeIterator<Item = &RecordName> {
        self.awaited.keys()
    }
}
