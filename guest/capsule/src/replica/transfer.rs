//! Records and signatures on their way from one replica to another: read there and written here, or the other way round.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use selfsame_codec::{Code, Field};

use super::answer::{Results, Signed};
use super::sync::{Request, Side};
use crate::hash::RecordName;
use crate::message::{Envelope, MAX_MESSAGE_BYTES, MAX_OPERATIONS, Operation};
use crate::record::Record;
use crate::refusal::{Refusal, Result};
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
    /// Records that are signed, and their signatures, which come first: so all else is proven when it comes.
    heads: Vec<RecordName>,
    signatures: Vec<RecordName>,
    /// Signatures that were read; they are written when all were, those of epochs first and in their order.
    signed: Vec<(RecordName, Signed)>,
    /// Records to which one points that came, and then all others.
    frontier: Vec<RecordName>,
    records: BTreeSet<RecordName>,
    width: usize,
    asked: Asked,
    /// How many elements have arrived, and how many of them are stored.
    moved: u64,
    stored: u64,
}

impl Transfer {
    /// Of these elements. A record that comes before anything proves it is kept for a while and no more: so those that are signed
    /// come first with their signatures, and then what those point to that came, as far as there is such.
    pub(super) fn new(from: Side, elements: &[Element]) -> Self {
        let of = |kind| {
            let all = elements.iter().filter(move |element| element.kind == kind);
            all.map(|element| element.record)
        };
        let signatures: Vec<RecordName> = of(ElementKind::Signature).collect();
        let mut sorted = signatures.clone();
        sorted.sort_unstable();
        let is_unsigned = |record: &RecordName| sorted.binary_search(record).is_err();
        let (records, heads): (Vec<_>, Vec<_>) = of(ElementKind::Record).partition(is_unsigned);
        Self {
            from,
            heads,
            signatures,
            signed: Vec::new(),
            frontier: Vec::new(),
            records: records.into_iter().collect(),
            width: FIRST_RECORDS,
            asked: Asked::Nothing,
            moved: 0,
            stored: 0,
        }
    }

    /// How many elements have arrived where they were missing; those that nothing proves yet may get lost again.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// How many of them are stored.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// What to ask next; nothing when all is done.
    pub(super) fn next(&mut self, envelope: &Envelope) -> Option<Request> {
        if !self.heads.is_empty() {
            let names = last_of(&mut self.heads, self.width);
            return Some(self.read(envelope, names));
        }
        if !self.signatures.is_empty() {
            let names = self
                .signatures
                .split_off(self.signatures.len().saturating_sub(MAX_OPERATIONS));
            let message = named(envelope, &names, |record| Operation::Signature { record });
            self.asked = Asked::Signatures(names);
            return Some((self.from, message));
        }
        if !self.signed.is_empty() {
            return Some(self.next_signed(envelope));
        }
        let mut names = last_of(&mut self.frontier, self.width);
        while names.len() < self.width
            && let Some(name) = self.records.pop_first()
        {
            names.push(name);
        }
        (!names.is_empty()).then(|| self.read(envelope, names))
    }

    fn read(&mut self, envelope: &Envelope, names: Vec<RecordName>) -> Request {
        let message = named(envelope, &names, |record| Operation::Read { record });
        self.asked = Asked::Records(names);
        (self.from, message)
    }

    fn next_signed(&mut self, envelope: &Envelope) -> Request {
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
        (self.from.other(), message)
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
                for _ in 0..count {
                    let stored = results.next(|_| Ok(()));
                    let is_kept = |refusal: Refusal| refusal.code == Code::Unproven;
                    self.stored += u64::from(stored.is_ok());
                    self.moved += u64::from(stored.is_ok() || stored.is_err_and(is_kept));
                }
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
                        let pointers = record.header.backpointers();
                        self.frontier
                            .extend(pointers.filter(|pointer| self.records.remove(pointer)));
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
        self.frontier.extend(left);
        self.asked = Asked::Storing(writes);
        Some((self.from.other(), message))
    }
}

/// So many of the last names.
fn last_of(names: &mut Vec<RecordName>, most: usize) -> Vec<RecordName> {
    names.split_off(names.len().saturating_sub(most))
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
