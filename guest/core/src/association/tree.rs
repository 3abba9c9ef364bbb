//! The Merkle tree over what a publisher publishes, in the shape of RFC 6962, section 2.1.

use alloc::vec::Vec;

use selfsame_sodium::hash::hash_with;

use crate::identity::labelled_hash;

const LEAF: &str = "selfsame/1 association leaf";

/// The key under which inner nodes are hashed, each in one block: the hash of nothing for `selfsame/1 association node`.
const NODE_KEY: [u8; 32] = [
    0xde, 0xda, 0xb7, 0x56, 0x04, 0xa5, 0x06, 0xea, 0xfa, 0xa0, 0x8d, 0x75, 0xb3, 0xee, 0x47, 0x3c, 0xc7,
    0x17, 0x2c, 0x41, 0x8b, 0x96, 0xe1, 0x90, 0x98, 0x21, 0x06, 0xa9, 0x64, 0x8d, 0xe6, 0x0a,
];

/// Hash of a leaf's encoding.
pub(super) fn leaf_hash(leaf: &[u8]) -> [u8; 32] {
    labelled_hash(LEAF, &[leaf])
}

/// The largest power of two below `count`, which is at least 2: where RFC 6962 splits a tree.
fn split(count: usize) -> usize {
    count.next_power_of_two() / 2
}

/// Hash of an inner node. Both parts have one length, so it need not be hashed with them.
fn node_hash(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut both = [0; 64];
    both[..32].copy_from_slice(left);
    both[32..].copy_from_slice(right);
    hash_with(&NODE_KEY, &both)
}

/// Root of a tree that is not empty; appends to the path of each leaf its siblings on the way there, lowest first.
pub(super) fn root_and_paths(hashes: &[[u8; 32]], paths: &mut [Vec<[u8; 32]>]) -> [u8; 32] {
    if let [only] = hashes {
        return *only;
    }
    let middle = split(hashes.len());
    let (left, right) = hashes.split_at(middle);
    let (left_paths, right_paths) = paths.split_at_mut(middle);
    let left = root_and_paths(left, left_paths);
    let right = root_and_paths(right, right_paths);
    left_paths.iter_mut().for_each(|path| path.push(right));
    right_paths.iter_mut().for_each(|path| path.push(left));
    node_hash(&left, &right)
}

/// The root that a path claims, if it has the length that the leaf's place in the tree asks for.
pub(super) fn root_from_path(
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
        let hash = root_from_path(leaf, index, left, rest)?;
        Some(node_hash(&hash, sibling))
    } else {
        let hash = root_from_path(leaf, index - left, count - left, rest)?;
        Some(node_hash(sibling, &hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_cannot_stand_for_an_inner_node_nor_take_another_place() {
        let hashes = [leaf_hash(b"a"), leaf_hash(b"b"), leaf_hash(b"c")];
        let mut paths = [const { Vec::new() }; 3];
        let root = root_and_paths(&hashes, &mut paths);
        assert_eq!(root_from_path(hashes[2], 2, 3, &paths[2]), Some(root));
        assert_ne!(root_from_path(hashes[2], 0, 3, &paths[2]), Some(root));
        assert_eq!(root_from_path(hashes[2], 3, 3, &paths[2]), None);
        let inner = node_hash(&hashes[0], &hashes[1]);
        assert_ne!(leaf_hash(&[hashes[0], hashes[1]].concat()), inner);
    }

    #[test]
    fn the_key_of_inner_nodes_comes_from_their_label() {
        let derived = selfsame_sodium::hash::hash_for("selfsame/1 association node", &[]);
        assert_eq!(NODE_KEY, derived);
    }

    #[test]
    fn the_shape_is_that_of_rfc_6962() {
        let hashes: Vec<[u8; 32]> = (0..5).map(|n| leaf_hash(&[n])).collect();
        let left = node_hash(
            &node_hash(&hashes[0], &hashes[1]),
            &node_hash(&hashes[2], &hashes[3]),
        );
        let mut paths = [const { Vec::new() }; 5];
        assert_eq!(root_and_paths(&hashes, &mut paths), node_hash(&left, &hashes[4]));
        assert_eq!(paths[4], [left]);
        assert_eq!(
            paths[3],
            [hashes[2], node_hash(&hashes[0], &hashes[1]), hashes[4]]
        );
    }
}
