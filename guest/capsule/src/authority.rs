//! Who may write a capsule, as its metadata and the epoch records that are known say.

use alloc::vec::Vec;

use selfsame_codec::Code;

use crate::cache::Verified;
use crate::epoch::{EpochChange, Revoked};
use crate::hash::{Hasher, RecordName};
use crate::header::{HeaderView, RecordKind};
use crate::keys::{Key, KeyPair, Signature};
use crate::metadata::Metadata;
use crate::proof::{Prover, Writers};
use crate::refusal::{Refusal, Result};
use crate::verifier::Verifier;

/// Number of the owner, who may always write.
pub const OWNER: u16 = 0;
/// Most writers that a capsule ever has.
pub const MAX_WRITERS: usize = 1024;

const RECORD: &str = "selfsame/1 capsule record";

/// One writer
#[derive(Clone, Debug)]
struct Writer {
    number: u16,
    key: Key,
    /// First epoch that it may write in.
    since: u32,
    /// Whether it was revoked: then no signature of it counts any more.
    revoked: bool,
}

/// Who may write a capsule
#[derive(Clone, Debug)]
pub struct Authority {
    writers: Vec<Writer>,
    epoch: u32,
    last: Option<RecordName>,
}

impl Authority {
    /// As metadata says.
    #[must_use]
    pub fn new(metadata: &Metadata) -> Self {
        let first = core::iter::once(&metadata.owner).chain(&metadata.writers);
        let writers = (OWNER..).zip(first).map(|(number, key)| Writer {
            number,
            key: *key,
            since: 0,
            revoked: false,
        });
        Self {
            writers: writers.collect(),
            epoch: 0,
            last: None,
        }
    }

    /// The epoch of the last epoch record.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The last epoch record.
    #[must_use]
    pub fn last(&self) -> Option<RecordName> {
        self.last
    }

    /// The number of who signs with this key and may write now.
    #[must_use]
    pub fn number_of(&self, key: &Key) -> Option<u16> {
        let writer = self.writers.iter().find(|writer| writer.key == *key)?;
        (!writer.revoked).then_some(writer.number)
    }

    /// Numbers and keys of who may write now.
    pub fn writers(&self) -> impl Iterator<Item = (u16, Key)> + '_ {
        let active = self.writers.iter().filter(|writer| !writer.revoked);
        active.map(|writer| (writer.number, writer.key))
    }

    /// A number that no writer has or had; none when all are used.
    #[must_use]
    pub fn next_number(&self) -> Option<u16> {
        let highest = self.writers.iter().map(|writer| writer.number).max();
        highest.unwrap_or(OWNER).checked_add(1)
    }

    /// Whether this writer was revoked.
    #[must_use]
    pub fn is_revoked(&self, number: u16) -> bool {
        matches!(self.active(number), Err(Code::RevokedWriter))
    }

    /// The key of a writer.
    ///
    /// # Errors
    /// [`Code::NotAWriter`] when there is none with this number, [`Code::RevokedWriter`] when it may write no more.
    pub fn key_of(&self, number: u16) -> core::result::Result<Key, Code> {
        self.active(number).map(|writer| writer.key)
    }

    /// Takes an epoch record whose name carries the owner's `signature`.
    ///
    /// # Errors
    /// [`Code::BadEpoch`] when it does not follow the last one or contradicts what is known, and what [`Writers::check`]
    /// says of the signature.
    pub fn apply(
        &mut self,
        name: &RecordName,
        header: &HeaderView<'_>,
        body: &[u8],
        signature: &Signature,
    ) -> Result<EpochChange> {
        self.check(header, name, signature)
            .map_err(|code| Refusal::new(code, 0))?;
        let change = EpochChange::decode(body)?;
        if !self.follows(header) || !self.permits(header, &change) {
            return Err(Refusal::new(Code::BadEpoch, 0));
        }
        for added in &change.added {
            self.writers.push(Writer {
                number: added.number,
                key: added.key,
                since: header.epoch(),
                revoked: false,
            });
        }
        for Revoked { number, .. } in &change.revoked {
            for writer in self.writers.iter_mut().filter(|writer| writer.number == *number) {
                writer.revoked = true;
            }
        }
        self.epoch = header.epoch();
        self.last = Some(*name);
        Ok(change)
    }

    /// What [`Writers::check`] says, for who checks signatures of the same writers often.
    ///
    /// # Errors
    /// As there.
    pub fn check_with(
        &self,
        verifier: &mut Verifier,
        header: &HeaderView<'_>,
        name: &RecordName,
        signature: &Signature,
    ) -> core::result::Result<(), Code> {
        let key = self.writer_of(header)?.key;
        valid(verifier.verifies(&key, RECORD, &name.0, signature))
    }

    /// The writer of a record, if it may write it.
    fn writer_of(&self, header: &HeaderView<'_>) -> core::result::Result<&Writer, Code> {
        let writer = self.active(header.writer())?;
        if header.epoch() < writer.since {
            return Err(Code::NotAWriter);
        }
        Ok(writer)
    }

    fn active(&self, number: u16) -> core::result::Result<&Writer, Code> {
        match self.writers.iter().find(|writer| writer.number == number) {
            Some(Writer { revoked: true, .. }) => Err(Code::RevokedWriter),
            Some(writer) => Ok(writer),
            None => Err(Code::NotAWriter),
        }
    }

    /// Whether it is the owner's next one: each points to the one before.
    fn follows(&self, header: &HeaderView<'_>) -> bool {
        header.kind() == RecordKind::Epoch
            && header.writer() == OWNER
            && (header.epoch() == self.epoch || Some(header.epoch()) == self.epoch.checked_add(1))
            && self
                .last
                .is_none_or(|last| header.backpointers().next() == Some(last))
    }

    /// Whether all that it changes can be changed: whoever is revoked must not know the key of the new epoch.
    fn permits(&self, header: &HeaderView<'_>, change: &EpochChange) -> bool {
        let is_new = |number: u16, key: &Key| {
            !self
                .writers
                .iter()
                .any(|writer| writer.number == number || writer.key == *key)
        };
        let added = &change.added;
        let each_once = added.iter().enumerate().all(|(index, one)| {
            added[..index]
                .iter()
                .all(|other| other.number != one.number && other.key != one.key)
        });
        each_once
            && self.writers.len() + added.len() <= MAX_WRITERS
            && added.iter().all(|added| is_new(added.number, &added.key))
            && (change.revoked.is_empty() || header.epoch() != self.epoch)
            && change.revoked.iter().all(|revoked| {
                revoked.number != OWNER
                    && self.active(revoked.number).is_ok()
                    && revoked.heads.iter().all(|head| header.points_to(head))
            })
    }
}

