//! Sub-records: each is proven against its record's tree (DCS, section 4).

use std::collections::BTreeMap;

use crate::common::{charter, charter_of, owner, view, writer};
use selfsame_capsule::hash::{HashKind, Hasher};
use selfsame_capsule::message::TO_THE_TOP;
use selfsame_capsule::metadata::Readers;
use selfsame_capsule::record::{Record, TreeBody};
use selfsame_capsule::tree::{Claim, End, FAN_OUT, MAX_SUBRECORDS, Tree, verify_each, way_up};
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Code;

fn leaves(hasher: &Hasher, count: usize) -> Vec<[u8; 32]> {
    (0..count as u32)
        .map(|index| hasher.leaf(&index.to_le_bytes()))
        .collect()
}

/// The children of nodes by the nodes' numbers
type Nodes = BTreeMap<u32, [[u8; 32]; FAN_OUT]>;

const PREAMBLE: &[u8] = b"preamble";

fn path(tree: &Tree, index: usize, levels: u8) -> Vec<[u8; 32]> {
    let mut path = Vec::new();
    tree.path(index, levels, &mut path);
    path.as_chunks().0.to_vec()
}

/// The path of a leaf to its tree's hash.
fn whole<'a>(hasher: &Hasher, tree: &Tree, index: usize, leaf: [u8; 32], path: &'a [[u8; 32]]) -> Claim<'a> {
    let root = tree.root(hasher, PREAMBLE);
    Claim {
        count: tree.count(),
        index,
        leaf,
        path,
        end: End::Root {
            root,
            preamble: PREAMBLE,
        },
    }
}

fn is_right(hasher: &Hasher, claim: Claim<'_>) -> bool {
    let (results, _) = verify_each(hasher, &[claim]);
    if let Err(refusal) = results[0] {
        assert_eq!(refusal.code, Code::BadTree);
    }
    results[0].is_ok()
}

#[test]
fn every_leaf_of_a_tree_of_any_size_is_proven_and_only_at_its_place() {
    let charter = charter();
    let hasher = charter.hasher();
    for count in 1..=70 {
        let leaves = leaves(hasher, count);
        let tree = Tree::new(hasher, leaves.clone()).expect("it has leaves");
        for (index, leaf) in leaves.iter().enumerate() {
            let path = path(&tree, index, TO_THE_TOP);
            assert!(path.len() <= 4 * (FAN_OUT - 1));
            let right = whole(hasher, &tree, index, *leaf, &path);
            assert!(is_right(hasher, right));
            for other in (0..count).filter(|other| *other != index) {
                let index = other;
                let wrong = is_right(hasher, Claim { index, ..right });
                assert!(!wrong, "leaf {index} of {count} at {other}");
            }
            let leaf = hasher.leaf(b"x");
            assert!(!is_right(hasher, Claim { leaf, ..right }));
            let longer = [path.as_slice(), &[[0; 32]]].concat();
            assert!(!is_right(
                hasher,
                Claim {
                    path: &longer,
                    ..right
                }
            ));
            if let Some((_, shorter)) = path.split_last() {
                assert!(!is_right(
                    hasher,
                    Claim {
                        path: shorter,
                        ..right
                    }
                ));
            }
            if let Some((_, shorter)) = path.split_first() {
                assert!(!is_right(
                    hasher,
                    Claim {
                        path: shorter,
                        ..right
                    }
                ));
            }
        }
    }
}

#[test]
fn a_tree_stands_for_its_number_of_leaves_and_its_preamble() {
    let charter = charter();
    let hasher = charter.hasher();
    let leaves = leaves(hasher, 9);
    let tree = Tree::new(hasher, leaves.clone()).expect("it has leaves");
    let path = path(&tree, 8, TO_THE_TOP);
    let right = whole(hasher, &tree, 8, leaves[8], &path);
    assert!(is_right(hasher, right));
    let root = tree.root(hasher, PREAMBLE);
    let preamble = b"two";
    let end = End::Root { root, preamble };
    assert!(!is_right(hasher, Claim { end, ..right }));
    for count in (0..40).chain([MAX_SUBRECORDS + 1]).filter(|count| *count != 9) {
        let (results, _) = verify_each(hasher, &[Claim { count, ..right }]);
        assert!(results[0].is_err(), "{count} leaves");
    }
}

