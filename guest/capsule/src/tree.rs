//! The Merkle tree over a record's sub-records, with four children a node (DCS, section 4).
//!
//! Leaves are hashes of sub-records as they are stored. Each level puts four hashes after one another under a node; what is
//! left over at the end of a level forms a smaller node, and a single hash rises as it is. The tree's hash, to which the
//! header points, is of the number of leaves, what stands before the sub-records (see [`crate::seal`]), and the topmost node.

use alloc::vec::Vec;

use selfsame_codec::Code;

use crate::hash::{HASH_BYTES, Hasher};
use crate::refusal::{Refusal, Result};

/// Children of a node.
pub const FAN_OUT: usize = 4;
/// Most sub-records of a record.
pub const MAX_SUBRECORDS: usize = 1 << 16;
/// Levels above the leaves of the largest tree.
const MAX_LEVELS: usize = 8;

/// A hash of a tree
type Hash = [u8; HASH_BYTES];

/// The hashes of a whole tree, level by level: the leaves first
#[derive(Clone, Debug)]
pub struct Tree {
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// The tree over these leaves.
    ///
    /// # Errors
    /// [`Code::BadTree`] when there are none, [`Code::TooLarge`] when there are too many.
    pub fn new(hasher: &Hasher, leaves: Vec<Hash>) -> Result<Self> {
        check_count(leaves.len())?;
        let mut levels = alloc::vec![leaves];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            levels.push(level_above(hasher, below));
        }
        Ok(Self { levels })
    }

    /// The tree's hash.
    #[must_use]
    pub fn root(&self, hasher: &Hasher, preamble: &[u8]) -> Hash {
        let top = self.levels.last().and_then(|level| level.first());
        hasher.root(&whole(self.count(), preamble, top.unwrap_or(&[0; HASH_BYTES])))
    }

    /// How many leaves there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.levels[0].len()
    }

    /// Appends what proves a leaf, the last one if there are not so many: on each level the other hashes of its node, from the leaves
    /// up for so many levels, or to the top.
    pub fn path(&self, index: usize, levels: u8, out: &mut Vec<u8>) {
        let mut at = index.min(self.count() - 1);
        for level in self.levels.iter().take(usize::from(levels)) {
            let (first, len) = bounds(level.len(), at);
            for (place, hash) in level[first..first + len].iter().enumerate() {
                if first + place != at {
                    out.extend_from_slice(hash);
                }
            }
            at /= FAN_OUT;
        }
    }
}

/// Where a path ends
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// At the tree's hash.
    Root {
        /// The hash, of a header that is verified.
        root: Hash,
        /// What stands before the sub-records.
        preamble: &'a [u8],
    },
    /// At a node above the leaf, or at the leaf, that is verified to be there.
    Node {
        /// So many levels above the leaf.
        level: u32,
        /// Its hash.
        hash: Hash,
    },
}

/// That a leaf is in a tree, and the path that is to prove it
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// How many leaves the tree has, which a path to the tree's hash proves too.
    pub count: usize,
    /// Which leaf it is.
    pub index: usize,
    /// Its hash.
    pub leaf: Hash,
    /// The hashes of the path.
    pub path: &'a [Hash],
    /// Where the path ends.
    pub end: End<'a>,
}

/// The children of a node that a path went through
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The number of the claim.
    pub claim: usize,
    /// Which node's, as [`way_up`] counts.
    pub number: u32,
    /// Their hashes, zeros behind them if they are fewer.
    pub children: [Hash; FAN_OUT],
    len: usize,
}

/// What claims come to: the last node of the path of each, and the groups that paths went through
pub type Checked = (Vec<Result<Hash>>, Vec<Group>);

