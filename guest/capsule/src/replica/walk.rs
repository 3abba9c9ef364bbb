//! Walks over the elements of a capsule, page by page, so that a capsule may be larger than memory and others are served
//! between two pages.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::PAGE;
use super::capsule::CORRUPT;
use super::damage::Damage;
use super::index::Outcome;
use super::layout::{self, Key, Range};
use super::space::{Missing, Space};
use super::stored::Stored;
use crate::hash::{CapsuleName, RecordName};
use crate::message::Part;
use crate::refusal::Result;
use crate::sketch::{Element, ElementKind};

/// Values of the log that are read at once: each names a thousand elements, and all of them fit the smallest cache.
const LOGS_AT_ONCE: usize = 8;

/// A page of keys that was asked for, until whoever asked for it takes it
pub(super) type Page = Option<Vec<Vec<u8>>>;

/// What a walk does next
#[derive(Debug)]
pub(super) enum Step {
    /// It is at its end.
    Done,
    /// Values are missing.
    Wait,
    /// It needs the first keys of this range.
    Scan(Range),
}

/// What a walk goes over
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// The log of what arrived, if it begins somewhere in it.
    Log,
    Records,
    Signatures,
    Done,
}

/// What is stored and yet not in the set
#[derive(Clone, Copy, Debug)]
pub(super) struct LeftOut<'a> {
    damage: &'a Damage,
    /// Whether nothing proves some records yet: only then is it looked up of each.
    has_unsigned: bool,
}

impl<'a> LeftOut<'a> {
    /// Records whose bodies are lost, and those that nothing proves if there are any.
    pub(super) fn of(damage: &'a Damage, has_unsigned: bool) -> Self {
        Self { damage, has_unsigned }
    }
}

/// A walk
#[derive(Debug)]
pub(super) struct Walk {
    capsule: CapsuleName,
    part: Part,
    stage: Stage,
    start: Vec<u8>,
    end: Vec<u8>,
    /// Keys of the log whose values were not met yet, and whether there are further ones.
    log: Option<(VecDeque<Vec<u8>>, bool)>,
    /// Records of which it is looked up whether they are in the set, and whether there are further ones.
    records: Option<(Vec<RecordName>, bool)>,
}

impl Walk {
    /// Over a part of a capsule.
    pub(super) fn new(capsule: CapsuleName, part: Part) -> Self {
        let mut walk = Self {
            capsule,
            part,
            stage: Stage::Done,
            start: Vec::new(),
            end: Vec::new(),
            log: None,
            records: None,
        };
        walk.enter(if part.since > 0 {
            Stage::Log
        } else {
            Stage::Records
        });
        walk
    }

    /// Goes on; what it meets is visited, each element once, but records whose bodies are lost.
    ///
    /// # Errors
    /// [`selfsame_codec::Code::StoreCorrupt`].
    pub(super) fn step(
        &mut self,
        space: &mut Space,
        page: &mut Page,
        left_out: LeftOut<'_>,
        visit: &mut dyn FnMut(&Element),
    ) -> Result<Step> {
        let visit = &mut |element: &Element| {
            if element.kind != ElementKind::Record || !left_out.damage.is_void(&element.record) {
                visit(element);
            }
        };
        loop {
            if self.log.is_some() {
                match self.read_log(space, visit)? {
                    Outcome::Done(()) => continue,
                    Outcome::Wait => return Ok(Step::Wait),
                }
            }
            if self.records.is_some() {
                match self.read_records(space, visit) {
                    Ok(()) => continue,
                    Err(Missing) => return Ok(Step::Wait),
                }
            }
            if self.stage == Stage::Done {
                return Ok(Step::Done);
            }
            let Some(keys) = page.take() else {
                return Ok(Step::Scan((self.start.clone(), self.end.clone())));
            };
            let is_last = keys.len() < PAGE;
            if let Some(last) = keys.last() {
                self.start = [last.as_slice(), &[0]].concat();
            }
            if self.stage == Stage::Log {
                self.log = Some((keys.into(), is_last));
                continue;
            }
            if self.stage == Stage::Records && left_out.has_unsigned {
                let names = keys.iter().filter_map(|key| layout::record_in(key));
                self.records = Some((names.collect(), is_last));
                continue;
            }
            let kind = self.kind();
            keys.iter()
                .filter_map(|key| layout::record_in(key))
                .for_each(|record| visit(&Element { kind, record }));
            if is_last {
                self.enter(self.after());
            }
        }
    }

