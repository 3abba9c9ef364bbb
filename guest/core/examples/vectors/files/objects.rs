//! Object ids and associations.

use selfsame_codec::Code;
use selfsame_core::admission::Gate;
use selfsame_core::association::{Association, Leaf, ObjectId, Validity};
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, NetworkId, PeerId};

use super::json::{Json, hex, number, text};
use super::{NETWORK, NOW};

const HOUR: u64 = 3_600_000;

pub(super) fn vectors() -> Json {
    Json::Object(vec![
        ("network", text(NETWORK)),
        ("object_ids", object_ids()),
        (
            "publications",
            Json::List([1, 2, 3, 5].into_iter().map(publication).collect()),
        ),
        ("refused", refused()),
    ])
}

fn net() -> NetworkId {
    NetworkId::open(NETWORK)
}

fn publisher() -> Identity {
    Identity::recall(&[7; 32], net(), &[])
}

fn owner() -> Identity {
    Identity::of_owner(&[9; 32], net())
}

fn object_ids() -> Json {
    let key = owner().public();
    let cases = [
        (None, "check", 0),
        (None, "check", 3),
        (Some(key), "check", 0),
        (None, "a-1.b", 1),
    ];
    let list = cases.iter().map(|(owner, name, r)| {
        Json::Object(vec![
            ("owner", owner.map_or(text(""), |key| hex(&key.0))),
            ("name", text(*name)),
            ("r", number(*r)),
            ("object", hex(&ObjectId::of(&net(), owner.as_ref(), name, *r).0)),
        ])
    });
    Json::List(list.collect())
}

fn leaf(number: u8) -> Leaf {
    Leaf {
        salt: [number; 16],
        owner: None,
        name: format!("service-{number}"),
        r: number % 4,
        withdrawn: false,
        version: "1.2".into(),
        weight: 100,
        grant: Vec::new(),
    }
}

fn owned(grantee: PeerId, expiry_ms: u64) -> Leaf {
    let terms = Terms {
        name: "check".into(),
        peer: grantee,
        issued_ms: NOW - HOUR,
        expiry_ms,
        revoked: Vec::new(),
    };
    let grant = Grant::sign(&owner(), terms).expect("within limits");
    Leaf {
        owner: Some(owner().public()),
        name: "check".into(),
        grant: grant.encoded().to_vec(),
        ..leaf(0)
    }
}

fn validity() -> Validity {
    Validity {
        sequence_ms: NOW,
        not_before_ms: NOW,
        expiry_ms: NOW + HOUR,
    }
}

fn publish(leaves: &[Leaf]) -> Vec<Association> {
    Association::publish(&publisher(), leaves, validity()).expect("within limits")
}

/// The first leaf is owned, the last withdrawn; the others are neither.
fn publication(count: u8) -> Json {
    let mut leaves: Vec<Leaf> = (1..=count).map(leaf).collect();
    leaves[0] = owned(publisher().id(), NOW + HOUR);
    if let [_, .., last] = leaves.as_mut_slice() {
        last.withdrawn = true;
    }
    let published = publish(&leaves);
    let list = published.iter().map(|association| {
        assert_eq!(
            Association::decode_verified(
                &mut Gate::new(net(), None),
                &|key| Some(PeerId::of(key, &net())),
                association.encoded(),
                NOW
            )
            .as_ref(),
            Ok(association)
        );
        let leaf = association.leaf();
        Json::Object(vec![
            ("name", text(&*leaf.name)),
            ("r", number(leaf.r)),
            ("withdrawn", Json::Bool(leaf.withdrawn)),
            ("version", text(&*leaf.version)),
            ("weight", number(leaf.weight)),
            ("object", hex(&association.object().0)),
            ("association", hex(association.encoded())),
        ])
    });
    Json::Object(vec![
        ("publisher", hex(&publisher().id().0)),
        ("now_ms", number(NOW)),
        ("expiry_ms", number(NOW + HOUR)),
        ("associations", Json::List(list.collect())),
    ])
}

fn refused() -> Json {
    let one = |leaf: Leaf| publish(&[leaf]).remove(0).encoded().to_vec();
    let pair = publish(&[leaf(1), leaf(2)]);
    let swapped = splice(pair[0].encoded(), pair[1].encoded());
    let good = one(leaf(1));
    let trailing = [&good[..], &[0]].concat();
    let late = Validity {
        expiry_ms: NOW + 3 * HOUR,
        ..validity()
    };
    assert_eq!(
        Association::publish(&publisher(), &[leaf(1)], late),
        Err(Code::BadConfig)
    );
    let cases: Vec<(&str, Vec<u8>, u64, Code)> = vec![
        ("expired", good.clone(), NOW + HOUR, Code::StaleRecord),
        ("from the future", good.clone(), NOW - 60_001, Code::StaleRecord),
        ("a leaf in the place of another", swapped, NOW, Code::BadRecord),
        ("with a byte after it", trailing, NOW, Code::BadRecord),
        (
            "granted to another peer",
            one(owned(PeerId([1; 32]), NOW + HOUR)),
            NOW,
            Code::NotGranted,
        ),
        (
            "granted until now",
            one(owned(publisher().id(), NOW)),
            NOW,
            Code::NotGranted,
        ),
        (
            "owned without a grant",
            one(Leaf {
                grant: Vec::new(),
                ..owned(publisher().id(), NOW + 1)
            }),
            NOW,
            Code::NotGranted,
        ),
        (
            "unowned with a grant",
            one(Leaf {
                owner: None,
                ..owned(publisher().id(), NOW + 1)
            }),
            NOW,
            Code::BadRecord,
        ),
    ];
    let list = cases.into_iter().map(|(what, bytes, now_ms, code)| {
        let given = Association::decode_verified(
            &mut Gate::new(net(), None),
            &|key| Some(PeerId::of(key, &net())),
            &bytes,
            now_ms,
        );
        assert_eq!(given.err(), Some(code), "{what}");
        Json::Object(vec![
            ("what", text(what)),
            ("association", hex(&bytes)),
            ("now_ms", number(now_ms)),
            ("code", text(code.name())),
        ])
    });
    Json::List(list.collect())
}

/// The leaf of `second` with the index and path of `first`; their encodings have equal lengths.
fn splice(first: &[u8], second: &[u8]) -> Vec<u8> {
    let tail = 1 + 1 + 2 + 32;
    let at = first.len() - tail;
    [&second[..at], &first[at..]].concat()
}
