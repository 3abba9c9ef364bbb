//! Whether sub-records that a server gave are those that were asked for: all of a response together.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;

use bytes::Bytes;
use hashbrown::HashMap;
use selfsame_codec::{Code, Reader};

use super::base::{Against, Asked, Base, Fault, Sent, outcome};
use super::command::Outline;
use super::judge::{Found, Verdict, prove, read_proof};
use super::reading::Want;
use super::trees::Tree;
use crate::authorship::{Attribution, Authorship};
use crate::hash::{HASH_BYTES, RecordName};
use crate::header::{HeaderView, RecordKind};
use crate::refusal::{Refusal, Result};
use crate::seal::{PREAMBLE_BYTES, open_parts};
use crate::spread::{BuildSpread, first_word};
use crate::tree::{Claim, End, verify_each};

/// What a record with sub-records begins with, as a server gave it
#[derive(Clone, Copy, Debug)]
struct Trunk<'a> {
    header: HeaderView<'a>,
    count: u32,
    preamble: &'a [u8],
}

/// A sub-record as a server gave it, and its path
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    part: &'a [u8],
    path: &'a [[u8; HASH_BYTES]],
}

/// What a record begins with as a server gave it, and its proof if that was asked for
type Begun<'a> = (Result<Trunk<'a>>, Result<Option<&'a [u8]>>);

/// What a server gave of the sub-records that were asked for
#[derive(Debug)]
pub(super) struct Given<'a> {
    /// Each of them.
    parts: Vec<Result<Part<'a>>>,
    /// What some of their records begin with.
    trunks: Vec<Begun<'a>>,
}

/// A record whose header is proven; its tree is as soon as one sub-record is
struct Fresh<'a> {
    trunk: Trunk<'a>,
    authorship: Authorship,
    tree: Option<Rc<Tree>>,
}

/// Why a sub-record is not to be had from an answer
#[derive(Clone, Copy)]
struct Lack {
    refusal: Refusal,
    /// Whether the server says so.
    is_said: bool,
}

/// What records begin with
type Trunks<'a> = Vec<core::result::Result<Fresh<'a>, Lack>>;

/// A sub-record that is to be verified
struct Case<'a> {
    /// Of which item.
    place: usize,
    index: u32,
    given: Part<'a>,
    origin: Origin<'a>,
}

/// Where its tree comes from
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// From what its record begins with: which of those that were given.
    Trunk(usize),
    /// It was known before, with a node so many levels above the sub-record.
    Node {
        tree: &'a Rc<Tree>,
        level: u32,
        hash: &'a [u8; HASH_BYTES],
    },
}

/// What is to be verified, each once: what was written last is often asked for several times
#[derive(Default)]
struct Claims<'a> {
    all: Vec<Claim<'a>>,
    /// Their numbers by their leaves.
    numbers: HashMap<u64, u64, BuildSpread>,
}

impl<'a> Claims<'a> {
    /// Adds a claim unless the same is there; its number.
    fn add(&mut self, claim: Claim<'a>) -> usize {
        let leaf = first_word(&claim.leaf);
        if let Some(number) = self.numbers.get(&leaf)
            && self.all[*number as usize] == claim
        {
            return *number as usize;
        }
        let number = self.all.len();
        self.numbers.insert(leaf, number as u64);
        self.all.push(claim);
        number
    }
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

impl<'a> Given<'a> {
    /// Reads what was given for the items of a request.
    ///
    /// # Errors
    /// Why it is no answer.
    pub(super) fn read(
        asked: &[(Want, &Asked)],
        reader: &mut Reader<'a>,
    ) -> core::result::Result<Self, Fault> {
        let (mut parts, mut trunks) = (Vec::with_capacity(asked.len()), Vec::new());
        for (_, asked) in asked {
            if !asked.asks_trunk() {
                parts.push(read_part(reader)?);
                continue;
            }
            let trunk = read_trunk(reader)?;
            parts.push(read_part(reader)?);
            trunks.push((trunk, read_proof(asked, reader)?));
        }
        Ok(Self { parts, trunks })
    }
}

/// Reads what a record with sub-records begins with.
fn read_trunk<'a>(reader: &mut Reader<'a>) -> core::result::Result<Result<Trunk<'a>>, Fault> {
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
fn read_part<'a>(reader: &mut Reader<'a>) -> core::result::Result<Result<Part<'a>>, Fault> {
    if let Err(refusal) = outcome(reader)? {
        return Ok(Err(refusal));
    }
    let part = reader.field()?;
    let count: u16 = reader.field()?;
    let path = reader.take(usize::from(count) * HASH_BYTES)?;
    let (path, _) = path.as_chunks();
    Ok(Ok(Part { part, path }))
}

