//! Writing: records are made, sent to all servers, and count as written when a quorum has signed for them.

use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::{Code, Reader};
use selfsame_write_batch::WriteBatchBuilder;

use super::base::{Ask, Base, Fault, Sent, outcome};
use super::command::{MAX_ELEMENTS, Reply, Signing};
use super::memory::writer_key;
use super::packing::{Packer, Part, with_before};
use super::pen::Pen;
use super::random::many;
use super::{Client, Job};
use crate::acknowledgement::{Acknowledgement, Stored};
use crate::authority::OWNER;
use crate::hash::RecordName;
use crate::header::MAX_BACKPOINTERS;
use crate::heads::Origin;
use crate::keys::Signature;
use crate::refusal::{Refusal, Result};
use crate::seal::SALT_BYTES;
use crate::writer::{Backpointers, MAX_CONTENT_BYTES, Progress, Written};

/// Backpointers that are left to the application: others are the parent and a shortcut.
const MAX_OWN: usize = MAX_BACKPOINTERS - 2;

/// What is done when all is stored
#[derive(Debug)]
pub(super) enum After {
    /// Nothing but the reply.
    Nothing,
    /// The writer has come so far; what is signed of it is a head.
    Advance {
        /// Where it is then.
        progress: Progress,
        /// The head, if it is signed.
        head: Option<(RecordName, Origin)>,
    },
    /// These epoch records, `header, body, signature`, are in force.
    Epochs(Vec<u8>, Progress),
}

/// Something to be stored by a quorum
#[derive(Debug)]
pub(super) struct Store {
    pub(super) command: u32,
    pub(super) deadline: u64,
    parts: Vec<Part>,
    reply: Option<Reply>,
    after: Option<After>,
    refusal: Option<Refusal>,
}

impl Store {
    /// How many bytes of memory its requests take.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }

    /// Whether it changes who writes.
    pub(super) fn governs(&self) -> bool {
        matches!(self.after, Some(After::Epochs(..)))
    }
}

impl Client {
    /// Stores the capsule itself.
    pub(super) fn create(&mut self, command: u32, deadline: u64) -> Result<()> {
        self.base.trust()?;
        let mut parts = Packer::new(&self.base).finish();
        parts[0].creating = self.base.all();
        self.store(command, deadline, parts, Reply::Done, After::Nothing);
        Ok(())
    }

    /// Writes records of contents.
    ///
    /// # Errors
    /// [`Code::TooLarge`], or why this client cannot write.
    pub(super) fn write(
        &mut self,
        (command, deadline): (u32, u64),
        contents: &[Bytes],
        backpointers: &Backpointers,
        signing: Signing,
    ) -> Result<()> {
        check_contents(contents)?;
        check_backpointers(backpointers)?;
        let mut packer = Packer::new(&self.base);
        let pen = writing(&mut self.pen)?;
        let parent = parent_of(pen, backpointers);
        let salts: Vec<[u8; SALT_BYTES]> = many(&mut self.base.random, contents.len());
        let bytes: usize = contents.iter().map(Bytes::len).sum();
        packer.reserve(contents.len(), bytes);
        let contents: Vec<_> = contents.iter().map(|content| &**content).zip(salts).collect();
        let mut names = Vec::with_capacity(contents.len());
        pen.writer
            .write_each(&contents, backpointers, &mut |name, record| {
                packer.write(name, record);
                names.push(*name);
            })?;
        self.finish_writing((command, deadline), packer, (names, parent), signing)
    }

    /// Writes a record of sub-records.
    ///
    /// # Errors
    /// What [`crate::writer::Writer::commit`] says, or why this client cannot write.
    pub(super) fn commit(
        &mut self,
        (command, deadline): (u32, u64),
        subrecords: &[Bytes],
        backpointers: &Backpointers,
        signing: Signing,
    ) -> Result<()> {
        check_backpointers(backpointers)?;
        let mut packer = Packer::new(&self.base);
        let pen = writing(&mut self.pen)?;
        let parent = parent_of(pen, backpointers);
        let parts: Vec<&[u8]> = subrecords.iter().map(|part| &**part).collect();
        let salt: [u8; SALT_BYTES] = self.base.random.bytes();
        let written = pen.writer.commit(&parts, backpointers, &salt)?;
        packer.reserve(1, written.body.len());
        packer.write_one(&written)?;
        let names = Vec::from([written.name]);
        self.finish_writing((command, deadline), packer, (names, parent), signing)
    }

