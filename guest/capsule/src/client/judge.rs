//! Whether what a server gave is what was asked for.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::{Code, Reader};

use super::base::{Asked, Base, Fault, Sent, outcome};
use super::command::{Got, Outline};
use super::reading::Want;
use crate::authority::Evidence;
use crate::authorship::{Attribution, Authorship};
use crate::cache::Verified;
use crate::hash::RecordName;
use crate::proof::Prover;
use crate::record::Record;
use crate::refusal::{Refusal, Result};

/// What was found
#[derive(Debug)]
pub(super) enum Found {
    Record(Got),
    Outline(Box<Outline>),
    Part(Bytes),
    Evidence(Evidence, Vec<u8>, Authorship),
}

/// What an answer comes to
#[derive(Debug)]
pub(super) enum Verdict<'a> {
    /// It is true.
    Found(Found),
    /// It is the record, and proven; what it holds is yet to be opened.
    Proven(Record<'a>, Authorship),
    /// It is true, and yet it cannot be used: nobody else's answer can.
    Final(Refusal),
    /// The server does not have it.
    Refused(Refusal),
    /// No honest server gives it.
    False(Refusal),
    /// Its proof builds on what is not known here.
    Uncached,
    /// It did not fit in the response with the others.
    Later,
    /// It builds on what was forgotten while it was under way.
    Forgotten,
}

impl Verdict<'_> {
    /// Whether it is a record that its writer is not shown to have signed.
    pub(super) fn is_vouched(&self) -> bool {
        let authorship = match self {
            Self::Proven(_, authorship) => *authorship,
            Self::Found(Found::Outline(outline)) => outline.authorship,
            _ => return false,
        };
        !authorship.is_signed()
    }
}

/// What a server gave for one item
#[derive(Debug)]
pub(super) struct Answer<'a> {
    record: Result<Record<'a>>,
    proof: Result<Option<&'a [u8]>>,
}

impl<'a> Answer<'a> {
    /// Reads the results of the operations of an item.
    ///
    /// # Errors
    /// Why they are none.
    pub(super) fn read(asked: &Asked, reader: &mut Reader<'a>) -> core::result::Result<Self, Fault> {
        Ok(Self {
            record: read_record(reader)?,
            proof: read_proof(asked, reader)?,
        })
    }
}

/// Reads a record.
fn read_record<'a>(reader: &mut Reader<'a>) -> core::result::Result<Result<Record<'a>>, Fault> {
    Ok(match outcome(reader)? {
        Ok(()) => Ok(Record::read(reader).map_err(Fault::False)?),
        Err(refusal) => Err(refusal),
    })
}

/// Reads a proof, if one was asked for.
///
/// # Errors
/// Why it is none.
pub(super) fn read_proof<'a>(
    asked: &Asked,
    reader: &mut Reader<'a>,
) -> core::result::Result<Result<Option<&'a [u8]>>, Fault> {
    Ok(match asked.proves {
        false => Ok(None),
        true => match outcome(reader)? {
            Ok(()) => Ok(Some(reader.field()?)),
            Err(refusal) => Err(refusal),
        },
    })
}

/// Verifies an answer.
pub(super) fn judge<'a>(
    base: &mut Base,
    sent: &Sent,
    (want, asked): (Want, &Asked),
    answer: &Answer<'a>,
) -> Verdict<'a> {
    let known = asked.known;
    let verdict = match (want, &answer.record, &answer.proof) {
        (_, Err(refusal), _) if refusal.code == Code::TooLarge => return Verdict::Later,
        (_, Err(refusal), _) | (_, _, Err(refusal)) => return Verdict::Refused(*refusal),
        (Want::Evidence(name) | Want::Signed(name), Ok(record), Ok(Some(proof))) => {
            check(base, record, &name).and_then(|()| judge_evidence(base, (want, &name), record, proof))
        }
        (Want::Record(name), Ok(record), Ok(proof)) => {
            let proof = (*proof, known);
            check(base, record, &name).and_then(|()| judge_record(base, sent, &name, record, proof))
        }
        _ => Err(Refusal::new(Code::BadMessage, 0)),
    };
    verdict.unwrap_or_else(|refusal| match refusal.code {
        Code::UnknownAnchor => Verdict::Uncached,
        Code::RevokedWriter => Verdict::Refused(refusal),
        _ => Verdict::False(refusal),
    })
}

