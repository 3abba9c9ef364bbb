//! Mending the graph after damage: every record is looked at once, what it points to is missing or gets the witness through it,
//! and epoch records that are signed but not in force come into force again. Others are served in between.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::PAGE;
use super::capsule::Capsule;
use super::index::{Outcome, known};
use super::layout::{self, MAX_INLINE, numbered, of_record};
use super::newest::SignedRecord;
use super::space::{Missing, Space};
use super::walk::{Page, Step};
use crate::hash::RecordName;
use crate::header::RecordKind;
use crate::keys::Signature;
use crate::message::MAX_OPERATIONS;
use crate::refusal::Result;
use crate::witness::Witness;

/// Records that are looked at together: what the store is asked for them at once fits the smallest cache.
const AT_ONCE: usize = 64;

/// What was fetched for the next records
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fetched {
    #[default]
    Nothing,
    Entries,
    Pointers,
}

/// A look through the graph
#[derive(Debug, Default)]
pub(super) struct Mend {
    /// Epoch records in force, as far as they were read, and how many places that are.
    in_force: BTreeSet<RecordName>,
    places: u64,
    /// Where the next page begins.
    start: Option<Vec<u8>>,
    is_last: bool,
    /// The rest of the page, what comes first at its end.
    names: Vec<RecordName>,
    fetched: Fetched,
    /// Epoch records that are signed and not in force, in the order of their sequences.
    idle: Vec<(u64, RecordName, Signature)>,
    /// The newest signed records of writers that were met so far.
    newest: BTreeMap<u16, SignedRecord>,
    /// Whether more was found damaged meanwhile.
    is_again: bool,
}

impl Mend {
    /// More is damaged: when this look is at its end, another one begins.
    pub(super) fn again(&mut self) {
        self.is_again = true;
    }

    /// An epoch record has come into force.
    pub(super) fn comes_into_force(&mut self, name: RecordName) {
        self.in_force.insert(name);
    }

    /// A signed record was met, or came.
    pub(super) fn meet_signed(&mut self, writer: u16, signed: SignedRecord) {
        let newest = self.newest.entry(writer).or_insert(signed);
        *newest = signed.max(*newest);
    }
}

/// How far it came
pub(super) enum Mended {
    /// Some records were looked at.
    Some,
    /// Something has to be read first.
    Wait(Step),
    /// All were; these epoch records may come into force again, in this order.
    All(Vec<(u64, RecordName, Signature)>),
}

impl Capsule {
    /// Looks at the next records.
    ///
    /// # Errors
    /// [`selfsame_codec::Code::StoreCorrupt`].
    pub(super) fn mend(&mut self, space: &mut Space, page: &mut Page) -> Result<Mended> {
        let Some(mut mend) = self.index_mut().damage_mut().mend.take() else {
            return Ok(Mended::All(Vec::new()));
        };
        let mended = self.mend_some(&mut mend, space, page)?;
        if !matches!(mended, Mended::All(_)) {
            self.index_mut().damage_mut().mend = Some(mend);
        } else if mend.is_again {
            self.index_mut().damage_mut().begin_mending();
            return Ok(Mended::Some);
        } else {
            self.mend_newest(space, &mend.newest);
            let name = self.charter().name();
            self.index_mut().damage_mut().mended(space, &name);
        }
        Ok(mended)
    }

    fn mend_some(&mut self, mend: &mut Mend, space: &mut Space, page: &mut Page) -> Result<Mended> {
        if let Err(Missing) = self.read_in_force(mend, space) {
            return Ok(Mended::Wait(Step::Wait));
        }
        if mend.names.is_empty() {
            if mend.is_last {
                let mut idle = core::mem::take(&mut mend.idle);
                idle.truncate(MAX_OPERATIONS);
                return Ok(Mended::All(idle));
            }
            let name = self.charter().name();
            let (first, end) = layout::range(&name, layout::RECORD);
            let Some(keys) = page.take() else {
                let start = mend.start.clone().unwrap_or(first);
                return Ok(Mended::Wait(Step::Scan((start, end))));
            };
            mend.is_last = keys.len() < PAGE;
            mend.start = keys.last().map(|last| [last.as_slice(), &[0]].concat());
            mend.names = keys
                .iter()
                .rev()
                .filter_map(|key| layout::record_in(key))
                .collect();
        }
        self.mend_batch(mend, space)
    }

