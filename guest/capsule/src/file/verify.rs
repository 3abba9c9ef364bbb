//! Verifying an export while it streams by.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Reader};

use super::order::Walk;
use super::{END, EPOCH, EXPORT, HEAD, INNER, read_epoch};
use crate::authority::Authority;
use crate::epoch::MAX_EPOCHS;
use crate::hash::{CapsuleName, RecordName};
use crate::header::{HeaderView, MAX_HEADER_BYTES, RecordKind};
use crate::keys::Signature;
use crate::metadata::{Charter, MAX_METADATA_BYTES};
use crate::proof::Writers as _;
use crate::record::Record;
use crate::refusal::{Refusal, Result};

/// Bytes of a signature.
const SIGNATURE: usize = 64;
/// Bytes of a header before its backpointers.
const FIXED: usize = MAX_HEADER_BYTES - 32 * crate::header::MAX_BACKPOINTERS;

/// What is wrong with a file, and where
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What is wrong.
    pub code: Code,
    /// The offset in the file.
    pub at: u64,
}

impl core::fmt::Display for Damage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}, at {}", self.code, self.at)
    }
}

impl core::error::Error for Damage {}

/// What has been verified of a file
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// What the capsule is.
    Capsule(&'a Charter),
    /// An epoch record.
    Epoch(RecordName, Record<'a>, Signature),
    /// A record that is proven by those before.
    Record(Record<'a>),
    /// A record to which no other points.
    Head(RecordName, Record<'a>, Signature),
}

/// What a whole file holds
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The capsule.
    pub capsule: CapsuleName,
    /// How many records there are, epoch records included.
    pub records: u64,
    /// How many records are pointed to and missing.
    pub holes: u64,
}

/// Verifies an export of any length in one pass: it holds the record that is not complete yet, at most about a megabyte, and the
/// names of those that have to come still; the default one is at the start of a file
#[derive(Debug, Default)]
pub struct Verifier {
    stage: Stage,
    rest: Vec<u8>,
    /// How many bytes there must be before it is worth to look again.
    need: usize,
    offset: u64,
    walk: Walk,
    epochs: BTreeSet<RecordName>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Start,
    Epochs {
        known: Known,
        left: u32,
    },
    Records(Known),
    Done(Summary),
    Failed(Damage),
}

#[derive(Debug)]
struct Known {
    charter: Charter,
    authority: Authority,
}

/// How long an element is
///
/// No more bytes are waited for than it takes to find the first thing that is wrong: so the same is found in whatever pieces a
/// file comes, also at its end.
enum Length {
    /// So many bytes.
    Known(usize),
    /// More than there are; with so many, more is known.
    AtLeast(usize),
}

impl Length {
    /// The length with more bytes at the end.
    fn and(self, more: usize) -> Self {
        match self {
            Self::Known(len) => Self::Known(len + more),
            unknown => unknown,
        }
    }
}

impl Verifier {
    /// Takes the next bytes of the file, and gives `take` what they complete; all of that is proven, whatever follows.
    ///
    /// # Errors
    /// What is wrong first in the file: after that it takes no more.
    pub fn push(
        &mut self,
        chunk: &[u8],
        take: &mut impl FnMut(Entry<'_>),
    ) -> core::result::Result<(), Damage> {
        if let Stage::Failed(damage) = self.stage {
            return Err(damage);
        }
        let mut rest = core::mem::take(&mut self.rest);
        let pushed = if rest.is_empty() {
            self.read(chunk, take)
                .map(|used| rest.extend_from_slice(&chunk[used..]))
        } else {
            rest.extend_from_slice(chunk);
            self.read(&rest, take).map(|used| _ = rest.drain(..used))
        };
        self.rest = rest;
        pushed.map_err(|refusal| {
            let at = self.offset.saturating_add(u64::from(refusal.at));
            let code = refusal.code;
            let damage = Damage { code, at };
            self.stage = Stage::Failed(damage);
            damage
        })
    }

    /// Says that the file ends here.
    ///
    /// # Errors
    /// What was wrong with it; [`Code::BadFile`] when it is cut short.
    pub fn finish(&self) -> core::result::Result<Summary, Damage> {
        match self.stage {
            Stage::Done(summary) => Ok(summary),
            Stage::Failed(damage) => Err(damage),
            _ => Err(Damage {
                code: Code::BadFile,
                at: self.offset + self.rest.len() as u64,
            }),
        }
    }

    /// Reads what is complete; how many bytes that took.
    fn read(&mut self, bytes: &[u8], take: &mut impl FnMut(Entry<'_>)) -> Result<usize> {
        let mut used = 0;
        while bytes.len() - used >= self.need.max(1) {
            let rest = &bytes[used..];
            let len = match self.length(rest)? {
                Length::Known(len) if len <= rest.len() => len,
                Length::Known(need) | Length::AtLeast(need) => {
                    self.need = need;
                    break;
                }
            };
            self.need = 0;
            self.element(&rest[..len], take)?;
            self.offset += len as u64;
            used += len;
        }
        Ok(used)
    }

    /// How long the next element is.
    fn length(&self, rest: &[u8]) -> Result<Length> {
        match (&self.stage, rest.first()) {
            (Stage::Start, _) => start_len(rest),
            (Stage::Epochs { .. }, _) => Ok(record_len(rest, 0)?.and(SIGNATURE)),
            (Stage::Records(_), Some(&END)) => end_len(rest, self.walk.holes().len()),
            (Stage::Records(_), Some(&INNER)) => record_len(rest, 1),
            (Stage::Records(_), Some(&HEAD)) => Ok(record_len(rest, 1)?.and(SIGNATURE)),
            (Stage::Records(_), Some(&EPOCH)) => header_len(rest, 1),
            _ => Err(Refusal::new(Code::BadFile, 0)),
        }
    }

    fn element(&mut self, element: &[u8], take: &mut impl FnMut(Entry<'_>)) -> Result<()> {
        match core::mem::take(&mut self.stage) {
            Stage::Start => {
                let (known, epochs) = read_start(element)?;
                take(Entry::Capsule(&known.charter));
                self.stage = next_stage(known, epochs);
            }
            Stage::Epochs { mut known, left } => {
                let (record, signature) = read_epoch(&mut Reader::new(element))?;
                let name = record.check(known.charter.hasher(), known.charter.is_sealed())?;
                known
                    .authority
                    .apply(&name, &record.header, record.body, &signature)?;
                self.epochs.insert(name);
                take(Entry::Epoch(name, record, signature));
                self.stage = next_stage(known, left - 1);
            }
            Stage::Records(known) if element[0] == END => {
                self.end(element)?;
                self.stage = Stage::Done(Summary {
                    capsule: known.charter.name(),
                    records: self.walk.came(),
                    holes: self.walk.holes().len() as u64,
                });
            }
            Stage::Records(known) => {
                self.record(&known, element, take)?;
                self.stage = Stage::Records(known);
            }
            Stage::Done(_) | Stage::Failed(_) => return Err(Refusal::new(Code::BadFile, 0)),
        }
        Ok(())
    }

    fn record(&mut self, known: &Known, element: &[u8], take: &mut impl FnMut(Entry<'_>)) -> Result<()> {
        let (kind, hasher) = (element[0], known.charter.hasher());
        let mut reader = Reader::new(&element[1..]);
        let header = HeaderView::read(&mut reader).map_err(|refusal| refusal.further(1))?;
        let name = header.name(hasher);
        let is_pointed_to = self.walk.come(&name, &header)?;
        if kind == EPOCH {
            return match self.epochs.remove(&name) {
                true => Ok(()),
                false => Err(Refusal::new(Code::BadFile, 1)),
            };
        }
        if header.kind() == RecordKind::Epoch || is_pointed_to != (kind == INNER) {
            return Err(Refusal::new(Code::BadFile, 0));
        }
        let after = 1 + header.encoded().len();
        let signature = match kind {
            HEAD => Some(Signature(
                reader.array().map_err(|_| Refusal::new(Code::BadFile, after))?,
            )),
            _ => None,
        };
        if let Some(signature) = &signature {
            let checked = known.authority.check(&header, &name, signature);
            checked.map_err(|code| Refusal::new(code, after))?;
        }
        let body = reader.rest();
        let record = Record { header, body };
        let checked = record.check(hasher, known.charter.is_sealed());
        checked.map_err(|refusal| refusal.further(element.len() - body.len()))?;
        take(match signature {
            Some(signature) => Entry::Head(name, record, signature),
            None => Entry::Record(record),
        });
        Ok(())
    }

    fn end(&self, element: &[u8]) -> Result<()> {
        let mut expected = Vec::from([END]);
        self.walk.came().write(&mut expected);
        let holes = self.walk.holes();
        (holes.len() as u32).write(&mut expected);
        holes.for_each(|name| expected.extend_from_slice(&name.0));
        let differs = element
            .iter()
            .zip(&expected)
            .position(|(one, other)| one != other);
        match differs {
            Some(at) => Err(Refusal::new(Code::BadFile, at)),
            // An epoch record that was given first must come among the others too.
            None if self.epochs.is_empty() => Ok(()),
            None => Err(Refusal::new(Code::BadFile, 0)),
        }
    }
}

fn next_stage(known: Known, left: u32) -> Stage {
    match left {
        0 => Stage::Records(known),
        _ => Stage::Epochs { known, left },
    }
}

fn read_start(element: &[u8]) -> Result<(Known, u32)> {
    let after = EXPORT.len() + 4;
    let metadata = &element[after..element.len() - 4];
    let charter = Charter::decode(metadata).map_err(|refusal| refusal.further(after))?;
    let mut count = [0; 4];
    count.copy_from_slice(&element[element.len() - 4..]);
    let count = u32::from_le_bytes(count);
    // Their names are held until the records come among the others.
    if u64::from(count) > MAX_EPOCHS {
        return Err(Refusal::new(Code::TooLarge, element.len() - 4));
    }
    let authority = Authority::new(charter.metadata());
    Ok((Known { charter, authority }, count))
}

fn start_len(rest: &[u8]) -> Result<Length> {
    let shown = rest.len().min(EXPORT.len());
    let differs = rest[..shown]
        .iter()
        .zip(EXPORT)
        .position(|(one, other)| one != other);
    if let Some(at) = differs {
        return Err(Refusal::new(Code::BadFile, at));
    }
    let head = EXPORT.len() + 4;
    let Some(length) = rest.get(EXPORT.len()..head) else {
        return Ok(Length::AtLeast(rest.len() + 1));
    };
    let length = u32_of(length);
    if length > MAX_METADATA_BYTES {
        return Err(Refusal::new(Code::TooLarge, EXPORT.len()));
    }
    Ok(Length::Known(head + length + 4))
}

/// The end is as long as it must be; of a file that says something else the first byte that differs is wrong.
fn end_len(rest: &[u8], holes: usize) -> Result<Length> {
    let head = 1 + 8 + 4;
    match rest.get(9..head) {
        Some(count) if u32_of(count) != holes => Err(Refusal::new(Code::BadFile, 9)),
        Some(_) => Ok(Length::Known(head + 32 * holes)),
        None => Ok(Length::AtLeast(head)),
    }
}

/// How long an element is to the end of the header that begins at an offset.
fn header_len(rest: &[u8], offset: usize) -> Result<Length> {
    let Some(count) = rest.get(offset) else {
        return Ok(Length::AtLeast(offset + 1));
    };
    let count = usize::from(*count);
    if count > crate::header::MAX_BACKPOINTERS {
        return Err(Refusal::new(Code::BadHeader, offset));
    }
    Ok(Length::Known(offset + FIXED + 32 * count))
}

/// How long an element is to the end of the body whose header begins at an offset.
fn record_len(rest: &[u8], offset: usize) -> Result<Length> {
    let end = match header_len(rest, offset)? {
        Length::Known(end) => end,
        more => return Ok(more),
    };
    let Some(encoded) = rest.get(offset..end) else {
        return Ok(Length::AtLeast(end));
    };
    let header = HeaderView::decode(encoded).map_err(|refusal| refusal.further(offset))?;
    Ok(Length::Known(end + header.body_len() as usize))
}

fn u32_of(bytes: &[u8]) -> usize {
    let mut four = [0; 4];
    four.copy_from_slice(bytes);
    u32::from_le_bytes(four) as usize
}
