//! Records and signatures on their way from one replica to another: read there and written here, or the other way round.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use selfsame_codec::{Code, Field};

use super::answer::{Results, Signed};
use super::sync::{Request, Side};
use crate::hash::{HASH_BYTES, RecordName};
use crate::header::{HeaderView, RecordKind};
use crate::message::{Envelope, MAX_MESSAGE_BYTES, MAX_OPERATIONS, Operation};
use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::sketch::{Element, ElementKind};

/// Records of a first request; then as many as responses of some hundred kilobytes hold.
const FIRST_RECORDS: usize = 128;
/// Between how many bytes a response should have: enough to pay for the way, and no burden for the memory of either.
const FEW_BYTES: usize = 512 << 10;
const MANY_BYTES: usize = 2 << 20;

/// Bytes of the two operations that write a record and its signature, without the record.
const SIGN_BYTES: usize = 1 + 1 + HASH_BYTES + 64;

/// What was asked for last
#[derive(Debug)]
enum Asked {
    Nothing,
    Records(Vec<RecordName>),
    /// Signed records, what comes first at the end.
    Heads(Vec<(RecordName, Signed)>),
    Signatures(Vec<RecordName>),
    /// So many operations were to store something.
    Storing(usize),
}

/// What is on its way in one direction
#[derive(Debug)]
pub(super) struct Transfer {
    from: Side,
    /// Signatures that are to be read.
    signatures: Vec<RecordName>,
    /// Those that were, what is written first at the end: those of epochs in their order, and then all others.
    signed: Vec<(RecordName, Signed)>,
    /// Signed records, each of which goes with its signature: so nothing has to wait for what proves it.
    heads: BTreeSet<RecordName>,
    /// What goes before the next signed record.
    before: Option<RecordName>,
    /// The epoch record before which something went.
    prepared: Option<RecordName>,
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
        let is_signed = |record: &RecordName| sorted.binary_search(record).is_ok();
        let (heads, records) = of(ElementKind::Record).partition(is_signed);
        Self {
            from,
            signatures,
            signed: Vec::new(),
            heads,
            before: None,
            prepared: None,
            frontier: Vec::new(),
            records,
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
        if !self.signatures.is_empty() {
            let names = last_of(&mut self.signatures, MAX_OPERATIONS);
            let message = named(envelope, &names, |record| Operation::Signature { record });
            self.asked = Asked::Signatures(names);
            return Some((self.from, message));
        }
        if let Some(name) = self.before.take() {
            return Some(self.read(envelope, Vec::from([name])));
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

    /// Reads the next records that are signed; if all are there, writes their signatures.
    fn next_signed(&mut self, envelope: &Envelope) -> Request {
        let most = if self.heads.is_empty() {
            MAX_OPERATIONS
        } else {
            self.width.min(MAX_OPERATIONS / 2)
        };
        let signed = last_of(&mut self.signed, most);
        let names = signed.iter().rev().map(|(name, _)| *name);
        let missing: Vec<RecordName> = names.filter(|name| self.heads.contains(name)).collect();
        if !missing.is_empty() {
            let message = named(envelope, &missing, |record| Operation::Read { record });
            self.asked = Asked::Heads(signed);
            return (self.from, message);
        }
        let mut message = begin(envelope);
        for (name, signed) in signed.iter().rev() {
            write_signature(*name, signed, &mut message);
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
            Asked::Heads(signed) => {
                self.adapt(response.len());
                if let Some(request) = self.pass_on_signed(envelope, signed, results) {
                    return Ok(Some(request));
                }
            }
            Asked::Signatures(names) => self.take_signatures(&names, results),
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

    fn take_signatures(&mut self, names: &[RecordName], mut results: Results<'_>) {
        for name in names {
            match results.next(|reader| reader.field()) {
                Ok(signed) => self.signed.push((*name, signed)),
                // It may be proven otherwise by now.
                Err(_) => self.records.extend(self.heads.take(name)),
            }
        }
        self.signed
            .sort_by_key(|(_, signed)| core::cmp::Reverse((!signed.is_epoch, signed.sequence)));
    }

    /// Writes to one side the signed records that the other has given, each with its signature, as far as there is room.
    fn pass_on_signed(
        &mut self,
        envelope: &Envelope,
        mut signed: Vec<(RecordName, Signed)>,
        mut results: Results<'_>,
    ) -> Option<Request> {
        let (mut message, mut operations) = (begin(envelope), 0);
        while let Some((name, signature)) = signed.last().copied() {
            if self.heads.contains(&name) {
                match results.next(|reader| Ok(Record::read(reader))) {
                    Ok(Ok(record)) => {
                        if !fits(&record, &message) || self.needs_before(&name, &record.header) {
                            break;
                        }
                        self.write(record, &mut message);
                        operations += 1;
                    }
                    // What does not decode leaves nothing that could be read after it.
                    Ok(Err(_)) => signed.clear(),
                    Err(refusal) if refusal.code == Code::TooLarge => break,
                    Err(_) => {}
                }
                self.heads.remove(&name);
            }
            if signed.pop().is_some() {
                write_signature(name, &signature, &mut message);
                operations += 1;
            }
        }
        if operations == 0 {
            // The same is not asked for again, unless something goes before it.
            if self.before.is_none() {
                signed.pop();
            }
            self.signed.extend(signed);
            return None;
        }
        self.signed.extend(signed);
        self.asked = Asked::Storing(operations);
        Some((self.from.other(), message))
    }

    /// An epoch record comes into force only where it is known that the record before it is none: that one goes first.
    fn needs_before(&mut self, name: &RecordName, header: &HeaderView<'_>) -> bool {
        if header.kind() != RecordKind::Epoch || self.prepared == Some(*name) {
            return false;
        }
        let first = header.backpointers().next();
        self.before = first.filter(|first| self.records.remove(first) || self.heads.contains(first));
        self.prepared = self.before.and(Some(*name));
        self.before.is_some()
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
            match results.next(|reader| Ok(Record::read(reader))) {
                Ok(Ok(record)) if fits(&record, &message) => {
                    self.write(record, &mut message);
                    writes += 1;
                }
                Ok(Ok(_)) => left.push(*name),
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

    /// What a record points to comes next.
    fn write(&mut self, record: Record<'_>, message: &mut Vec<u8>) {
        let pointers = record.header.backpointers();
        self.frontier
            .extend(pointers.filter(|pointer| self.records.remove(pointer)));
        Operation::Write { record }.write(message);
    }
}

/// Whether there is room in a message for a record and a signature.
fn fits(record: &Record<'_>, message: &[u8]) -> bool {
    message.len() + record.len() + SIGN_BYTES < MAX_MESSAGE_BYTES
}

fn write_signature(record: RecordName, signed: &Signed, message: &mut Vec<u8>) {
    let signature = signed.signature;
    Operation::Sign { record, signature }.write(message);
}

/// So many of the last ones.
fn last_of<T>(all: &mut Vec<T>, most: usize) -> Vec<T> {
    all.split_off(all.len().saturating_sub(most))
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
