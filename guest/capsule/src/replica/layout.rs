//! What a replica stores under which key.
//!
//! Every key begins with the capsule's name and one byte, and after every value that is not empty there is a
//! [checksum](super::stored):
//!
//! ```text
//! A arrival u64, big-endian              -> elements that arrived together, 33 bytes each
//! B record 32 | chunk u16, big-endian    -> a chunk of a body that is too long for its entry
//! D                                      -> what was damaged and is not mended yet
//! E place u32, big-endian                -> name of the epoch record that is in force at this place
//! G record 32                            -> nothing: the record is signed
//! H record 32 | writer u16 | sequence u64, both big-endian -> nothing: the record is a head
//! L writer u16, big-endian               -> sequence u64 | record 32: the newest that the writer has signed; or a zero where it is lost
//! M                                      -> signed metadata
//! N writer u16, big-endian               -> a sequence u64 above which none of the writer's records is stored
//! P record 32                            -> names, 32 each, of records that point to this one, which is missing; zeros in free places
//! R record 32                            -> witness | header | body, unless it is in chunks
//! S                                      -> counts
//! U record 32                            -> writer u16 | bytes u32: nothing proves the record yet, so it is not in the set
//! W record 32                            -> nothing: what it points to may have a better witness through it
//! ```

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

use selfsame_codec::Reader;

use super::stored::SUM;
use crate::hash::{CapsuleName, RecordName};
use crate::header::RecordKind;
use crate::heads::Origin;
use crate::sketch::Element;

/// Longest body that is stored with its header: a value rewritten for a better witness is not much longer.
pub(super) const MAX_INLINE: usize = 4 * 1024;
/// Bytes of a chunk: with its checksum what the smallest store takes as one value.
const CHUNK: usize = 60 * 1024 - SUM;
/// Bytes of a chunk of which often only a sub-record is wanted.
const SHORT_CHUNK: usize = 8 * 1024 - SUM;
/// Longest body that is cut into those: the store is told of no more than 64 at once.
const MAX_SHORT: usize = 64 * SHORT_CHUNK;

pub(super) const ARRIVAL: u8 = b'A';
pub(super) const CHUNKS: u8 = b'B';
pub(super) const DAMAGE: u8 = b'D';
pub(super) const EPOCH: u8 = b'E';
pub(super) const SIGNED: u8 = b'G';
pub(super) const HEAD: u8 = b'H';
pub(super) const NEWEST: u8 = b'L';
pub(super) const METADATA: u8 = b'M';
pub(super) const SEQUENCES: u8 = b'N';
pub(super) const POINTED: u8 = b'P';
pub(super) const RECORD: u8 = b'R';
pub(super) const COUNTS: u8 = b'S';
pub(super) const UNSIGNED: u8 = b'U';
pub(super) const PENDING: u8 = b'W';

/// Bytes of the key of a record.
pub(super) const RECORD_KEY: usize = 32 + 1 + 32;
/// Longest key: that of a head.
const MAX_KEY: usize = RECORD_KEY + 2 + 8;

/// A key of at most [`MAX_KEY`] bytes, with zeros behind them: it is made for each look into the store, and so lies in place
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    bytes: [u8; MAX_KEY],
    len: u8,
}

impl Key {
    /// The parts of a key one after the other, which are never longer than the longest.
    fn of(parts: &[&[u8]]) -> Self {
        let mut key = Self {
            bytes: [0; MAX_KEY],
            len: 0,
        };
        for part in parts {
            let start = usize::from(key.len);
            key.bytes[start..start + part.len()].copy_from_slice(part);
            key.len += part.len() as u8;
        }
        key
    }

    /// A key that the store has named; nothing if it is none of ours.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= MAX_KEY).then(|| Self::of(&[bytes]))
    }

    /// Whether it belongs to this capsule.
    pub(super) fn is_of(&self, capsule: &CapsuleName) -> bool {
        self.starts_with(&capsule.0)
    }

    /// Of what kind it is.
    pub(super) fn kind(&self) -> Option<u8> {
        self.get(32).copied()
    }

    /// The record that it belongs to.
    pub(super) fn record(&self) -> Option<RecordName> {
        self.get(33..)?.first_chunk().copied().map(RecordName)
    }

    /// Whether it is that of a record.
    pub(super) fn is_of_record(&self) -> bool {
        self.kind() == Some(RECORD) && self.len() == RECORD_KEY
    }

    /// Whether its value is empty.
    pub(super) fn says_all(&self) -> bool {
        matches!(self.kind(), Some(SIGNED | HEAD | PENDING))
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The names in keys are hashes, of which eight bytes are as good as a hash of them all. Who makes them collide, as a writer
/// could of his own records, makes his own capsule slower.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&self.bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        // Of the capsule's name, of the rest, of the kind and of the end: each as it was written, so that the processor need not
        // wait until it has put it together.
        let ends =
            u64::from(self.bytes[32]) << 16 | u64::from(self.bytes[65]) << 8 | u64::from(self.bytes[66]);
        state.write_u64(word(0) ^ word(33).rotate_left(17) ^ ends);
    }
}

