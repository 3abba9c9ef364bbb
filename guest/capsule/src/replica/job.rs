//! A request under way: its operations one after the other, each as soon as what it needs of the store was read.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Reader};

use super::Source;
use super::capsule::{Capsule, Signing};
use super::entry::Given;
use super::index::Outcome;
use super::layout::{self, single};
use super::mend::Mended;
use super::parts::plant;
use super::serve::{Answers, Progress, Tools};
use super::space::{Missing, Space};
use super::staged::{Brought, Staged, refuse_at};
use super::trees::{Part, Trees};
use crate::acknowledgement::Stored;
use crate::cache::Mirror;
use crate::hash::{CapsuleName, RecordName};
use crate::introduction::Place;
use crate::keys::{Key, Signature};
use crate::message::{Envelope, MAX_MESSAGE_BYTES, MAX_OPERATIONS, Operation, REPLICAS};
use crate::metadata::Charter;
use crate::record::{Checked, Record};
use crate::refusal::{Refusal, Result};

/// The capsule is not stored.
const NO_CAPSULE: Refusal = Refusal {
    code: Code::NoCapsule,
    at: 0,
};

/// Most requests that wait for their turn.
const MAX_JOBS: usize = 4096;
/// Most of them from one source once half of these places are taken: the other half is for others.
const MAX_JOBS_OF_SOURCE: usize = MAX_JOBS / 8;
/// Bytes of results after which a response holds no more bodies: on its way it takes memory several times.
const MAX_BODIES: usize = 2 << 20;
/// About how many bytes of results a record takes beside what is stored of it: its proof, most often one header.
const PROOF_BYTES: usize = 256;
/// Most operations of one request that go over all names, and of each kind that takes a signature: whoever asks needs no more.
const MAX_COSTLY: usize = 1;
/// Most false signatures of one request that are verified: an honest one has none, or a few when a writer was just revoked.
const MAX_FALSE: usize = 16;

/// Who waits for a response
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The host, which calls the request this.
    Host(u32),
    /// The replica itself, for an exchange with another one that has this number.
    Exchange(u32),
    /// Nobody: it is about what the store has lost.
    Nobody,
}

/// A request under way
#[derive(Debug)]
pub(super) struct Job {
    /// Who asked.
    pub(super) asker: Asker,
    /// From where.
    pub(super) source: Source,
    /// The writer that has made itself known.
    pub(super) writer: Option<u16>,
    /// Whether what its operations need was asked of the store.
    pub(super) is_expected: bool,
    /// Whether it has had a page of names, so that it is others' turn.
    pub(super) had_page: bool,
    /// Whose capsule, and of which session it is.
    pub(super) envelope: Envelope,
    /// How large a cache the reader begins its session with, if it does.
    pub(super) opens: Option<u8>,
    pub(super) message: Arc<Vec<u8>>,
    pub(super) operations: Vec<Start>,
    next: usize,
    answers: Answers,
    /// Which operations stored something, and what.
    pub(super) storing: BTreeMap<usize, Storing>,
    pub(super) staged: Staged,
    /// What the signature under way brings, and how many of these were taken in.
    brought: Option<(Vec<Brought>, usize)>,
    /// How many signatures were false.
    false_signatures: usize,
    /// Whether it mends the graph first.
    mends: bool,
}

/// What an operation has stored
#[derive(Clone, Copy, Debug)]
pub(super) enum Storing {
    Capsule,
    Record(RecordName),
    Signature(RecordName),
}

/// Where an operation begins, and what came of checking the record that it writes
pub(super) type Start = (usize, Option<Result<Checked>>);