/// Verifies and opens the sub-records of a response, and tells `take` what each comes to, in their order.
///
/// # Errors
/// [`Code::NoCapsule`].
pub(super) fn judge_parts<'a>(
    base: &mut Base,
    sent: &Sent,
    asked: &[(Want, &Asked)],
    given: &Given<'_>,
    take: &mut dyn FnMut(usize, Verdict<'a>),
) -> Result<()> {
    let mut trunks = prove_trunks(base, sent, asked, &given.trunks);
    let (mut cases, mut lacking) = (Vec::with_capacity(asked.len()), Vec::new());
    for (place, ((want, asked), part)) in asked.iter().zip(&given.parts).enumerate() {
        match case(base, (place, want.index()), asked, part, &trunks) {
            Ok(case) => cases.push(case),
            Err(lack) => lacking.push((place, lack.map_or(Verdict::Forgotten, Lack::verdict))),
        }
    }
    let verified = verify(base, asked, &cases, &mut trunks)?;
    let tree = |number: usize| verified[number].and_then(|()| tree_of(&cases[number], &trunks));
    let mut sealed = Vec::with_capacity(cases.len());
    for (number, case) in cases.iter().enumerate() {
        if let Ok(Ok(Some(key))) = tree(number).map(|tree| &tree.key) {
            sealed.push((key, case.index, case.given.part));
        }
    }
    let mut memory = Vec::new();
    let opened = open_parts(&sealed, &mut memory);
    let memory = Bytes::from(memory);
    let mut opened = opened
        .into_iter()
        .map(|place| place.map(|place| memory.slice(place)));
    let mut lacking = lacking.into_iter().peekable();
    for (number, case) in cases.iter().enumerate() {
        while let Some((place, verdict)) = lacking.next_if(|(place, _)| *place < case.place) {
            take(place, verdict);
        }
        let verdict = match tree(number) {
            Ok(tree) => {
                let content = match &tree.key {
                    Ok(None) => Ok(Bytes::copy_from_slice(case.given.part)),
                    Ok(Some(_)) => opened.next().unwrap_or(Err(NOTHING.refusal)),
                    Err(refusal) => Err(*refusal),
                };
                found(&asked[case.place].0, case, &trunks, content)
            }
            Err(refusal) => Verdict::False(refusal),
        };
        take(case.place, verdict);
    }
    lacking.for_each(|(place, verdict)| take(place, verdict));
    Ok(())
}

/// What was found, once it is verified.
fn found<'a>(want: &Want, case: &Case<'_>, trunks: &Trunks<'_>, content: Result<Bytes>) -> Verdict<'a> {
    match (want, case.origin, content) {
        (Want::Tree(_), Origin::Trunk(number), first)
            if let Ok(Fresh {
                trunk, authorship, ..
            }) = &trunks[number] =>
        {
            Verdict::Found(Found::Outline(Box::new(Outline {
                header: trunk.header.to_header(),
                authorship: *authorship,
                count: trunk.count,
                first,
            })))
        }
        (_, _, Ok(content)) => Verdict::Found(Found::Part(content)),
        (_, _, Err(refusal)) => Verdict::Final(refusal),
    }
}

/// Verifies what records begin with.
fn prove_trunks<'a>(
    base: &mut Base,
    sent: &Sent,
    asked: &[(Want, &Asked)],
    begun: &[Begun<'a>],
) -> Trunks<'a> {
    let asking = asked.iter().filter(|(_, asked)| asked.asks_trunk());
    asking
        .zip(begun)
        .map(|((want, asked), begun)| prove_trunk(base, sent, (&want.record(), asked.known), *begun))
        .collect()
}

/// Verifies that the header that was given is that of a proven record with sub-records.
fn prove_trunk<'a>(
    base: &mut Base,
    sent: &Sent,
    (record, known): (&RecordName, Option<Attribution>),
    (trunk, proof): Begun<'a>,
) -> core::result::Result<Fresh<'a>, Lack> {
    let (trunk, proof) = (trunk.map_err(Lack::said)?, proof.map_err(Lack::said)?);
    let name = trunk
        .header
        .name(base.trust().map_err(Lack::found)?.charter.hasher());
    if trunk.header.kind() != RecordKind::Tree || name != *record {
        return Err(Lack::found(Refusal::new(Code::BadHeader, 0)));
    }
    if trunk.preamble.len() > PREAMBLE_BYTES {
        return Err(Lack::found(Refusal::new(Code::BadTree, 0)));
    }
    let attribution = prove(base, sent, record, (proof, known)).map_err(Lack::found)?;
    let authorship = attribution.authorship(&trunk.header);
    base.note(record, &trunk.header, authorship);
    Ok(Fresh {
        trunk,
        authorship,
        tree: None,
    })
}