/// The key of a kind of thing of which a capsule has one.
pub(super) fn single(capsule: &CapsuleName, kind: u8) -> Key {
    key(capsule, kind, &[])
}

/// The key of something that belongs to a record.
pub(super) fn of_record(capsule: &CapsuleName, kind: u8, record: &RecordName) -> Key {
    key(capsule, kind, &record.0)
}

/// The key of something that is numbered.
pub(super) fn numbered(capsule: &CapsuleName, kind: u8, number: u64) -> Key {
    key(capsule, kind, &number.to_be_bytes())
}

/// The key of a head.
pub(super) fn head(capsule: &CapsuleName, record: &RecordName, origin: Origin) -> Key {
    let (writer, sequence) = (origin.writer.to_be_bytes(), origin.sequence.to_be_bytes());
    Key::of(&[&capsule.0, &[HEAD], &record.0, &writer, &sequence])
}

/// The head that a key says there is.
pub(super) fn head_in(key: &[u8]) -> Option<(RecordName, Origin)> {
    let (name, rest) = key.get(33..)?.split_first_chunk()?;
    let (writer, sequence) = rest.split_first_chunk()?;
    let origin = Origin {
        writer: u16::from_be_bytes(*writer),
        sequence: u64::from_be_bytes(sequence.try_into().ok()?),
    };
    Some((RecordName(*name), origin))
}

/// The key of what is known of a writer's sequence numbers.
pub(super) fn sequences(capsule: &CapsuleName, writer: u16) -> Key {
    key(capsule, SEQUENCES, &writer.to_be_bytes())
}

/// The key of the newest record that a writer has signed.
pub(super) fn newest(capsule: &CapsuleName, writer: u16) -> Key {
    key(capsule, NEWEST, &writer.to_be_bytes())
}

/// How long the chunks of a body are, but for the last one.
pub(super) fn chunk_len(kind: RecordKind, body_len: usize) -> usize {
    match kind {
        RecordKind::Tree if body_len <= MAX_SHORT => SHORT_CHUNK,
        _ => CHUNK,
    }
}

/// The key of a chunk of a body.
pub(super) fn chunk(capsule: &CapsuleName, record: &RecordName, number: u16) -> Key {
    Key::of(&[&capsule.0, &[CHUNKS], &record.0, &number.to_be_bytes()])
}

/// Where keys begin and end
pub(super) type Range = (Vec<u8>, Vec<u8>);

/// The keys of one kind.
pub(super) fn range(capsule: &CapsuleName, kind: u8) -> Range {
    (single(capsule, kind).to_vec(), single(capsule, kind + 1).to_vec())
}

/// The numbered keys of one kind from a number on.
pub(super) fn numbers(capsule: &CapsuleName, kind: u8, from: u64) -> Range {
    (numbered(capsule, kind, from).to_vec(), range(capsule, kind).1)
}

/// The keys of one kind that belong to records whose names begin with these eight bytes, or some between them.
pub(super) fn names_between(capsule: &CapsuleName, kind: u8, first: u64, last: u64) -> Range {
    let end = match last.checked_add(1) {
        Some(after) => numbered(capsule, kind, after).to_vec(),
        None => range(capsule, kind).1,
    };
    (numbered(capsule, kind, first).to_vec(), end)
}

/// The record that a key belongs to.
pub(super) fn record_in(key: &[u8]) -> Option<RecordName> {
    key.get(33..)?.try_into().ok().map(RecordName)
}

fn key(capsule: &CapsuleName, kind: u8, rest: &[u8]) -> Key {
    Key::of(&[&capsule.0, &[kind], rest])
}

/// Elements after one another; nothing if the bytes hold something else.
pub(super) fn elements(bytes: &[u8]) -> Option<Vec<Element>> {
    let mut reader = Reader::new(bytes);
    let mut elements = Vec::with_capacity(bytes.len() / 33);
    while !reader.is_empty() {
        elements.push(reader.field().ok()?);
    }
    Some(elements)
}

/// Names after one another.
pub(super) fn names(bytes: &[u8]) -> impl Iterator<Item = RecordName> + '_ {
    bytes.as_chunks().0.iter().map(|name| RecordName(*name))
}
