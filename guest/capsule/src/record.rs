//! Records: a header and what it points to (DCS, section 3.1).
//!
//! ```text
//! plain body = bytes | sealed body
//! tree body  = sub-records u32 | preamble 48, if bodies are sealed | length u32 of each sub-record | the sub-records
//! ```

use alloc::vec::Vec;

use selfsame_codec::{Code, Malformed, Reader};

use crate::hash::{Hasher, RecordName};
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
    pub fn check(&self, hasher: &Hasher, sealed: bool) -> Result<RecordName> {
        let hash = match self.header.kind() {
            RecordKind::Tree => {
                let tree = TreeBody::decode(self.body, sealed)?;
                tree.hashes(hasher)?.root(hasher, tree.preamble)
            }
            RecordKind::Plain | RecordKind::Epoch => hasher.body(self.body),
        };
        if hash == self.header.body() {
            Ok(self.header.name(hasher))
        } else {
            Err(Refusal::new(Code::BadBody, 0))
        }
    }
}

/// Does what [`Record::check`] does for each, faster.
#[must_use]
pub fn check_each(records: &[Record<'_>], hasher: &Hasher, sealed: bool) -> Vec<Result<RecordName>> {
    let headers: Vec<&[u8]> = records.iter().map(|record| record.header.encoded()).collect();
    let names = hasher.record_names(&headers);
    let is_tree = |record: &Record<'_>| record.header.kind() == RecordKind::Tree;
    let plain: Vec<&[u8]> = records
        .iter()
        .filter(|record| !is_tree(record))
        .map(|record| record.body)
        .collect();
    let mut bodies = hasher.bodies(&plain).into_iter();
    let check = |(record, name): (&Record<'_>, RecordName)| {
        if is_tree(record) {
            return record.check(hasher, sealed);
        }
        match bodies.next() {
            Some(hash) if hash == record.header.body() => Ok(name),
            _ => Err(Refusal::new(Code::BadBody, 0)),
        }
    };
    records.iter().zip(names).map(check).collect()
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
        let count = reader.field::<u32>()? as usize;
        let preamble = reader.take(if sealed { PREAMBLE_BYTES } else { 0 })?;
        if count == 0 || count > MAX_SUBRECORDS {
            return Err(Malformed);
        }
        let lengths = reader.take(count * size_of::<u32>())?;
        let (lengths, _) = lengths.as_chunks();
        let subrecords = lengths
            .iter()
            .map(|length| reader.take(u32::from_le_bytes(*length) as usize))
            .collect::<core::result::Result<_, _>>()?;
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
        Tree::new(hasher, hasher.leaves(&self.subrecords))
    }
}