/// Verifies that a record is proven, and says who answers for it; without a proof it was verified before it was asked for, and
/// what was known then is given.
pub(super) fn prove(
    base: &mut Base,
    sent: &Sent,
    name: &RecordName,
    (proof, known): (Option<&[u8]>, Option<Attribution>),
) -> Result<Attribution> {
    let Some(proof) = proof else {
        // A cache that has given its place away since does not make it less true; a revocation may.
        let known = known.filter(|_| base.epochs() == sent.epochs);
        let known = known.into_iter().chain(base.attribution(name));
        let known = known.reduce(Attribution::or_better);
        return known.ok_or_else(|| Refusal::new(Code::UnknownAnchor, 0));
    };
    let Some(trust) = &base.trust else {
        return Err(Refusal::new(Code::NoCapsule, 0));
    };
    let cache = base.servers[sent.server].cache();
    base.prover
        .verify(trust.charter.hasher(), trust, cache, name, proof)
}

/// Checks that the record that was given is the one with this name.
fn check(base: &Base, record: &Record<'_>, name: &RecordName) -> Result<()> {
    let trust = base.trust()?;
    if record.check(trust.charter.hasher(), trust.is_sealed())? == *name {
        Ok(())
    } else {
        Err(Refusal::new(Code::BadHeader, 0))
    }
}

fn judge_record<'a>(
    base: &mut Base,
    sent: &Sent,
    name: &RecordName,
    record: &Record<'a>,
    proof: (Option<&[u8]>, Option<Attribution>),
) -> Result<Verdict<'a>> {
    let attribution = prove(base, sent, name, proof)?;
    Ok(Verdict::Proven(*record, attribution.authorship(&record.header)))
}

fn judge_evidence<'a>(
    base: &Base,
    (want, name): (Want, &RecordName),
    record: &Record<'_>,
    proof: &[u8],
) -> Result<Verdict<'a>> {
    let trust = base.trust()?;
    let mut nothing = Verified::new(0);
    let attribution = Prover::default().verify(
        trust.charter.hasher(),
        &trust.authority,
        &mut nothing,
        name,
        proof,
    )?;
    let authorship = attribution.authorship(&record.header);
    if matches!(want, Want::Signed(_)) && !authorship.is_signed() {
        // Another server may have what the writer has signed.
        return Ok(Verdict::Refused(Refusal::new(Code::BadFork, 0)));
    }
    let evidence = Evidence {
        header: record.header.encoded().to_vec(),
        proof: proof.to_vec(),
    };
    Ok(Verdict::Found(Found::Evidence(
        evidence,
        record.body.to_vec(),
        authorship,
    )))
}

pub(super) fn unexpected() -> Refusal {
    Refusal::new(Code::BadMessage, 0)
}

pub(super) fn record(found: Found) -> Result<Got> {
    match found {
        Found::Record(got) => Ok(got),
        _ => Err(unexpected()),
    }
}

pub(super) fn outline(found: Found) -> Result<Outline> {
    match found {
        Found::Outline(outline) => Ok(*outline),
        _ => Err(unexpected()),
    }
}

pub(super) fn part(found: Found) -> Result<Bytes> {
    match found {
        Found::Part(part) => Ok(part),
        _ => Err(unexpected()),
    }
}

pub(super) fn evidence(outcome: Option<Result<Found>>) -> Result<(Evidence, Vec<u8>, Authorship)> {
    match outcome {
        Some(Ok(Found::Evidence(evidence, body, authorship))) => Ok((evidence, body, authorship)),
        Some(Err(refusal)) => Err(refusal),
        _ => Err(unexpected()),
    }
}
