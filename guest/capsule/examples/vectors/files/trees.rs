//! Bodies of sub-records, their hash trees and the paths that prove a sub-record.

use selfsame_capsule::epoch::epoch_key;
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::header::RecordKind;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::record::{Record, TreeBody};
use selfsame_capsule::tree::{Claim, End, Tree, verify_each};
use selfsame_capsule::writer::{Backpointers, Written};

use super::fixture::{
    OWNER, SALT, capsule, changed, cut, hexes, list, longer, open_capsule, record, refused, view, writer,
};
use super::json::{Json, hex, number, text};

type Hash = [u8; 32];

pub(super) fn vectors() -> Json {
    let charters = [
        open_capsule(),
        capsule(HashKind::Sha256, Readers::Everybody),
        capsule(HashKind::Blake3, Readers::Granted),
    ];
    Json::Object(vec![
        ("owner_seed", hex(&OWNER)),
        ("trees", list(charters.iter().flat_map(trees))),
        ("refused_paths", refused_paths(&charters[2])),
        ("refused_bodies", refused_bodies(&charters[0])),
    ])
}

/// A record of so many sub-records: the i-th, counted from 0, has i bytes.
fn committed(charter: &Charter, count: usize) -> Written {
    let parts: Vec<Vec<u8>> = (0..count).map(|at| vec![at as u8; at]).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let seal = charter.is_sealed().then(|| epoch_key(&OWNER, &charter.name(), 0));
    let written = writer(charter, 0, seal).commit(&parts, &Backpointers::Chain, &SALT);
    written.expect("a small tree")
}

fn body_of<'a>(charter: &Charter, written: &'a Written) -> TreeBody<'a> {
    TreeBody::decode(&written.body, charter.is_sealed()).expect("a body that the writer made")
}

fn path_of(tree: &Tree, index: usize, levels: u8) -> Vec<Hash> {
    let mut path = Vec::new();
    tree.path(index, levels, &mut path);
    path.as_chunks().0.to_vec()
}

fn trees(charter: &Charter) -> Vec<Json> {
    let counts: &[usize] = if charter.is_sealed() {
        &[1, 6]
    } else {
        &[1, 2, 4, 5, 22]
    };
    counts.iter().map(|count| tree(charter, *count)).collect()
}

fn tree(charter: &Charter, count: usize) -> Json {
    let written = committed(charter, count);
    let body = body_of(charter, &written);
    let tree = body.hashes(charter.hasher()).expect("it has sub-records");
    let mut indexes = vec![0, count / 2, count - 1];
    indexes.dedup();
    let paths = indexes.iter().flat_map(|index| {
        [u8::MAX, 1].map(|levels| {
            Json::Object(vec![
                ("index", number(*index as u64)),
                ("levels", number(levels)),
                ("path", hexes(path_of(&tree, *index, levels))),
            ])
        })
    });
    Json::Object(vec![
        ("metadata", hex(charter.encoded())),
        ("sealed", Json::Bool(charter.is_sealed())),
        ("count", number(count as u64)),
        ("salt", hex(&SALT)),
        ("header", hex(&written.header)),
        ("body", hex(&written.body)),
        ("stored", hexes(&body.subrecords)),
        ("paths", list(paths)),
    ])
}

/// A claim that fails, and why.
struct Wrong {
    what: &'static str,
    count: usize,
    index: usize,
    leaf: Hash,
    preamble: Vec<u8>,
    path: Vec<Hash>,
}

fn wrongs(charter: &Charter, body: &TreeBody<'_>, tree: &Tree) -> Vec<Wrong> {
    let hasher = charter.hasher();
    let right = |what| Wrong {
        what,
        count: 6,
        index: 4,
        leaf: hasher.leaf(body.subrecords[4]),
        preamble: body.preamble.to_vec(),
        path: path_of(tree, 4, u8::MAX),
    };
    let mut cases = Vec::new();
    let mut add = |what, change: &dyn Fn(&mut Wrong)| {
        let mut wrong = right(what);
        change(&mut wrong);
        cases.push(wrong);
    };
    add("one byte of the path is another", &|it| it.path[0][0] ^= 1);
    add("the path is one hash too short", &|it| _ = it.path.pop());
    add("the path is one hash too long", &|it| it.path.push([0; 32]));
    add("two hashes are exchanged", &|it| it.path.swap(0, 1));
    add("another place", &|it| it.index = 5);
    add("a place behind the last", &|it| it.index = 6);
    add("another number of sub-records", &|it| it.count = 5);
    add("one byte of the preamble is another", &|it| it.preamble[0] ^= 1);
    add("another sub-record", &|it| {
        it.leaf = hasher.leaf(body.subrecords[3])
    });
    add("the sub-record is hashed under another label", &|it| {
        it.leaf = hasher.node(body.subrecords[4]);
    });
    cases
}

fn refused_paths(charter: &Charter) -> Json {
    let written = committed(charter, 6);
    let body = body_of(charter, &written);
    let tree = body.hashes(charter.hasher()).expect("it has sub-records");
    let root = view(&written).body();
    let cases = wrongs(charter, &body, &tree);
    Json::Object(vec![
        ("metadata", hex(charter.encoded())),
        ("body_hash", hex(&root)),
        (
            "cases",
            list(cases.iter().map(|wrong| {
                let claim = Claim {
                    count: wrong.count,
                    index: wrong.index,
                    leaf: wrong.leaf,
                    path: &wrong.path,
                    end: End::Root {
                        root,
                        preamble: &wrong.preamble,
                    },
                };
                let (mut checked, _) = verify_each(charter.hasher(), &[claim]);
                Json::Object(vec![
                    ("what", text(wrong.what)),
                    ("count", number(wrong.count as u64)),
                    ("index", number(wrong.index as u64)),
                    ("leaf", hex(&wrong.leaf)),
                    ("preamble", hex(&wrong.preamble)),
                    ("path", hexes(&wrong.path)),
                    ("code", refused(wrong.what, checked.swap_remove(0))),
                ])
            })),
        ),
    ])
}

fn refused_bodies(charter: &Charter) -> Json {
    let written = committed(charter, 6);
    let body = &written.body;
    let of_count = |count: u32| [&count.to_le_bytes()[..], &body[4..]].concat();
    let last = body.len() - 1;
    let cases = [
        ("one byte of a sub-record is another", changed(body, last)),
        ("it ends early", cut(body).to_vec()),
        ("a byte follows", longer(body)),
        ("no sub-records", vec![0; 4]),
        ("one sub-record more than there are", of_count(7)),
        ("2^16 + 1 sub-records", of_count(65_537)),
        ("one length is one less", changed(body, 4 + 4)),
    ];
    let cases = list(cases.into_iter().map(|(what, body)| {
        let header = view(&written);
        assert_eq!(header.kind(), RecordKind::Tree);
        let checked = Record {
            body: &body,
            ..record(&written)
        }
        .check(charter.hasher(), false);
        Json::Object(vec![
            ("what", text(what)),
            ("body", hex(&body)),
            ("code", refused(what, checked)),
        ])
    }));
    Json::Object(vec![
        ("metadata", hex(charter.encoded())),
        ("header", hex(&written.header)),
        ("cases", cases),
    ])
}
