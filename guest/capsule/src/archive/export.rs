//! Writing the file of a capsule out of what one replica gives, all of which is verified.

use alloc::vec::Vec;

use selfsame_codec::{Code, Malformed, Reader};

use super::begin;
use crate::authority::Authority;
use crate::file::{Exporter, Plan, Summary, read_epoch};
use crate::hash::{CapsuleName, RecordName};
use crate::header::RecordKind;
use crate::keys::Signature;
use crate::message::{Fresh, FreshQuery, Operation};
use crate::metadata::Charter;
use crate::proof::Writers as _;
use crate::record::Record;
use crate::refusal::{Refusal, Result};
use crate::replica::{BAD_RESPONSE, Results, Signed};

/// Records that are asked for at first; then as many as an answer of some hundred kilobytes holds.
const FIRST_WIDTH: usize = 16;
const MAX_WIDTH: usize = 512;
/// Between how many bytes an answer should have: enough to pay for the way, and no burden for the memory of either.
const FEW_BYTES: usize = 256 << 10;
const MANY_BYTES: usize = 1 << 20;

/// What comes after an answer
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exported {
    /// This is to be asked.
    Ask(Vec<u8>),
    /// The file is whole.
    Done(Summary),
}

/// An export of the proven records of a capsule, as they are when it begins
///
/// It takes about 80 bytes of memory for each record, of which there may be [`crate::file::MAX_PLANNED`], and one answer.
#[derive(Debug)]
pub struct Export {
    capsule: CapsuleName,
    opening: Opening,
    plan: Plan,
    /// What is still to be looked at, and what was asked for last.
    frontier: Vec<RecordName>,
    asked: Vec<RecordName>,
    width: usize,
    heads: Vec<(RecordName, Signature)>,
    exporter: Option<Exporter>,
}

/// What a file begins with, as far as it is known
#[derive(Debug, Default)]
struct Opening {
    known: Option<(Charter, Authority)>,
    /// Epoch records with their signatures, one after the other, and how many.
    epochs: Vec<u8>,
    count: u32,
    is_whole: bool,
}

impl Export {
    /// An export of this capsule.
    #[must_use]
    pub fn new(capsule: CapsuleName) -> Self {
        Self {
            capsule,
            opening: Opening::default(),
            plan: Plan::new(),
            frontier: Vec::new(),
            asked: Vec::new(),
            width: FIRST_WIDTH,
            heads: Vec::new(),
            exporter: None,
        }
    }

    /// What is asked next.
    fn request(&mut self) -> Vec<u8> {
        let mut request = begin(self.capsule);
        if !self.opening.is_whole {
            if self.opening.known.is_none() {
                Operation::Describe.write(&mut request);
            }
            let from = self.opening.count;
            Operation::Epochs { from }.write(&mut request);
            // Nothing is believed of a head but that it is signed, whoever names it, and when.
            Operation::QueryFresh(FreshQuery::heads([0; 32])).write(&mut request);
        }
        for record in &self.asked {
            let is_head = self.exporter.is_none() && self.heads.iter().any(|(head, _)| head == record);
            let record = *record;
            Operation::Read { record }.write(&mut request);
            if is_head {
                Operation::Signature { record }.write(&mut request);
            }
        }
        request
    }

    /// The first request.
    #[must_use]
    pub fn begin(&mut self) -> Vec<u8> {
        self.request()
    }

    /// Takes the answer to the last request, and appends what the file has next.
    ///
    /// # Errors
    /// Why the replica does not answer, or [`Code::BadMessage`] and what verifying says when its answer is false.
    pub fn take(&mut self, response: &[u8], out: &mut Vec<u8>) -> Result<Exported> {
        let mut results = Results::read(response)?;
        if !self.opening.is_whole {
            self.open(&mut results)?;
        } else {
            match self.exporter {
                None => self.look(&mut results)?,
                Some(_) => self.write(&mut results, out)?,
            }
            self.width = match response.len() {
                len if len < FEW_BYTES => (self.width * 2).min(MAX_WIDTH),
                len if len > MANY_BYTES => (self.width / 2).max(1),
                _ => self.width,
            };
        }
        if self.exporter.is_none() && self.opening.is_whole {
            if self.frontier.is_empty() {
                self.begin_file(out)?;
            } else {
                let rest = self.frontier.len().saturating_sub(self.width);
                self.asked = self.frontier.split_off(rest);
            }
        }
        if self.exporter.is_some() {
            self.asked = self.plan.upcoming(self.width);
            if self.asked.is_empty() {
                return self.end(out);
            }
        }
        Ok(Exported::Ask(self.request()))
    }

