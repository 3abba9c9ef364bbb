//! One capsule that a replica has open: its metadata, who may write it, and the graph of its records.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use selfsame_codec::{Code, Field, Reader};

use super::damage::Damage;
use super::entry::{Body, Entry, Given};
use super::epochs::SignedEpoch;
use super::index::{Admission, Index, NO_RECORD, Outcome, Written, known};
use super::layout::{self, numbered, of_record, single};
use super::space::{Missing, Space};
use super::staged::Brought;
use super::unsigned::Unsigned;
use crate::authority::{Authority, OWNER};
use crate::epoch::{EpochChange, MAX_EPOCHS};
use crate::hash::{CapsuleName, RecordName};
use crate::header::RecordKind;
use crate::keys::Signature;
use crate::metadata::Charter;
use crate::refusal::{Refusal, Result, placed};
use crate::sketch::Element;
use crate::verifier::Verifier;
use crate::witness::Witness;

/// Most records of one writer without a signature that leads to them, and their bytes: a writer signs before it has written so
/// much, and takes nobody else's room.
const MAX_UNSIGNED: u64 = 1 << 17;
const MAX_UNSIGNED_BYTES: u64 = 256 << 20;
/// Memory of a capsule with its metadata, and of each further name or writer in its tables.
const MIN_MEMORY: usize = 8 << 10;
const ENTRY_MEMORY: usize = 64;
/// Memory of a head, with whose it is.
const HEAD_MEMORY: usize = 80;
/// Most signatures among which a revocation finds those that count no more: they are in memory then, with some 200 bytes each.
pub(super) const MAX_SIGNED: usize = 1 << 20;
/// Elements in one value of arrivals.
const ARRIVALS: usize = 1024;

/// The store does not hold what it must.
pub(super) const CORRUPT: Refusal = Refusal {
    code: Code::StoreCorrupt,
    at: 0,
};

/// An epoch record does not follow the last one.
const BAD_EPOCH: Refusal = Refusal {
    code: Code::BadEpoch,
    at: 0,
};

/// What a replica counts
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Elements that have arrived in the set: records and signatures.
    arrivals: u64,
    /// Epoch records in force.
    epochs: u64,
}

impl Counts {
    /// With what nothing proves yet: writer u16 | records u64 | bytes u64, for each writer.
    fn encode(&self, unsigned: &BTreeMap<u16, Unsigned>) -> Vec<u8> {
        let mut out = Vec::new();
        self.arrivals.write(&mut out);
        self.epochs.write(&mut out);
        for (writer, (records, bytes)) in unsigned {
            writer.write(&mut out);
            records.write(&mut out);
            bytes.write(&mut out);
        }
        out
    }

    /// When they are lost: more than can have arrived, so that no other replica knows of more, nothing that waits for a signature,
    /// and as many epoch records as are found.
    fn lost(now_ms: u64) -> Self {
        Self {
            arrivals: now_ms << 10,
            epochs: MAX_EPOCHS,
        }
    }

    fn decode(bytes: &[u8]) -> Result<(Self, BTreeMap<u16, Unsigned>)> {
        placed(bytes, Code::StoreCorrupt, |reader: &mut Reader<'_>| {
            let counts = Self {
                arrivals: reader.field()?,
                epochs: reader.field()?,
            };
            let mut unsigned = BTreeMap::new();
            while !reader.is_empty() {
                unsigned.insert(reader.field()?, (reader.field()?, reader.field()?));
            }
            Ok((counts, unsigned))
        })
    }
}

/// What came of a signature
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signing {
    /// It is stored.
    Stored,
    /// It may revoke a writer: all that is signed has to be known first.
    NeedsSigned,
}

/// A capsule that is being opened: it goes on where it had to wait for the store
#[derive(Debug)]
pub(super) struct Opening {
    capsule: Box<Capsule>,
    /// How many epoch records were read.
    epochs: u64,
    /// Whether the store says how many there are.
    is_counted: bool,
}

impl Opening {
    pub(super) fn is_of(&self, name: &CapsuleName) -> bool {
        self.capsule.charter.name() == *name
    }

