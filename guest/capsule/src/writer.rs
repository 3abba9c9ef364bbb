//! Writing: bodies are sealed, headers made and names signed (DCS, section 3.2, the writer's interface).

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Reader};
use selfsame_sodium::aead::TAG_BYTES;

use crate::authority::sign_record;
use crate::backpointers::{Hubs, Shortcuts};
use crate::hash::{HASH_BYTES, HashedHeader, RecordName};
use crate::header::{
    FIELDS_BYTES, FIXED_BYTES, Header, HeaderView, MAX_BACKPOINTERS, MAX_BODY_BYTES, RecordKind,
    encode_header,
};
use crate::keys::{KeyPair, Signature};
use crate::metadata::Charter;
use crate::record::{Record, TreeBody};
use crate::refusal::{Refusal, Result, placed};
use crate::seal::{EpochKey, Place, RecordKey, SALT_BYTES, SEAL_BYTES, seal_each};
use crate::tree::MAX_SUBRECORDS;

/// Longest content of a record.
pub const MAX_CONTENT_BYTES: usize = MAX_BODY_BYTES - SEAL_BYTES;

/// Who a writer is in a capsule, and with what it writes
#[derive(Debug)]
pub struct Pen {
    /// Its number.
    pub number: u16,
    /// Its key.
    pub key: KeyPair,
    /// The epoch it writes in.
    pub epoch: u32,
    /// That epoch's key; none where everybody reads.
    pub seal: Option<EpochKey>,
}

/// Which records a record points to beside its parent
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backpointers {
    /// None: a chain. Proofs grow with the distance.
    Chain,
    /// A shortcut now and then: proofs grow with the logarithm of the distance.
    #[default]
    Shortcuts,
    /// Those that the caller wants, such as the heads of branches that it merges.
    Own(Vec<RecordName>),
    /// These in place of the parent, and a shortcut now and then: who goes on with what others wrote need not point to its own.
    Following(Vec<RecordName>),
}

/// Where a writer is: what it stores before it signs, so that no sequence number is used twice
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// How many records it has written.
    pub sequence: u64,
    /// The record that the next one follows.
    pub parent: Option<RecordName>,
    shortcuts: Shortcuts,
}