impl Writers for Authority {
    fn check(
        &self,
        header: &HeaderView<'_>,
        name: &RecordName,
        signature: &Signature,
    ) -> core::result::Result<(), Code> {
        valid(self.writer_of(header)?.key.verifies(RECORD, &name.0, signature))
    }
}

fn valid(is_valid: bool) -> core::result::Result<(), Code> {
    if is_valid { Ok(()) } else { Err(Code::BadSignature) }
}

/// Signs a record as its writer. Its name says which capsule it is of.
#[must_use]
pub fn sign_record(key: &KeyPair, name: &RecordName) -> Signature {
    key.sign(RECORD, &name.0)
}

/// A record with all that proves it
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The header.
    pub header: Vec<u8>,
    /// A proof that begins with a signature.
    pub proof: Vec<u8>,
}

/// Two records of one writer with the same sequence, each signed by it: evidence that anybody can check, against the writer
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// One record.
    pub one: Evidence,
    /// The other.
    pub other: Evidence,
}

impl Fork {
    /// Checks the evidence; returns the number of the writer.
    ///
    /// # Errors
    /// [`Code::BadFork`] when the records are the same or of different writers or sequences, or when the writer has not signed one
    /// of them: another one vouches for it, and could have made it. And what [`Prover::verify`] says of the proof of one.
    pub fn verify(&self, hasher: &Hasher, writers: &impl Writers) -> Result<u16> {
        let one = HeaderView::decode(&self.one.header)?;
        let other = HeaderView::decode(&self.other.header)?;
        let names = [one.name(hasher), other.name(hasher)];
        let same_place = one.writer() == other.writer() && one.sequence() == other.sequence();
        if !same_place || names[0] == names[1] {
            return Err(Refusal::new(Code::BadFork, 0));
        }
        for ((name, header), evidence) in names.iter().zip([&one, &other]).zip([&self.one, &self.other]) {
            let mut nothing = Verified::new(0);
            let proven = Prover::default().verify(hasher, writers, &mut nothing, name, &evidence.proof)?;
            if !proven.authorship(header).is_signed() {
                return Err(Refusal::new(Code::BadFork, 0));
            }
        }
        Ok(one.writer())
    }
}