impl Job {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Code::TooLarge`], [`Code::BadMessage`] or what reading a record says, with the offset; nothing of it is carried out.
    pub(super) fn read(asker: Asker, source: Source, message: Arc<Vec<u8>>) -> Result<Self> {
        if message.len() > MAX_MESSAGE_BYTES {
            return Err(Refusal::new(Code::TooLarge, MAX_MESSAGE_BYTES));
        }
        let mut reader = Reader::new(&message);
        let envelope = reader
            .field::<Envelope>()
            .map_err(|_| Refusal::new(Code::BadMessage, 0))?;
        let (mut operations, mut opens, mut costly) = (Vec::new(), None, [0; 4]);
        while !reader.is_empty() {
            let at = message.len() - reader.rest().len();
            if operations.len() >= MAX_OPERATIONS {
                return Err(Refusal::new(Code::TooLarge, at));
            }
            let operation = Operation::read(&mut reader).map_err(|refusal| refusal.further(at))?;
            match operation {
                Operation::Open { slots_log2 } => _ = opens.get_or_insert(slots_log2),
                Operation::Compare { .. } | Operation::Elements { .. } => costly[0] += 1,
                Operation::QueryFresh { .. } => costly[1] += 1,
                Operation::Create { .. } => costly[2] += 1,
                Operation::Introduce(_) => costly[3] += 1,
                _ => {}
            }
            if costly.iter().any(|count| *count > MAX_COSTLY) {
                return Err(Refusal::new(Code::TooLarge, at));
            }
            operations.push((at, None));
        }
        Ok(Self {
            asker,
            source,
            writer: None,
            is_expected: false,
            had_page: false,
            envelope,
            opens,
            message,
            operations,
            next: 0,
            answers: Answers::default(),
            storing: BTreeMap::new(),
            staged: Staged::default(),
            brought: None,
            false_signatures: 0,
            mends: false,
        })
    }

    /// Mends the graph of a capsule.
    pub(super) fn mend(capsule: CapsuleName) -> Self {
        Self {
            asker: Asker::Nobody,
            source: Source::default(),
            writer: None,
            is_expected: true,
            had_page: false,
            envelope: Envelope {
                capsule,
                session: REPLICAS,
                verified: 0,
            },
            opens: None,
            message: Arc::default(),
            operations: Vec::new(),
            next: 0,
            answers: Answers::default(),
            storing: BTreeMap::new(),
            staged: Staged::default(),
            brought: None,
            false_signatures: 0,
            mends: true,
        }
    }

    /// Mends on; then signatures of epoch records that are not in force are what it stores.
    fn mend_on(&mut self, capsule: &mut Capsule, tools: &mut Tools<'_>) -> Result<Progress> {
        loop {
            let progress = spread(capsule, tools.space)?;
            if progress != Progress::Done {
                return Ok(progress);
            }
            if tools.space.is_full() {
                return Ok(Progress::Flush);
            }
            match capsule.mend(tools.space, tools.page)? {
                Mended::Some => {}
                Mended::Wait(step) => return Ok(step.into()),
                Mended::All(epochs) => {
                    self.mends = false;
                    for (_, record, signature) in epochs {
                        self.operations.push((self.message.len(), None));
                        Operation::Sign { record, signature }.write(Arc::make_mut(&mut self.message));
                    }
                    return Ok(Progress::Done);
                }
            }
        }
    }

    /// Checks the records that it writes and asks for what its operations need of the store; `mirror` is what its reader has
    /// verified.
    pub(super) fn expect(
        &mut self,
        capsule: &mut Capsule,
        (space, trees): (&mut Space, &Trees),
        mirror: Option<&Mirror>,
    ) {
        let mut asked: Vec<(RecordName, Need)> = Vec::new();
        // What is written, and which operation writes it.
        let mut written = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        let mut has_reads = false;
        for (index, (at, _)) in self.operations.iter().enumerate() {
            match operation(&self.message, *at) {
                Ok(Operation::Write { record }) => written.push((index, record)),
                Ok(Operation::Prove { record }) => match asked.last_mut() {
                    Some((last, need)) if *last == record => *need = need.and_proof(),
                    _ => asked.push((record, Need::Proof)),
                },
                Ok(Operation::Read { record }) => {
                    has_reads = true;
                    asked.push((record, Need::Record));
                }
                Ok(
                    Operation::Sign { record, .. }
                    | Operation::Signature { record }
                    | Operation::Subrecords { record },
                ) => asked.push((record, Need::Record)),
                Ok(Operation::ReadPart {
                    record,
                    index,
                    levels,
                }) => {
                    has_reads = true;
                    parts.push((record, index, levels));
                }
                _ => {}
            }
        }
        let mut records = unverified(asked, mirror);
        for (index, record) in written {
            let checked = record.checked(capsule.charter().hasher(), capsule.is_sealed());
            if let Ok(checked) = &checked {
                capsule.index_mut().expect_write(space, &checked.name, &record);
            }
            self.operations[index].1 = Some(checked);
        }
        let name = capsule.charter().name();
        let known = trees.expect(&name, &parts, &mut records) + capsule.index().expect(space, &records);
        if has_reads {
            let proofs = (records.len() + parts.len()) * PROOF_BYTES;
            self.answers.results.reserve((known + proofs).min(MAX_BODIES));
        }
    }

    /// Carries on.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`] when what the operations stored cannot be brought to its end: then none of it is acknowledged.
    pub(super) fn run(
        &mut self,
        capsule: &mut Option<Box<Capsule>>,
        tools: &mut Tools<'_>,
    ) -> Result<Progress> {
        if self.mends
            && let Some(capsule) = capsule
        {
            let progress = self.mend_on(capsule, tools)?;
            if progress != Progress::Done {
                return Ok(progress);
            }
        }
        while self.next < self.operations.len() {
            let before = self.answers.results.len();
            match self.carry_out(capsule, tools) {
                Ok(Progress::Done) => {}
                Ok(other) => {
                    self.answers.results.truncate(before);
                    return Ok(other);
                }
                Err(refusal) => {
                    self.answers.results.truncate(before);
                    refusal.code.as_u16().write(&mut self.answers.results);
                    refusal.at.write(&mut self.answers.results);
                }
            }
            self.answers.next();
            tools.space.mark();
            self.next += 1;
        }
        let Some(capsule) = capsule else {
            return Ok(Progress::Done);
        };
        if let Outcome::Wait = self.settle(capsule, tools)? {
            return Ok(Progress::Wait);
        }
        let progress = spread(capsule, tools.space)?;
        if progress == Progress::Done && (capsule.has_news() || !self.storing.is_empty()) {
            capsule.finish(tools.space);
        }
        Ok(progress)
    }

    /// Stores a signature, with the records of this request to which it leads.
    fn sign(
        &mut self,
        (record, signature): (&RecordName, &Signature),
        capsule: &mut Capsule,
        tools: &mut Tools<'_>,
    ) -> Result<Progress> {
        if self.false_signatures >= MAX_FALSE {
            return Err(Refusal::new(Code::BadSignature, 0));
        }
        let begun = self.brought.take();
        let (brought, mut taken) = begun.unwrap_or_else(|| (self.brought_for(tools.space, record), 0));
        let tools_of_signing = (&mut *tools.space, &mut *tools.verifier);
        let signed = tools.signed.as_deref();
        let signing = capsule.sign(
            tools_of_signing,
            (record, &brought, &mut taken),
            signature,
            signed,
        );
        if matches!(signing, Err(refusal) if refusal.code == Code::BadSignature) {
            self.false_signatures += 1;
        }
        Ok(match signing? {
            Outcome::Wait => {
                self.brought = Some((brought, taken));
                Progress::Wait
            }
            Outcome::Done(Signing::NeedsSigned) => Progress::NeedsSigned,
            Outcome::Done(Signing::Stored) => {
                *tools.signed = None;
                for one in brought {
                    if let Some(index) = self.staged.of.get(&one.name) {
                        self.is_stored(*index, one.name);
                    }
                }
                self.storing.insert(self.next, Storing::Signature(*record));
                Progress::Done
            }
        })
    }

    /// Stores a record if something proves it; otherwise it is staged.
    fn write(
        &mut self,
        (record, at): (Record<'_>, usize),
        message: &Arc<Vec<u8>>,
        capsule: &mut Capsule,
        tools: &mut Tools<'_>,
    ) -> Result<Progress> {
        let checked = &mut self.operations[self.next].1;
        let checked = match checked {
            Some(checked) => checked,
            None => checked.insert(record.checked(capsule.charter().hasher(), capsule.is_sealed())),
        };
        let Checked { name, tree } = checked.as_mut().map_err(|refusal| *refusal)?;
        let (name, tree) = (*name, tree.take());
        let given = Given {
            record,
            request: message,
            at: at + 1,
        };
        match capsule.write(tools.space, &name, &given, None)? {
            Outcome::Wait => {
                if let Some(Ok(checked)) = &mut self.operations[self.next].1 {
                    checked.tree = tree;
                }
                return Ok(Progress::Wait);
            }
            Outcome::Done(true) => _ = self.storing.insert(self.next, Storing::Record(name)),
            Outcome::Done(false) => {
                self.staged.of.insert(name, self.next);
                let result = self.answers.results.len() - size_of::<u16>();
                self.staged.results.insert(self.next, result);
            }
        }
        if let Some(tree) = tree {
            plant(capsule, tools.trees, (&name, &record), tree);
        }
        Ok(Progress::Done)
    }

    /// Carries one operation out; what it gives is appended when it is done, and not before.
    fn carry_out(&mut self, capsule: &mut Option<Box<Capsule>>, tools: &mut Tools<'_>) -> Result<Progress> {
        let at = self.operations[self.next].0;
        let message = Arc::clone(&self.message);
        let operation = operation(&message, at)?;
        if let Operation::Create { metadata } = operation {
            let charter = Charter::decode(metadata)?;
            return self.create(charter, capsule, tools);
        }
        let capsule = capsule.as_mut().ok_or(NO_CAPSULE)?;
        if self.answers.results.len() >= MAX_BODIES && gives_body(&operation) {
            return Err(Refusal::new(Code::TooLarge, MAX_BODIES));
        }
        0_u16.write(&mut self.answers.results);
        let progress = match operation {
            Operation::Write { record } => self.write((record, at), &message, capsule, tools)?,
            Operation::Sign { record, signature } => self.sign((&record, &signature), capsule, tools)?,
            Operation::Introduce(introduction) => {
                let Envelope { session, .. } = self.envelope;
                let place = Place {
                    server: &tools.server.public(),
                    capsule: &capsule.charter().name(),
                    session: &session,
                };
                let authority = (capsule.authority(), &mut *tools.verifier);
                let asking = (&self.source, tools.now_ms);
                tools.introduced.check(authority, &place, asking, &introduction)?;
                self.writer = Some(introduction.writer);
                Progress::Done
            }
            Operation::Prove { .. } | Operation::QueryFresh { .. } | Operation::Compare { .. } => {
                match spread(capsule, tools.space)? {
                    Progress::Done => self.answers.answer(&operation, capsule, tools)?,
                    other => other,
                }
            }
            _ => self.answers.answer(&operation, capsule, tools)?,
        };
        if progress == Progress::Done && self.answers.results.len() > MAX_MESSAGE_BYTES {
            return Err(Refusal::new(Code::TooLarge, MAX_MESSAGE_BYTES));
        }
        Ok(progress)
    }

    /// Creates the capsule of this metadata, if there is none yet.
    fn create(
        &mut self,
        charter: Charter,
        capsule: &mut Option<Box<Capsule>>,
        tools: &mut Tools<'_>,
    ) -> Result<Progress> {
        if charter.name() != self.envelope.capsule {
            return Err(Refusal::new(Code::BadMetadata, 0));
        }
        if capsule.is_none() {
            if !may_own(tools.owners, &charter) {
                return Err(Refusal::new(Code::OwnerRefused, 0));
            }
            let counts = single(&charter.name(), layout::COUNTS);
            match tools.space.get(&counts) {
                Err(Missing) => return Ok(Progress::Wait),
                // Its metadata were lost, and nothing else.
                Ok(found) if found.is_some() || tools.space.is_damaged(&counts) => {
                    Capsule::restore(tools.space, &charter);
                    return Ok(Progress::Reopen);
                }
                Ok(_) => *capsule = Some(Box::new(Capsule::create(tools.space, charter))),
            }
        }
        self.storing.insert(self.next, Storing::Capsule);
        0_u16.write(&mut self.answers.results);
        Ok(Progress::Done)
    }

    /// Those of its operations that stored something, as they came.
    pub(super) fn storing(&self) -> impl Iterator<Item = &[u8]> {
        let end = |index: usize| {
            self.operations
                .get(index + 1)
                .map_or(self.message.len(), |next| next.0)
        };
        self.storing
            .keys()
            .map(move |index| &self.message[self.operations[*index].0..end(*index)])
    }

    /// The response with its results, what its proofs verify, and what is to be acknowledged.
    pub(super) fn into_parts(self) -> (Vec<u8>, Vec<RecordName>, Stored) {
        let mut stored = Stored::with_capacity(self.storing.len());
        for storing in self.storing.values() {
            match storing {
                Storing::Capsule => stored.capsule(),
                Storing::Record(name) => stored.record(name),
                Storing::Signature(name) => stored.signature(name),
            }
        }
        let results = refuse_at(self.answers.results, &self.staged.refused);
        (results, self.answers.learned, stored)
    }
}

