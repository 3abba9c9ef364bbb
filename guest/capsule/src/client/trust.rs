//! What a client believes of a capsule: its metadata, the epoch records that it has verified, and the keys that it was granted.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Range;

use bytes::Bytes;
use selfsame_codec::Code;
use zeroize::Zeroizing;

use super::command::Content;
use super::signed::Signed;
use crate::authority::{Authority, OWNER};
use crate::epoch::{ReaderKeys, epoch_key};
use crate::hash::RecordName;
use crate::header::{HeaderView, RecordKind};
use crate::keys::{Key, KeyPair, Signature};
use crate::metadata::Charter;
use crate::proof::Writers;
use crate::record::{Record, TreeBody};
use crate::refusal::{Refusal, Result};
use crate::seal::{EpochKey, Place, RecordKey, open_each, open_parts};
use crate::verifier::SharedVerifier;

/// Bytes of epoch records that a client keeps, to put them into files: of capsules with more it makes no proof files.
pub(super) const MAX_LOG_BYTES: usize = 4 << 20;

/// Who a client is
pub(super) struct Identity {
    seed: Zeroizing<[u8; 32]>,
    public: Key,
    reader: ReaderKeys,
}

impl core::fmt::Debug for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Identity({:?})", self.public)
    }
}

impl Identity {
    /// Whoever has this seed.
    pub(super) fn new(seed: Zeroizing<[u8; 32]>) -> Self {
        Self {
            public: KeyPair::from_seed(&seed).public(),
            reader: ReaderKeys::from_seed(&seed),
            seed,
        }
    }

    /// The key that signs.
    pub(super) fn key_pair(&self) -> KeyPair {
        KeyPair::from_seed(&self.seed)
    }

    /// Its public half.
    pub(super) fn public(&self) -> Key {
        self.public
    }
}

/// What is believed of a capsule
#[derive(Debug)]
pub(super) struct Trust {
    pub(super) charter: Charter,
    pub(super) authority: Authority,
    epochs: u32,
    log: Option<Vec<u8>>,
    /// Records that a signature was verified of: it need not be verified again.
    signed: RefCell<Signed>,
    verifier: SharedVerifier,
    keys: BTreeMap<u32, EpochKey>,
}

/// What an epoch record has changed
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    /// Whether somebody was revoked, so that what was verified before may count no more.
    pub(super) revoked: bool,
}

impl Trust {
    /// What metadata alone says.
    pub(super) fn new(charter: Charter, identity: Option<&Identity>, verifier: SharedVerifier) -> Self {
        let mut trust = Self {
            authority: Authority::new(charter.metadata()),
            charter,
            epochs: 0,
            log: Some(Vec::new()),
            signed: RefCell::default(),
            verifier,
            keys: BTreeMap::new(),
        };
        trust.make_own_key(identity);
        trust
    }

    /// Makes the key of the present epoch if this is its owner: it is used for each record.
    fn make_own_key(&mut self, identity: Option<&Identity>) {
        let epoch = self.authority.epoch();
        if let Ok(key) = self.epoch_key(identity, epoch) {
            self.keys.insert(epoch, key);
        }
    }

    /// How many epoch records are known.
    pub(super) fn epochs(&self) -> u32 {
        self.epochs
    }

    /// The epoch records as `header, body, signature`, one after the other; nothing if they are too many to keep.
    pub(super) fn log(&self) -> Option<&[u8]> {
        self.log.as_deref()
    }

    /// Whether bodies are sealed.
    pub(super) fn is_sealed(&self) -> bool {
        self.charter.is_sealed()
    }

