//! The Merkle tree over a record's sub-records, with four children a node (DCS, section 4).
//!
//! Leaves are hashes of sub-records as they are stored. Each level puts four hashes after one another under a node; what is
//! left over at the end of a level forms a smaller node, and a single hash rises as it is. The tree's hash, to which the
//! header points, is of the number of leaves, what stands before the sub-records (see [`crate::seal`]), and the topmost node.

use alloc::vec::Vec;

use selfsame_codec::Code;

use crate::cache::Verified;
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
        root(hasher, self.count(), preamble, top.unwrap_or(&[0; HASH_BYTES]))
    }

    /// How many leaves there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.levels[0].len()
    }

    /// What proves a leaf: on each level the other hashes of its node, from the leaves up to the first node that `is_known`,
    /// or to the top.
    #[must_use]
    pub fn path(&self, index: usize, is_known: impl Fn(&Hash) -> bool) -> Vec<Hash> {
        let mut path = Vec::new();
        let mut at = index;
        for level in &self.levels {
            if level.len() == 1 || level.get(at).is_none_or(&is_known) {
                break;
            }
            path.extend(
                group(level, at)
                    .filter(|(place, _)| *place != at)
                    .map(|(_, hash)| *hash),
            );
            at /= FAN_OUT;
        }
        path
    }
}

/// Checks that a leaf is in the tree with this hash, as far as a node that is verified already, and returns what is verified
/// by that: the leaf and every hash of the path and the nodes above them.
///
/// # Errors
/// [`Code::BadTree`] with the number of the path's hash at which it ends too early or too late, or does not fit.
pub fn verify_path(
    hasher: &Hasher,
    whole: &Whole<'_>,
    index: usize,
    leaf: Hash,
    path: &[Hash],
    verified: &Verified,
) -> Result<Vec<Hash>> {
    check_count(whole.count)?;
    if index >= whole.count {
        return Err(Refusal::new(Code::BadTree, index));
    }
    let mut seen = Vec::with_capacity(1 + path.len() + MAX_LEVELS);
    seen.push(leaf);
    let (mut at, mut width, mut hash, mut used) = (index, whole.count, leaf, 0);
    while width > 1 {
        if used == path.len() && verified.contains(&hash) {
            return Ok(seen);
        }
        let (first, len) = bounds(width, at);
        let others = path
            .get(used..used + len - 1)
            .ok_or_else(|| Refusal::new(Code::BadTree, path.len()))?;
        used += others.len();
        seen.extend_from_slice(others);
        let (before, after) = others.split_at(at - first);
        let mut children = [[0; HASH_BYTES]; FAN_OUT];
        let joined = before.iter().chain(core::iter::once(&hash)).chain(after);
        for (place, child) in children.iter_mut().zip(joined) {
            *place = *child;
        }
        hash = parent(hasher, &children[..len]);
        seen.push(hash);
        at /= FAN_OUT;
        width = width.div_ceil(FAN_OUT);
    }
    if used == path.len() && root(hasher, whole.count, whole.preamble, &hash) == whole.root {
        Ok(seen)
    } else {
        Err(Refusal::new(Code::BadTree, used))
    }
}

/// What is known of a whole tree
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// The tree's hash, of a header that is verified.
    pub root: Hash,
    /// How many leaves it has.
    pub count: usize,
    /// What stands before the sub-records.
    pub preamble: &'a [u8],
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
    let several: Vec<&[u8]> = several
        .chunks(FAN_OUT)
        .map(|children| children.as_flattened())
        .collect();
    let mut above = hasher.nodes(&several);
    above.extend_from_slice(single);
    above
}

/// A single hash rises as it is.
fn parent(hasher: &Hasher, children: &[Hash]) -> Hash {
    match children {
        [only] => *only,
        several => hasher.node(several.as_flattened()),
    }
}

fn root(hasher: &Hasher, count: usize, preamble: &[u8], top: &Hash) -> Hash {
    let mut whole = Vec::with_capacity(4 + preamble.len() + HASH_BYTES);
    whole.extend_from_slice(&(count as u32).to_le_bytes());
    whole.extend_from_slice(preamble);
    whole.extend_from_slice(top);
    hasher.root(&whole)
}

/// Where the node that `at` belongs to begins on a level of `width` hashes, and how many children it has.
fn bounds(width: usize, at: usize) -> (usize, usize) {
    let first = at / FAN_OUT * FAN_OUT;
    (first, FAN_OUT.min(width - first))
}

/// The children of the node that `at` belongs to, with their places.
fn group(level: &[Hash], at: usize) -> impl Iterator<Item = (usize, &Hash)> {
    let (first, len) = bounds(level.len(), at);
    level[first..first + len]
        .iter()
        .enumerate()
        .map(move |(offset, hash)| (first + offset, hash))
}

const _: () = assert!(FAN_OUT.pow(MAX_LEVELS as u32) == MAX_SUBRECORDS);
