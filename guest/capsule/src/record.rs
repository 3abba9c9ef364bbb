//! Records: a header and what it points to (DCS, section 3.1).
//!
//! ```text
//! plain body = bytes | sealed body
//! tree body  = sub-records u32 | preamble 48, if bodies are sealed | length u32 of each sub-record | the sub-records
//! ```

use alloc::vec::Vec;

use selfsame_codec::{Code, Malformed, Reader};

use crate::hash::{HASH_BYTES, Hasher, RecordName};
use crate::header::{HeaderView, RecordKind};
use crate::refusal::{Refusal, Result, placed};
use crate::seal::PREAMBLE_BYTES;
use crate::tree::{MAX_SUBRECORDS, Tree};

/// A record as it lies in memory
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The header.
    pub header: HeaderView<'a>,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Record<'a> {
    /// How many bytes header and body take.
    pub(crate) fn len(&self) -> usize {
        self.header.encoded().len() + self.body.len()
    }

    /// Reads a header and the body that follows it.
    ///
    /// # Errors
    /// [`Code::BadHeader`], [`Code::TooLarge`] or [`Code::BadBody`] when it ends too early, with the offset from where the
    /// reader stood.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let whole = reader.rest().len();
        let header = HeaderView::read(reader)?;
        let at = whole - reader.rest().len();
        let body = reader
            .take(header.body_len() as usize)
            .map_err(|_| Refusal::new(Code::BadBody, at))?;
        Ok(Self { header, body })
    }

    /// Checks that the body is the one that the header points to; returns the record's name.
    ///
    /// # Errors
    /// [`Code::BadBody`], or [`Code::BadTree`] with the offset in the body.
    #[inline(never)]
    pub fn check(&self, hasher: &Hasher, sealed: bool) -> Result<RecordName> {
        self.checked(hasher, sealed).map(|checked| checked.name)
    }

    /// As [`Self::check`], with the tree of which that took the hashes.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn checked(&self, hasher: &Hasher, sealed: bool) -> Result<Checked> {
        let tree = match self.header.kind() {
            RecordKind::Tree => Some(self.check_tree(hasher, sealed)?),
            RecordKind::Plain | RecordKind::Epoch => {
                self.is_of(hasher.body(self.body))?;
                None
            }
        };
        let name = self.header.name(hasher);
        Ok(Checked { name, tree })
    }

    fn check_tree(&self, hasher: &Hasher, sealed: bool) -> Result<Tree> {
        let body = TreeBody::decode(self.body, sealed)?;
        let tree = body.hashes(hasher)?;
        self.is_of(tree.root(hasher, body.preamble)).map(|()| tree)
    }

    fn is_of(&self, hash: [u8; HASH_BYTES]) -> Result<()> {
        if hash == self.header.body() {
            Ok(())
        } else {
            Err(BAD_BODY)
        }
    }
}

/// The body is not the one that the header points to.
const BAD_BODY: Refusal = Refusal {
    code: Code::BadBody,
    at: 0,
};

/// A record whose body is the one that its header points to
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its name.
    pub name: RecordName,
    /// The tree over its sub-records, if it has some.
    pub tree: Option<Tree>,
}

/// What the body of a record with sub-records begins with
#[derive(Clone, Copy, Debug)]
pub struct TreeHead<'a> {
    /// What stands before the sub-records if they are sealed.
    pub preamble: &'a [u8],
    lengths: &'a [[u8; size_of::<u32>()]],
}

impl<'a> TreeHead<'a> {
    /// How long it is before the lengths of the sub-records.
    #[must_use]
    pub fn fixed_len(sealed: bool) -> usize {
        size_of::<u32>() + if sealed { PREAMBLE_BYTES } else { 0 }
    }

    /// How long it is of so many sub-records.
    #[must_use]
    pub fn len_of(count: u32, sealed: bool) -> usize {
        Self::fixed_len(sealed) + count as usize * size_of::<u32>()
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(reader: &mut Reader<'a>, sealed: bool) -> core::result::Result<Self, Malformed> {
        let count = reader.field::<u32>()? as usize;
        let preamble = reader.take(if sealed { PREAMBLE_BYTES } else { 0 })?;
        if count == 0 || count > MAX_SUBRECORDS {
            return Err(Malformed);
        }
        let (lengths, _) = reader.take(count * size_of::<u32>())?.as_chunks();
        Ok(Self { preamble, lengths })
    }

    /// How many sub-records there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lengths.len()
    }

    /// How long each of them is.
    pub fn lengths(&self) -> impl Iterator<Item = u32> {
        self.lengths.iter().map(|length| u32::from_le_bytes(*length))
    }

    /// Where the first of them begins in the body.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        size_of::<u32>() + self.preamble.len() + self.lengths.as_flattened().len()
    }
}

/// The body of a record with sub-records
#[derive(Clone, Debug)]
pub struct TreeBody<'a> {
    /// What stands before the sub-records if they are sealed.
    pub preamble: &'a [u8],
    /// The sub-records as they are stored.
    pub subrecords: Vec<&'a [u8]>,
}

impl<'a> TreeBody<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Code::BadTree`] with the offset.
    pub fn decode(body: &'a [u8], sealed: bool) -> Result<Self> {
        placed(body, Code::BadTree, |reader| Self::read(reader, sealed))
    }

    fn read(reader: &mut Reader<'a>, sealed: bool) -> core::result::Result<Self, Malformed> {
        let head = TreeHead::read(reader, sealed)?;
        let preamble = head.preamble;
        let mut subrecords = Vec::with_capacity(head.count());
        for len in head.lengths() {
            subrecords.push(reader.take(len as usize)?);
        }
        if reader.is_empty() {
            Ok(Self { preamble, subrecords })
        } else {
            Err(Malformed)
        }
    }

    /// Appends a body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.subrecords.len() as u32).to_le_bytes());
        out.extend_from_slice(self.preamble);
        for subrecord in &self.subrecords {
            out.extend_from_slice(&(subrecord.len() as u32).to_le_bytes());
        }
        for subrecord in &self.subrecords {
            out.extend_from_slice(subrecord);
        }
    }

    /// The tree over the sub-records.
    ///
    /// # Errors
    /// [`Code::BadTree`] when there are none.
    pub fn hashes(&self, hasher: &Hasher) -> Result<Tree> {
        let leaves = self.subrecords.iter().map(|subrecord| hasher.leaf(subrecord));
        Tree::new(hasher, leaves.collect())
    }
}
