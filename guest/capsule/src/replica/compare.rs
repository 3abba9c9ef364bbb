//! Serving other replicas: what is stored, as a sketch, and which elements have the ids that a sketch gave.
//!
//! Nothing is kept between requests; what one operation takes is bounded by its sketch or by the ids that it brought.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field};

use super::answer::{Compared, Signed};
use super::capsule::Capsule;
use super::index::{NO_RECORD, Outcome, known};
use super::space::{Missing, Space};
use super::walk::{LeftOut, Page, Step, Walk};
use crate::hash::RecordName;
use crate::header::RecordKind;
use crate::message::{Fingerprint, Part};
use crate::refusal::{Refusal, Result};
use crate::sketch::{Element, Salt, Shortener, Sketch};
use crate::witness::Witness;

/// A walk for another replica
#[derive(Debug)]
pub(super) struct Visit {
    walk: Walk,
    ids: Shortener,
    gathered: Gathered,
}

/// What a walk gathers
#[derive(Debug)]
enum Gathered {
    /// A sketch of what it meets.
    Sketch(Sketch),
    /// What it meets of these ids, which are sorted.
    Elements(Vec<u64>, Vec<Element>),
}

impl Visit {
    fn new(capsule: &Capsule, salt: &Salt, part: Part, gathered: Gathered) -> Result<Self> {
        if part.since > capsule.arrivals() {
            return Err(NO_RECORD);
        }
        let name = capsule.charter().name();
        Ok(Self {
            walk: Walk::new(name, part),
            ids: Shortener::new(&name, salt),
            gathered,
        })
    }

    fn step(&mut self, space: &mut Space, page: &mut Page, left_out: LeftOut<'_>) -> Result<Step> {
        let Self { walk, ids, gathered } = self;
        walk.step(space, page, left_out, &mut |element| {
            let id = ids.id(element);
            match gathered {
                Gathered::Sketch(sketch) => sketch.insert(id),
                // Two elements with one id are as good as impossible; more answers than ids are not given.
                Gathered::Elements(wanted, found) => {
                    if found.len() < wanted.len() && wanted.binary_search(&id).is_ok() {
                        found.push(*element);
                    }
                }
            }
        })
    }
}

/// Which sketch another replica asks for
#[derive(Clone, Copy)]
pub(super) struct Question {
    /// What its ids are salted with.
    pub(super) salt: Salt,
    /// Of which elements.
    pub(super) part: Part,
    /// How many symbols.
    pub(super) symbols: u32,
    /// With which fingerprint none is wanted.
    pub(super) unless: Fingerprint,
}

/// Makes a sketch, unless it is not wanted.
///
/// # Errors
/// [`Code::NoRecord`] when less has arrived than the part says, [`Code::StoreCorrupt`].
pub(super) fn compare(
    capsule: &mut Capsule,
    space: &mut Space,
    page: &mut Page,
    question: &Question,
    visit: &mut Option<Visit>,
    results: &mut Vec<u8>,
) -> Result<Step> {
    match capsule.index_mut().count(space, page)? {
        Step::Done => {}
        other => return Ok(other),
    }
    let fingerprint = capsule.index().census().fingerprint();
    let mut compared = Compared {
        arrivals: capsule.arrivals(),
        fingerprint,
        sketch: None,
    };
    if question.symbols > 0 && question.unless != fingerprint {
        let visit = match visit {
            Some(visit) => visit,
            None => {
                let sketch = Gathered::Sketch(Sketch::new(question.symbols as usize));
                visit.insert(Visit::new(capsule, &question.salt, question.part, sketch)?)
            }
        };
        match visit.step(space, page, capsule.index().left_out())? {
            Step::Done => {}
            other => return Ok(other),
        }
        if let Gathered::Sketch(sketch) = &visit.gathered {
            compared.sketch = Some(sketch.clone());
        }
    }
    compared.write(results);
    Ok(Step::Done)
}

/// Finds elements by their ids.
///
/// # Errors
/// [`Code::NoRecord`] when less has arrived than the part says, [`Code::StoreCorrupt`].
pub(super) fn elements(
    capsule: &Capsule,
    space: &mut Space,
    page: &mut Page,
    (salt, part, ids): (&Salt, Part, &[u8]),
    visit: &mut Option<Visit>,
    results: &mut Vec<u8>,
) -> Result<Step> {
    let visit = match visit {
        Some(visit) => visit,
        None => {
            let mut wanted: Vec<u64> = ids
                .as_chunks()
                .0
                .iter()
                .map(|id| u64::from_le_bytes(*id))
                .collect();
            wanted.sort_unstable();
            let found = Gathered::Elements(wanted, Vec::new());
            visit.insert(Visit::new(capsule, salt, part, found)?)
        }
    };
    match visit.step(space, page, capsule.index().left_out())? {
        Step::Done => {}
        other => return Ok(other),
    }
    if let Gathered::Elements(_, found) = &visit.gathered {
        (found.len() as u32).write(results);
        found.iter().for_each(|element| element.write(results));
    }
    Ok(Step::Done)
}

/// Gives the signature of a record.
///
/// # Errors
/// [`Code::NoRecord`], [`Code::Unproven`] when it is not signed, [`Code::StoreCorrupt`].
pub(super) fn signature(
    capsule: &Capsule,
    space: &mut Space,
    record: &RecordName,
    results: &mut Vec<u8>,
) -> Result<Outcome<()>> {
    let entry = known!(capsule.index().entry(space, record))?.ok_or(NO_RECORD)?;
    let Witness::Signed(signature) = *entry.witness() else {
        return Err(Refusal::new(Code::Unproven, 0));
    };
    let header = entry.header();
    let signed = Signed {
        is_epoch: header.kind() == RecordKind::Epoch,
        sequence: header.sequence(),
        signature,
    };
    signed.write(results);
    Ok(Outcome::Done(()))
}