/// Checks claims, those of all on one level of their trees at a time. Gives the last node of each path, the topmost if it leads to
/// the tree's hash, or [`Code::BadTree`] with the number of the path's hash at which it ends too early or too late, or does not fit.
/// The groups are verified as those of their claims are.
#[must_use]
pub fn verify_each(hasher: &Hasher, claims: &[Claim<'_>]) -> Checked {
    let mut ways: Vec<Way> = claims.iter().map(Way::begin).collect();
    let mut groups: Vec<Group> = Vec::new();
    for level in 0..MAX_LEVELS as u32 {
        let first = groups.len();
        let mut is_end = true;
        for (number, (way, claim)) in ways.iter_mut().zip(claims).enumerate() {
            if !way.is_at_end(claim, level) {
                is_end = false;
                way.step(claim, number, &mut groups);
            }
        }
        if is_end {
            break;
        }
        for group in &groups[first..] {
            ways[group.claim].hash = hasher.node(group.children[..group.len].as_flattened());
        }
    }
    let end = |(way, claim): (&Way, &Claim<'_>)| {
        let (found, expected) = match claim.end {
            End::Root { root, preamble } => (hasher.root(&whole(claim.count, preamble, &way.hash)), root),
            End::Node { hash, .. } => (way.hash, hash),
        };
        way.end(claim, found == expected)
    };
    (ways.iter().zip(claims).map(end).collect(), groups)
}

/// How far the check of a claim came
#[derive(Clone, Copy, Debug)]
struct Way {
    at: usize,
    width: usize,
    /// How many nodes there are on the levels below.
    below: usize,
    hash: Hash,
    used: usize,
    /// Whether the path ended too early, or is of no leaf.
    is_broken: bool,
}

impl Way {
    fn begin(claim: &Claim<'_>) -> Self {
        Self {
            at: claim.index,
            width: claim.count,
            below: 0,
            hash: claim.leaf,
            used: 0,
            is_broken: claim.index >= claim.count || claim.count > MAX_SUBRECORDS,
        }
    }

    fn is_at_end(&self, claim: &Claim<'_>, now: u32) -> bool {
        self.is_broken || self.width == 1 || matches!(claim.end, End::Node { level, .. } if level <= now)
    }

    /// Goes up to the node above, whose hash follows from the children. A single one rises as it is.
    fn step(&mut self, claim: &Claim<'_>, number: usize, groups: &mut Vec<Group>) {
        let (first, len) = bounds(self.width, self.at);
        let Some(others) = claim.path.get(self.used..self.used + len - 1) else {
            self.is_broken = true;
            return;
        };
        let mut children = [[0; HASH_BYTES]; FAN_OUT];
        let mut others = others.iter();
        for (place, child) in children[..len].iter_mut().enumerate() {
            let own = first + place == self.at;
            *child = if own {
                self.hash
            } else {
                others.next().copied().unwrap_or_default()
            };
        }
        self.used += len - 1;
        self.at /= FAN_OUT;
        if len > 1 {
            groups.push(Group {
                claim: number,
                number: (self.below + self.at) as u32,
                children,
                len,
            });
        }
        self.width = self.width.div_ceil(FAN_OUT);
        self.below += self.width;
    }

    fn end(&self, claim: &Claim<'_>, is_that_hash: bool) -> Result<Hash> {
        if !self.is_broken && self.used == claim.path.len() && is_that_hash {
            Ok(self.hash)
        } else {
            Err(Refusal::new(Code::BadTree, self.used))
        }
    }
}

/// The nodes above a leaf from the lowest up, each with its number and which of its children leads to the leaf. Nodes are counted
/// level by level, the lowest first.
pub fn way_up(count: usize, index: usize) -> impl Iterator<Item = (u32, usize)> {
    let (mut at, mut width, mut below) = (index, count, 0);
    core::iter::from_fn(move || {
        if width <= 1 {
            return None;
        }
        let child = at % FAN_OUT;
        at /= FAN_OUT;
        let number = below + at;
        width = width.div_ceil(FAN_OUT);
        below += width;
        Some((number as u32, child))
    })
}

fn check_count(count: usize) -> Result<()> {
    match count {
        0 => Err(Refusal::new(Code::BadTree, 0)),
        1..=MAX_SUBRECORDS => Ok(()),
        _ => Err(Refusal::new(Code::TooLarge, MAX_SUBRECORDS)),
    }
}

/// The nodes over those of a level.
fn level_above(hasher: &Hasher, below: &[Hash]) -> Vec<Hash> {
    // Only the last node may have a single child.
    let (several, single) = match below.len() % FAN_OUT {
        1 => below.split_at(below.len() - 1),
        _ => (below, [].as_slice()),
    };
    let nodes = several
        .chunks(FAN_OUT)
        .map(|children| hasher.node(children.as_flattened()));
    nodes.chain(single.iter().copied()).collect()
}

/// What a tree's hash is of.
fn whole(count: usize, preamble: &[u8], top: &Hash) -> Vec<u8> {
    [&(count as u32).to_le_bytes(), preamble, top].concat()
}

/// Where the node that `at` belongs to begins on a level of `width` hashes, and how many children it has.
fn bounds(width: usize, at: usize) -> (usize, usize) {
    let first = at / FAN_OUT * FAN_OUT;
    (first, FAN_OUT.min(width - first))
}

const _: () = assert!(FAN_OUT.pow(MAX_LEVELS as u32) == MAX_SUBRECORDS);
