//! Beginning to write, and the owner's word on who writes and reads.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Client;
use super::command::{Description, Extent, Period, Position, Reply, Start};
use super::pen::Pen;
use super::reading::{Query, Shape, Want};
use crate::authority::{Evidence, Fork};
use crate::epoch::{Added, EpochChange, Grant, MAX_ACCEPTED, MAX_CHANGES, MAX_GRANTS, ReaderKey, Revoked};
use crate::file::ProofFile;
use crate::hash::RecordName;
use crate::header::MAX_BACKPOINTERS;
use crate::keys::{Key, Signature};
use crate::refusal::{Refusal, Result};
use crate::seal::EpochKey;
use crate::writer::{Writer, Written};

/// How many epoch records it takes to grant a key to so many readers.
pub(super) fn records(readers: usize) -> usize {
    readers.div_ceil(MAX_GRANTS).max(1)
}

impl Client {
    /// Begins to write: the newest records are known.
    pub(super) fn begin_writing(
        &mut self,
        call: (u32, u64),
        start: Start,
        newest: Option<(u64, RecordName)>,
    ) {
        match self.take_pen(newest) {
            Err(refusal) => {
                self.is_beginning = false;
                self.base.reply(call.0, Err(refusal));
            }
            Ok(()) => match start {
                Start::Resume => self.tell_position(call.0),
                Start::After(record) => {
                    self.query(Query::new(
                        call,
                        Shape::Begin,
                        Vec::from([Want::Evidence(record)]),
                    ));
                }
            },
        }
    }

    /// The record after which writing begins is proven, or not.
    pub(super) fn begin_after(&mut self, command: u32, record: Result<RecordName>) {
        match (record, &mut self.pen) {
            (Ok(record), Some(pen)) => {
                pen.writer.follow(record);
                self.tell_position(command);
            }
            (outcome, _) => {
                let refusal = outcome.err().unwrap_or_else(|| Refusal::new(Code::NotAWriter, 0));
                self.lay_down();
                self.is_beginning = false;
                self.base.reply(command, Err(refusal));
            }
        }
    }

    fn tell_position(&mut self, command: u32) {
        self.is_beginning = false;
        let position = self.pen.as_ref().map(|pen| Position {
            writer: pen.writer.number(),
            epoch: pen.writer.epoch(),
            sequence: pen.writer.progress().sequence,
            parent: pen.writer.progress().parent,
        });
        let position = position.ok_or_else(|| Refusal::new(Code::NotAWriter, 0));
        self.base.reply(command, position.map(Reply::Ready));
    }

    /// No sequence number is used that may have been: neither one that was reserved, nor one up to that of the newest record that
    /// servers prove to be signed with this writer's key, so that nobody else takes numbers away.
    fn take_pen(&mut self, newest: Option<(u64, RecordName)>) -> Result<()> {
        let trust = self.base.trust()?;
        let identity = self.base.identity.as_ref();
        let number = trust.number(identity)?;
        let key = identity.map(super::trust::Identity::key_pair);
        let seal = trust.writing_key(identity)?;
        let mut kept = self.kept.clone();
        if let Some((sequence, newest)) = newest {
            let next = sequence.checked_add(1);
            let next = next.ok_or_else(|| Refusal::new(Code::TooLarge, 0))?;
            kept.reserved = kept.reserved.max(next);
            if kept.progress.parent.is_none() {
                kept.progress.parent = Some(newest);
            }
        }
        kept.progress.sequence = kept.reserved;
        let pen = crate::writer::Pen {
            number,
            key: key.ok_or_else(|| Refusal::new(Code::NotAWriter, 0))?,
            epoch: trust.authority.epoch(),
            seal,
        };
        let writer = Writer::new(trust.charter.clone(), pen, kept.progress.clone());
        self.pen = Some(Pen::new(writer, kept));
        Ok(())
    }

    /// The present epoch, once the metadata is known.
    pub(crate) fn epoch(&self) -> Option<u32> {
        self.base.trust.as_ref().map(|trust| trust.authority.epoch())
    }

    /// Whether this writer was revoked, as far as it is known.
    pub(crate) fn is_revoked(&self, writer: u16) -> bool {
        let trust = self.base.trust.as_ref();
        trust.is_some_and(|trust| trust.authority.is_revoked(writer))
    }

    /// Whether somebody else may write too.
    pub(crate) fn has_many_writers(&self) -> bool {
        let trust = self.base.trust.as_ref();
        trust.is_none_or(|trust| trust.authority.writers().nth(1).is_some())
    }

    /// Who writes the capsule.
    pub(super) fn describe(&self) -> Result<Description> {
        let trust = self.base.trust()?;
        Ok(Description {
            metadata: trust.charter.encoded().to_vec(),
            writers: trust.authority.writers().collect(),
            epoch: trust.authority.epoch(),
            epoch_records: trust.epochs(),
        })
    }