    fn finish_writing(
        &mut self,
        (command, deadline): (u32, u64),
        mut packer: Packer,
        (names, parent): (Vec<RecordName>, Option<RecordName>),
        signing: Signing,
    ) -> Result<()> {
        let pen = writing(&mut self.pen)?;
        let number = pen.writer.number();
        let is_own = |name: RecordName| pen.last == Some(name) || self.base.pointees.is_own(&name, number);
        // No way leads over another writer's record to this writer's own: so the first after such a record is signed itself.
        let first = names.first().filter(|_| !parent.is_none_or(is_own));
        let last = names.last().filter(|_| signing == Signing::Last);
        for name in first.into_iter().chain(last.filter(|last| first != Some(*last))) {
            packer.sign(*name, pen.writer.sign(name));
            self.base.trust()?.has_signed(name);
        }
        let last = last.or_else(|| first.filter(|_| names.len() == 1)).copied();
        pen.last = names.last().copied();
        for name in &names {
            self.base.pointees.note(name, number, true);
        }
        let after = advanced(pen, last);
        self.store(command, deadline, packer.finish(), Reply::Written(names), after);
        Ok(())
    }

    /// Signs the last record.
    ///
    /// # Errors
    /// [`Code::NoRecord`] when there is none yet, or why this client cannot write.
    pub(super) fn sign(&mut self, command: u32, deadline: u64) -> Result<()> {
        let mut packer = Packer::new(&self.base);
        let pen = writing(&mut self.pen)?;
        let parent = pen.writer.progress().parent;
        let last = parent.filter(|parent| pen.last == Some(*parent));
        let name = last.ok_or_else(|| Refusal::new(Code::NoRecord, 0))?;
        packer.sign(name, pen.writer.sign(&name));
        self.base.trust()?.has_signed(&name);
        let after = advanced(pen, Some(name));
        self.store(command, deadline, packer.finish(), Reply::Done, after);
        Ok(())
    }

    /// Stores epoch records that were made, each with its signature.
    pub(super) fn store_epochs(
        &mut self,
        (command, deadline): (u32, u64),
        records: &[(Written, Signature)],
    ) -> Result<()> {
        let mut packer = Packer::new(&self.base);
        let mut raw = Vec::new();
        for (written, signature) in records {
            packer.write_one(written)?;
            packer.sign(written.name, *signature);
            raw.extend_from_slice(&written.header);
            raw.extend_from_slice(&written.body);
            raw.extend_from_slice(&signature.0);
        }
        let names: Vec<RecordName> = records.iter().map(|(written, _)| written.name).collect();
        let pen = writing(&mut self.pen)?;
        pen.last = names.last().copied();
        let progress = pen.writer.progress().clone();
        let after = After::Epochs(raw, progress);
        self.store(command, deadline, packer.finish(), Reply::Written(names), after);
        Ok(())
    }

    fn store(&mut self, command: u32, deadline: u64, parts: Vec<Part>, reply: Reply, after: After) {
        let is_writing = !matches!(after, After::Nothing);
        let store = Store {
            command,
            deadline,
            parts,
            reply: Some(reply),
            after: Some(after),
            refusal: None,
        };
        let job = self.add_job(Job::Store(store));
        if let Some(pen) = self.pen.as_mut().filter(|_| is_writing) {
            pen.push(job);
        }
    }

    /// Sends what can be sent of a job; whether all of it is under way.
    pub(super) fn pump_store(&mut self, job: u32, store: &mut Store) -> bool {
        let mut is_all = true;
        for (index, part) in store.parts.iter_mut().enumerate() {
            let missing = self.base.all() & !(part.acknowledged | part.refused | part.flying);
            for server in bits(missing) {
                if !self.base.servers[server].is_ready(self.base.now) {
                    is_all = false;
                    continue;
                }
                part.flying |= 1 << server;
                let creating = part.creating & (1 << server) != 0;
                let introduction = match part.is_signed() {
                    true => None,
                    false => self.base.introduce(server),
                };
                let ask = Ask::Store {
                    part: index,
                    creating,
                    introducing: introduction.is_some(),
                };
                let metadata = self.base.trust.as_ref().map(|trust| trust.charter.encoded());
                let bytes = match (metadata.filter(|_| creating), introduction) {
                    (None, None) => part.bytes.clone(),
                    before => with_before(part, before, &self.base.uncached),
                };
                self.base.send(server, job, ask, bytes);
            }
        }
        is_all
    }

