//! The Merkle tree over what a publisher publishes, in the shape of RFC 6962, section 2.1.

use alloc::vec::Vec;

use selfsame_sodium::hash::{hash_for, hash_with};

use crate::identity::labelled_hash;

const LEAF: &str = "selfsame/1 association leaf";
const NODE: &str = "selfsame/1 association node";

/// Hash of a leaf's encoding.
pub(super) fn leaf_hash(leaf: &[u8]) -> [u8; 32] {
    labelled_hash(LEAF, &[leaf])
}

/// Hashes inner nodes, under a key that tells them from all else
pub(super) struct Tree {
    key: [u8; 32],
}

/// The largest power of two below `count`, which is at least 2: where RFC 6962 splits a tree.
fn split(count: usize) -> usize {
    count.next_power_of_two() / 2
}

impl Tree {
    /// With the key of inner nodes: it is derived once, and each of them takes one block.
    pub(super) fn new() -> Self {
        Self {
            key: hash_for(NODE, &[]),
        }
    }

    /// Hash of an inner node. Both parts have one length, so it need not be hashed with them.
    fn node_hash(&self, left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
        let mut both = [0; 64];
        both[..32].copy_from_slice(left);
        both[32..].copy_from_slice(right);
        hash_with(&self.key, &both)
    }

    /// Root of a tree that is not empty; appends to the path of each leaf its siblings on the way there, lowest first.
    pub(super) fn root_and_paths(&self, hashes: &[[u8; 32]], paths: &mut [Vec<[u8; 32]>]) -> [u8; 32] {
        if let [only] = hashes {
            return *only;
        }
        let middle = split(hashes.len());
        let (left, right) = hashes.split_at(middle);
        let (left_paths, right_paths) = paths.split_at_mut(middle);
        let left = self.root_and_paths(left, left_paths);
        let right = self.root_and_paths(right, right_paths);
        left_paths.iter_mut().for_each(|path| path.push(right));
        right_paths.iter_mut().for_each(|path| path.push(left));
        self.node_hash(&left, &right)
    }

    /// The root that a path claims, if it has the length that the leaf's place in the tree asks for.
    pub(super) fn root_from_path(
        &self,
        leaf: [u8; 32],
        index: usize,
        count: usize,
        path: &[[u8; 32]],
    ) -> Option<[u8; 32]> {
        if index >= count {
            return None;
        }
        if count == 1 {
            return path.is_empty().then_some(leaf);
        }
        let (sibling, rest) = path.split_last()?;
        let left = split(count);
        if index < left {
            let hash = self.root_from_path(leaf, index, left, rest)?;
            Some(self.node_hash(&hash, sibling))
        } else {
            let hash = self.root_from_path(leaf, index - left, count - left, rest)?;
            Some(self.node_hash(sibling, &hash))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_cannot_stand_for_an_inner_node_nor_take_another_place() {
        let hashes = [leaf_hash(b"a"), leaf_hash(b"b"), leaf_hash(b"c")];
        let mut paths = [const { Vec::new() }; 3];
        let tree = Tree::new();
        let root = tree.root_and_paths(&hashes, &mut paths);
        assert_eq!(tree.root_from_path(hashes[2], 2, 3, &paths[2]), Some(root));
        assert_ne!(tree.root_from_path(hashes[2], 0, 3, &paths[2]), Some(root));
        assert_eq!(tree.root_from_path(hashes[2], 3, 3, &paths[2]), None);
        let inner = tree.node_hash(&hashes[0], &hashes[1]);
        assert_ne!(leaf_hash(&[hashes[0], hashes[1]].concat()), inner);
    }

    #[test]
    fn the_shape_is_that_of_rfc_6962() {
        let tree = Tree::new();
        let hashes: Vec<[u8; 32]> = (0..5).map(|n| leaf_hash(&[n])).collect();
        let left = tree.node_hash(
            &tree.node_hash(&hashes[0], &hashes[1]),
            &tree.node_hash(&hashes[2], &hashes[3]),
        );
        let mut paths = [const { Vec::new() }; 5];
        assert_eq!(
            tree.root_and_paths(&hashes, &mut paths),
            tree.node_hash(&left, &hashes[4])
        );
        assert_eq!(paths[4], [left]);
        assert_eq!(
            paths[3],
            [hashes[2], tree.node_hash(&hashes[0], &hashes[1]), hashes[4]]
        );
    }
}