    fn mend_batch(&mut self, mend: &mut Mend, space: &mut Space) -> Result<Mended> {
        let has_pointers = mend.fetched == Fetched::Entries;
        if mend.fetched != Fetched::Pointers {
            mend.fetched = if has_pointers {
                Fetched::Pointers
            } else {
                Fetched::Entries
            };
            let names = mend.names.iter().rev().take(AT_ONCE);
            let fetched = names.filter(|name| self.fetch(space, name, has_pointers));
            return Ok(match fetched.count() {
                0 => Mended::Some,
                _ => Mended::Wait(Step::Wait),
            });
        }
        for _ in 0..AT_ONCE {
            let Some(name) = mend.names.last().copied() else {
                break;
            };
            if let Outcome::Wait = self.mend_record(mend, space, &name)? {
                return Ok(Mended::Wait(Step::Wait));
            }
            mend.names.pop();
        }
        mend.fetched = Fetched::Nothing;
        Ok(Mended::Some)
    }

    /// Asks for a record or for what it points to; whether anything is to be read.
    fn fetch(&self, space: &mut Space, name: &RecordName, has_pointers: bool) -> bool {
        let capsule = self.charter().name();
        let mut is_missing = false;
        let mut ask = |name: &RecordName, space: &mut Space| {
            is_missing |= space.has(&of_record(&capsule, layout::RECORD, name)).is_err();
        };
        match self.index().entry(space, name) {
            Ok(Ok(Some(entry))) if has_pointers => {
                for pointer in entry.header().backpointers() {
                    ask(&pointer, space);
                }
            }
            _ if has_pointers => {}
            _ => ask(name, space),
        }
        is_missing
    }

    fn mend_record(&mut self, mend: &mut Mend, space: &mut Space, name: &RecordName) -> Result<Outcome<()>> {
        let Some(mut entry) = known!(self.index().entry(space, name))? else {
            return Ok(Outcome::Done(()));
        };
        let header = entry.header();
        let (kind, writer, sequence) = (header.kind(), header.writer(), header.sequence());
        let is_signed = self.index().steps(&entry) == 0;
        let is_too_short = entry.inline_body().is_none() && header.body_len() as usize <= MAX_INLINE;
        let is_in_force = mend.in_force.contains(name);
        let idle = match *entry.witness() {
            Witness::Signed(signature) if kind == RecordKind::Epoch && !is_in_force => Some(signature),
            _ => None,
        };
        if idle.is_some() {
            entry = entry.with_witness(Witness::Unproven);
        }
        match self.index_mut().mend_pointers(space, name, &entry) {
            Outcome::Done(()) => {}
            Outcome::Wait => return Ok(Outcome::Wait),
        }
        if let Outcome::Wait = self.index_mut().sort_out(space, name, &entry) {
            return Ok(Outcome::Wait);
        }
        if let Some(signature) = idle {
            self.index_mut().forget_signature(space, name, entry);
            let place = mend.idle.partition_point(|(other, ..)| *other < sequence);
            mend.idle.insert(place, (sequence, *name, signature));
        }
        if idle.is_none() && is_signed {
            mend.meet_signed(writer, (sequence, *name));
        }
        if is_too_short {
            self.index_mut().lose_body(space, name);
        }
        Ok(Outcome::Done(()))
    }

    /// Reads on which epoch records are in force.
    fn read_in_force(&self, mend: &mut Mend, space: &mut Space) -> core::result::Result<(), Missing> {
        let key = |place| numbered(&self.charter().name(), layout::EPOCH, place);
        while mend.places < self.epochs() {
            let Ok(name) = space.get(&key(mend.places)) else {
                for place in (mend.places..self.epochs()).take(AT_ONCE) {
                    _ = space.get(&key(place));
                }
                return Err(Missing);
            };
            mend.places += 1;
            mend.in_force
                .extend(name.iter().flat_map(|name| layout::names(name)));
        }
        Ok(())
    }
}