    /// Reads what a server has stored.
    ///
    /// # Errors
    /// Why it does not count.
    pub(super) fn take_stored(
        &mut self,
        sent: &Sent,
        part: usize,
        before: [bool; 2],
        reader: &mut Reader<'_>,
    ) -> core::result::Result<(), Fault> {
        let bit = 1_u32 << sent.server;
        let Some(Job::Store(store)) = self.jobs.get_mut(&sent.job) else {
            return Ok(());
        };
        let part = &mut store.parts[part];
        let read = read_stored(&self.base, sent.server, part, before, reader)?;
        part.flying &= !bit;
        self.base.servers[sent.server].answered();
        match read {
            Ok(()) => part.acknowledged |= bit,
            // Once more when it has what it has missed.
            Err(_) if self.base.servers[sent.server].catch_up.is_under_way => {}
            Err(refusal) if before[1] && part.renewed & bit == 0 && is_not_known(refusal) => {
                // It comes from another network than the session began in, or another clock: once more, in a new one.
                part.renewed |= bit;
                self.base.renew_session(sent.server);
                self.base.blame(sent.server, Fault::Failed(refusal));
            }
            Err(refusal) if refusal.code == Code::NoRecord || refusal.code == Code::TooManyRequests => {
                // The record is on its way still.
                self.base.blame(sent.server, Fault::Failed(refusal));
            }
            Err(refusal) => {
                part.refused |= bit;
                store.refusal = Some(refusal);
            }
        }
        self.settle_store(sent.job);
        Ok(())
    }

    /// A server did not answer, or falsely.
    pub(super) fn miss_store(&mut self, sent: &Sent, part: usize, fault: Fault) {
        let Some(Job::Store(store)) = self.jobs.get_mut(&sent.job) else {
            return;
        };
        let bit = 1_u32 << sent.server;
        store.parts[part].flying &= !bit;
        let (Fault::False(refusal) | Fault::Failed(refusal)) = fault;
        store.refusal = Some(refusal);
        if matches!(fault, Fault::False(_)) {
            store.parts[part].refused |= bit;
        }
        self.settle_store(sent.job);
    }

    fn settle_store(&mut self, job: u32) {
        let Some(Job::Store(store)) = self.jobs.get(&job) else {
            return;
        };
        let (quorum, count) = (self.base.write_quorum, self.base.servers.len());
        let done = store
            .parts
            .iter()
            .all(|part| part.acknowledged.count_ones() as usize >= quorum);
        let lost = store
            .parts
            .iter()
            .any(|part| count - (part.refused.count_ones() as usize) < quorum);
        if done {
            self.finish_store(job);
        } else if lost {
            let refusal = store.refusal.unwrap_or_else(|| Refusal::new(Code::NoQuorum, 0));
            self.fail_store(job, refusal);
        } else {
            self.stalled.insert(job);
        }
    }

    fn finish_store(&mut self, job: u32) {
        let Some(Job::Store(mut store)) = self.jobs.remove(&job) else {
            return;
        };
        let result = match store.after.take() {
            Some(After::Advance { progress, head }) => {
                self.keep_progress(job, Some(progress), head);
                Ok(())
            }
            Some(After::Epochs(raw, progress)) => {
                self.keep_progress(job, Some(progress), None);
                self.enact(&raw)
            }
            _ => Ok(()),
        };
        let reply = store.reply.take().unwrap_or(Reply::Done);
        self.base.reply(store.command, result.map(|()| reply));
    }

    /// Gives up what cannot be stored by a quorum.
    pub(super) fn fail_store(&mut self, job: u32, refusal: Refusal) {
        if let Some(Job::Store(store)) = self.jobs.remove(&job) {
            if matches!(store.after, Some(After::Epochs(..))) {
                // It would go on in an epoch that may not be.
                self.lay_down();
            }
            self.keep_progress(job, None, None);
            self.base.reply(store.command, Err(refusal));
        }
    }

    /// How many servers have stored all of a job.
    pub(super) fn confirmed(store: &Store) -> usize {
        let counts = store.parts.iter().map(|part| part.acknowledged.count_ones());
        counts.min().unwrap_or(0) as usize
    }

    fn keep_progress(&mut self, job: u32, progress: Option<Progress>, head: Option<(RecordName, Origin)>) {
        let capsule = self.base.capsule;
        let writer = self.base.identity.as_ref().map(super::trust::Identity::public);
        let (Some(pen), Some(writer)) = (&mut self.pen, writer) else {
            return;
        };
        let mut batch = WriteBatchBuilder::default();
        if pen.advance(job, progress) {
            batch.put_with(&writer_key(&capsule, &writer), |out| pen.kept().encode(out));
        }
        if let Some((name, origin)) = head {
            let seen = &mut self.base.seen;
            let is_newest = seen
                .heads
                .values()
                .all(|other| other.writer != origin.writer || other.sequence <= origin.sequence);
            if is_newest {
                let mut heads = core::mem::take(&mut seen.heads);
                heads.retain(|_, other| other.writer != origin.writer);
                seen.remember(heads.into_iter().chain([(name, origin)]));
                batch.put_with(&super::memory::seen_key(&capsule), |out| {
                    self.base.seen.encode(out)
                });
            }
        }
        let batch = batch.finish();
        if !batch.is_empty() {
            self.base.commit(batch, false);
        }
    }