    /// Reads on which epoch records are in force: those before the first that is damaged.
    pub(super) fn step(mut self, space: &mut Space) -> core::result::Result<Box<Capsule>, Self> {
        while self.epochs < self.capsule.counts.epochs {
            match self.capsule.recall_epoch(space, self.epochs) {
                Ok(Outcome::Done(())) => self.epochs += 1,
                Ok(Outcome::Wait) => return Err(self),
                Err(_) => self.capsule.lose_epochs(space, self.epochs, self.is_counted),
            }
        }
        Ok(self.capsule)
    }
}

/// An open capsule
#[derive(Debug)]
pub(super) struct Capsule {
    charter: Charter,
    authority: Authority,
    counts: Counts,
    index: Index,
    arrived: Vec<Element>,
}

impl Capsule {
    /// Creates a capsule that is not stored yet.
    pub(super) fn create(space: &mut Space, charter: Charter) -> Self {
        let name = charter.name();
        space.put(single(&name, layout::METADATA), charter.encoded().to_vec());
        // Nothing is stored of its writers: the store need not be asked before each record whether it is there.
        for writer in 0..=charter.metadata().writers.len() as u16 {
            space.learn_one(layout::sequences(&name, writer), None);
            space.learn_one(layout::newest(&name, writer), None);
        }
        let capsule = Self {
            authority: Authority::new(charter.metadata()),
            counts: Counts::default(),
            index: Index::new(name, &[], &[], false),
            arrived: Vec::new(),
            charter,
        };
        capsule.put_counts(space);
        capsule
    }

    /// Stores the metadata of a capsule of which all else is stored.
    pub(super) fn restore(space: &mut Space, charter: &Charter) {
        space.put(
            single(&charter.name(), layout::METADATA),
            charter.encoded().to_vec(),
        );
    }

    /// Begins to open a stored capsule, of whose graph was read before what its index begins with; nothing if it is not stored.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`].
    pub(super) fn open(
        space: &mut Space,
        name: &CapsuleName,
        index: Index,
        now_ms: u64,
    ) -> Result<Outcome<Option<Opening>>> {
        let Some(metadata) = known!(space.get(&single(name, layout::METADATA))) else {
            return Ok(Outcome::Done(None));
        };
        let charter = Charter::decode(&metadata).map_err(|_| CORRUPT)?;
        let counts = known!(space.get(&single(name, layout::COUNTS)));
        let damage = known!(space.get(&single(name, layout::DAMAGE)));
        let is_counted = counts.is_some();
        let lost = || Ok((Counts::lost(now_ms), BTreeMap::new()));
        let (counts, unsigned) = counts.map_or_else(lost, |counts| Counts::decode(&counts))?;
        let mut capsule = Box::new(Self {
            authority: Authority::new(charter.metadata()),
            counts,
            index,
            arrived: Vec::new(),
            charter,
        });
        *capsule.index.damage_mut() = Damage::read(damage);
        capsule.index.recall_unsigned(unsigned);
        Ok(Outcome::Done(Some(Opening {
            capsule,
            epochs: 0,
            is_counted,
        })))
    }

    fn recall_epoch(&mut self, space: &mut Space, place: u64) -> Result<Outcome<()>> {
        let Outcome::Done(epoch) = self.read_epoch(space, place)? else {
            return Ok(Outcome::Wait);
        };
        let SignedEpoch {
            name,
            entry,
            body,
            signature,
        } = epoch;
        let change = self.authority.apply(&name, &entry.header(), &body, &signature)?;
        let revoked: Vec<u16> = change.revoked.iter().map(|revoked| revoked.number).collect();
        self.index.recall_revoked(&revoked);
        Ok(Outcome::Done(()))
    }

    /// Of the epoch records only so many are in force any more.
    fn lose_epochs(&mut self, space: &mut Space, left: u64, is_counted: bool) {
        let name = self.charter.name();
        let were_in_force = core::mem::replace(&mut self.counts.epochs, left);
        self.put_counts(space);
        let damage = self.index.damage_mut();
        damage.tear(space, &name);
        if is_counted {
            damage.lose_epoch(space, &name, were_in_force);
        }
    }

    /// How many epoch records are in force.
    pub(super) fn epochs(&self) -> u64 {
        self.counts.epochs
    }

