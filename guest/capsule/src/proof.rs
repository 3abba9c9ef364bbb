//! Proofs that a record is what a writer wrote (DCS, section 3.3).
//!
//! ```text
//! proof = anchor u8 | headers u16 | header, as often as said | signature 64, if the anchor is 1
//! ```
//!
//! The headers lead from an anchor to the record: each points to the next one, and the last one is the record's own or points
//! to it. The anchor of the first header is a writer's signature of its name (1), or that the reader has verified its name
//! before (2). Without headers the record's own name is what was verified before.

use alloc::vec::Vec;

use selfsame_codec::{Code, Field, Reader};

use crate::authorship::Attribution;
use crate::cache::Verified;
use crate::hash::{Hasher, RecordName};
use crate::header::{HeaderView, MAX_HEADER_BYTES};
use crate::keys::Signature;
use crate::refusal::{Refusal, Result};

/// Longest proof: about nine thousand headers of a chain without shortcuts. A record that lies further from the next
/// signature is proven in steps, or the writer signs more often.
pub const MAX_PROOF_BYTES: usize = 1 << 20;
/// Bytes before the headers.
const HEAD_BYTES: usize = 1 + 2;

const SIGNED: u8 = 1;
const CACHED: u8 = 2;

/// Says whether a signature of a record counts: DCS leaves it to the metadata's list of writers, which epochs change here
pub trait Writers {
    /// Whether `signature` is one of the record with this name and header by a writer who may write it.
    ///
    /// # Errors
    /// [`Code::NotAWriter`], [`Code::RevokedWriter`] or [`Code::BadSignature`].
    fn check(
        &self,
        header: &HeaderView<'_>,
        name: &RecordName,
        signature: &Signature,
    ) -> core::result::Result<(), Code>;
}

/// What a proof begins with
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The first header is signed.
    Signed(Signature),
    /// The reader has verified the first header's name, or the record's own if there are no headers.
    Verified,
}

/// Appends a proof whose headers are encoded already.
pub fn encode_proof<'a>(
    anchor: &Anchor,
    headers: impl ExactSizeIterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    out.push(match anchor {
        Anchor::Signed(_) => SIGNED,
        Anchor::Verified => CACHED,
    });
    (headers.len() as u16).write(out);
    for header in headers {
        out.extend_from_slice(header);
    }
    if let Anchor::Signed(signature) = anchor {
        out.extend_from_slice(&signature.0);
    }
}

/// Reads proofs and keeps no memory of one for the next
#[derive(Debug, Default)]
pub struct Prover {
    learned: Vec<(RecordName, Attribution)>,
}

impl Prover {
    /// Verifies that a writer's signature leads to `record`, and then adds what the proof has verified to the cache, as
    /// [`learn_header`] says. Returns who answers for the record: with its header, whether the writer that it names has signed
    /// it.
    ///
    /// Nothing of a proof is believed before all of it has been checked, and of each header first that the one before points
    /// to it.
    ///
    /// # Errors
    /// [`Code::BadProof`] when it does not decode or leads elsewhere, [`Code::UnknownAnchor`] when it begins with a name that is
    /// not in the cache: ask for a proof without one; and what [`Writers::check`] says. The offset is where the proof fails.
    pub fn verify(
        &mut self,
        hasher: &Hasher,
        writers: &impl Writers,
        verified: &mut Verified,
        record: &RecordName,
        proof: &[u8],
    ) -> Result<Attribution> {
        if proof.len() > MAX_PROOF_BYTES {
            return Err(Refusal::new(Code::TooLarge, MAX_PROOF_BYTES));
        }
        let mut reader = Reader::new(proof);
        let (kind, count) = read_head(&mut reader)?;
        if count == 0 {
            return verified_before(kind, reader, verified, record);
        }
        self.learned.clear();
        let offset = |reader: &Reader<'_>| proof.len() - reader.rest().len();
        let mut first = None;
        let mut previous: Option<Link<'_>> = None;
        for _ in 0..count {
            let at = offset(&reader);
            let header = HeaderView::read(&mut reader).map_err(|refusal| refusal.further(at))?;
            let name = header.name(hasher);
            let attribution = match &previous {
                None if kind == SIGNED => Attribution::signed(&header),
                None => verified.attribution(&name.0).unwrap_or_default(),
                Some(previous) if previous.header.points_to(&name) => previous.below(),
                Some(_) => return Err(Refusal::new(Code::BadProof, at)),
            };
            let link = Link {
                header,
                name,
                attribution: attribution.seen(&header),
            };
            first.get_or_insert((header, name));
            let below = link.below();
            self.learned.push((name, link.attribution));
            let pointers = header.backpointers().rev();
            self.learned.extend(pointers.map(|pointer| (pointer, below)));
            previous = Some(link);
        }
        let attribution = previous.and_then(|last| last.leads_to(record));
        let attribution = attribution.ok_or_else(|| Refusal::new(Code::BadProof, offset(&reader)))?;
        let (first, first_name) = first.ok_or_else(|| Refusal::new(Code::BadProof, HEAD_BYTES))?;
        check_anchor(kind, reader, writers, verified, (&first, &first_name))
            .map_err(|code| Refusal::new(code, HEAD_BYTES))?;
        for (name, attribution) in &self.learned {
            verified.learn(&name.0, *attribution);
        }
        Ok(attribution)
    }
}

