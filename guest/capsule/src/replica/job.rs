//! A request under way: its operations one after the other, each as soon as what it needs of the store was read.

use alloc::rc::Rc;
use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Reader};

use super::capsule::{Capsule, Signing};
use super::compare::{Question, Visit, compare, elements, signature};
use super::entry::Entry;
use super::index::{NO_RECORD, Outcome, known};
use super::layout::Key;
use super::prove::Proof;
use super::session::Session;
use super::space::{Missing, Space};
use super::trees::{Grown, Trees};
use super::walk::{Page, Step};
use crate::cache::Ahead;
use crate::hash::RecordName;
use crate::header::RecordKind;
use crate::keys::KeyPair;
use crate::message::{Envelope, Fresh, MAX_MESSAGE_BYTES, MAX_OPERATIONS, Operation, Stored};
use crate::metadata::Charter;
use crate::record::TreeBody;
use crate::refusal::{Refusal, Result};

/// The capsule is not stored.
const NO_CAPSULE: Refusal = Refusal {
    code: Code::NoCapsule,
    at: 0,
};

/// Most operations of one request that go over all names.
const MAX_WALKS: usize = 1;

/// Who waits for a response
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The host, which calls the request this.
    Host(u32),
    /// The replica itself, for an exchange with another one that has this number.
    Exchange(u32),
}

/// A request under way
#[derive(Debug)]
pub(super) struct Job {
    /// Who asked.
    pub(super) asker: Asker,
    /// Whether what its operations need was asked of the store.
    pub(super) is_expected: bool,
    /// Whether it has had a page of names, so that it is others' turn.
    pub(super) had_page: bool,
    /// Whose capsule, and of which session it is.
    pub(super) envelope: Envelope,
    /// How large a cache the reader begins its session with, if it does.
    pub(super) opens: Option<u8>,
    message: Vec<u8>,
    operations: Vec<Start>,
    next: usize,
    results: Vec<u8>,
    learned: Vec<RecordName>,
    ahead: Ahead,
    stored: Stored,
    /// Which operations stored something.
    storing: Vec<usize>,
    proof: Option<Proof>,
    visit: Option<Visit>,
}

/// Where an operation begins, and what came of checking the record that it writes
type Start = (usize, Option<Result<RecordName>>);

/// What operations are carried out with
pub(super) struct Tools<'a> {
    pub(super) space: &'a mut Space,
    pub(super) session: Option<&'a mut Session>,
    pub(super) trees: &'a mut Trees,
    pub(super) server: &'a KeyPair,
    pub(super) now_ms: u64,
    /// All that is signed, once it was read because it is needed.
    pub(super) signed: &'a mut Option<Vec<RecordName>>,
    /// A page of names, once it was read because it is needed.
    pub(super) page: &'a mut Page,
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
    /// It has to know all that is signed.
    NeedsSigned,
    /// It has to know the first keys of a range.
    Scan(Key, Key),
}

impl From<Step> for Progress {
    fn from(step: Step) -> Self {
        match step {
            Step::Done => Self::Done,
            Step::Wait => Self::Wait,
            Step::Scan(start, end) => Self::Scan(start, end),
        }
    }
}

