//! A record as it is stored: witness, header, and the body if it is short.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Reader};

use super::layout::{MAX_INLINE, chunk_len};
use super::stored::Stored;
use crate::header::HeaderView;
use crate::refusal::{Refusal, Result};
use crate::witness::Witness;

/// Where the body of a stored record is
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    /// It is at hand.
    Whole(&'a [u8]),
    /// In chunks of so many bytes.
    Chunks(usize),
}

impl<'a> Body<'a> {
    /// That of an entry.
    pub(super) fn of(entry: &'a Entry) -> Self {
        let header = entry.header();
        let chunks = || Body::Chunks(chunk_len(header.kind(), header.body_len() as usize));
        entry.inline_body().map_or_else(chunks, Body::Whole)
    }
}

/// A stored record
#[derive(Clone, Debug)]
pub(super) struct Entry {
    value: Stored,
    witness: Witness,
    header: usize,
    body: usize,
}

impl Entry {
    /// Appends the value under which a record is stored.
    pub(super) fn encode(witness: &Witness, header: &[u8], body: &[u8], out: &mut Vec<u8>) {
        witness.write(out);
        out.extend_from_slice(header);
        if body.len() <= MAX_INLINE {
            out.extend_from_slice(body);
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`] with the offset.
    pub(super) fn decode(value: Stored) -> Result<Self> {
        let mut reader = Reader::new(&value);
        let corrupt =
            |reader: &Reader<'_>| Refusal::new(Code::StoreCorrupt, value.len() - reader.rest().len());
        let witness = reader.field().map_err(|_| corrupt(&reader))?;
        let header = value.len() - reader.rest().len();
        HeaderView::read(&mut reader).map_err(|_| Refusal::new(Code::StoreCorrupt, header))?;
        let body = value.len() - reader.rest().len();
        Ok(Self {
            value,
            witness,
            header,
            body,
        })
    }

    /// How the record is proven.
    pub(super) fn witness(&self) -> &Witness {
        &self.witness
    }

    /// The header's bytes.
    pub(super) fn header_bytes(&self) -> &[u8] {
        &self.value[self.header..self.body]
    }

    /// The header.
    pub(super) fn header(&self) -> HeaderView<'_> {
        HeaderView::decode(self.header_bytes()).expect("it was checked when the entry was read")
    }

    /// The body, unless it is in chunks.
    pub(super) fn inline_body(&self) -> Option<&[u8]> {
        let body = &self.value[self.body..];
        (body.len() == self.header().body_len() as usize).then_some(body)
    }

    /// Appends the value with another witness.
    pub(super) fn encode_with(&self, witness: &Witness, out: &mut Vec<u8>) {
        witness.write(out);
        out.extend_from_slice(&self.value[self.header..]);
    }
}
