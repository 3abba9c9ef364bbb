//! Storing the file of a capsule at a replica: only what is verified, as it is read.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use selfsame_codec::Code;

use super::begin;
use crate::epoch::MAX_EPOCHS;
use crate::file::{Damage, Entry, Summary, Verifier};
use crate::hash::{CapsuleName, RecordName};
use crate::keys::Signature;
use crate::message::Operation;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::replica::{MAX_HELD_HEADS, Results};

/// Operations of a request, and their bytes: far less than a replica takes at once.
const OPERATIONS: usize = 1024;
const BYTES: usize = 1 << 20;
/// Signatures that are brought with each request, as many as it has records: a record that comes before a signature proves it is not
/// kept for long. One may have to wait for a record that comes later in the file: an epoch record for what it points to, another one
/// for the epoch in which its writer joined.
const AGAIN: usize = OPERATIONS;
/// Most signatures that wait: those of as many epoch records and heads as a replica holds of a capsule, 8 MiB of memory.
const MAX_WAITING: usize = MAX_EPOCHS as usize + MAX_HELD_HEADS;

/// An import, which holds what is not stored yet of the bytes given last
#[derive(Debug, Default)]
pub struct Import {
    verifier: Verifier,
    queue: Queue,
    /// Bytes of the file that were taken.
    at: u64,
    /// What was asked last: how many signatures of those that wait it brings first, and how many further operations it has.
    asked: Option<(usize, usize)>,
    has_ended: bool,
    /// How many signatures were brought since the end of the file, or since one was taken.
    fruitless: usize,
}

/// What is to be stored
#[derive(Debug, Default)]
struct Queue {
    capsule: Option<CapsuleName>,
    /// Requests' operations, and how many each has.
    parts: VecDeque<(Vec<u8>, usize)>,
    /// Signatures that are not stored yet, those of epoch records first and all in their order.
    waiting: VecDeque<(RecordName, Signature)>,
}

impl Queue {
    fn push(&mut self, operation: &Operation<'_>) {
        let is_full = |(bytes, count): &(Vec<u8>, usize)| *count >= OPERATIONS || bytes.len() >= BYTES;
        if self.parts.back().is_none_or(is_full) {
            self.parts.push_back((Vec::new(), 0));
        }
        if let Some((bytes, count)) = self.parts.back_mut() {
            operation.write(bytes);
            *count += 1;
        }
    }

    fn take(&mut self, entry: Entry<'_>) {
        let mut write = |record: Record<'_>| self.push(&Operation::Write { record });
        match entry {
            Entry::Capsule(charter) => {
                self.capsule = Some(charter.name());
                let metadata = charter.encoded();
                self.push(&Operation::Create { metadata });
            }
            Entry::Epoch(name, record, signature) | Entry::Head(name, record, signature) => {
                write(record);
                self.waiting.push_back((name, signature));
            }
            Entry::Record(record) => write(record),
        }
    }
}

impl Import {
    /// Takes the next bytes of the file. Before further ones [`Self::ask`] is to say that there is nothing more to be asked.
    ///
    /// # Errors
    /// What is wrong first in the file, and where; [`Code::TooLarge`] when the replica has refused more signatures than one holds.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Damage> {
        let Self { verifier, queue, .. } = self;
        self.at += chunk.len() as u64;
        verifier.push(chunk, &mut |entry| queue.take(entry))?;
        match self.queue.waiting.len() {
            0..=MAX_WAITING => Ok(()),
            _ => Err(self.damage(Refusal::new(Code::TooLarge, MAX_WAITING))),
        }
    }

    /// The file ends here.
    ///
    /// # Errors
    /// What was wrong with it; [`Code::BadFile`] when it is cut short.
    pub fn finish(&mut self) -> Result<Summary, Damage> {
        let summary = self.verifier.finish()?;
        self.has_ended = true;
        Ok(summary)
    }

    /// What the replica is asked next; nothing when all that was given is stored.
    pub fn ask(&mut self) -> Option<Vec<u8>> {
        let capsule = self.queue.capsule?;
        let part = self.queue.parts.pop_front();
        let is_last = part.is_none() && self.has_ended && !self.queue.waiting.is_empty();
        if part.is_none() && !is_last {
            return None;
        }
        let mut request = begin(capsule);
        let again = match is_last {
            true => self.queue.waiting.len().min(OPERATIONS),
            false => self.queue.waiting.len().min(AGAIN),
        };
        let (bytes, count) = part.unwrap_or_default();
        // After what is stored now, which may be what they wait for.
        request.extend_from_slice(&bytes);
        for (record, signature) in self.queue.waiting.iter().take(again) {
            let (record, signature) = (*record, *signature);
            Operation::Sign { record, signature }.write(&mut request);
        }
        self.asked = Some((count, again));
        Some(request)
    }

    /// That the replica has refused something, or does not answer, with the number of bytes of the file that were read until then.
    #[must_use]
    pub fn damage(&self, Refusal { code, .. }: Refusal) -> Damage {
        Damage { code, at: self.at }
    }

    /// Takes the answer to what was asked.
    ///
    /// # Errors
    /// As [`Self::damage`] says.
    pub fn take(&mut self, response: &[u8]) -> Result<(), Damage> {
        let Some((stored, again)) = self.asked.take() else {
            return Ok(());
        };
        let mut results = Results::read(response).map_err(|refusal| self.damage(refusal))?;
        for _ in 0..stored {
            match results.next(|_| Ok(())) {
                // A signature that proves it may have to wait for an epoch.
                Err(refusal) if refusal.code != Code::Unproven => return Err(self.damage(refusal)),
                _ => {}
            }
        }
        let mut refused = None;
        for _ in 0..again {
            let Some(waiting) = self.queue.waiting.pop_front() else {
                break;
            };
            match results.next(|_| Ok(())) {
                Ok(()) => self.fruitless = 0,
                Err(refusal) if refusal.code == Code::BadMessage => return Err(self.damage(refusal)),
                Err(refusal) => {
                    self.queue.waiting.push_back(waiting);
                    self.fruitless += usize::from(self.has_ended);
                    refused = Some(refusal);
                }
            }
        }
        match refused {
            // All that wait were brought, and none was taken.
            Some(refusal) if self.fruitless >= self.queue.waiting.len() && self.has_ended => {
                Err(self.damage(refusal))
            }
            _ => Ok(()),
        }
    }
}