impl Job {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Code::TooLarge`], [`Code::BadMessage`] or what reading a record says, with the offset; nothing of it is carried out.
    pub(super) fn read(asker: Asker, message: Vec<u8>) -> Result<Self> {
        if message.len() > MAX_MESSAGE_BYTES {
            return Err(Refusal::new(Code::TooLarge, MAX_MESSAGE_BYTES));
        }
        let mut reader = Reader::new(&message);
        let envelope = reader
            .field::<Envelope>()
            .map_err(|_| Refusal::new(Code::BadMessage, 0))?;
        let (mut operations, mut opens, mut walks) = (Vec::new(), None, 0);
        while !reader.is_empty() {
            let at = message.len() - reader.rest().len();
            if operations.len() >= MAX_OPERATIONS {
                return Err(Refusal::new(Code::TooLarge, at));
            }
            let operation = Operation::read(&mut reader).map_err(|refusal| refusal.further(at))?;
            match operation {
                Operation::Open { slots_log2 } => _ = opens.get_or_insert(slots_log2),
                Operation::Compare { .. } | Operation::Elements { .. } => walks += 1,
                _ => {}
            }
            if walks > MAX_WALKS {
                return Err(Refusal::new(Code::TooLarge, at));
            }
            operations.push((at, None));
        }
        Ok(Self {
            asker,
            is_expected: false,
            had_page: false,
            envelope,
            opens,
            message,
            operations,
            next: 0,
            results: Vec::new(),
            learned: Vec::new(),
            ahead: Ahead::default(),
            stored: Stored::default(),
            storing: Vec::new(),
            proof: None,
            visit: None,
        })
    }

    /// Checks the records that it writes and asks for what its operations need of the store.
    pub(super) fn expect(&mut self, capsule: &Capsule, space: &mut Space) {
        for (at, checked) in &mut self.operations {
            match operation(&self.message, *at) {
                Ok(Operation::Write { record }) => {
                    let name = record.check(capsule.charter().hasher(), capsule.is_sealed());
                    if let Ok(name) = &name {
                        capsule.index().expect(space, name, &record);
                    }
                    *checked = Some(name);
                }
                Ok(
                    Operation::Read { record }
                    | Operation::Prove { record }
                    | Operation::Sign { record, .. }
                    | Operation::Signature { record }
                    | Operation::ReadPart { record, .. }
                    | Operation::Subrecords { record },
                ) => capsule.expect_record(space, &record),
                _ => {}
            }
        }
    }

    /// Carries on.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`] when what the operations stored cannot be brought to its end: then none of it is acknowledged.
    pub(super) fn run(&mut self, capsule: &mut Option<Capsule>, tools: &mut Tools<'_>) -> Result<Progress> {
        while self.next < self.operations.len() {
            let before = self.results.len();
            match self.carry_out(capsule, tools) {
                Ok(Progress::Done) => {}
                Ok(other) => {
                    self.results.truncate(before);
                    return Ok(other);
                }
                Err(refusal) => {
                    self.results.truncate(before);
                    refusal.code.as_u16().write(&mut self.results);
                    refusal.at.write(&mut self.results);
                }
            }
            (self.proof, self.visit) = (None, None);
            tools.space.mark();
            self.next += 1;
        }
        let Some(capsule) = capsule else {
            return Ok(Progress::Done);
        };
        let progress = spread(capsule, tools.space)?;
        if progress == Progress::Done && !self.stored.is_empty() {
            capsule.finish(tools.space);
        }
        Ok(progress)
    }

    /// Carries one operation out; what it gives is appended when it is done, and not before.
    fn carry_out(&mut self, capsule: &mut Option<Capsule>, tools: &mut Tools<'_>) -> Result<Progress> {
        let (at, checked) = &self.operations[self.next];
        let operation = operation(&self.message, *at)?;
        if let Operation::Create { metadata } = operation {
            let charter = Charter::decode(metadata)?;
            if charter.name() != self.envelope.capsule {
                return Err(Refusal::new(Code::BadMetadata, 0));
            }
            capsule.get_or_insert_with(|| Capsule::create(tools.space, charter));
            self.stored.capsule();
            self.storing.push(self.next);
            0_u16.write(&mut self.results);
            return Ok(Progress::Done);
        }
        let capsule = capsule.as_mut().ok_or(NO_CAPSULE)?;
        0_u16.write(&mut self.results);
        let outcome = match operation {
            Operation::Write { record } => {
                let name = match checked {
                    Some(checked) => (*checked)?,
                    None => record.check(capsule.charter().hasher(), capsule.is_sealed())?,
                };
                let outcome = capsule.write(tools.space, &name, &record)?;
                if matches!(outcome, Outcome::Done(())) {
                    self.stored.record(&name);
                    self.storing.push(self.next);
                }
                Ok(outcome)
            }
            Operation::Sign { record, signature } => {
                match capsule.sign(tools.space, &record, &signature, tools.signed.as_deref())? {
                    Outcome::Wait => Ok(Outcome::Wait),
                    Outcome::Done(Signing::NeedsSigned) => return Ok(Progress::NeedsSigned),
                    Outcome::Done(Signing::Stored) => {
                        *tools.signed = None;
                        self.stored.signature(&record);
                        self.storing.push(self.next);
                        Ok(Outcome::Done(()))
                    }
                }
            }
            Operation::Prove { record } => {
                match spread(capsule, tools.space)? {
                    Progress::Done => {}
                    other => return Ok(other),
                }
                let proof = self.proof.get_or_insert_with(|| Proof::new(record));
                let learned = (&mut self.ahead, &mut self.learned);
                prove(proof, capsule, tools, &mut self.results, learned)
            }
            Operation::QueryFresh { nonce } => {
                match spread(capsule, tools.space)? {
                    Progress::Done => {}
                    other => return Ok(other),
                }
                let (name, heads) = (
                    capsule.charter().name(),
                    capsule.index().heads().copied().collect(),
                );
                Fresh::sign(tools.server, &name, &nonce, heads, tools.now_ms).write(&mut self.results);
                Ok(Outcome::Done(()))
            }
            Operation::Read { record } => read(capsule, tools.space, &record, &mut self.results),
            Operation::ReadPart { record, index } => {
                read_part(capsule, tools, &record, index, &mut self.results)
            }
            Operation::Subrecords { record } => subrecords(capsule, tools.space, &record, &mut self.results),
            Operation::Describe => {
                capsule.charter().encoded().write(&mut self.results);
                Ok(Outcome::Done(()))
            }
            Operation::Compare {
                salt,
                part,
                symbols,
                unless,
            } => {
                match spread(capsule, tools.space)? {
                    Progress::Done => {}
                    other => return Ok(other),
                }
                let question = Question {
                    salt,
                    part,
                    symbols,
                    unless,
                };
                let (space, page) = (&mut *tools.space, &mut *tools.page);
                return compare(
                    capsule,
                    space,
                    page,
                    &question,
                    &mut self.visit,
                    &mut self.results,
                )
                .map(Progress::from);
            }
            Operation::Elements { salt, part, ids } => {
                let (space, page) = (&mut *tools.space, &mut *tools.page);
                let which = (&salt, part, ids);
                return elements(capsule, space, page, which, &mut self.visit, &mut self.results)
                    .map(Progress::from);
            }
            Operation::Signature { record } => signature(capsule, tools.space, &record, &mut self.results),
            Operation::Epochs { from } => capsule.tell_epochs(tools.space, from, &mut self.results),
            Operation::Open { .. } | Operation::Create { .. } => Ok(Outcome::Done(())),
        };
        match outcome? {
            Outcome::Wait => Ok(Progress::Wait),
            Outcome::Done(()) if self.results.len() > MAX_MESSAGE_BYTES => {
                Err(Refusal::new(Code::TooLarge, MAX_MESSAGE_BYTES))
            }
            Outcome::Done(()) => Ok(Progress::Done),
        }
    }

    /// Those of its operations that stored something, as they came.
    pub(super) fn storing(&self) -> impl Iterator<Item = &[u8]> {
        let end = |index: usize| {
            self.operations
                .get(index + 1)
                .map_or(self.message.len(), |next| next.0)
        };
        self.storing
            .iter()
            .map(move |index| &self.message[self.operations[*index].0..end(*index)])
    }

    /// Its results, what its proofs verify, and what is to be acknowledged.
    pub(super) fn into_parts(self) -> (Vec<u8>, Vec<RecordName>, Stored) {
        (self.results, self.learned, self.stored)
    }
}

