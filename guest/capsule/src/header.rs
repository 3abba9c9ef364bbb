//! The header of a record: what its name is the hash of (DCS, section 3.1).
//!
//! ```text
//! backpointers u8 | kind u8 | writer u16 | epoch u32 | sequence u64 | body length u32 | body hash 32
//!     | backpointer 32, as often as said
//! ```
//!
//! The capsule's name is no field: the key under which headers are hashed is derived from it, so that a record's name
//! says which capsule it is of, and a header takes 32 bytes less. All between the number of backpointers and these are the fields,
//! which are hashed first, so that of many records that are written together only the rest must wait for the name before.

use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::{Code, Field, Malformed, Reader};

use crate::hash::{HASH_BYTES, HashedHeader, Hasher, RecordName};
use crate::refusal::{Refusal, Result, placed};

/// Most backpointers of a record: a merge of so many branches, less what the writer adds to shorten proofs.
pub const MAX_BACKPOINTERS: usize = 32;
/// Bytes of a header without backpointers.
pub(crate) const FIXED_BYTES: usize = 1 + FIELDS_BYTES;
/// Bytes of its fields.
pub const FIELDS_BYTES: usize = 1 + 2 + 4 + 8 + 4 + HASH_BYTES;
/// Longest header.
pub const MAX_HEADER_BYTES: usize = FIXED_BYTES + MAX_BACKPOINTERS * HASH_BYTES;
/// Longest body: what a server takes into memory for one record; a larger thing is cut into records.
pub const MAX_BODY_BYTES: usize = 1 << 20;

/// What a record's body is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// Bytes of the application.
    Plain = 1,
    /// Sub-records under a Merkle tree, whose hash stands for the body (DCS, section 4.1).
    Tree = 2,
    /// The owner's word on who writes and reads from now on.
    Epoch = 3,
}

/// The header of a record
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the body is.
    pub kind: RecordKind,
    /// The number of who wrote it: 0 for the owner.
    pub writer: u16,
    /// The epoch that it was written in.
    pub epoch: u32,
    /// How many records its writer had written before it.
    pub sequence: u64,
    /// Length of the body in bytes.
    pub body_len: u32,
    /// Hash of the body, or of the tree over its sub-records.
    pub body: [u8; HASH_BYTES],
    /// Names of earlier records: the first is the primary parent. Only the first record of a branch has none.
    pub backpointers: Vec<RecordName>,
}

impl Header {
    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_header(&self.fields(), &self.backpointers, out);
    }

    /// The fields as they are encoded.
    pub(crate) fn fields(&self) -> [u8; FIELDS_BYTES] {
        let mut fields = [0; FIELDS_BYTES];
        fields[0] = self.kind as u8;
        fields[1..3].copy_from_slice(&self.writer.to_le_bytes());
        fields[3..7].copy_from_slice(&self.epoch.to_le_bytes());
        fields[7..15].copy_from_slice(&self.sequence.to_le_bytes());
        fields[15..19].copy_from_slice(&self.body_len.to_le_bytes());
        fields[19..].copy_from_slice(&self.body);
        fields
    }
}

/// Appends a header of fields as they are encoded, with at most [`MAX_BACKPOINTERS`].
pub(crate) fn encode_header(fields: &[u8; FIELDS_BYTES], backpointers: &[RecordName], out: &mut Vec<u8>) {
    out.reserve(FIXED_BYTES + backpointers.len() * HASH_BYTES);
    out.push(backpointers.len() as u8);
    out.extend_from_slice(fields);
    for pointer in backpointers {
        out.extend_from_slice(&pointer.0);
    }
}

/// A header as it is encoded, checked once, whose fields are read where they lie
#[derive(Clone, Copy, Debug)]
pub struct HeaderView<'a> {
    encoded: &'a [u8],
    kind: RecordKind,
}

impl<'a> HeaderView<'a> {
    /// Reads a header that ends where the bytes end.
    ///
    /// # Errors
    /// [`Code::BadHeader`] with the offset.
    pub fn decode(encoded: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(encoded);
        let view = Self::read(&mut reader)?;
        if reader.is_empty() {
            Ok(view)
        } else {
            Err(Refusal::new(Code::BadHeader, view.encoded.len()))
        }
    }

