//! Records and signatures on their way from one replica to another: read there and written here, or the other way round.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field};

use super::answer::{Results, Signed};
use super::sync::{Request, Side};
use crate::hash::RecordName;
use crate::message::{Envelope, MAX_MESSAGE_BYTES, MAX_OPERATIONS, Operation};
use crate::record::Record;
use crate::refusal::Result;
use crate::sketch::{Element, ElementKind};

/// Records of a first request; then as many as responses of some hundred kilobytes hold.
const FIRST_RECORDS: usize = 128;
/// Between how many bytes a response should have: enough to pay for the way, and no burden for the memory of either.
const FEW_BYTES: usize = 512 << 10;
const MANY_BYTES: usize = 2 << 20;

/// What was asked for last
#[derive(Debug)]
enum Asked {
    Nothing,
    Records(Vec<RecordName>),
    Signatures(Vec<RecordName>),
    /// So many operations were to store something.
    Storing(usize),
}

/// What is on its way in one direction
#[derive(Debug)]
pub(super) struct Transfer {
    from: Side,
    /// What is still to be read, what comes first at the end.
    records: Vec<RecordName>,
    signatures: Vec<RecordName>,
    /// Signatures that were read; they are written when all were, those of epochs first and in their order.
    signed: Vec<(RecordName, Signed)>,
    width: usize,
    asked: Asked,
    /// How many elements have arrived.
    moved: u64,
}

impl Transfer {
    /// Of these elements; records that are signed come first, so that what they lead to is proven when it arrives.
    pub(super) fn new(from: Side, elements: &[Element]) -> Self {
        let of = |kind| {
            let all = elements.iter().filter(move |element| element.kind == kind);
            all.map(|element| element.record)
        };
        let signatures: Vec<RecordName> = of(ElementKind::Signature).collect();
        let mut sorted = signatures.clone();
        sorted.sort_unstable();
        let is_unsigned = |record: &RecordName| sorted.binary_search(record).is_err();
        let (mut records, signed): (Vec<_>, Vec<_>) = of(ElementKind::Record).partition(is_unsigned);
        // They are taken from the end.
        records.extend(signed);
        Self {
            from,
            records,
            signatures,
            signed: Vec::new(),
            width: FIRST_RECORDS,
            asked: Asked::Nothing,
            moved: 0,
        }
    }

    /// How many elements have arrived where they were missing.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// What to ask next; nothing when all is done.
    pub(super) fn next(&mut self, envelope: &Envelope) -> Option<Request> {
        if !self.records.is_empty() {
            let names = self
                .records
                .split_off(self.records.len().saturating_sub(self.width));
            let message = named(envelope, &names, |record| Operation::Read { record });
            self.asked = Asked::Records(names);
            return Some((self.from, message));
        }
        if !self.signatures.is_empty() {
            let names = self
                .signatures
                .split_off(self.signatures.len().saturating_sub(MAX_OPERATIONS));
            let message = named(envelope, &names, |record| Operation::Signature { record });
            self.asked = Asked::Signatures(names);
            return Some((self.from, message));
        }
        self.next_signed(envelope)
    }

    fn next_signed(&mut self, envelope: &Envelope) -> Option<Request> {
        if self.signed.is_empty() {
            return None;
        }
        self.signed
            .sort_by_key(|(_, signed)| core::cmp::Reverse((!signed.is_epoch, signed.sequence)));
        let signed = self
            .signed
            .split_off(self.signed.len().saturating_sub(MAX_OPERATIONS));
        let mut message = begin(envelope);
        for (record, signed) in signed.iter().rev() {
            let signature = signed.signature;
            Operation::Sign {
                record: *record,
                signature,
            }
            .write(&mut message);
        }
        self.asked = Asked::Storing(signed.len());
        Some((self.from.other(), message))
    }

    /// Takes a response; what to ask next, or nothing when all is done.
    ///
    /// # Errors
    /// What refused the request as a whole, or [`Code::BadMessage`].
    pub(super) fn take(&mut self, envelope: &Envelope, response: &[u8]) -> Result<Option<Request>> {
        let mut results = Results::read(response)?;
        match core::mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Nothing => {}
            Asked::Records(names) => {
                self.adapt(response.len());
                if let Some(request) = self.pass_on(envelope, &names, results) {
                    return Ok(Some(request));
                }
            }
            Asked::Signatures(names) => {
                for name in names {
                    if let Ok(signed) = results.next(|reader| reader.field()) {
                        self.signed.push((name, signed));
                    }
                }
            }
            Asked::Storing(count) => {
                let stored = (0..count).filter(|_| results.next(|_| Ok(())).is_ok());
                self.moved += stored.count() as u64;
            }
        }
        Ok(self.next(envelope))
    }

    fn adapt(&mut self, bytes: usize) {
        if bytes < FEW_BYTES {
            self.width = (self.width * 2).min(MAX_OPERATIONS);
        } else if bytes > MANY_BYTES {
            self.width = (self.width / 2).max(1);
        }
    }

    /// Writes to one side what the other has given. It is the writing side's own replica that verifies it.
    fn pass_on(
        &mut self,
        envelope: &Envelope,
        names: &[RecordName],
        mut results: Results<'_>,
    ) -> Option<Request> {
        let mut message = begin(envelope);
        let (mut writes, mut left) = (0, Vec::new());
        for name in names {
            let given = results.next(|reader| Ok(Record::read(reader)));
            match given {
                Ok(Ok(record)) => {
                    let len = record.header.encoded().len() + record.body.len();
                    if message.len() + 1 + len > MAX_MESSAGE_BYTES {
                        left.push(*name);
                    } else {
                        Operation::Write { record }.write(&mut message);
                        writes += 1;
                    }
                }
                // What does not decode leaves nothing that could be read after it.
                Ok(Err(_)) => break,
                Err(refusal) if refusal.code == Code::TooLarge => left.push(*name),
                Err(_) => {}
            }
        }
        if writes == 0 {
            return None;
        }
        self.records.extend(left);
        self.asked = Asked::Storing(writes);
        Some((self.from.other(), message))
    }
}

/// A request without operations.
pub(super) fn begin(envelope: &Envelope) -> Vec<u8> {
    let mut message = Vec::new();
    envelope.write(&mut message);
    message
}

fn named(
    envelope: &Envelope,
    names: &[RecordName],
    operation: impl Fn(RecordName) -> Operation<'static>,
) -> Vec<u8> {
    let mut message = begin(envelope);
    names.iter().for_each(|name| operation(*name).write(&mut message));
    message
}
