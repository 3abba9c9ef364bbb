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

/// Most records of a plan: 128 MiB of memory, which the module of an export has beside 32 MiB of hints.
pub const MAX_PLANNED: usize = 1 << 21;
const MAX_HINTS: usize = 4 * MAX_PLANNED;

/// A record is there.
const THERE: u64 = 1;
/// A record points to it.
const POINTER: u64 = 2;
/// Above these in the state of a record: where its hints are.
const HINTS: u32 = u32::BITS;

/// Finds the order of records whose headers are read twice: once each in any order, and once each in the order found
///
/// It takes about 80 bytes of memory for each record.
#[derive(Debug, Default)]
pub struct Plan {
    /// `POINTER` for each record that points to it and has not come yet, and `THERE` if it is there: one number, so that the code of
    /// this map is that of [`Walk`]'s.
    records: BTreeMap<RecordName, u64>,
    /// Of each record how many others it points to, and how the name of each begins. Names in full would double the memory, and a
    /// prefix that two names share costs one request more.
    hints: Vec<u32>,
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
        if self.hints.is_empty() {
            // What records without hints have.
            self.hints.push(0);
        }
        let place = self.hints.len();
        if place + distinct(header).count() < MAX_HINTS {
            *state |= (place as u64) << HINTS;
            self.hints.push(distinct(header).count() as u32);
            self.hints.extend(distinct(header).map(prefix));
        }
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
            let heads = self
                .records
                .iter()
                .filter(|(_, state)| waits_for(**state) == THERE);
            self.ready.extend(heads.map(|(name, _)| Reverse(*name)));
        }
        self.ready.peek().map(|Reverse(name)| *name)
    }

    /// The next records in their order, up to `most` of them, as far as the hints tell; the first is [`Self::next_record`].
    pub fn upcoming(&mut self, most: usize) -> Vec<RecordName> {
        _ = self.next_record();
        let mut ready = self.ready.clone();
        let mut names = Vec::new();
        let mut came = BTreeMap::new();
        while names.len() < most
            && let Some(Reverse(name)) = ready.pop()
        {
            names.push(name);
            for (pointer, state) in self.hinted(&name) {
                let pointers: &mut u64 = came.entry(*pointer).or_default();
                *pointers += POINTER;
                if waits_for(*state) == THERE + *pointers {
                    ready.push(Reverse(*pointer));
                }
            }
        }
        names
    }

    /// What a record points to, as far as the hints tell.
    fn hinted(&self, name: &RecordName) -> impl Iterator<Item = (&RecordName, &u64)> {
        let place = self
            .records
            .get(name)
            .map_or(0, |state| (state >> HINTS) as usize);
        let (count, prefixes) = self.hints[place..].split_first().unwrap_or((&0, &[]));
        prefixes[..*count as usize].iter().filter_map(|prefix| {
            let mut first = RecordName([0; 32]);
            first.0[..4].copy_from_slice(&prefix.to_be_bytes());
            self.records.range(first..).next()
        })
    }

    /// The record that [`Self::next_record`] gave has come.
    pub fn came(&mut self, header: &HeaderView<'_>) {
        self.ready.pop();
        for pointer in distinct(header) {
            if let Some(state) = self.records.get_mut(&pointer) {
                *state -= POINTER;
                if waits_for(*state) == THERE {
                    self.ready.push(Reverse(pointer));
                }
            }
        }
    }
}

/// The state of a record without the place of its hints.
fn waits_for(state: u64) -> u64 {
    state & u64::from(u32::MAX)
}

/// How a name begins, in the order of names.
fn prefix(name: RecordName) -> u32 {
    u32::from_be_bytes([name.0[0], name.0[1], name.0[2], name.0[3]])
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