/// A header of a proof, and who answers for it
#[derive(Clone, Copy)]
struct Link<'a> {
    header: HeaderView<'a>,
    name: RecordName,
    attribution: Attribution,
}

impl Link<'_> {
    /// Who answers for what the header points to.
    fn below(&self) -> Attribution {
        self.attribution.below(&self.header)
    }

    /// Who answers for a record whose header this is, or to which it points.
    fn leads_to(&self, record: &RecordName) -> Option<Attribution> {
        if self.name == *record {
            return Some(self.attribution);
        }
        self.header.points_to(record).then(|| self.below())
    }
}

/// The headers of a proof that was verified.
///
/// # Errors
/// [`Code::BadProof`] and what [`HeaderView::read`] says.
pub fn headers_of(proof: &[u8]) -> Result<Vec<HeaderView<'_>>> {
    let mut reader = Reader::new(proof);
    let (_, count) = read_head(&mut reader)?;
    (0..count).map(|_| HeaderView::read(&mut reader)).collect()
}

/// What a reader learns from one header that is verified, in order: its name, then its backpointers from the last to the first.
///
/// The first backpointer leads to the primary parent, and so it comes last and stays, should they share a slot.
pub fn learn_header(name: &RecordName, header: &HeaderView<'_>, mut learn: impl FnMut(&RecordName)) {
    learn(name);
    for pointer in header.backpointers().rev() {
        learn(&pointer);
    }
}

fn read_head(reader: &mut Reader<'_>) -> Result<(u8, u16)> {
    let short = |_| Refusal::new(Code::BadProof, 0);
    let kind: u8 = reader.field().map_err(short)?;
    let count: u16 = reader.field().map_err(short)?;
    match kind {
        SIGNED | CACHED => Ok((kind, count)),
        _ => Err(Refusal::new(Code::BadProof, 0)),
    }
}

fn verified_before(
    kind: u8,
    rest: Reader<'_>,
    verified: &Verified,
    record: &RecordName,
) -> Result<Attribution> {
    if kind != CACHED || !rest.is_empty() {
        return Err(Refusal::new(Code::BadProof, HEAD_BYTES));
    }
    let attribution = verified.attribution(&record.0);
    attribution.ok_or_else(|| Refusal::new(Code::UnknownAnchor, HEAD_BYTES))
}

fn check_anchor(
    kind: u8,
    mut rest: Reader<'_>,
    writers: &impl Writers,
    verified: &Verified,
    (header, name): (&HeaderView<'_>, &RecordName),
) -> core::result::Result<(), Code> {
    if kind == SIGNED {
        let signature = Signature(rest.array().map_err(|_| Code::BadProof)?);
        rest.finish().map_err(|_| Code::BadProof)?;
        return writers.check(header, name, &signature);
    }
    rest.finish().map_err(|_| Code::BadProof)?;
    if verified.contains(&name.0) {
        Ok(())
    } else {
        Err(Code::UnknownAnchor)
    }
}

const _: () = assert!(HEAD_BYTES + MAX_HEADER_BYTES + 64 < MAX_PROOF_BYTES);
