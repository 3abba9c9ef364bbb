//! The epoch records in force: reading them, and telling readers who writes.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field};

use super::capsule::Capsule;
use super::entry::Entry;
use super::index::Outcome;
use super::layout::{self, numbered};
use super::space::{Missing, Space};
use crate::hash::RecordName;
use crate::keys::Signature;
use crate::message::MAX_EPOCH_BYTES;
use crate::refusal::{Refusal, Result};
use crate::witness::Witness;

const CORRUPT: Refusal = Refusal {
    code: Code::StoreCorrupt,
    at: 0,
};

/// Epoch records that are asked for together, unless their bodies are long.
const AT_ONCE: usize = 32;

/// An epoch record in force
pub(super) struct SignedEpoch {
    pub(super) name: RecordName,
    pub(super) entry: Entry,
    pub(super) body: Vec<u8>,
    pub(super) signature: Signature,
}

/// Epoch records that an answer tells: it goes on where it had to wait for the store
#[derive(Debug, Default)]
pub(super) struct ToldEpochs {
    count: u16,
    bytes: Vec<u8>,
}

impl Capsule {
    /// Appends how many epoch records there are, and those from `from` on, as many as one answer holds.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`].
    pub(super) fn tell_epochs(
        &self,
        space: &mut Space,
        from: u32,
        told: &mut ToldEpochs,
        results: &mut Vec<u8>,
    ) -> Result<Outcome<()>> {
        for place in u64::from(from) + u64::from(told.count)..self.epochs() {
            if told.bytes.len() >= MAX_EPOCH_BYTES {
                break;
            }
            let Outcome::Done(epoch) = self.read_epoch(space, place)? else {
                return Ok(Outcome::Wait);
            };
            told.bytes.extend_from_slice(epoch.entry.header_bytes());
            told.bytes.extend_from_slice(&epoch.body);
            told.bytes.extend_from_slice(&epoch.signature.0);
            told.count += 1;
        }
        (self.epochs() as u32).write(results);
        told.count.write(results);
        results.append(&mut told.bytes);
        Ok(Outcome::Done(()))
    }

    /// The epoch record in force at this place. Those that follow are asked for with it.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`].
    pub(super) fn read_epoch(&self, space: &mut Space, place: u64) -> Result<Outcome<SignedEpoch>> {
        let Ok((name, entry)) = self.epoch_at(space, place) else {
            for place in (place..self.epochs()).take(AT_ONCE) {
                _ = self.epoch_at(space, place);
            }
            return Ok(Outcome::Wait);
        };
        let entry = entry?.ok_or(CORRUPT)?;
        let Witness::Signed(signature) = *entry.witness() else {
            return Err(CORRUPT);
        };
        Ok(match self.body(space, &name, &entry)? {
            Outcome::Done(body) => Outcome::Done(SignedEpoch {
                name,
                entry,
                body,
                signature,
            }),
            Outcome::Wait => Outcome::Wait,
        })
    }

    fn epoch_at(
        &self,
        space: &mut Space,
        place: u64,
    ) -> core::result::Result<(RecordName, Result<Option<Entry>>), Missing> {
        let key = numbered(&self.charter().name(), layout::EPOCH, place);
        let name = space.get(&key)?;
        let name = name.as_deref().and_then(|name| name.try_into().ok());
        match name.map(RecordName) {
            Some(name) => Ok((name, self.index().entry(space, &name)?)),
            None => Ok((RecordName([0; 32]), Err(CORRUPT))),
        }
    }
}