    /// Whether a walk over everything is past where it would have met this element.
    pub(super) fn is_past(&self, element: &Element) -> bool {
        let (stage, kind) = match element.kind {
            ElementKind::Record => (Stage::Records, layout::RECORD),
            ElementKind::Signature => (Stage::Signatures, layout::SIGNED),
        };
        self.stage > stage
            || self.stage == stage && *layout::of_record(&self.capsule, kind, &element.record) < *self.start
    }

    fn kind(&self) -> ElementKind {
        if self.stage == Stage::Records {
            ElementKind::Record
        } else {
            ElementKind::Signature
        }
    }

    fn after(&self) -> Stage {
        match self.stage {
            Stage::Records => Stage::Signatures,
            _ => Stage::Done,
        }
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        (self.start, self.end) = match stage {
            Stage::Log => layout::numbers(&self.capsule, layout::ARRIVAL, self.part.since),
            Stage::Records => {
                layout::names_between(&self.capsule, layout::RECORD, self.part.first, self.part.last)
            }
            Stage::Signatures => {
                layout::names_between(&self.capsule, layout::SIGNED, self.part.first, self.part.last)
            }
            Stage::Done => (Vec::new(), Vec::new()),
        };
    }

    /// Visits those records of a page that are in the set.
    fn read_records(
        &mut self,
        space: &mut Space,
        visit: &mut dyn FnMut(&Element),
    ) -> core::result::Result<(), Missing> {
        let Some((names, is_last)) = &self.records else {
            return Ok(());
        };
        let mark = |name: &RecordName| layout::of_record(&self.capsule, layout::UNSIGNED, name);
        let marked: Vec<_> = names.iter().map(|name| space.has(&mark(name))).collect();
        let marked: Vec<bool> = marked.into_iter().collect::<core::result::Result<_, _>>()?;
        let unmarked = names.iter().zip(marked).filter(|(_, is_marked)| !is_marked);
        unmarked.for_each(|(record, _)| visit(&Element::record(*record)));
        let is_last = *is_last;
        self.records = None;
        if is_last {
            self.enter(self.after());
        }
        Ok(())
    }

    fn read_log(&mut self, space: &mut Space, visit: &mut dyn FnMut(&Element)) -> Result<Outcome<()>> {
        let Some((keys, is_last)) = &mut self.log else {
            return Ok(Outcome::Done(()));
        };
        // Each value is met as soon as it is there: a page of them together is larger than most caches, which then never hold it.
        while let Some(key) = keys.front() {
            let Ok(value) = space.get(&Key::read(key).ok_or(CORRUPT)?) else {
                for key in keys.iter().take(LOGS_AT_ONCE) {
                    _ = space.get(&Key::read(key).ok_or(CORRUPT)?);
                }
                return Ok(Outcome::Wait);
            };
            keys.pop_front();
            // What was damaged of the log is left out: it is a hint.
            for element in layout::elements(&value.unwrap_or_else(Stored::empty)).ok_or(CORRUPT)? {
                if (self.part.first..=self.part.last).contains(&prefix(&element.record)) {
                    visit(&element);
                }
            }
        }
        let is_last = *is_last;
        self.log = None;
        if is_last {
            self.enter(Stage::Done);
        }
        Ok(Outcome::Done(()))
    }
}

/// The first eight bytes of a record's name, by which parts are cut.
pub(super) fn prefix(record: &RecordName) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&record.0[..8]);
    u64::from_be_bytes(first)
}