    /// Takes epoch records of this client's own that a quorum has stored.
    fn enact(&mut self, raw: &[u8]) -> Result<()> {
        let mut reader = Reader::new(raw);
        while !reader.is_empty() {
            let (record, signature) = crate::file::read_epoch(&mut reader)?;
            let name = record.header.name(self.base.trust()?.charter.hasher());
            if self.base.trust()?.authority.last() != Some(name) {
                // A server may have told of it before.
                match self.base.apply(&record, &signature) {
                    Err(refusal) if self.base.trust()?.authority.epoch() < record.header.epoch() => {
                        return Err(refusal);
                    }
                    _ => {}
                }
            }
        }
        self.follow_epoch();
        Ok(())
    }
}

/// The places of the bits that are set.
pub(super) fn bits(mask: u32) -> impl Iterator<Item = usize> {
    (0..u32::BITS as usize).filter(move |place| mask & (1 << place) != 0)
}

/// What the next record points to first.
fn parent_of(pen: &Pen, backpointers: &Backpointers) -> Option<RecordName> {
    match backpointers {
        Backpointers::Following(names) => names.first().copied(),
        _ => pen.writer.progress().parent,
    }
}

fn writing(pen: &mut Option<Pen>) -> Result<&mut Pen> {
    pen.as_mut()
        .ok_or_else(|| Refusal::new(Code::NotAWriter, usize::from(OWNER)))
}

fn check_contents(contents: &[Bytes]) -> Result<()> {
    if contents.is_empty() || contents.len() > MAX_ELEMENTS {
        return Err(Refusal::new(Code::TooLarge, MAX_ELEMENTS));
    }
    match contents
        .iter()
        .position(|content| content.len() > MAX_CONTENT_BYTES)
    {
        Some(index) => Err(Refusal::new(Code::TooLarge, index)),
        None => Ok(()),
    }
}

fn check_backpointers(backpointers: &Backpointers) -> Result<()> {
    match backpointers {
        Backpointers::Own(own) | Backpointers::Following(own) if own.len() > MAX_OWN => {
            Err(Refusal::new(Code::TooLarge, MAX_OWN))
        }
        _ => Ok(()),
    }
}

fn advanced(pen: &Pen, signed: Option<RecordName>) -> After {
    let progress = pen.writer.progress().clone();
    let origin = Origin {
        writer: pen.writer.number(),
        sequence: progress.sequence.saturating_sub(1),
    };
    After::Advance {
        head: signed.map(|name| (name, origin)),
        progress,
    }
}

fn is_unproven(refusal: Refusal) -> bool {
    refusal.code == Code::Unproven
}

/// Whether a session counts no more where it was introduced.
fn is_not_known(refusal: Refusal) -> bool {
    is_unproven(refusal) || refusal.code == Code::Replayed
}

/// Reads what came of each operation, and verifies the acknowledgement; the first refusal that says why, if there is one.
fn read_stored(
    base: &Base,
    server: usize,
    part: &Part,
    [creating, introducing]: [bool; 2],
    reader: &mut Reader<'_>,
) -> core::result::Result<Result<()>, Fault> {
    let mut stored = Stored::with_capacity(part.stored.len() + 1);
    let mut first = Ok(());
    if creating {
        match outcome(reader)? {
            Ok(()) => stored.capsule(),
            Err(refusal) => first = Err(refusal),
        }
    }
    // Whoever is not known stores nothing that is not signed, and neither does who signs it and may not; why says more than that.
    let introduced = if introducing { outcome(reader)? } else { Ok(()) };
    for (is_signature, name) in &part.stored {
        match outcome(reader)? {
            Ok(()) if *is_signature => stored.signature(name),
            Ok(()) => stored.record(name),
            Err(refusal) if first.is_ok() || first.is_err_and(is_unproven) => {
                first = introduced.and(Err(refusal))
            }
            Err(_) => {}
        }
    }
    if reader.field::<bool>()? {
        let word: Acknowledgement = reader.field()?;
        if word.server != base.servers[server].key
            || !word.verify(&mut base.verifier.borrow_mut(), &base.capsule, &stored)
        {
            return Err(Fault::False(Refusal::new(Code::BadSignature, server)));
        }
    } else if !stored.is_empty() || first.is_ok() {
        return Err(Fault::False(Refusal::new(Code::BadSignature, server)));
    }
    reader.clone().finish()?;
    Ok(first)
}