    /// Takes the next epoch record.
    ///
    /// # Errors
    /// What [`Record::check`] and [`Authority::apply`] say.
    pub(super) fn apply(
        &mut self,
        identity: Option<&Identity>,
        record: &Record<'_>,
        signature: &Signature,
    ) -> Result<(RecordName, Changed)> {
        let name = record.check(self.charter.hasher(), self.is_sealed())?;
        let change = self
            .authority
            .apply(&name, &record.header, record.body, signature)?;
        self.epochs += 1;
        self.note(record, signature);
        let epoch = record.header.epoch();
        if let Some(identity) = identity {
            let own = change
                .grants
                .iter()
                .find(|grant| grant.reader == *identity.reader.id());
            if let Some(Ok(key)) = own.map(|grant| identity.reader.open(&self.charter.name(), epoch, grant)) {
                self.keys.insert(epoch, key);
            }
        }
        self.make_own_key(identity);
        let revoked = !change.revoked.is_empty();
        if revoked {
            self.signed.borrow_mut().clear();
        }
        Ok((name, Changed { revoked }))
    }

    fn note(&mut self, record: &Record<'_>, signature: &Signature) {
        let Some(log) = &mut self.log else { return };
        let header = record.header.encoded();
        if log.len() + header.len() + record.body.len() + signature.0.len() > MAX_LOG_BYTES {
            self.log = None;
            return;
        }
        log.extend_from_slice(header);
        log.extend_from_slice(record.body);
        log.extend_from_slice(&signature.0);
    }

    /// The key of an epoch, of which its owner makes any and a reader has those that it was granted.
    ///
    /// # Errors
    /// [`Code::NotAReader`].
    pub(super) fn epoch_key(&self, identity: Option<&Identity>, epoch: u32) -> Result<EpochKey> {
        if let Some(key) = self.keys.get(&epoch) {
            return Ok(key.clone());
        }
        match identity {
            Some(identity) if identity.public == self.charter.metadata().owner => {
                Ok(epoch_key(&identity.seed, &self.charter.name(), epoch))
            }
            _ => Err(Refusal::new(Code::NotAReader, 0)),
        }
    }

    /// With what this client writes in the present epoch; nothing where bodies are not sealed.
    ///
    /// # Errors
    /// [`Code::NotAReader`].
    pub(super) fn writing_key(&self, identity: Option<&Identity>) -> Result<Option<EpochKey>> {
        let sealed = self.is_sealed();
        sealed
            .then(|| self.epoch_key(identity, self.authority.epoch()))
            .transpose()
    }

