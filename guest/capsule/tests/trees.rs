//! Sub-records: each is proven against its record's tree (DCS, section 4).

mod common;

use common::{charter, charter_of, owner, view, writer};
use selfsame_capsule::cache::Verified;
use selfsame_capsule::hash::{HashKind, Hasher};
use selfsame_capsule::metadata::Readers;
use selfsame_capsule::record::{Record, TreeBody};
use selfsame_capsule::tree::{FAN_OUT, MAX_SUBRECORDS, Tree, Whole, verify_path};
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Code;

fn leaves(hasher: &Hasher, count: usize) -> Vec<[u8; 32]> {
    (0..count as u32)
        .map(|index| hasher.leaf(&index.to_le_bytes()))
        .collect()
}

#[test]
fn every_leaf_of_a_tree_of_any_size_is_proven_and_only_at_its_place() {
    let charter = charter();
    let hasher = charter.hasher();
    let nothing = Verified::new(4);
    for count in 1..=70 {
        let leaves = leaves(hasher, count);
        let tree = Tree::new(hasher, leaves.clone()).expect("it has leaves");
        let whole = Whole {
            root: tree.root(hasher, b"preamble"),
            count,
            preamble: b"preamble",
        };
        for (index, leaf) in leaves.iter().enumerate() {
            let path = tree.path(index, |_| false);
            assert!(path.len() <= 4 * (FAN_OUT - 1));
            assert!(verify_path(hasher, &whole, index, *leaf, &path, &nothing).is_ok());
            for other in (0..count).filter(|other| *other != index) {
                let wrong = verify_path(hasher, &whole, other, *leaf, &path, &nothing);
                assert!(wrong.is_err(), "leaf {index} of {count} at {other}");
            }
            assert!(verify_path(hasher, &whole, index, hasher.leaf(b"x"), &path, &nothing).is_err());
            let longer = [path.as_slice(), &[[0; 32]]].concat();
            assert!(verify_path(hasher, &whole, index, *leaf, &longer, &nothing).is_err());
            if let Some((_, shorter)) = path.split_last() {
                assert!(verify_path(hasher, &whole, index, *leaf, shorter, &nothing).is_err());
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
    let path = tree.path(8, |_| false);
    let root = tree.root(hasher, b"one");
    let nothing = Verified::new(4);
    let check = |count, preamble| {
        let whole = Whole {
            root,
            count,
            preamble,
        };
        verify_path(hasher, &whole, 8, leaves[8], &path, &nothing)
    };
    assert!(check(9, b"one").is_ok());
    assert!(check(9, b"two").is_err());
    for count in (1..40).filter(|count| *count != 9) {
        assert!(check(count, b"one").is_err(), "{count} leaves");
    }
}

#[test]
fn a_path_ends_at_a_node_that_is_verified_already() {
    let charter = charter();
    let hasher = charter.hasher();
    let leaves = leaves(hasher, 64);
    let tree = Tree::new(hasher, leaves.clone()).expect("it has leaves");
    let whole = Whole {
        root: tree.root(hasher, b""),
        count: 64,
        preamble: b"",
    };
    let mut verified = Verified::new(10);
    let first = tree.path(0, |node| verified.contains(node));
    assert_eq!(first.len(), 9);
    let seen = verify_path(hasher, &whole, 0, leaves[0], &first, &verified).expect("it is right");
    seen.iter().for_each(|hash| verified.insert(hash));
    // Its neighbours are verified with it, those further away by one step, and so on.
    for (index, length) in [(1, 0), (3, 0), (4, 3), (16, 6), (63, 6)] {
        let path = tree.path(index, |node| verified.contains(node));
        assert_eq!(path.len(), length, "leaf {index}");
        assert!(verify_path(hasher, &whole, index, leaves[index], &path, &verified).is_ok());
        let alone = verify_path(hasher, &whole, index, leaves[index], &path, &Verified::new(4));
        assert_eq!(alone.expect_err("it is not whole").code, Code::BadTree);
        assert!(verify_path(hasher, &whole, index, hasher.leaf(b"x"), &path, &verified).is_err());
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
