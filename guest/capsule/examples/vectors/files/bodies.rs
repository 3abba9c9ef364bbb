//! Sealed bodies.

use selfsame_capsule::epoch::epoch_key;
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::seal::{EpochKey, Place, SALT_BYTES, open_each, seal_each};
use selfsame_capsule::writer::Written;

use super::fixture::{
    OWNER, SALT, capsule, chained, changed, cut, list, open_capsule, record, refused, view, writer,
};
use super::json::{Json, hex, number, text};

pub(super) fn vectors() -> Json {
    let charter = capsule(HashKind::Blake3, Readers::Granted);
    Json::Object(vec![
        ("owner_seed", hex(&OWNER)),
        ("sealed", sealed(&charter)),
        ("refused_sealed", refused_sealed(&charter)),
        ("metadata", hex(open_capsule().encoded())),
        ("refused_bodies", refused_bodies(&open_capsule())),
    ])
}

fn places(charter: &Charter) -> [Place; 2] {
    let first = Place {
        capsule: charter.name(),
        epoch: 0,
        writer: 0,
        sequence: 0,
    };
    let last = Place {
        epoch: u32::MAX,
        writer: u16::MAX,
        sequence: (1 << 53) - 1,
        ..first
    };
    [first, last]
}

fn key_of(place: &Place) -> EpochKey {
    epoch_key(&OWNER, &place.capsule, place.epoch)
}

fn seal(place: &Place, salt: [u8; SALT_BYTES], content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    seal_each(&key_of(place), &[(*place, salt, content)], &mut body);
    body
}

fn fields(place: &Place) -> Vec<(&'static str, Json)> {
    vec![
        ("capsule", hex(&place.capsule.0)),
        ("epoch", number(place.epoch)),
        ("writer", number(place.writer)),
        ("sequence", number(place.sequence)),
    ]
}

fn sealed(charter: &Charter) -> Json {
    let contents: [&[u8]; 4] = [b"", b"a", b"content of a record", &[7; 200]];
    let all = places(charter).into_iter().flat_map(|place| {
        contents.map(|content| {
            let mut case = fields(&place);
            case.extend([
                ("epoch_key", hex(key_of(&place).as_bytes())),
                ("salt", hex(&SALT)),
                ("content", hex(content)),
                ("body", hex(&seal(&place, SALT, content))),
            ]);
            Json::Object(case)
        })
    });
    list(all)
}

fn refused_sealed(charter: &Charter) -> Json {
    let [place, _] = places(charter);
    let body = seal(&place, SALT, b"content");
    let other = open_capsule().name();
    let last = body.len() - 1;
    let cases = [
        ("one byte of the salt is another", place, changed(&body, 0)),
        ("one byte of the commitment is another", place, changed(&body, 16)),
        ("one byte of the ciphertext is another", place, changed(&body, 48)),
        ("one byte of the tag is another", place, changed(&body, last)),
        ("it ends early", place, cut(&body).to_vec()),
        ("63 bytes", place, body[..63].to_vec()),
        ("another epoch", Place { epoch: 1, ..place }, body.clone()),
        ("another writer", Place { writer: 1, ..place }, body.clone()),
        ("another sequence", Place { sequence: 1, ..place }, body.clone()),
        (
            "another capsule",
            Place {
                capsule: other,
                ..place
            },
            body.clone(),
        ),
    ];
    // All have the key of the first place, so that not the key alone tells them apart.
    let key = key_of(&place);
    list(cases.into_iter().map(|(what, place, body)| {
        let opened = open_each(&key, &[(place, &body)], &mut Vec::new()).swap_remove(0);
        let mut case = vec![("what", text(what))];
        case.extend(fields(&place));
        case.extend([
            ("epoch_key", hex(key.as_bytes())),
            ("body", hex(&body)),
            ("code", refused(what, opened)),
        ]);
        Json::Object(case)
    }))
}

fn refused_bodies(charter: &Charter) -> Json {
    let written = chained(&mut writer(charter, 0, None), b"content");
    let mut hashed_as_leaf = view(&written).to_header();
    hashed_as_leaf.body = charter.hasher().leaf(&written.body);
    let mut under_leaf = Vec::new();
    hashed_as_leaf.encode(&mut under_leaf);
    let wrong_label = Written {
        header: under_leaf,
        ..written.clone()
    };
    let wrong_byte = Written {
        body: changed(&written.body, 0),
        ..written
    };
    let cases = [
        ("one byte is another", &wrong_byte),
        ("it is hashed under another label", &wrong_label),
    ];
    list(cases.into_iter().map(|(what, written)| {
        let checked = record(written).check(charter.hasher(), false);
        Json::Object(vec![
            ("what", text(what)),
            ("header", hex(&written.header)),
            ("body", hex(&written.body)),
            ("code", refused(what, checked)),
        ])
    }))
}