/// What is to be verified of an item. Nothing is lacking if what it builds on was forgotten since it was asked for.
fn case<'a>(
    base: &Base,
    (place, index): (usize, u32),
    asked: &'a Asked,
    given: &Result<Part<'a>>,
    trunks: &Trunks<'_>,
) -> core::result::Result<Case<'a>, Option<Lack>> {
    let origin = match asked.against.as_ref().ok_or(Some(NOTHING))? {
        Against::Node { tree, level, hash } => {
            let tree = Some(tree).filter(|tree| base.trees.holds(tree)).ok_or(None)?;
            let level = *level;
            Origin::Node { tree, level, hash }
        }
        Against::Trunk { number, .. } => {
            trunks[*number].as_ref().map_err(|lack| Some(*lack))?;
            Origin::Trunk(*number)
        }
    };
    Ok(Case {
        place,
        index,
        given: given.map_err(|refusal| Some(Lack::said(refusal)))?,
        origin,
    })
}

/// Verifies sub-records, and remembers what is new of their trees.
fn verify(
    base: &mut Base,
    asked: &[(Want, &Asked)],
    cases: &[Case<'_>],
    trunks: &mut Trunks<'_>,
) -> Result<Vec<Result<()>>> {
    let hasher = base.trust()?.charter.hasher();
    let (mut verified, mut claiming) = (Vec::with_capacity(cases.len()), Vec::new());
    let mut claims = Claims::default();
    for (number, case) in cases.iter().enumerate() {
        let leaf = hasher.leaf(case.given.part);
        verified.push(Ok(()));
        // Most were read before.
        if !case.is_known(&leaf) {
            claiming.push((number, claims.add(case.claim(leaf, trunks)?)));
        }
    }
    let (tops, groups) = verify_each(hasher, &claims.all);
    let mut cases_of = alloc::vec![0; claims.all.len()];
    for (number, claim) in claiming {
        let case = &cases[number];
        cases_of[claim] = number;
        match (tops[claim], case.origin) {
            (Err(refusal), _) => verified[number] = Err(refusal),
            (Ok(top), Origin::Trunk(trunk)) => {
                if let Ok(fresh) = &mut trunks[trunk] {
                    fresh.grow(base, &asked[case.place].0.record(), top)?;
                }
            }
            (Ok(_), Origin::Node { .. }) => {}
        }
    }
    for group in groups {
        let number = cases_of[group.claim];
        if verified[number].is_ok() {
            let tree = tree_of(&cases[number], trunks)?;
            base.trees.learn(tree, group.number, group.children);
        }
    }
    Ok(verified)
}

/// The tree of a sub-record that is verified.
fn tree_of<'t>(case: &Case<'t>, trunks: &'t Trunks<'_>) -> Result<&'t Rc<Tree>> {
    match case.origin {
        Origin::Node { tree, .. } => Ok(tree),
        Origin::Trunk(number) => match &trunks[number] {
            Ok(fresh) => fresh.tree.as_ref().ok_or(NOTHING.refusal),
            Err(lack) => Err(lack.refusal),
        },
    }
}

impl<'a> Case<'a> {
    /// Whether the sub-record with this hash was verified before.
    fn is_known(&self, leaf: &[u8; HASH_BYTES]) -> bool {
        self.given.path.is_empty()
            && matches!(self.origin, Origin::Node { level: 0, hash, .. } if hash == leaf)
    }

    /// That it is in its tree.
    fn claim(&self, leaf: [u8; HASH_BYTES], trunks: &Trunks<'a>) -> Result<Claim<'a>> {
        let (count, end) = match self.origin {
            Origin::Node { tree, level, hash } => (tree.count, End::Node { level, hash: *hash }),
            Origin::Trunk(number) => {
                let Fresh { trunk, .. } = trunks[number].as_ref().map_err(|lack| lack.refusal)?;
                let (root, preamble) = (trunk.header.body(), trunk.preamble);
                (trunk.count, End::Root { root, preamble })
            }
        };
        Ok(Claim {
            count: count as usize,
            index: self.index as usize,
            leaf,
            path: self.given.path,
            end,
        })
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