    /// Appends what records hold whose bodies were checked. Where in `out` it stands, or [`Code::NotAReader`] or
    /// [`Code::BadSeal`].
    pub(super) fn open_each(
        &self,
        identity: Option<&Identity>,
        records: &[Record<'_>],
        out: &mut Vec<u8>,
    ) -> Vec<Result<Opened>> {
        let mut all = Vec::with_capacity(records.len());
        let is_same = |one: &Record<'_>, other: &Record<'_>| {
            let kinds = [one.header.kind(), other.header.kind()];
            self.is_sealed() && kinds == [RecordKind::Plain; 2] && one.header.epoch() == other.header.epoch()
        };
        for records in records.chunk_by(is_same) {
            match records {
                [one] if one.header.kind() != RecordKind::Plain || !self.is_sealed() => {
                    all.push(self.open_one(identity, one, out));
                }
                _ => self.open_sealed(identity, records, out, &mut all),
            }
        }
        all
    }

    /// Opens plain records of one epoch.
    fn open_sealed(
        &self,
        identity: Option<&Identity>,
        records: &[Record<'_>],
        out: &mut Vec<u8>,
        all: &mut Vec<Result<Opened>>,
    ) {
        let epoch = records.first().map_or(0, |record| record.header.epoch());
        let key = match self.epoch_key(identity, epoch) {
            Ok(key) => key,
            Err(refusal) => return all.extend(records.iter().map(|_| Err(refusal))),
        };
        let sealed = records
            .iter()
            .map(|record| (self.place(&record.header), record.body));
        let sealed: Vec<(Place, &[u8])> = sealed.collect();
        let opened = open_each(&key, &sealed, out).into_iter();
        all.extend(opened.map(|opened| opened.map(Opened::Plain)));
    }

    /// Opens a record of another kind, or one that is not sealed.
    fn open_one(
        &self,
        identity: Option<&Identity>,
        record: &Record<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Opened> {
        match record.header.kind() {
            RecordKind::Epoch => Ok(Opened::Change(append(record.body, out))),
            RecordKind::Plain => Ok(Opened::Plain(append(record.body, out))),
            RecordKind::Tree => {
                let tree = TreeBody::decode(record.body, self.is_sealed())?;
                let key = self.tree_key(identity, &record.header, tree.preamble)?;
                let parts = match &key {
                    None => tree.subrecords.iter().map(|part| Ok(append(part, out))).collect(),
                    Some(key) => {
                        let parts = (0..).zip(tree.subrecords).map(|(index, part)| (key, index, part));
                        open_parts(&parts.collect::<Vec<_>>(), out)
                    }
                };
                parts.into_iter().collect::<Result<_>>().map(Opened::Parts)
            }
        }
    }

    /// The key of the sub-records of a record; nothing where bodies are not sealed.
    ///
    /// # Errors
    /// [`Code::NotAReader`], [`Code::BadSeal`].
    pub(super) fn tree_key(
        &self,
        identity: Option<&Identity>,
        header: &HeaderView<'_>,
        preamble: &[u8],
    ) -> Result<Option<RecordKey>> {
        if !self.is_sealed() {
            return Ok(None);
        }
        let preamble = preamble
            .try_into()
            .map_err(|_| Refusal::new(Code::BadSeal, preamble.len()))?;
        let epoch = self.epoch_key(identity, header.epoch())?;
        RecordKey::recall(&epoch, &self.place(header), preamble).map(Some)
    }

    fn place(&self, header: &HeaderView<'_>) -> Place {
        Place {
            capsule: self.charter.name(),
            epoch: header.epoch(),
            writer: header.writer(),
            sequence: header.sequence(),
        }
    }

    /// The number under which this client may write.
    ///
    /// # Errors
    /// [`Code::NotAWriter`] when its key is none of a writer's, or no more.
    pub(super) fn number(&self, identity: Option<&Identity>) -> Result<u16> {
        let key = identity.map(Identity::public);
        let number = key.and_then(|key| self.authority.number_of(&key));
        number.ok_or_else(|| Refusal::new(Code::NotAWriter, 0))
    }

    /// Whether this client is the owner's.
    pub(super) fn is_owner(&self, identity: Option<&Identity>) -> bool {
        self.number(identity) == Ok(OWNER)
    }
}

/// Appends bytes; where they stand.
fn append(bytes: &[u8], out: &mut Vec<u8>) -> Range<usize> {
    let start = out.len();
    out.extend_from_slice(bytes);
    start..out.len()
}

/// Where what a record holds stands in memory
#[derive(Debug)]
pub(super) enum Opened {
    Plain(Range<usize>),
    Parts(Vec<Range<usize>>),
    Change(Range<usize>),
}

impl Opened {
    /// What it holds.
    pub(super) fn content(self, memory: &Bytes) -> Content {
        match self {
            Self::Plain(place) => Content::Plain(memory.slice(place)),
            Self::Parts(places) => {
                Content::Parts(places.into_iter().map(|place| memory.slice(place)).collect())
            }
            Self::Change(place) => Content::Change(memory.slice(place)),
        }
    }
}

impl Trust {
    /// This client has just signed a record: its signature need not be verified.
    pub(super) fn has_signed(&self, name: &RecordName) {
        self.signed.borrow_mut().insert(name);
    }
}

impl Writers for Trust {
    fn check(
        &self,
        header: &HeaderView<'_>,
        name: &RecordName,
        signature: &Signature,
    ) -> core::result::Result<(), Code> {
        let mut signed = self.signed.borrow_mut();
        if !signed.contains(name) {
            let verifier = &mut self.verifier.borrow_mut();
            self.authority.check_with(verifier, header, name, signature)?;
            signed.insert(name);
        }
        Ok(())
    }
}
