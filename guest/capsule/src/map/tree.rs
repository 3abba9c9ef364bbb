//! Reading a map's tree, as far as its nodes are known.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::command::Place;
use super::format::Version;
use super::node::Node;
use super::parts::Parts;
use crate::refusal::{Refusal, Result};

/// How many leaves are asked for at once where keys are read in a row.
const AHEAD: usize = 8;

/// What came of reading
#[derive(Debug)]
pub(super) enum Look<T> {
    /// This.
    Found(T),
    /// These sub-records have to be read first.
    Missing(Vec<Place>),
}

/// Where a tree begins
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) place: Place,
    /// Levels above the leaves.
    pub(super) height: u8,
    /// The clock of its index: no operation in it has a larger one, so that whatever follows the index comes after all of them.
    pub(super) clock: u64,
}

/// A leaf, and the first key that lies beyond it
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) entries: Vec<(Vec<u8>, Version)>,
    pub(super) next: Option<Vec<u8>>,
}

/// Goes down to the leaf that holds a key; `ahead` says that those after it are wanted too.
///
/// # Errors
/// [`Code::BadTree`] when a node does not fit where it stands.
pub(super) fn leaf_of(parts: &mut Parts, root: Root, key: &[u8], ahead: bool) -> Result<Look<Leaf>> {
    let (mut place, mut next) = (root.place, None);
    let mut low: Option<Vec<u8>> = None;
    for height in (0..=root.height).rev() {
        let Some(bytes) = parts.get(&place) else {
            return Ok(Look::Missing(Vec::from([place])));
        };
        let node = Node::decode(&bytes, height)?;
        check(&node, low.as_deref(), next.as_deref())?;
        node.check_clocks(root.clock)?;
        let children = match node {
            Node::Leaf(entries) => return Ok(Look::Found(Leaf { entries, next })),
            Node::Inner(_, children) => children,
        };
        let at = child_of(&children, key);
        let record = place.record;
        if height == 1 && ahead {
            let places = children[at..].iter().take(AHEAD);
            let places = places.map(|(_, child)| child.place(record));
            let missing: Vec<Place> = places.filter(|place| parts.get(place).is_none()).collect();
            if missing.contains(&children[at].1.place(record)) {
                return Ok(Look::Missing(missing));
            }
        }
        if at > 0 {
            low = Some(children[at].0.clone());
        }
        if let Some((after, _)) = children.get(at + 1) {
            next = Some(after.clone());
        }
        place = children[at].1.place(record);
    }
    Err(Refusal::new(Code::BadTree, 0))
}

/// The entry of a key.
///
/// # Errors
/// Those of [`leaf_of`].
pub(super) fn find(parts: &mut Parts, root: Root, key: &[u8]) -> Result<Look<Option<Version>>> {
    Ok(match leaf_of(parts, root, key, false)? {
        Look::Missing(missing) => Look::Missing(missing),
        Look::Found(Leaf { entries, .. }) => {
            let found = entries.binary_search_by(|(other, _)| other.as_slice().cmp(key));
            Look::Found(found.ok().map(|at| entries[at].1))
        }
    })
}

/// Which child holds a key: the last whose first key is not larger, or the first of all.
fn child_of<T>(children: &[(Vec<u8>, T)], key: &[u8]) -> usize {
    children
        .partition_point(|(first, _)| first.as_slice() <= key)
        .saturating_sub(1)
}

/// Checks that the keys of a node lie where its parent says.
fn check(node: &Node, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<()> {
    let (first, last) = match node {
        Node::Leaf(entries) => (entries.first().map(first_of), entries.last().map(first_of)),
        Node::Inner(_, children) => (children.first().map(first_of), children.last().map(first_of)),
    };
    let fits = low.is_none_or(|low| first.is_none_or(|first| first >= low))
        && high.is_none_or(|high| last.is_none_or(|last| last < high));
    if fits {
        Ok(())
    } else {
        Err(Refusal::new(Code::BadTree, 0))
    }
}

fn first_of<T>((key, _): &(Vec<u8>, T)) -> &[u8] {
    key
}
