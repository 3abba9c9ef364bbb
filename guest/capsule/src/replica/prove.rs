//! Making proofs: the way from a record to a signature, or to something that the reader has verified (DCS, section 3.3).

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::entry::Entry;
use super::index::{Index, NO_RECORD, Outcome, known};
use super::space::{Missing, Space};
use crate::hash::RecordName;
use crate::proof::{Anchor, MAX_PROOF_BYTES, encode_proof, learn_header};
use crate::refusal::{Refusal, Result};
use crate::witness::Witness;

/// A proof under way: it goes on where it had to wait for the store
#[derive(Debug)]
pub(super) struct Proof {
    record: RecordName,
    /// The record and those that lead to it, the one furthest from it last.
    way: Vec<(RecordName, Entry)>,
    next: RecordName,
    bytes: usize,
}

impl Proof {
    /// The proof of a record, nothing of it made.
    pub(super) fn new(record: RecordName) -> Self {
        Self {
            record,
            way: Vec::new(),
            next: record,
            bytes: 0,
        }
    }

    /// Goes on, as far as the first record that the reader has verified or that is signed; then appends the proof, and the names
    /// that the reader learns from it to `learned`.
    ///
    /// # Errors
    /// [`Code::NoRecord`], [`Code::Unproven`], [`Code::TooLarge`] when the way is too long, [`Code::StoreCorrupt`].
    pub(super) fn make(
        &mut self,
        index: &Index,
        space: &mut Space,
        is_verified: &dyn Fn(&RecordName) -> bool,
        out: &mut Vec<u8>,
        learned: &mut Vec<RecordName>,
    ) -> Result<Outcome<()>> {
        if is_verified(&self.record) {
            encode_proof(&Anchor::Verified, core::iter::empty(), out);
            return Ok(Outcome::Done(()));
        }
        loop {
            let entry = known!(index.entry(space, &self.next))?.ok_or(NO_RECORD)?;
            let name = self.next;
            let (witness, is_proven) = (*entry.witness(), index.steps(&entry) < u32::MAX);
            self.bytes += entry.header_bytes().len();
            self.way.push((name, entry));
            if self.bytes > MAX_PROOF_BYTES - 128 {
                return Err(Refusal::new(Code::TooLarge, self.way.len()));
            }
            let anchor = match witness {
                _ if is_verified(&name) => Anchor::Verified,
                Witness::Signed(signature) if is_proven => Anchor::Signed(signature),
                Witness::Through { next, .. } if is_proven => {
                    self.next = next;
                    continue;
                }
                _ => return Err(Refusal::new(Code::Unproven, 0)),
            };
            self.finish(&anchor, out, learned);
            return Ok(Outcome::Done(()));
        }
    }

    /// The record's own header is left out if another one points to it: whoever reads it has it.
    fn finish(&self, anchor: &Anchor, out: &mut Vec<u8>, learned: &mut Vec<RecordName>) {
        let shown = match self.way.as_slice() {
            [_, rest @ ..] if !rest.is_empty() => rest,
            only => only,
        };
        for (name, entry) in shown.iter().rev() {
            learn_header(name, &entry.header(), |name| learned.push(*name));
        }
        let headers = shown.iter().rev().map(|(_, entry)| entry.header_bytes());
        encode_proof(anchor, headers, out);
    }
}