    /// The metadata.
    pub(super) fn charter(&self) -> &Charter {
        &self.charter
    }

    /// The graph.
    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// The graph, to be told what comes.
    pub(super) fn index_mut(&mut self) -> &mut Index {
        &mut self.index
    }

    /// Who may write.
    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// About how many bytes of memory it takes.
    pub(super) fn memory(&self) -> usize {
        let entries = self.index.entries() + self.authority.writers().count();
        MIN_MEMORY + ENTRY_MEMORY * entries + HEAD_MEMORY * self.index.held_heads()
    }

    /// Whether bodies are sealed.
    pub(super) fn is_sealed(&self) -> bool {
        self.charter.is_sealed()
    }

    /// Stores a record that was checked, if something proves it, or for the writer who signs it later. Whether it is stored.
    ///
    /// # Errors
    /// [`Code::TooManyUnsigned`] when the writer has to sign first, [`Code::StoreCorrupt`].
    pub(super) fn write(
        &mut self,
        space: &mut Space,
        name: &RecordName,
        given: &Given<'_>,
        unsigned_of: Option<u16>,
    ) -> Result<Outcome<bool>> {
        let mut written = self.index.add(space, name, given, Admission::Proven)?;
        if let (Outcome::Done(Written::Unproven), Some(writer)) = (&written, unsigned_of) {
            let (records, bytes) = self.index.unsigned().get(&writer).copied().unwrap_or_default();
            if records >= MAX_UNSIGNED || bytes + given.record.len() as u64 > MAX_UNSIGNED_BYTES {
                return Err(Refusal::new(Code::TooManyUnsigned, 0));
            }
            written = self.index.add(space, name, given, Admission::Unsigned(writer))?;
        }
        Ok(match written {
            Outcome::Wait => Outcome::Wait,
            Outcome::Done(Written::Unproven) => Outcome::Done(false),
            Outcome::Done(written) => {
                if written == Written::Added {
                    self.arrive(Element::record(*name));
                }
                Outcome::Done(true)
            }
        })
    }

    /// Stores a signature, if it is that of a writer who may write the record, and the records that were brought for it, of which so
    /// many are taken in; `signed` is all that is signed, once it was asked for.
    ///
    /// # Errors
    /// What [`crate::proof::Writers::check`] and [`Authority::apply`] say, [`Code::NoRecord`], [`Code::TooLarge`] when there are too
    /// many heads, or signatures to revoke some of, [`Code::StoreCorrupt`].
    pub(super) fn sign(
        &mut self,
        (space, verifier): (&mut Space, &mut Verifier),
        (name, brought, taken): (&RecordName, &[Brought], &mut usize),
        signature: &Signature,
        signed: Option<&[RecordName]>,
    ) -> Result<Outcome<Signing>> {
        let stored = known!(self.index.entry(space, name))?;
        let own = brought.iter().find(|one| one.name == *name);
        let entry = match (&stored, own) {
            (Some(entry), _) => entry.clone(),
            (None, Some(own)) => Entry::of(&own.given()?, Witness::Unproven),
            (None, None) => return Err(NO_RECORD),
        };
        if self.index.steps(&entry) == 0 {
            return Ok(Outcome::Done(Signing::Stored));
        }
        let header = entry.header();
        let body = match header.kind() {
            RecordKind::Epoch if stored.is_none() => own.map(Brought::given).transpose()?,
            _ => None,
        };
        let body = body.map(|given| given.record.body.to_vec());
        let body = match body {
            None if header.kind() == RecordKind::Epoch => match self.body(space, name, &entry)? {
                Outcome::Done(body) => Some(body),
                Outcome::Wait => return Ok(Outcome::Wait),
            },
            body => body,
        };
        if let Some(body) = &body {
            if signed.is_none() && EpochChange::decode(body)?.revokes() {
                return Ok(Outcome::Done(Signing::NeedsSigned));
            }
            if signed.is_some_and(|signed| signed.len() > MAX_SIGNED) {
                return Err(Refusal::new(Code::TooLarge, MAX_SIGNED));
            }
            match self.may_begin(space, (&entry, brought))? {
                Outcome::Done(()) => {}
                Outcome::Wait => return Ok(Outcome::Wait),
            }
            // Before anything comes in for it: whether it takes effect.
            self.authority.clone().apply(name, &header, body, signature)?;
        } else {
            // An epoch record that is lost may have revoked any writer but the owner.
            if header.writer() != OWNER && self.index.damage().awaits_epochs(self.counts.epochs) {
                return Err(CORRUPT);
            }
            let checked = self.authority.check_with(verifier, &header, name, signature);
            checked.map_err(|code| Refusal::new(code, 0))?;
            self.index.has_room_for(&entry)?;
        }
        if let Outcome::Wait = self.take_in(space, brought, taken)? {
            return Ok(Outcome::Wait);
        }
        let entry = known!(self.index.entry(space, name))?.ok_or(NO_RECORD)?;
        let mark = known!(self.index.mark(space, name));
        let newest = known!(self.index.newest(space, entry.header().writer()));
        if let Some(body) = &body {
            self.begin_epoch(space, (name, &entry, body), signature, signed.unwrap_or_default())?;
        }
        self.index.sign(space, (name, &entry, mark.as_ref()), *signature);
        self.index.note_newest(space, name, &entry.header(), newest);
        self.arrive(Element::signature(*name));
        Ok(Outcome::Done(Signing::Stored))
    }