    /// Makes and stores epoch records.
    ///
    /// # Errors
    /// [`Code::NotAWriter`] unless this is the owner's client and it writes, [`Code::BadEpoch`] for a change that cannot be,
    /// [`Code::BadReaderKey`], [`Code::TooLarge`].
    pub(super) fn govern(
        &mut self,
        call: (u32, u64),
        added: &[Key],
        revoked: &[Revoked],
        readers: &[ReaderKey],
        period: Period,
    ) -> Result<()> {
        self.check_change(added, revoked, readers, period)?;
        let trust = self.base.trust()?;
        let epoch = match period {
            Period::Same => Some(trust.authority.epoch()),
            Period::Next => trust.authority.epoch().checked_add(1),
        };
        let epoch = epoch.ok_or_else(|| Refusal::new(Code::BadEpoch, 0))?;
        let identity = self.base.identity.as_ref();
        let seal = trust
            .is_sealed()
            .then(|| trust.epoch_key(identity, epoch))
            .transpose()?;
        let first = trust.authority.next_number();
        let last = trust.authority.last();
        let mut changes = self.grants(epoch, seal.as_ref(), readers)?;
        changes[0].revoked = revoked.to_vec();
        changes[0].added = numbered(first, added)?;
        let made = self.make_epochs(&changes, epoch, seal.as_ref(), last)?;
        self.store_epochs(call, &made)
    }

    fn check_change(
        &self,
        added: &[Key],
        revoked: &[Revoked],
        readers: &[ReaderKey],
        period: Period,
    ) -> Result<()> {
        let trust = self.base.trust()?;
        let refused = |code, at| Err(Refusal::new(code, at));
        if !trust.is_owner(self.base.identity.as_ref()) {
            return refused(Code::NotAWriter, 0);
        }
        let is_possible = added.len() <= MAX_CHANGES
            && revoked.len() <= MAX_CHANGES
            && (revoked.is_empty() || period == Period::Next);
        if !is_possible {
            return refused(Code::BadEpoch, 0);
        }
        for (index, one) in revoked.iter().enumerate() {
            let is_writer = one.number != crate::authority::OWNER
                && trust.authority.key_of(one.number).is_ok()
                && one.heads.len() <= MAX_ACCEPTED;
            if !is_writer {
                return refused(Code::BadEpoch, index);
            }
        }
        let heads: usize = revoked.iter().map(|one| one.heads.len()).sum();
        if heads + 2 > MAX_BACKPOINTERS {
            return refused(Code::TooLarge, MAX_BACKPOINTERS);
        }
        if !readers.is_empty() && !trust.is_sealed() {
            return refused(Code::BadReaderKey, 0);
        }
        Ok(())
    }

    fn grants(
        &mut self,
        epoch: u32,
        seal: Option<&EpochKey>,
        readers: &[ReaderKey],
    ) -> Result<Vec<EpochChange>> {
        let mut changes: Vec<EpochChange> = (0..records(readers.len()))
            .map(|_| EpochChange::default())
            .collect();
        let capsule = self.base.capsule;
        for (index, reader) in readers.iter().enumerate() {
            let seed = zeroize::Zeroizing::new(self.base.random.bytes());
            if let Some(key) = seal {
                let grant = Grant::seal(&capsule, epoch, key, reader, &seed)
                    .map_err(|refusal| Refusal::new(refusal.code, index))?;
                changes[index / MAX_GRANTS].grants.push(grant);
            }
        }
        Ok(changes)
    }

    fn make_epochs(
        &mut self,
        changes: &[EpochChange],
        epoch: u32,
        seal: Option<&EpochKey>,
        mut last: Option<RecordName>,
    ) -> Result<Vec<(Written, Signature)>> {
        let pen = self
            .pen
            .as_mut()
            .ok_or_else(|| Refusal::new(Code::NotAWriter, 0))?;
        let mut made = Vec::with_capacity(changes.len());
        for change in changes {
            let mut pointers: Vec<RecordName> = last.into_iter().collect();
            let heads = change.revoked.iter().flat_map(|one| &one.heads);
            for name in heads.chain(&pen.writer.progress().parent) {
                if !pointers.contains(name) {
                    pointers.push(*name);
                }
            }
            let written = pen
                .writer
                .begin_epoch(change.encode(), epoch, seal.cloned(), pointers)?;
            last = Some(written.name);
            let signature = pen.writer.sign(&written.name);
            made.push((written, signature));
        }
        Ok(made)
    }

    /// A file that proves a record.
    pub(super) fn proof_file(&self, (evidence, body): (Evidence, Vec<u8>), extent: Extent) -> Result<Reply> {
        let trust = self.base.trust()?;
        let log = trust
            .log()
            .ok_or_else(|| Refusal::new(Code::TooLarge, super::trust::MAX_LOG_BYTES))?;
        let file = ProofFile {
            metadata: trust.charter.encoded(),
            epochs: log,
            header: &evidence.header,
            proof: &evidence.proof,
            body: (extent == Extent::Whole).then_some(&body),
        };
        Ok(Reply::File(file.encode()))
    }

    /// Evidence of a fork, which is checked before it is told.
    pub(super) fn fork(&self, [one, other]: [Result<Evidence>; 2]) -> Result<Reply> {
        let trust = self.base.trust()?;
        let fork = Fork {
            one: one?,
            other: other?,
        };
        fork.verify(trust.charter.hasher(), &trust.authority)?;
        Ok(Reply::Fork(fork))
    }
}

fn numbered(first: Option<u16>, keys: &[Key]) -> Result<Vec<Added>> {
    let full = || Refusal::new(Code::BadEpoch, 0);
    let numbers = first.into_iter().flat_map(|first| first..=u16::MAX);
    let added: Vec<Added> = numbers
        .zip(keys)
        .map(|(number, key)| Added { number, key: *key })
        .collect();
    if added.len() == keys.len() {
        Ok(added)
    } else {
        Err(full())
    }
}
