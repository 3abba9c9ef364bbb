//! What a replica stores under which key.
//!
//! Every key begins with the capsule's name and one byte:
//!
//! ```text
//! A arrival u64, big-endian              -> elements that arrived together, 33 bytes each
//! B record 32 | chunk u16, big-endian    -> a chunk of a body that is too long for its entry
//! E place u32, big-endian                -> name of the epoch record that is in force at this place
//! G record 32                            -> nothing: the record is signed
//! H record 32                            -> nothing: the record is a head
//! M                                      -> signed metadata
//! P record 32                            -> names, 32 each, of records that point to this one, which is missing
//! Q writer u16 | sequence u64, big-endian -> name of the record
//! R record 32                            -> witness | header | body, unless it is in chunks
//! S                                      -> counts
//! W record 32                            -> nothing: what it points to may have a better witness through it
//! ```

use alloc::vec::Vec;

use selfsame_codec::Reader;

use crate::hash::{CapsuleName, RecordName};
use crate::sketch::Element;

/// Longest body that is stored with its header: a value rewritten for a better witness is not much longer.
pub(super) const MAX_INLINE: usize = 4 * 1024;
/// Bytes of a chunk: what the smallest store takes as one value.
pub(super) const CHUNK: usize = 60 * 1024;

pub(super) const ARRIVAL: u8 = b'A';
pub(super) const CHUNKS: u8 = b'B';
pub(super) const EPOCH: u8 = b'E';
pub(super) const SIGNED: u8 = b'G';
pub(super) const HEAD: u8 = b'H';
pub(super) const METADATA: u8 = b'M';
pub(super) const POINTED: u8 = b'P';
pub(super) const SEQUENCE: u8 = b'Q';
pub(super) const RECORD: u8 = b'R';
pub(super) const COUNTS: u8 = b'S';
pub(super) const PENDING: u8 = b'W';

/// A key
pub(super) type Key = Vec<u8>;

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

/// The key of a writer's record by its sequence.
pub(super) fn by_sequence(capsule: &CapsuleName, writer: u16, sequence: u64) -> Key {
    let mut rest = [0; 10];
    rest[..2].copy_from_slice(&writer.to_be_bytes());
    rest[2..].copy_from_slice(&sequence.to_be_bytes());
    key(capsule, SEQUENCE, &rest)
}

/// The key of a chunk of a body.
pub(super) fn chunk(capsule: &CapsuleName, record: &RecordName, number: u16) -> Key {
    let mut key = of_record(capsule, CHUNKS, record);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Where the keys of one kind begin and end, and how many bytes of each are before what it names.
pub(super) fn range(capsule: &CapsuleName, kind: u8) -> (Key, Key) {
    (key(capsule, kind, &[]), key(capsule, kind + 1, &[]))
}

/// The numbered keys of one kind from a number on.
pub(super) fn numbers(capsule: &CapsuleName, kind: u8, from: u64) -> (Key, Key) {
    (numbered(capsule, kind, from), key(capsule, kind + 1, &[]))
}

/// The keys of one kind that belong to records whose names begin with these eight bytes, or some between them.
pub(super) fn names_between(capsule: &CapsuleName, kind: u8, first: u64, last: u64) -> (Key, Key) {
    let end = match last.checked_add(1) {
        Some(after) => numbered(capsule, kind, after),
        None => key(capsule, kind + 1, &[]),
    };
    (numbered(capsule, kind, first), end)
}

/// The record that a key belongs to.
pub(super) fn record_in(key: &[u8]) -> Option<RecordName> {
    key.get(33..)?.try_into().ok().map(RecordName)
}

fn key(capsule: &CapsuleName, kind: u8, rest: &[u8]) -> Key {
    let mut key = Vec::with_capacity(33 + rest.len());
    key.extend_from_slice(&capsule.0);
    key.push(kind);
    key.extend_from_slice(rest);
    key
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
