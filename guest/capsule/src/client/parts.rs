//! Whether sub-records that a server gave are those that were asked for: all of a response together.

use alloc::rc::Rc;
use alloc::vec::Vec;

use selfsame_codec::{Code, Reader};

use super::base::{Against, Asked, Base, Fault, Sent, outcome};
use super::command::Outline;
use super::judge::{Answer, Found, Given, Verdict, prove};
use super::reading::Want;
use super::trees::Tree;
use crate::hash::{HASH_BYTES, RecordName};
use crate::header::{HeaderView, RecordKind};
use crate::refusal::{Refusal, Result};
use crate::seal::{PREAMBLE_BYTES, open_parts};
use crate::tree::{Checked, Claim, End, verify_each};

/// What a record with sub-records begins with, as a server gave it
#[derive(Clone, Copy, Debug)]
pub(super) struct Trunk<'a> {
    header: HeaderView<'a>,
    count: u32,
    preamble: &'a [u8],
}

/// A sub-record as a server gave it, and its path
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    part: &'a [u8],
    path: &'a [[u8; HASH_BYTES]],
}

/// A record whose header is proven; its tree is as soon as one sub-record is
struct Fresh<'a> {
    trunk: Trunk<'a>,
    tree: Option<Rc<Tree>>,
}

/// Why a sub-record is not to be had from an answer
#[derive(Clone, Copy)]
struct Lack {
    refusal: Refusal,
    /// Whether the server says so.
    is_said: bool,
}

/// Of each answer the record that it begins with
type Trunks<'a> = Vec<core::result::Result<Fresh<'a>, Lack>>;

/// A sub-record that is to be verified
struct Case<'a> {
    /// Of which answer.
    place: usize,
    want: Want,
    part: &'a [u8],
    origin: Origin<'a>,
}

/// Where its tree comes from
enum Origin<'a> {
    /// From the answer at this place.
    Trunk(usize),
    /// It was known before.
    Known(&'a Rc<Tree>),
}

/// There is nothing of it in the answer.
const NOTHING: Lack = Lack {
    refusal: Refusal {
        code: Code::BadMessage,
        at: 0,
    },
    is_said: false,
};

impl Lack {
    fn said(refusal: Refusal) -> Self {
        Self {
            refusal,
            is_said: true,
        }
    }

    fn found(refusal: Refusal) -> Self {
        Self {
            refusal,
            is_said: false,
        }
    }
}

impl Lack {
    fn verdict<'a>(self) -> Verdict<'a> {
        let Self { refusal, is_said } = self;
        match (refusal.code, is_said) {
            (Code::TooLarge, true) => Verdict::Later,
            (Code::UnknownAnchor, false) => Verdict::Uncached,
            (Code::RevokedWriter, _) | (_, true) => Verdict::Refused(refusal),
            (_, false) => Verdict::False(refusal),
        }
    }
}

/// Reads what a record with sub-records begins with.
///
/// # Errors
/// Why it is none.
pub(super) fn read_trunk<'a>(reader: &mut Reader<'a>) -> core::result::Result<Result<Trunk<'a>>, Fault> {
    if let Err(refusal) = outcome(reader)? {
        return Ok(Err(refusal));
    }
    Ok(Ok(Trunk {
        header: HeaderView::read(reader).map_err(Fault::False)?,
        count: reader.field()?,
        preamble: reader.field()?,
    }))
}

/// Reads a sub-record.
///
/// # Errors
/// Why it is none.
pub(super) fn read_part<'a>(reader: &mut Reader<'a>) -> core::result::Result<Result<Part<'a>>, Fault> {
    if let Err(refusal) = outcome(reader)? {
        return Ok(Err(refusal));
    }
    let part = reader.field()?;
    let count: u16 = reader.field()?;
    let path = reader.take(usize::from(count) * HASH_BYTES)?;
    let (path, _) = path.as_chunks();
    Ok(Ok(Part { part, path }))
}

/// Verifies and opens the sub-records of a response.
///
/// # Errors
/// [`Code::NoCapsule`].
pub(super) fn judge_parts<'a>(
    base: &mut Base,
    sent: &Sent,
    asked: &[(Want, &Asked)],
    answers: &[Answer<'a>],
) -> Result<Vec<Verdict<'a>>> {
    let mut trunks = Vec::with_capacity(asked.len());
    for ((want, _), answer) in asked.iter().zip(answers) {
        trunks.push(prove_trunk(base, sent, &want.record(), answer));
    }
    let mut cases = Vec::with_capacity(asked.len());
    let mut claims = Vec::with_capacity(asked.len());
    // What is neither lacking nor forgotten is replaced below.
    let mut verdicts: Vec<Verdict<'_>> = asked.iter().map(|_| Verdict::Forgotten).collect();
    for (place, ((want, asked), answer)) in asked.iter().zip(answers).enumerate() {
        match claim(base, (place, *want), asked, answer, &trunks) {
            Ok((case, claim)) => {
                cases.push(case);
                claims.push(claim);
            }
            Err(Some(lack)) => verdicts[place] = lack.verdict(),
            Err(None) => {}
        }
    }
    let (tops, groups) = verify(base, &cases, &mut claims, &mut trunks)?;
    let each = cases.iter().zip(tops);
    let verified: Vec<_> = each
        .map(|(case, top)| top.and_then(|_| tree_of(case, &trunks)))
        .collect();
    for group in groups {
        if let Ok(tree) = verified[group.claim] {
            base.trees.learn(tree, group.number, group.children);
        }
    }
    let mut sealed = Vec::with_capacity(cases.len());
    for (case, tree) in cases.iter().zip(&verified) {
        if let Ok(Ok(Some(key))) = tree.as_ref().map(|tree| &tree.key) {
            sealed.push((key, case.want.index(), case.part));
        }
    }
    let mut opened = open_parts(&sealed).into_iter();
    for (case, tree) in cases.iter().zip(&verified) {
        verdicts[case.place] = match tree {
            Ok(tree) => {
                let content = match &tree.key {
                    Ok(None) => Ok(case.part.to_vec()),
                    Ok(Some(_)) => opened.next().unwrap_or(Err(NOTHING.refusal)),
                    Err(refusal) => Err(*refusal),
                };
                found(case, &trunks, content)
            }
            Err(refusal) => Verdict::False(*refusal),
        };
    }
    Ok(verdicts)
}