    /// Learns what the capsule is, who writes it, and which records are the newest.
    fn open(&mut self, results: &mut Results<'_>) -> Result<()> {
        let opening = &mut self.opening;
        if opening.known.is_none() {
            let metadata: &[u8] = results.next(|reader| reader.field())?;
            let charter = Charter::decode(metadata)?;
            if charter.name() != self.capsule {
                return Err(BAD_RESPONSE);
            }
            let authority = Authority::new(charter.metadata());
            opening.known = Some((charter, authority));
        }
        let Some((charter, authority)) = &mut opening.known else {
            return Err(BAD_RESPONSE);
        };
        let (total, all) = results.next(|reader| {
            let (total, count): (u32, u16) = (reader.field()?, reader.field()?);
            let start = reader.rest();
            for _ in 0..count {
                read_epoch(reader).map_err(|_| Malformed)?;
            }
            Ok((total, &start[..start.len() - reader.rest().len()]))
        })?;
        let mut reader = Reader::new(all);
        while !reader.is_empty() {
            let (record, signature) = read_epoch(&mut reader)?;
            let name = record.check(charter.hasher(), charter.is_sealed())?;
            authority.apply(&name, &record.header, record.body, &signature)?;
            opening.count += 1;
        }
        opening.epochs.extend_from_slice(all);
        let fresh: Fresh = results.next(|reader| reader.field())?;
        if opening.count < total && !all.is_empty() {
            return Ok(());
        }
        opening.is_whole = true;
        for head in fresh.heads {
            self.heads.push((head, Signature([0; 64])));
            self.frontier.push(head);
        }
        Ok(())
    }

    /// Adds records to the plan.
    fn look(&mut self, results: &mut Results<'_>) -> Result<()> {
        let (charter, _) = self.opening.known.as_ref().ok_or(BAD_RESPONSE)?;
        for (index, name) in core::mem::take(&mut self.asked).into_iter().enumerate() {
            let read = results.next(|reader| Record::read(reader).map_err(|_| Malformed));
            let head = self.heads.iter_mut().find(|(head, _)| *head == name);
            let signed = head.map(|(_, signature)| {
                let signed = results.next(|reader| reader.field::<Signed>());
                signed.map(|signed| *signature = signed.signature)
            });
            match (read, signed) {
                // It did not fit the answer, as the first one does.
                (Err(refusal), _) | (_, Some(Err(refusal)))
                    if index > 0 && refusal.code == Code::TooLarge =>
                {
                    self.frontier.push(name);
                }
                // A hole; a head is there.
                (Err(refusal), None) if refusal.code == Code::NoRecord => {}
                (Err(refusal), _) | (_, Some(Err(refusal))) => return Err(refusal),
                (Ok(record), _) if record.header.name(charter.hasher()) == name => {
                    self.frontier.extend(self.plan.add(name, &record.header)?);
                }
                (Ok(_), _) => return Err(BAD_RESPONSE),
            }
        }
        Ok(())
    }

    fn begin_file(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let (charter, _) = self.opening.known.as_ref().ok_or(BAD_RESPONSE)?;
        let exporter = Exporter::new(charter.clone(), self.opening.count, out);
        out.append(&mut self.opening.epochs);
        self.exporter = Some(exporter);
        Ok(())
    }

    /// Writes the records that were asked for, up to the first that did not fit the answer or whose turn it is not.
    fn write(&mut self, results: &mut Results<'_>, out: &mut Vec<u8>) -> Result<()> {
        let (charter, authority) = self.opening.known.as_ref().ok_or(BAD_RESPONSE)?;
        let exporter = self.exporter.as_mut().ok_or(BAD_RESPONSE)?;
        for (index, name) in self.asked.iter().enumerate() {
            let record = match results.next(|reader| Record::read(reader).map_err(|_| Malformed)) {
                // The first one fits every answer.
                Err(refusal) if index > 0 && refusal.code == Code::TooLarge => break,
                read => read?,
            };
            if self.plan.next_record() != Some(*name) {
                break;
            }
            if record.check(charter.hasher(), charter.is_sealed())? != *name {
                return Err(BAD_RESPONSE);
            }
            let head = self.heads.iter().find(|(head, _)| head == name);
            let signature = head.map(|(_, signature)| signature);
            if let Some(signature) = signature.filter(|_| record.header.kind() != RecordKind::Epoch) {
                let checked = authority.check(&record.header, name, signature);
                checked.map_err(|code| Refusal::new(code, 0))?;
            }
            exporter.record(&record, signature, out)?;
            self.plan.came(&record.header);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<Exported> {
        let exporter = self.exporter.take().ok_or(BAD_RESPONSE)?;
        let (records, holes) = exporter.finish(out);
        Ok(Exported::Done(Summary {
            capsule: self.capsule,
            records,
            holes,
        }))
    }
}
