//! A record as it is stored: witness, header, and the body if it is short.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use selfsame_codec::{Code, Field, Reader};

use super::layout::{MAX_INLINE, chunk_len};
use super::stored::{SUM, Stored};
use crate::header::HeaderView;
use crate::record::Record;
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

/// A record of a request
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    /// The record.
    pub(super) record: Record<'a>,
    /// The request.
    pub(super) request: &'a Arc<Vec<u8>>,
    /// Where in it the record begins.
    pub(super) at: usize,
}

/// Where an entry's bytes are: it is put together only when the store is told of it
#[derive(Clone, Debug)]
enum Source {
    /// In what is stored, behind the witness of before.
    Store(Stored),
    /// In the request that brought it.
    Request(Arc<Vec<u8>>),
}

impl Deref for Source {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Store(value) => value,
            Self::Request(message) => message,
        }
    }
}

/// What follows a witness in a value: a header, and the body if it is there
struct Begun<'a> {
    rest: &'a [u8],
    view: HeaderView<'a>,
}

fn parts_of(value: &[u8]) -> Result<(Witness, Begun<'_>)> {
    let mut reader = Reader::new(value);
    let at = |reader: &Reader<'_>| value.len() - reader.rest().len();
    let witness = reader
        .field()
        .map_err(|_| Refusal::new(Code::StoreCorrupt, at(&reader)))?;
    let rest = reader.rest();
    let view = HeaderView::read(&mut reader);
    let view = view.map_err(|_| Refusal::new(Code::StoreCorrupt, value.len() - rest.len()))?;
    Ok((witness, Begun { rest, view }))
}

/// A stored record, or one that is about to be
#[derive(Clone, Debug)]
pub(super) struct Entry {
    source: Source,
    witness: Witness,
    header: usize,
    body: usize,
    end: usize,
}

impl Entry {
    /// That of a record that a request brought.
    pub(super) fn of(given: &Given<'_>, witness: Witness) -> Self {
        let body = given.at + given.record.header.encoded().len();
        let inline = match given.record.body.len() {
            len @ 0..=MAX_INLINE => len,
            _ => 0,
        };
        Self {
            source: Source::Request(Arc::clone(given.request)),
            witness,
            header: given.at,
            body,
            end: body + inline,
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`] with the offset.
    pub(super) fn decode(value: Stored) -> Result<Self> {
        let (witness, header) = parts_of(&value)?;
        let at = value.len() - header.rest.len();
        Ok(Self {
            witness,
            header: at,
            body: at + header.view.encoded().len(),
            end: value.len(),
            source: Source::Store(value),
        })
    }

    /// Header and body in a value; nothing if the body is in chunks.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub(super) fn whole_in(value: &[u8]) -> Result<Option<&[u8]>> {
        let (_, Begun { rest, view }) = parts_of(value)?;
        let body = rest.len() - view.encoded().len();
        Ok((body == view.body_len() as usize).then_some(rest))
    }

    /// Appends the value under which it is stored.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.witness.write(out);
        out.extend_from_slice(&self.source[self.header..self.end]);
    }

    /// How long that is, with its checksum.
    pub(super) fn sealed_len(&self) -> usize {
        self.witness.encoded_len() + self.end - self.header + SUM
    }

    /// How the record is proven.
    pub(super) fn witness(&self) -> &Witness {
        &self.witness
    }

    /// The header's bytes.
    pub(super) fn header_bytes(&self) -> &[u8] {
        &self.source[self.header..self.body]
    }

    /// The header.
    pub(super) fn header(&self) -> HeaderView<'_> {
        HeaderView::decode(self.header_bytes()).expect("it was checked when the entry was made")
    }

    /// The body, unless it is in chunks.
    pub(super) fn inline_body(&self) -> Option<&[u8]> {
        let body = &self.source[self.body..self.end];
        (body.len() == self.header().body_len() as usize).then_some(body)
    }

    /// The entry with another witness.
    pub(super) fn with_witness(mut self, witness: Witness) -> Self {
        self.witness = witness;
        self
    }

    /// The entry without a body: it is lost.
    pub(super) fn without_body(mut self) -> Self {
        self.end = self.body;
        self
    }
}