fn operation(message: &[u8], at: usize) -> Result<Operation<'_>> {
    Operation::read(&mut Reader::new(&message[at..]))
}

fn spread(capsule: &mut Capsule, space: &mut Space) -> Result<Progress> {
    Ok(match capsule.spread(space)? {
        Outcome::Done(true) => Progress::Done,
        Outcome::Done(false) => {
            capsule.finish(space);
            Progress::Flush
        }
        Outcome::Wait => Progress::Wait,
    })
}

fn prove(
    proof: &mut Proof,
    capsule: &Capsule,
    tools: &mut Tools<'_>,
    results: &mut Vec<u8>,
    (ahead, learned): (&mut Ahead, &mut Vec<RecordName>),
) -> Result<Outcome<()>> {
    let mirror = tools.session.as_deref().map(Session::mirror);
    let is_verified = |name: &RecordName| mirror.is_some_and(|mirror| ahead.contains(mirror, &name.0));
    let (mut made, before) = (Vec::new(), learned.len());
    let outcome = proof.make(capsule.index(), tools.space, &is_verified, &mut made, learned)?;
    made.as_slice().write(results);
    if let Some(mirror) = mirror {
        let new = &learned[before..];
        new.iter().for_each(|name| ahead.insert(mirror, &name.0));
    }
    Ok(outcome)
}