    /// Stores records to which a signature leads that was checked.
    fn take_in(&mut self, space: &mut Space, brought: &[Brought], taken: &mut usize) -> Result<Outcome<()>> {
        for one in &brought[*taken..] {
            let given = one.given()?;
            match self.index.add(space, &one.name, &given, Admission::Signed)? {
                Outcome::Wait => return Ok(Outcome::Wait),
                Outcome::Done(Written::Added) => self.arrive(Element::record(one.name)),
                Outcome::Done(_) => {}
            }
            let key = of_record(&self.charter.name(), layout::RECORD, &one.name);
            space.strays.remove(&key);
            space.mark();
            *taken += 1;
        }
        Ok(Outcome::Done(()))
    }

    /// Whether an epoch record comes in its turn.
    fn may_begin(&self, space: &mut Space, (entry, brought): (&Entry, &[Brought])) -> Result<Outcome<()>> {
        if self.counts.epochs >= MAX_EPOCHS {
            return Err(BAD_EPOCH);
        }
        match self.may_be_first(space, (entry, brought))? {
            Outcome::Done(true) => Ok(Outcome::Done(())),
            Outcome::Done(false) => Err(BAD_EPOCH),
            Outcome::Wait => Ok(Outcome::Wait),
        }
    }

    fn begin_epoch(
        &mut self,
        space: &mut Space,
        (name, entry, body): (&RecordName, &Entry, &[u8]),
        signature: &Signature,
        signed: &[RecordName],
    ) -> Result<()> {
        let change = self.authority.apply(name, &entry.header(), body, signature)?;
        let key = numbered(&self.charter.name(), layout::EPOCH, self.counts.epochs);
        space.put(key, name.0.to_vec());
        if let Some(mend) = &mut self.index.damage_mut().mend {
            mend.comes_into_force(*name);
        }
        self.counts.epochs += 1;
        // With the record's signature: an epoch that is counted is signed, and one that is signed is counted.
        self.put_counts(space);
        let damage = self.index.damage_mut();
        damage.regain_epochs(space, &self.charter.name(), self.counts.epochs);
        let revoked: Vec<u16> = change.revoked.iter().map(|revoked| revoked.number).collect();
        if !revoked.is_empty() {
            self.index.revoke(space, &revoked, signed);
            // What nothing proves from now on leaves the set.
            let name = self.charter.name();
            self.index.damage_mut().tear(space, &name);
        }
        Ok(())
    }