/// What was found, once it is verified.
fn found<'a>(case: &Case<'_>, trunks: &Trunks<'_>, content: Result<Vec<u8>>) -> Verdict<'a> {
    match (case.want, &trunks[case.place], content) {
        (Want::Tree(_), Ok(Fresh { trunk, .. }), first) => Verdict::Found(Found::Outline(Outline {
            header: trunk.header.to_header(),
            count: trunk.count,
            first,
        })),
        (_, _, Ok(content)) => Verdict::Found(Found::Part(content)),
        (_, _, Err(refusal)) => Verdict::Final(refusal),
    }
}

/// Verifies that the header in an answer is that of a proven record with sub-records.
fn prove_trunk<'a>(
    base: &mut Base,
    sent: &Sent,
    record: &RecordName,
    answer: &Answer<'a>,
) -> core::result::Result<Fresh<'a>, Lack> {
    let trunk = answer.trunk.ok_or(NOTHING)?.map_err(Lack::said)?;
    let proof = answer.proof.map_err(Lack::said)?;
    let hasher = base.trust().map_err(Lack::found)?.charter.hasher();
    if trunk.header.kind() != RecordKind::Tree || trunk.header.name(hasher) != *record {
        return Err(Lack::found(Refusal::new(Code::BadHeader, 0)));
    }
    if trunk.preamble.len() > PREAMBLE_BYTES {
        return Err(Lack::found(Refusal::new(Code::BadTree, 0)));
    }
    prove(base, sent, record, proof).map_err(Lack::found)?;
    base.sightings.note(record, &trunk.header);
    Ok(Fresh { trunk, tree: None })
}

/// What is to be verified of an answer. Nothing is lacking if what it builds on was forgotten since it was asked for.
fn claim<'a>(
    base: &Base,
    (place, want): (usize, Want),
    asked: &'a Asked,
    answer: &Answer<'a>,
    trunks: &Trunks<'a>,
) -> core::result::Result<(Case<'a>, Claim<'a>), Option<Lack>> {
    let (origin, count, end) = match asked.against.as_ref().ok_or(Some(NOTHING))? {
        Against::Node { tree, level, hash } => {
            let (level, hash) = (*level, *hash);
            let tree = Some(tree).filter(|tree| base.trees.holds(tree)).ok_or(None)?;
            (Origin::Known(tree), tree.count, End::Node { level, hash })
        }
        Against::Trunk(place) => {
            let place = *place;
            let Fresh { trunk, .. } = trunks[place].as_ref().map_err(|lack| Some(*lack))?;
            let (root, preamble) = (trunk.header.body(), trunk.preamble);
            (Origin::Trunk(place), trunk.count, End::Root { root, preamble })
        }
    };
    let given = match &answer.content {
        Ok(Some(Given::Part(given))) => given,
        Ok(_) => return Err(Some(NOTHING)),
        Err(refusal) => return Err(Some(Lack::said(*refusal))),
    };
    let case = Case {
        place,
        want,
        part: given.part,
        origin,
    };
    let claim = Claim {
        count: count as usize,
        index: want.index() as usize,
        leaf: [0; HASH_BYTES],
        path: given.path,
        end,
    };
    Ok((case, claim))
}

/// Verifies claims, and remembers the trees of records that were not known.
fn verify(
    base: &mut Base,
    cases: &[Case<'_>],
    claims: &mut [Claim<'_>],
    trunks: &mut Trunks<'_>,
) -> Result<Checked> {
    let parts: Vec<&[u8]> = cases.iter().map(|case| case.part).collect();
    let hasher = base.trust()?.charter.hasher();
    for (claim, leaf) in claims.iter_mut().zip(hasher.leaves(&parts)) {
        claim.leaf = leaf;
    }
    let (tops, groups) = verify_each(hasher, claims);
    for (case, top) in cases.iter().zip(&tops) {
        if let (Ok(top), Origin::Trunk(place)) = (top, &case.origin)
            && let Ok(fresh) = &mut trunks[*place]
        {
            fresh.grow(base, &case.want.record(), *top)?;
        }
    }
    Ok((tops, groups))
}

/// The tree of a sub-record that is verified.
fn tree_of<'t>(case: &Case<'t>, trunks: &'t Trunks<'_>) -> Result<&'t Rc<Tree>> {
    match case.origin {
        Origin::Known(tree) => Ok(tree),
        Origin::Trunk(place) => match &trunks[place] {
            Ok(fresh) => fresh.tree.as_ref().ok_or(NOTHING.refusal),
            Err(lack) => Err(lack.refusal),
        },
    }
}

impl Fresh<'_> {
    /// Remembers the tree, whose topmost node is verified, unless that was done before.
    fn grow(&mut self, base: &mut Base, record: &RecordName, top: [u8; HASH_BYTES]) -> Result<()> {
        if self.tree.is_some() {
            return Ok(());
        }
        let Trunk {
            header,
            count,
            preamble,
        } = &self.trunk;
        let key = base.trust()?.tree_key(base.identity.as_ref(), header, preamble);
        self.tree = Some(base.trees.insert(*record, (*count, top), key));
        Ok(())
    }
}