/// Whether one more request of a source may wait beside these.
pub(super) fn has_place(jobs: &VecDeque<Job>, source: Source) -> bool {
    let of_source = || jobs.iter().filter(|job| job.source == source).count();
    jobs.len() < MAX_JOBS / 2 || (jobs.len() < MAX_JOBS && of_source() < MAX_JOBS_OF_SOURCE)
}

/// Whether it gives a body or a part of one, which may be long.
fn gives_body(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::Read { .. } | Operation::ReadPart { .. } | Operation::Subrecords { .. }
    )
}

/// What is needed of a record
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Record,
    Proof,
    Both,
}

impl Need {
    fn and_proof(self) -> Self {
        match self {
            Self::Proof => Self::Proof,
            Self::Record | Self::Both => Self::Both,
        }
    }
}

/// The records that are needed of the store, and whether also what proves them: not of those that the reader has verified.
fn unverified(asked: Vec<(RecordName, Need)>, mirror: Option<&Mirror>) -> Vec<(RecordName, bool)> {
    let is_verified = |(record, need): &(RecordName, Need)| {
        *need != Need::Record && mirror.is_some_and(|mirror| mirror.contains(&record.0))
    };
    // Of all before anything is made of it: where they are is anywhere in memory, and none has to wait for the one before.
    let verified: Vec<bool> = asked.iter().map(is_verified).collect();
    let needed = asked.into_iter().zip(verified);
    let needed = needed.filter_map(|((record, need), is_verified)| match need {
        Need::Proof if is_verified => None,
        Need::Record => Some((record, false)),
        Need::Proof | Need::Both => Some((record, !is_verified)),
    });
    needed.collect()
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

/// Whether a capsule of this owner may be created.
fn may_own(owners: &[Key], charter: &Charter) -> bool {
    owners.is_empty() || owners.contains(&charter.metadata().owner)
}