fn read(
    capsule: &Capsule,
    space: &mut Space,
    record: &RecordName,
    results: &mut Vec<u8>,
) -> Result<Outcome<()>> {
    let entry = known!(capsule.index().entry(space, record))?.ok_or(NO_RECORD)?;
    if let Some(body) = entry.inline_body() {
        results.extend_from_slice(entry.header_bytes());
        results.extend_from_slice(body);
        return Ok(Outcome::Done(()));
    }
    let Outcome::Done(body) = capsule.body(space, record, &entry)? else {
        return Ok(Outcome::Wait);
    };
    results.extend_from_slice(entry.header_bytes());
    results.extend_from_slice(&body);
    Ok(Outcome::Done(()))
}

fn read_part(
    capsule: &Capsule,
    tools: &mut Tools<'_>,
    record: &RecordName,
    index: u32,
    results: &mut Vec<u8>,
) -> Result<Outcome<()>> {
    let name = capsule.charter().name();
    let tree = match tools.trees.get(&name, record) {
        Some(tree) => tree,
        None => {
            let Outcome::Done((entry, body)) = whole(capsule, tools.space, record)? else {
                return Ok(Outcome::Wait);
            };
            has_parts(&entry)?;
            let hasher = capsule.charter().hasher();
            let tree = Rc::new(Grown::new(hasher, body, capsule.is_sealed())?);
            tools.trees.insert(name, *record, tree.clone());
            tree
        }
    };
    let (part, path) = tree.part(index as usize).ok_or(NO_RECORD)?;
    part.write(results);
    (path.len() as u16).write(results);
    results.extend_from_slice(path.as_flattened());
    Ok(Outcome::Done(()))
}

fn subrecords(
    capsule: &Capsule,
    space: &mut Space,
    record: &RecordName,
    results: &mut Vec<u8>,
) -> Result<Outcome<()>> {
    let Outcome::Done((entry, body)) = whole(capsule, space, record)? else {
        return Ok(Outcome::Wait);
    };
    has_parts(&entry)?;
    let tree = TreeBody::decode(&body, capsule.is_sealed())?;
    results.extend_from_slice(entry.header_bytes());
    (tree.subrecords.len() as u32).write(results);
    tree.preamble.write(results);
    Ok(Outcome::Done(()))
}

/// A stored record with its body.
fn whole(capsule: &Capsule, space: &mut Space, record: &RecordName) -> Result<Outcome<(Entry, Vec<u8>)>> {
    let entry = known!(capsule.index().entry(space, record))?.ok_or(NO_RECORD)?;
    Ok(match capsule.body(space, record, &entry)? {
        Outcome::Done(body) => Outcome::Done((entry, body)),
        Outcome::Wait => Outcome::Wait,
    })
}

fn has_parts(entry: &Entry) -> Result<()> {
    if entry.header().kind() == RecordKind::Tree {
        Ok(())
    } else {
        Err(Refusal::new(Code::BadTree, 0))
    }
}