/// The nodes of a tree that all of its paths go through, as a reader learns them.
fn learn(hasher: &Hasher, tree: &Tree, leaves: &[[u8; 32]]) -> Nodes {
    let paths: Vec<_> = (0..leaves.len())
        .map(|index| path(tree, index, TO_THE_TOP))
        .collect();
    let claims: Vec<Claim<'_>> = paths
        .iter()
        .enumerate()
        .map(|(index, path)| whole(hasher, tree, index, leaves[index], path))
        .collect();
    let (results, groups) = verify_each(hasher, &claims);
    assert!(
        results
            .iter()
            .all(|result| result == &results[0] && result.is_ok())
    );
    groups
        .into_iter()
        .map(|group| (group.number, group.children))
        .collect()
}

/// The node so many levels above a leaf, of those that were learned.
fn node(nodes: &Nodes, (count, index): (usize, usize), level: usize) -> Option<[u8; 32]> {
    let (number, child) = way_up(count, index).nth(level)?;
    Some(nodes.get(&number)?[child])
}

#[test]
fn a_path_ends_at_a_node_that_is_verified_already_and_fits_nowhere_else() {
    let charter = charter();
    let hasher = charter.hasher();
    for count in [2, 5, 17, 64, 70] {
        let leaves = leaves(hasher, count);
        let tree = Tree::new(hasher, leaves.clone()).expect("it has leaves");
        let nodes = learn(hasher, &tree, &leaves);
        for index in 0..count {
            for (level, (number, child)) in (0..).zip(way_up(count, index)) {
                // A single hash rises as it is, and is no group.
                let Some(hash) = nodes.get(&number).map(|children| children[child]) else {
                    continue;
                };
                let path = path(&tree, index, level as u8);
                let right = Claim {
                    end: End::Node { level, hash },
                    ..whole(hasher, &tree, index, leaves[index], &path)
                };
                assert!(is_right(hasher, right), "leaf {index} of {count}, level {level}");
                let leaf = hasher.leaf(b"x");
                assert!(!is_right(hasher, Claim { leaf, ..right }));
                let longer = [path.as_slice(), &[[0; 32]]].concat();
                assert!(!is_right(
                    hasher,
                    Claim {
                        path: &longer,
                        ..right
                    }
                ));
                if let Some((_, shorter)) = path.split_last() {
                    assert!(!is_right(
                        hasher,
                        Claim {
                            path: shorter,
                            ..right
                        }
                    ));
                }
                splice(hasher, right, (&leaves, &nodes));
            }
        }
    }
}

/// What is verified at one place proves nothing at another: neither other leaves nor other levels.
fn splice(hasher: &Hasher, right: Claim<'_>, (leaves, nodes): (&[[u8; 32]], &Nodes)) {
    let End::Node { level, .. } = right.end else {
        panic!("it ends at a node");
    };
    for other in (0..leaves.len()).filter(|other| *other != right.index) {
        let wrong = Claim {
            leaf: leaves[other],
            ..right
        };
        assert!(!is_right(hasher, wrong), "leaf {other} at {}", right.index);
        // Of another leaf's place, even beside this one, what is known there is another hash or needs another path.
        let known = node(nodes, (leaves.len(), other), level as usize);
        if let Some(hash) = known {
            let wrong = Claim {
                index: other,
                end: End::Node { level, hash },
                ..right
            };
            assert!(!is_right(hasher, wrong), "leaf {} at {other}", right.index);
        }
    }
    for other in (0..4).filter(|other| *other != level) {
        let Some(hash) = node(nodes, (leaves.len(), right.index), other as usize) else {
            continue;
        };
        let end = End::Node { level: other, hash };
        assert!(!is_right(hasher, Claim { end, ..right }) || right.path.is_empty());
    }
}

