//! What operations give that store nothing.

use alloc::vec::Vec;

use selfsame_codec::Field;

use super::capsule::Capsule;
use super::compare::{Question, Visit, compare, elements, signature};
use super::epochs::ToldEpochs;
use super::index::{NO_RECORD, Outcome, known};
use super::introduced::Introduced;
use super::layout::Range;
use super::parts::{read_part, subrecords};
use super::prove::Proof;
use super::session::Session;
use super::space::{Missing, Space};
use super::trees::Trees;
use super::walk::{Page, Step};
use crate::cache::Ahead;
use crate::hash::RecordName;
use crate::heads::newest_of_each;
use crate::keys::{self, KeyPair};
use crate::message::{Fresh, FreshQuery, MAX_HEADS, Operation, VERSION};
use crate::refusal::Result;
use crate::verifier::Verifier;

/// What operations are carried out with
pub(super) struct Tools<'a> {
    pub(super) space: &'a mut Space,
    pub(super) session: Option<&'a Session>,
    pub(super) trees: &'a mut Trees,
    pub(super) verifier: &'a mut Verifier,
    pub(super) introduced: &'a mut Introduced,
    pub(super) server: &'a KeyPair,
    /// Whose capsules may be created; everybody's if there are none.
    pub(super) owners: &'a [keys::Key],
    pub(super) now_ms: u64,
    /// All that is signed, once it was read because it is needed.
    pub(super) signed: &'a mut Option<Vec<RecordName>>,
    /// A page of names, once it was read because it is needed.
    pub(super) page: &'a mut Page,
}

/// How a job's turn ended
pub(super) enum Turn {
    Done,
    /// It waits for the store, and the others for it.
    Waits,
    /// It lets others go first.
    Yields,
}

/// How far a job came
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is done.
    Done,
    /// What it wants has to be read from the store.
    Wait,
    /// What it changed is to be written before it goes on.
    Flush,
    /// The capsule is stored, and has to be opened.
    Reopen,
    /// It has to know all that is signed.
    NeedsSigned,
    /// It has to know the first keys of a range.
    Scan(Range),
}

impl From<Outcome<()>> for Progress {
    fn from(outcome: Outcome<()>) -> Self {
        match outcome {
            Outcome::Done(()) => Self::Done,
            Outcome::Wait => Self::Wait,
        }
    }
}

impl From<Step> for Progress {
    fn from(step: Step) -> Self {
        match step {
            Step::Done => Self::Done,
            Step::Wait => Self::Wait,
            Step::Scan(range) => Self::Scan(range),
        }
    }
}

/// What a response begins with, until its serial number is known
const HEAD: [u8; 7] = [VERSION, 0, 0, 0, 0, 0, 0];
/// Where that stands.
pub(super) const SERIAL: core::ops::Range<usize> = 3..7;

/// The results of a job's operations so far, and what the one under way has come to
#[derive(Debug)]
pub(super) struct Answers {
    /// The response with the results.
    pub(super) results: Vec<u8>,
    /// What proofs among them verify.
    pub(super) learned: Vec<RecordName>,
    ahead: Ahead,
    proof: Option<Proof>,
    visit: Option<Visit>,
    epochs: ToldEpochs,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            results: HEAD.into(),
            learned: Vec::new(),
            ahead: Ahead::default(),
            proof: None,
            visit: None,
            epochs: ToldEpochs::default(),
        }
    }
}

impl Answers {
    /// The operation is done: the next one begins anew.
    pub(super) fn next(&mut self) {
        (self.proof, self.visit) = (None, None);
        self.epochs = ToldEpochs::default();
    }