/// A record that was just made
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its name.
    pub name: RecordName,
    /// Its header.
    pub header: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Progress {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.sequence.write(out);
        self.parent.is_some().write(out);
        if let Some(parent) = &self.parent {
            parent.0.write(out);
        }
        self.shortcuts.encode(out);
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`] with the offset.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        placed(bytes, Code::StoreCorrupt, |reader: &mut Reader<'_>| {
            let sequence = reader.field()?;
            let parent = match reader.field::<bool>()? {
                true => Some(RecordName(reader.array()?)),
                false => None,
            };
            let rest = reader.take(reader.rest().len())?;
            let shortcuts = Shortcuts::decode(rest).ok_or(selfsame_codec::Malformed)?;
            Ok(Self {
                sequence,
                parent,
                shortcuts,
            })
        })
    }
}

/// Writes records of one capsule, one after the other
#[derive(Debug)]
pub struct Writer {
    charter: Charter,
    pen: Pen,
    progress: Progress,
}

impl Writer {
    /// Goes on where a writer was.
    #[must_use]
    pub fn new(charter: Charter, pen: Pen, progress: Progress) -> Self {
        Self {
            charter,
            pen,
            progress,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Lets the next record follow another one, such as a head of somebody else's.
    pub fn follow(&mut self, parent: RecordName) {
        self.progress.parent = Some(parent);
    }

    /// Makes records of contents, each with its random salt that is used once, one after the other, and shows each to `take`.
    /// `backpointers` are those of the first; those that follow an application's own have shortcuts. Many together have one of those,
    /// and [`Hubs`].
    ///
    /// # Errors
    /// [`Code::TooLarge`] for content above [`MAX_CONTENT_BYTES`] or too many backpointers; records before the one that is refused
    /// are made all the same.
    pub fn write_each(
        &mut self,
        contents: &[(&[u8], [u8; SALT_BYTES])],
        backpointers: &Backpointers,
        take: &mut dyn FnMut(&RecordName, Record<'_>),
    ) -> Result<()> {
        if contents
            .iter()
            .any(|(content, _)| content.len() > MAX_CONTENT_BYTES)
        {
            return Err(Refusal::new(Code::TooLarge, MAX_CONTENT_BYTES));
        }
        self.has_numbers(contents.len())?;
        let mut sealed = Vec::new();
        let bodies = self.bodies(contents, &mut sealed);
        let fields = self.fields_of(&bodies);
        let rest = match backpointers {
            Backpointers::Own(_) | Backpointers::Following(_) => &Backpointers::Shortcuts,
            other => other,
        };
        let mut pointers = Vec::new();
        let mut header = Vec::new();
        let last = bodies.len().saturating_sub(1);
        // Of few the way over their parents is short as well, and each has its shortcut.
        let mut hubs = (bodies.len() > 2 * Hubs::SPOKES).then(Hubs::default);
        for (number, (body, fields)) in bodies.into_iter().zip(&fields).enumerate() {
            let wanted = if number == 0 { backpointers } else { rest };
            let is_last = hubs.is_none() || number == last;
            self.point(wanted, is_last, &mut pointers);
            if let Some(hubs) = &hubs
                && *wanted == Backpointers::Shortcuts
            {
                hubs.next(is_last).for_each(|name| add(&mut pointers, name));
            }
            header.clear();
            let name = self.finish(fields, &pointers, &mut header)?;
            if is_last {
                self.progress.shortcuts.push(name);
            }
            if let Some(hubs) = &mut hubs {
                hubs.push(name);
            }
            let header = HeaderView::decode(&header)?;
            take(&name, Record { header, body });
        }
        Ok(())
    }

    /// The fields of the headers of the next records, which have these bodies.
    fn fields_of(&self, bodies: &[&[u8]]) -> Vec<[u8; FIELDS_BYTES]> {
        let hasher = self.charter.hasher();
        let mut header = self.header(RecordKind::Plain);
        let fields = |body: &&[u8]| {
            (header.body_len, header.body) = (body.len() as u32, hasher.body(body));
            let fields = header.fields();
            header.sequence += 1;
            fields
        };
        bodies.iter().map(fields).collect()
    }

    /// The bodies of the next records, sealed in `sealed` if they are to be.
    fn bodies<'a>(
        &self,
        contents: &[(&'a [u8], [u8; SALT_BYTES])],
        sealed: &'a mut Vec<u8>,
    ) -> Vec<&'a [u8]> {
        let Some(seal) = &self.pen.seal else {
            return contents.iter().map(|(content, _)| *content).collect();
        };
        let places = (self.progress.sequence..).map(|sequence| self.place(sequence));
        let unsealed = |(place, (content, salt)): (Place, &(&'a [u8], _))| (place, *salt, *content);
        let records: Vec<_> = places.zip(contents).map(unsealed).collect();
        seal_each(seal, &records, sealed);
        let mut rest = sealed.as_slice();
        let mut next = |(content, _): &(&[u8], _)| {
            let (body, others) = rest.split_at(content.len() + SEAL_BYTES);
            rest = others;
            body
        };
        contents.iter().map(&mut next).collect()
    }

    /// Makes a record of sub-records; `salt` is random and used once.
    ///
    /// # Errors
    /// [`Code::BadTree`] without sub-records, [`Code::TooLarge`] for too many or too much, or too many backpointers.
    pub fn commit(
        &mut self,
        subrecords: &[&[u8]],
        backpointers: &Backpointers,
        salt: &[u8; SALT_BYTES],
    ) -> Result<Written> {
        if subrecords.len() > MAX_SUBRECORDS {
            return Err(Refusal::new(Code::TooLarge, MAX_SUBRECORDS));
        }
        self.has_numbers(1)?;
        let key = self.record_key(salt);
        let mut sealed = Vec::with_capacity(subrecords.iter().map(|part| part.len() + TAG_BYTES).sum());
        let more = match &key {
            Some(key) => {
                key.seal_parts(subrecords, &mut sealed);
                TAG_BYTES
            }
            None => {
                subrecords.iter().for_each(|part| sealed.extend_from_slice(part));
                0
            }
        };
        let mut rest = sealed.as_slice();
        let mut next = |part: &&[u8]| {
            let (part, others) = rest.split_at(part.len() + more);
            rest = others;
            part
        };
        let tree = TreeBody {
            preamble: key.as_ref().map_or(&[], |key| key.preamble()),
            subrecords: subrecords.iter().map(&mut next).collect(),
        };
        let mut body = Vec::with_capacity(sealed.len() + 64 + 4 * subrecords.len());
        tree.encode(&mut body);
        if body.len() > MAX_BODY_BYTES {
            return Err(Refusal::new(Code::TooLarge, MAX_BODY_BYTES));
        }
        let hasher = self.charter.hasher();
        let hash = tree.hashes(hasher)?.root(hasher, tree.preamble);
        let mut header = self.header(RecordKind::Tree);
        self.point(backpointers, true, &mut header.backpointers);
        self.finish_one(header, body, hash)
    }

    /// Makes an epoch record, whose body is as [`crate::epoch::EpochChange::encode`] gives it; from then on this writer, the
    /// owner, writes in that epoch.
    ///
    /// # Errors
    /// [`Code::TooLarge`] for too many backpointers.
    pub fn begin_epoch(
        &mut self,
        change: Vec<u8>,
        epoch: u32,
        seal: Option<EpochKey>,
        backpointers: Vec<RecordName>,
    ) -> Result<Written> {
        self.has_numbers(1)?;
        let before = (self.pen.epoch, self.pen.seal.take());
        (self.pen.epoch, self.pen.seal) = (epoch, seal);
        let hash = self.charter.hasher().body(&change);
        let header = Header {
            backpointers,
            ..self.header(RecordKind::Epoch)
        };
        let written = self.finish_one(header, change, hash);
        if written.is_err() {
            (self.pen.epoch, self.pen.seal) = before;
        }
        written
    }

    /// Writes in another epoch from now on.
    pub fn enter_epoch(&mut self, epoch: u32, seal: Option<EpochKey>) {
        (self.pen.epoch, self.pen.seal) = (epoch, seal);
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.pen.number
    }

    /// The epoch it writes in.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.pen.epoch
    }

    /// Signs a record.
    #[must_use]
    pub fn sign(&self, name: &RecordName) -> Signature {
        sign_record(&self.pen.key, name)
    }

    /// Refuses to go on when there are not so many sequence numbers left: the last is never used, so that the next can be named.
    fn has_numbers(&self, count: usize) -> Result<()> {
        let after = self.progress.sequence.checked_add(count as u64);
        after.map_or_else(|| Err(Refusal::new(Code::TooLarge, 0)), |_| Ok(()))
    }

    fn record_key(&self, salt: &[u8; SALT_BYTES]) -> Option<RecordKey> {
        let seal = self.pen.seal.as_ref()?;
        let place = self.place(self.progress.sequence);
        Some(RecordKey::new(seal, &place, salt))
    }

    fn place(&self, sequence: u64) -> Place {
        Place {
            capsule: self.charter.name(),
            epoch: self.pen.epoch,
            writer: self.pen.number,
            sequence,
        }
    }

    /// What the next record points to, in place of what is in `pointers`; `is_last` of those that are written together, or alone.
    fn point(&self, wanted: &Backpointers, is_last: bool, pointers: &mut Vec<RecordName>) {
        pointers.clear();
        match wanted {
            Backpointers::Following(names) => pointers.extend_from_slice(names),
            _ => pointers.extend(self.progress.parent),
        }
        match wanted {
            Backpointers::Shortcuts | Backpointers::Following(_) if is_last => {
                let shortcut = self.progress.shortcuts.next();
                shortcut.iter().for_each(|name| add(pointers, name));
            }
            Backpointers::Own(own) => own.iter().for_each(|name| add(pointers, name)),
            _ => {}
        }
    }

    /// The header of a record without a body, that points to nothing.
    fn header(&self, kind: RecordKind) -> Header {
        Header {
            kind,
            writer: self.pen.number,
            epoch: self.pen.epoch,
            sequence: self.progress.sequence,
            body_len: 0,
            body: [0; HASH_BYTES],
            backpointers: Vec::new(),
        }
    }

    /// Makes a record that is written alone.
    fn finish_one(&mut self, mut made: Header, body: Vec<u8>, hash: [u8; HASH_BYTES]) -> Result<Written> {
        (made.body_len, made.body) = (body.len() as u32, hash);
        let fields = made.fields();
        let mut header = Vec::new();
        let name = self.finish(&fields, &made.backpointers, &mut header)?;
        self.progress.shortcuts.push(name);
        Ok(Written { name, header, body })
    }

    /// Appends the header of the next record to `out`; the record's name, after which the writer goes on.
    fn finish(
        &mut self,
        fields: &[u8; FIELDS_BYTES],
        backpointers: &[RecordName],
        out: &mut Vec<u8>,
    ) -> Result<RecordName> {
        if backpointers.len() > MAX_BACKPOINTERS {
            return Err(Refusal::new(Code::TooLarge, MAX_BACKPOINTERS));
        }
        let before = out.len();
        encode_header(fields, backpointers, out);
        let backpointers = &out[before + FIXED_BYTES..];
        let name = self
            .charter
            .hasher()
            .record_name(HashedHeader { fields, backpointers });
        self.progress.sequence += 1;
        self.progress.parent = Some(name);
        Ok(name)
    }
}

/// Adds a pointer that is not there yet.
fn add(pointers: &mut Vec<RecordName>, name: &RecordName) {
    if !pointers.contains(name) {
        pointers.push(*name);
    }
}