#[test]
fn claims_that_are_wrong_disturb_no_others() {
    let charter = charter();
    let hasher = charter.hasher();
    let trees: Vec<(Tree, Vec<[u8; 32]>)> = [1, 3, 16, 40, 70]
        .map(|count| {
            let leaves: Vec<_> = (0..count)
                .map(|index: u32| hasher.leaf(&[count.to_le_bytes(), index.to_le_bytes()].concat()))
                .collect();
            (Tree::new(hasher, leaves.clone()).expect("it has leaves"), leaves)
        })
        .into();
    let all = || {
        trees
            .iter()
            .flat_map(|(tree, leaves)| (0..leaves.len()).map(move |index| (tree, leaves, index)))
    };
    let paths: Vec<_> = all()
        .map(|(tree, _, index)| path(tree, index, TO_THE_TOP))
        .collect();
    let claims: Vec<Claim<'_>> = all()
        .zip(&paths)
        .map(|((tree, leaves, index), path)| whole(hasher, tree, index, leaves[index], path))
        .collect();
    let (results, _) = verify_each(hasher, &claims);
    assert!(results.iter().all(Result::is_ok));
    // The path, the leaf or the tree's hash of another, now and then.
    let mut mixed = claims.clone();
    for index in (0..claims.len()).step_by(3) {
        let other = claims[(index * 7 + 1) % claims.len()];
        match index % 4 {
            0 => mixed[index].path = other.path,
            1 => mixed[index].leaf = other.leaf,
            2 => mixed[index].end = other.end,
            _ => mixed[index].index = other.index,
        }
    }
    let (results, _) = verify_each(hasher, &mixed);
    for (index, result) in results.iter().enumerate() {
        let is_same = format!("{:?}", mixed[index]) == format!("{:?}", claims[index]);
        assert_eq!(result.is_ok(), is_same, "claim {index}");
    }
}

#[test]
fn a_tree_has_leaves_and_not_too_many() {
    let charter = charter();
    let none = Tree::new(charter.hasher(), Vec::new());
    assert_eq!(none.expect_err("it has none").code, Code::BadTree);
    let many = Tree::new(charter.hasher(), vec![[0; 32]; MAX_SUBRECORDS + 1]);
    assert_eq!(many.expect_err("they are too many").code, Code::TooLarge);
}

#[test]
fn a_committed_record_is_checked_as_a_whole() {
    for (readers, seal) in [
        (Readers::Everybody, None),
        (
            Readers::Granted,
            Some(selfsame_capsule::epoch::epoch_key(&[3; 32], &charter().name(), 0)),
        ),
    ] {
        let charter = charter_of(HashKind::Blake3, readers, Vec::new());
        let sealed = seal.is_some();
        let mut writer = writer(&charter, 0, owner(), seal);
        let parts: Vec<Vec<u8>> = (0..10_u8)
            .map(|index| vec![index; usize::from(index) * 7])
            .collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let written = writer
            .commit(&parts, &Backpointers::Shortcuts, &[5; 16])
            .expect("it is small");
        let record = Record {
            header: view(&written),
            body: &written.body,
        };
        assert_eq!(record.check(charter.hasher(), sealed), Ok(written.name));
        assert_eq!(
            TreeBody::decode(&written.body, sealed)
                .expect("it is right")
                .subrecords
                .len(),
            10
        );
        for bit in 0..written.body.len() * 8 {
            let mut hostile = written.body.clone();
            hostile[bit / 8] ^= 1 << (bit % 8);
            let record = Record {
                header: view(&written),
                body: &hostile,
            };
            assert!(record.check(charter.hasher(), sealed).is_err(), "bit {bit}");
        }
    }
}