    /// Whether no epoch record comes before this one that is not in force yet. Epochs come into force in the owner's order,
    /// whatever order they arrive in: otherwise the first that did would keep the others out for ever.
    fn may_be_first(
        &self,
        space: &mut Space,
        (entry, brought): (&Entry, &[Brought]),
    ) -> Result<Outcome<bool>> {
        if self.authority.last().is_some() {
            return Ok(Outcome::Done(true));
        }
        let Some(before) = entry.header().backpointers().next() else {
            return Ok(Outcome::Done(true));
        };
        let stored = known!(self.index.entry(space, &before))?;
        let kind = match stored {
            Some(entry) => Some(entry.header().kind()),
            None => {
                let own = brought.iter().find(|one| one.name == before);
                let stray = own
                    .is_none()
                    .then(|| Brought::stray(space, &self.charter.name(), &before));
                match own.cloned().or_else(|| stray.flatten()) {
                    Some(one) => Some(one.given()?.record.header.kind()),
                    None => None,
                }
            }
        };
        Ok(Outcome::Done(kind.is_some_and(|kind| kind != RecordKind::Epoch)))
    }

    /// The body of a stored record.
    ///
    /// # Errors
    /// [`Code::NoRecord`] when it is lost.
    pub(super) fn body(
        &self,
        space: &mut Space,
        name: &RecordName,
        entry: &Entry,
    ) -> Result<Outcome<Vec<u8>>> {
        let len = entry.header().body_len() as usize;
        let mut body = Vec::new();
        Ok(
            match self.write_body(space, name, &Body::of(entry), 0..len, &mut body)? {
                Outcome::Done(()) => Outcome::Done(body),
                Outcome::Wait => Outcome::Wait,
            },
        )
    }

    /// Appends a range of the body of a stored record, or some of it if it has to wait.
    ///
    /// # Errors
    /// [`Code::NoRecord`] when it is lost.
    pub(super) fn write_body(
        &self,
        space: &mut Space,
        name: &RecordName,
        body: &Body<'_>,
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<Outcome<()>> {
        if self.index.damage().is_void(name) {
            return Err(NO_RECORD);
        }
        let chunk_len = match *body {
            Body::Whole(body) => {
                out.extend_from_slice(body.get(range).ok_or(CORRUPT)?);
                return Ok(Outcome::Done(()));
            }
            Body::Chunks(len) => len,
        };
        let mut is_missing = false;
        out.reserve(range.len());
        for number in range.start / chunk_len..range.end.div_ceil(chunk_len) {
            let key = layout::chunk(&self.charter.name(), name, number as u16);
            match space.get(&key) {
                Ok(Some(chunk)) => {
                    let start = number * chunk_len;
                    let end = range.end.min(start + chunk_len) - start;
                    let wanted = chunk.get(range.start.saturating_sub(start)..end);
                    out.extend_from_slice(wanted.ok_or(CORRUPT)?);
                }
                Ok(None) => {
                    space.report((key, None));
                    return Err(NO_RECORD);
                }
                Err(Missing) => is_missing = true,
            }
        }
        Ok(if is_missing {
            Outcome::Wait
        } else {
            Outcome::Done(())
        })
    }

    /// Makes witnesses better; see [`Index::spread`].
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`].
    pub(super) fn spread(&mut self, space: &mut Space) -> Result<Outcome<bool>> {
        let spread = self.index.spread(space);
        for name in self.index.take_joined() {
            self.arrive(Element::record(name));
        }
        spread
    }

    fn arrive(&mut self, element: Element) {
        self.counts.arrivals += 1;
        self.arrived.push(element);
    }

    /// How many elements have arrived so far.
    pub(super) fn arrivals(&self) -> u64 {
        self.counts.arrivals
    }

    /// Whether something has arrived, or left, that is not noted yet.
    pub(super) fn has_news(&mut self) -> bool {
        self.index.take_changed() || !self.arrived.is_empty()
    }

    /// Ends a request: what arrived is noted, in order, and counted. From then on it is compared with what others have.
    pub(super) fn finish(&mut self, space: &mut Space) {
        let name = self.charter.name();
        let mut first = self.counts.arrivals - self.arrived.len() as u64;
        for elements in self.arrived.chunks(ARRIVALS) {
            let mut value = Vec::with_capacity(33 * elements.len());
            elements.iter().for_each(|element| element.write(&mut value));
            space.put(numbered(&name, layout::ARRIVAL, first), value);
            first += elements.len() as u64;
        }
        self.arrived.clear();
        self.put_counts(space);
    }

    fn put_counts(&self, space: &mut Space) {
        let counts = self.counts.encode(self.index.unsigned());
        space.put(single(&self.charter.name(), layout::COUNTS), counts);
    }
}