    /// Appends what an operation gives, when it is done and not before.
    ///
    /// # Errors
    /// Why the operation is refused.
    pub(super) fn answer(
        &mut self,
        operation: &Operation<'_>,
        capsule: &mut Capsule,
        tools: &mut Tools<'_>,
    ) -> Result<Progress> {
        let results = &mut self.results;
        let outcome = match operation {
            Operation::Prove { record } => {
                let proof = self.proof.get_or_insert_with(|| Proof::new(*record));
                let learned = (&mut self.ahead, &mut self.learned);
                prove(proof, capsule, tools, results, learned)?
            }
            Operation::QueryFresh(query) => query_fresh(capsule, tools, query, results)?,
            Operation::Read { record } => read(capsule, tools.space, record, results)?,
            Operation::ReadPart {
                record,
                index,
                levels,
            } => {
                let tools = (&mut *tools.space, &mut *tools.trees);
                read_part(capsule, tools, record, (*index, *levels), results)?
            }
            Operation::Subrecords { record } => subrecords(capsule, tools.space, record, results)?,
            Operation::Describe => {
                capsule.charter().encoded().write(results);
                Outcome::Done(())
            }
            Operation::Compare { .. } | Operation::Elements { .. } => {
                return self.walk(operation, capsule, tools);
            }
            Operation::Signature { record } => signature(capsule, tools.space, record, results)?,
            Operation::Epochs { from } => {
                capsule.tell_epochs(tools.space, *from, &mut self.epochs, results)?
            }
            _ => Outcome::Done(()),
        };
        Ok(outcome.into())
    }

    /// Goes over all names, a page at a time.
    fn walk(
        &mut self,
        operation: &Operation<'_>,
        capsule: &mut Capsule,
        tools: &mut Tools<'_>,
    ) -> Result<Progress> {
        let (space, page) = (&mut *tools.space, &mut *tools.page);
        let (visit, results) = (&mut self.visit, &mut self.results);
        let step = match *operation {
            Operation::Compare {
                salt,
                part,
                symbols,
                unless,
            } => {
                let question = Question {
                    salt,
                    part,
                    symbols,
                    unless,
                };
                compare(capsule, space, page, &question, visit, results)?
            }
            Operation::Elements { salt, part, ids } => {
                elements(capsule, space, page, (&salt, part, ids), visit, results)?
            }
            _ => return Ok(Progress::Done),
        };
        Ok(step.into())
    }
}

fn prove(
    proof: &mut Proof,
    capsule: &Capsule,
    tools: &mut Tools<'_>,
    results: &mut Vec<u8>,
    (ahead, learned): (&mut Ahead, &mut Vec<RecordName>),
) -> Result<Outcome<()>> {
    let mirror = tools.session.map(Session::mirror);
    let is_verified = |name: &RecordName| mirror.is_some_and(|mirror| ahead.contains(mirror, &name.0));
    let (at, before) = (results.len(), learned.len());
    0_u32.write(results);
    let outcome = proof.make(capsule.index(), tools.space, &is_verified, results, learned)?;
    let start = at + size_of::<u32>();
    let len = (results.len() - start) as u32;
    results[at..start].copy_from_slice(&len.to_le_bytes());
    if let Some(mirror) = mirror {
        let new = &learned[before..];
        new.iter().for_each(|name| ahead.insert(mirror, &name.0));
    }
    Ok(outcome)
}

fn query_fresh(
    capsule: &Capsule,
    tools: &mut Tools<'_>,
    query: &FreshQuery,
    results: &mut Vec<u8>,
) -> Result<Outcome<()>> {
    let Outcome::Done(newest) = capsule.newest_of(tools.space, query.writer.as_ref())? else {
        return Ok(Outcome::Wait);
    };
    let name = capsule.charter().name();
    let heads = newest_of_each(capsule.index().heads(), MAX_HEADS);
    let heads = heads.into_iter().map(|(name, _)| name).collect();
    Fresh::sign(tools.server, &name, query, newest, heads, tools.now_ms).write(results);
    Ok(Outcome::Done(()))
}

fn read(
    capsule: &Capsule,
    space: &mut Space,
    record: &RecordName,
    results: &mut Vec<u8>,
) -> Result<Outcome<()>> {
    if known!(capsule.index().copy_whole(space, record, results))? {
        return Ok(Outcome::Done(()));
    }
    let entry = known!(capsule.index().entry(space, record))?.ok_or(NO_RECORD)?;
    let Outcome::Done(body) = capsule.body(space, record, &entry)? else {
        return Ok(Outcome::Wait);
    };
    results.extend_from_slice(entry.header_bytes());
    results.extend_from_slice(&body);
    Ok(Outcome::Done(()))
}
