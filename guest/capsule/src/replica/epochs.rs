//! Telling readers who writes: the epoch records in force.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field};

use super::capsule::Capsule;
use super::index::{Outcome, known};
use super::layout::{self, numbered};
use super::space::{Missing, Space};
use crate::hash::RecordName;
use crate::message::MAX_EPOCH_BYTES;
use crate::refusal::{Refusal, Result};
use crate::witness::Witness;

const CORRUPT: Refusal = Refusal {
    code: Code::StoreCorrupt,
    at: 0,
};

impl Capsule {
    /// Appends how many epoch records there are, and those from `from` on, as many as one answer holds.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`].
    pub(super) fn tell_epochs(
        &self,
        space: &mut Space,
        from: u32,
        results: &mut Vec<u8>,
    ) -> Result<Outcome<()>> {
        (self.epochs() as u32).write(results);
        let count_at = results.len();
        0_u16.write(results);
        let mut count = 0_u16;
        for place in u64::from(from)..self.epochs() {
            if results.len() - count_at > MAX_EPOCH_BYTES {
                break;
            }
            match self.tell_epoch(space, place, results)? {
                Outcome::Done(()) => count += 1,
                Outcome::Wait => return Ok(Outcome::Wait),
            }
        }
        results[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
        Ok(Outcome::Done(()))
    }

    fn tell_epoch(&self, space: &mut Space, place: u64, results: &mut Vec<u8>) -> Result<Outcome<()>> {
        let key = numbered(&self.charter().name(), layout::EPOCH, place);
        let name = known!(space.get(&key)).ok_or(CORRUPT)?;
        let name = RecordName(name[..].try_into().map_err(|_| CORRUPT)?);
        let entry = known!(self.index().entry(space, &name))?.ok_or(CORRUPT)?;
        let Outcome::Done(body) = self.body(space, &name, &entry)? else {
            return Ok(Outcome::Wait);
        };
        let Witness::Signed(signature) = *entry.witness() else {
            return Err(CORRUPT);
        };
        results.extend_from_slice(entry.header_bytes());
        results.extend_from_slice(&body);
        results.extend_from_slice(&signature.0);
        Ok(Outcome::Done(()))
    }
}
