//! Writing an export.
//!
//! ```text
//! export = "selfsame capsule 1\n" | length u32 | signed metadata | n u32 | header, body, signature 64 of each epoch record
//!     | entry, any number | 0 | records u64 | m u32 | name 32 of each hole, sorted
//! entry  = 1 header body | 2 header signature 64 body | 3 header
//! ```

use alloc::vec::Vec;

use selfsame_codec::{Code, Field};

use super::order::Walk;
use super::{END, EPOCH, EXPORT, HEAD, INNER};
use crate::hash::RecordName;
use crate::header::RecordKind;
use crate::keys::Signature;
use crate::metadata::Charter;
use crate::record::Record;
use crate::refusal::{Refusal, Result};

/// Writes an export, record by record in the order of [`super::Plan`]
///
/// What it appends is to be taken away by the caller, so that no more than a record is in memory.
#[derive(Debug)]
pub struct Exporter {
    charter: Charter,
    walk: Walk,
}

impl Exporter {
    /// Begins an export of a capsule with so many epoch records; header, body and signature of each come next, in the order in which
    /// they are in force.
    #[must_use]
    pub fn new(charter: Charter, epochs: u32, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(EXPORT);
        charter.encoded().write(out);
        epochs.write(out);
        Self {
            charter,
            walk: Walk::default(),
        }
    }

    /// Appends a record; with its signature, if nothing in the file points to it.
    ///
    /// # Errors
    /// [`Code::BadFile`] when it is not its turn, [`Code::Unproven`] for a head without a signature, [`Code::TooLarge`] for a
    /// graph that is too wide.
    pub fn record(
        &mut self,
        record: &Record<'_>,
        signature: Option<&Signature>,
        out: &mut Vec<u8>,
    ) -> Result<RecordName> {
        let name = record.header.name(self.charter.hasher());
        let is_pointed_to = self.walk.come(&name, &record.header)?;
        match (record.header.kind(), signature) {
            (RecordKind::Epoch, _) => {
                out.push(EPOCH);
                out.extend_from_slice(record.header.encoded());
                return Ok(name);
            }
            _ if is_pointed_to => {
                out.push(INNER);
                out.extend_from_slice(record.header.encoded());
            }
            (_, Some(signature)) => {
                out.push(HEAD);
                out.extend_from_slice(record.header.encoded());
                out.extend_from_slice(&signature.0);
            }
            (_, None) => return Err(Refusal::new(Code::Unproven, 0)),
        }
        out.extend_from_slice(record.body);
        Ok(name)
    }

    /// Ends the export; how many records are in it, and how many that these point to are not.
    pub fn finish(self, out: &mut Vec<u8>) -> (u64, u64) {
        out.push(END);
        self.walk.came().write(out);
        let holes = self.walk.holes();
        let count = holes.len() as u64;
        (count as u32).write(out);
        holes.for_each(|name| out.extend_from_slice(&name.0));
        (self.walk.came(), count)
    }
}