    /// Reads a header; what follows it is left.
    ///
    /// # Errors
    /// [`Code::BadHeader`] with the offset from where the reader stood.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let rest = reader.rest();
        let len = placed(rest, Code::BadHeader, encoded_len)?;
        let encoded = reader
            .take(len)
            .map_err(|_| Refusal::new(Code::BadHeader, rest.len()))?;
        let kind = match encoded[1] {
            1 => RecordKind::Plain,
            2 => RecordKind::Tree,
            3 => RecordKind::Epoch,
            _ => return Err(Refusal::new(Code::BadHeader, 1)),
        };
        let view = Self { encoded, kind };
        if view.body_len() as usize > MAX_BODY_BYTES {
            return Err(Refusal::new(Code::TooLarge, 16));
        }
        Ok(view)
    }

    /// The bytes.
    #[must_use]
    pub fn encoded(&self) -> &'a [u8] {
        self.encoded
    }

    /// What the body is.
    #[must_use]
    pub fn kind(&self) -> RecordKind {
        self.kind
    }

    /// The number of who wrote it.
    #[must_use]
    pub fn writer(&self) -> u16 {
        u16::from_le_bytes(self.at(2))
    }

    /// The epoch that it was written in.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        u32::from_le_bytes(self.at(4))
    }

    /// How many records its writer had written before it.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        u64::from_le_bytes(self.at(8))
    }

    /// Length of the body in bytes.
    #[must_use]
    pub fn body_len(&self) -> u32 {
        u32::from_le_bytes(self.at(16))
    }

    /// Hash of the body.
    #[must_use]
    pub fn body(&self) -> [u8; HASH_BYTES] {
        self.at(20)
    }

    /// Names of earlier records, the primary parent first.
    pub fn backpointers(
        &self,
    ) -> impl DoubleEndedIterator<Item = RecordName> + ExactSizeIterator + Clone + 'a {
        let (pointers, _) = self.encoded[FIXED_BYTES..].as_chunks();
        pointers.iter().map(|pointer| RecordName(*pointer))
    }

    /// Whether it points to a record.
    #[must_use]
    pub fn points_to(&self, name: &RecordName) -> bool {
        self.backpointers().any(|pointer| pointer == *name)
    }

    /// The record's name.
    #[must_use]
    pub fn name(&self, hasher: &Hasher) -> RecordName {
        hasher.record_name(self.hashed())
    }

    /// What its name is the hash of.
    #[must_use]
    pub fn hashed(&self) -> HashedHeader<'a> {
        let (fixed, backpointers) = self.encoded.split_at(FIXED_BYTES);
        HashedHeader {
            fields: &fixed[1..],
            backpointers,
        }
    }

    /// The fields.
    #[must_use]
    pub fn to_header(&self) -> Header {
        Header {
            kind: self.kind,
            writer: self.writer(),
            epoch: self.epoch(),
            sequence: self.sequence(),
            body_len: self.body_len(),
            body: self.body(),
            backpointers: self.backpointers().collect(),
        }
    }

    fn at<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.encoded[offset..offset + N]);
        bytes
    }
}

/// A header as it is encoded, which was checked, in memory that it may share with what came with it
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedHeader {
    encoded: Bytes,
    kind: RecordKind,
}

impl EncodedHeader {
    /// A header whose bytes lie in this memory too.
    pub(crate) fn new(view: &HeaderView<'_>, encoded: Bytes) -> Self {
        debug_assert_eq!(view.encoded, encoded, "it is the same header");
        Self {
            encoded,
            kind: view.kind,
        }
    }

    /// Its fields, read where they lie.
    #[must_use]
    pub fn view(&self) -> HeaderView<'_> {
        HeaderView {
            encoded: &self.encoded,
            kind: self.kind,
        }
    }
}

/// How long the header is that begins here.
fn encoded_len(reader: &mut Reader<'_>) -> core::result::Result<usize, Malformed> {
    let before = reader.clone();
    let count = usize::from(u8::read(reader)?);
    if count > MAX_BACKPOINTERS {
        *reader = before;
        return Err(Malformed);
    }
    Ok(FIXED_BYTES + count * HASH_BYTES)
}
