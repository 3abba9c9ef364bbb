//! The sets that replicas compare: ids under a salt, sketches and the fingerprint.

use selfsame_capsule::hash::RecordName;
use selfsame_capsule::message::{Envelope, Operation, Part};
use selfsame_capsule::sketch::{Element, Shortener, Sketch};
use selfsame_codec::{Field, Reader};

use super::fixture::{NOW, chained, cut, hexes, list, open_capsule, record, view, writer};
use super::json::{Json, hex, number, text};
use super::stepped::Stepped;

const SALT: [u8; 16] = [15; 16];
const SYMBOLS: usize = 16;

pub(super) fn vectors() -> Json {
    Json::Object(vec![
        ("capsule", hex(&open_capsule().name().0)),
        ("salt", hex(&SALT)),
        ("ids", list(elements(0, 6).iter().map(id))),
        (
            "sketches",
            list([(0, 0), (1, 0), (3, 4), (40, 41), (100, 90)].map(pair)),
        ),
        ("refused_sketches", refused_sketches()),
        ("compare", compare()),
    ])
}

/// Elements of records whose names begin with the numbers from one on, of either kind.
fn elements(from: u16, to: u16) -> Vec<Element> {
    let element = |at: u16| {
        let mut name = [16; 32];
        name[..2].copy_from_slice(&at.to_le_bytes());
        match at % 2 {
            0 => Element::record(RecordName(name)),
            _ => Element::signature(RecordName(name)),
        }
    };
    (from..to).map(element).collect()
}

fn encoded<'a>(field: &impl Field<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    field.write(&mut out);
    out
}

fn id_of(element: &Element) -> u64 {
    Shortener::new(&open_capsule().name(), &SALT).id(element)
}

fn id(element: &Element) -> Json {
    Json::Object(vec![
        ("element", hex(&encoded(element))),
        ("id", hex(&id_of(element).to_le_bytes())),
    ])
}

fn sketch(elements: &[Element], symbols: usize) -> Sketch {
    let mut sketch = Sketch::new(symbols);
    elements.iter().for_each(|element| sketch.insert(id_of(element)));
    sketch
}

fn symbols_of(sketch: &Sketch) -> Vec<u8> {
    let mut out = Vec::new();
    sketch.write(&mut out);
    out
}

/// Two sets, of the elements from 0 to the first number and from 2 to the second one, and in what they differ.
fn pair((ours, theirs): (u16, u16)) -> Json {
    let sets = [elements(0, ours), elements(2, theirs)];
    let sketches = sets.each_ref().map(|set| sketch(set, SYMBOLS));
    let difference = sketches[0].difference(&sketches[1]);
    let estimate = difference.estimate();
    let sides = sets.iter().zip(&sketches).map(|(set, sketch)| {
        Json::Object(vec![
            ("elements", hexes(set.iter().map(encoded))),
            ("symbols", hex(&symbols_of(sketch))),
        ])
    });
    let ids = |mut ids: Vec<u64>| {
        ids.sort_unstable();
        hexes(ids.iter().map(|id| id.to_le_bytes()))
    };
    let differing = difference.decode().map_or(Json::Null, |differing| {
        Json::Object(vec![
            ("ours", ids(differing.ours)),
            ("theirs", ids(differing.theirs)),
        ])
    });
    Json::Object(vec![
        ("sets", list(sides)),
        ("estimate", number(estimate)),
        ("differing", differing),
    ])
}

fn refused_sketches() -> Json {
    let right = symbols_of(&sketch(&elements(0, 20), SYMBOLS));
    let long = [&[0; 12][..], &[0xff; 5], &[0]].concat();
    let wide = [&[0; 12][..], &[0xff, 0xff, 0xff, 0xff, 0x7f]].concat();
    let cases = [
        ("it ends early", cut(&right).to_vec(), SYMBOLS, 20),
        ("one symbol more than there are", right.clone(), SYMBOLS + 1, 20),
        ("a count of six bytes", long, 1, 0),
        ("a count of more than 32 bits", wide, 1, 0),
        ("2^30 + 1 elements", right, SYMBOLS, (1 << 30) + 1),
    ];
    list(cases.into_iter().map(|(what, bytes, symbols, elements)| {
        let read = Sketch::read(&mut Reader::new(&bytes), symbols, elements);
        assert!(read.is_err(), "{what}");
        Json::Object(vec![
            ("what", text(what)),
            ("bytes", hex(&bytes)),
            ("symbols", number(symbols as u64)),
            ("elements", number(elements)),
        ])
    }))
}

/// A replica that stores three records, of which the last is signed, and what it answers to Compare.
fn compare() -> Json {
    let charter = open_capsule();
    let mut replica = Stepped::new(NOW);
    let mut owner = writer(&charter, 0, None);
    let records: Vec<_> = (0..3_u8).map(|at| chained(&mut owner, &[at])).collect();
    let mut operations = vec![Operation::Create {
        metadata: charter.encoded(),
    }];
    operations.extend(records.iter().map(|written| Operation::Write {
        record: record(written),
    }));
    let last = &records[2].name;
    operations.push(Operation::Sign {
        record: *last,
        signature: owner.sign(last),
    });
    let ask = |replica: &mut Stepped, operations: &[Operation<'_>]| {
        let mut request = Vec::new();
        Envelope {
            capsule: charter.name(),
            session: [0; 16],
            verified: 0,
        }
        .write(&mut request);
        operations
            .iter()
            .for_each(|operation| operation.write(&mut request));
        (replica.ask(&request), request)
    };
    let (stored, _) = ask(&mut replica, &operations);
    assert_eq!(stored[..3], [1, 0, 0], "the request is carried out");
    let comparing = Operation::Compare {
        salt: SALT,
        part: Part::WHOLE,
        symbols: SYMBOLS as u32,
        unless: [0; 32],
    };
    let (response, request) = ask(&mut replica, &[comparing]);
    let mut elements: Vec<Element> = records
        .iter()
        .map(|written| Element::record(written.name))
        .collect();
    elements.push(Element::signature(*last));
    assert!(view(&records[2]).points_to(&records[1].name));
    Json::Object(vec![
        ("elements", hexes(elements.iter().map(encoded))),
        ("request", hex(&request)),
        ("response", hex(&response)),
    ])
}
