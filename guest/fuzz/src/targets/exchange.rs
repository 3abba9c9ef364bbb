//! What comes from another replica of a capsule: sketches, and responses to a synchronisation. Whatever they hold, nothing false
//! is stored, and it comes to an end.

use std::collections::BTreeMap;

use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::message::{Operation, Part};
use selfsame_capsule::record::Record;
use selfsame_capsule::replica::{Limits, Replica};
use selfsame_capsule::sketch::{Element, FIRST_SYMBOLS, Shortener, Sketch};
use selfsame_codec::Reader;

use super::Target;
use super::capsule::{charter, records};
use super::decode::target;
use super::replica::{Done, NOW, SOURCE, Store, request, stored, work};
use crate::mutate::Shape;

/// Elements of both sets that the fuzzed sketches are compared with.
const ELEMENTS: u64 = 40;
/// Most requests after which a synchronisation of a few records has ended.
const MAX_ASKED: usize = 2000;

/// Sketches and responses.
pub(super) fn targets() -> Vec<Box<dyn Target>> {
    vec![
        target("capsule-sketch", 40, Shape::Bytes, sketch_seeds, run_sketch),
        target("capsule-sync", 60, Shape::Bytes, sync_seeds, run_sync),
    ]
}

fn sketch(from: u64) -> Sketch {
    let ids = Shortener::new(&charter().name(), &[1; 16]);
    let mut sketch = Sketch::new(FIRST_SYMBOLS);
    for index in from..from + ELEMENTS {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&index.to_le_bytes());
        sketch.insert(ids.id(&Element::record(selfsame_capsule::hash::RecordName(name))));
    }
    sketch
}

fn sketch_seeds() -> Vec<Vec<u8>> {
    [0, 3, 20, 100]
        .into_iter()
        .map(|from| {
            let mut encoded = Vec::new();
            sketch(from).write(&mut encoded);
            encoded
        })
        .collect()
}

fn run_sketch(input: &[u8]) {
    let mut reader = Reader::new(input);
    let Ok(theirs) = Sketch::read(&mut reader, FIRST_SYMBOLS, ELEMENTS) else {
        return;
    };
    let read = input.len() - reader.rest().len();
    let mut again = Vec::new();
    theirs.write(&mut again);
    assert!(
        again.len() <= read,
        "what was read is written again, no longer than it was"
    );
    let difference = sketch(0).difference(&theirs);
    let _ = difference.estimate();
    if let Some(differing) = difference.decode() {
        assert!(differing.ours.len() + differing.theirs.len() <= FIRST_SYMBOLS);
    }
}

/// No change of any response, and changes of the first ones.
fn sync_seeds() -> Vec<Vec<u8>> {
    vec![
        Vec::new(),
        vec![1, 20, 0, 4, 1, 2, 3, 4],
        vec![0, 1, 3, 0, 2, 9, 9, 0, 0, 1, 60, 0, 1, 255],
    ]
}

/// Changes a response as the input says: `0`, or `1 offset u16 length u8 bytes` that take the place of its own, or another byte,
/// up to which it is cut.
fn change(response: &mut Vec<u8>, changes: &mut Reader<'_>) {
    match changes.field::<u8>() {
        Ok(0) | Err(_) => {}
        Ok(1) => {
            let (offset, len) = (changes.field::<u16>(), changes.field::<u8>());
            let bytes = changes.take(usize::from(len.unwrap_or(0))).unwrap_or_default();
            let offset = usize::from(offset.unwrap_or(0)) % (response.len() + 1);
            let end = response.len().min(offset + bytes.len());
            response.splice(offset..end, bytes.iter().copied());
        }
        Ok(len) => response.truncate(usize::from(len)),
    }
}

/// A replica that has nothing synchronises with one that has a capsule, whose responses are changed on the way.
fn run_sync(input: &[u8]) {
    let (mut there, mut there_store) = (replica(), Store::new());
    there.request(NOW, 1, SOURCE, stored());
    assert_eq!(work(&mut there, &mut there_store).responses.len(), 1);
    let (mut here, mut here_store) = (replica(), Store::new());
    here.sync(NOW, [5; 32], charter().name(), [6; 32]);
    let mut changes = Reader::new(input);
    for _ in 0..MAX_ASKED {
        let Done { asks, ended, .. } = work(&mut here, &mut here_store);
        if ended {
            check(&here_store);
            return;
        }
        for (tag, message) in asks {
            there.request(NOW, 2, SOURCE, message);
            let mut responses = work(&mut there, &mut there_store).responses;
            let (_, mut response) = responses.pop().expect("it is answered");
            change(&mut response, &mut changes);
            here.answered(NOW, tag, Some(&response));
        }
    }
    panic!("it does not end");
}

fn replica() -> Replica {
    Replica::new(KeyPair::from_seed(&[9; 32]), Limits::default())
}

/// Every record is what its name says, and nothing is signed but what was.
fn check(store: &BTreeMap<Vec<u8>, bytes::Bytes>) {
    let (_, records) = records();
    for (key, value) in store {
        let Some(name) = key.get(33..65) else { continue };
        match key[32] {
            b'R' => {
                let mut rest = Reader::new(value);
                rest.field::<selfsame_capsule::witness::Witness>()
                    .expect("a witness");
                let record = Record::read(&mut rest).expect("a record");
                let checked = record
                    .check(charter().hasher(), true)
                    .expect("its body is its own");
                assert_eq!(checked.0, name);
            }
            b'G' => assert_eq!(records[4].name.0, name, "a signature that nobody has made"),
            _ => {}
        }
    }
}

/// Requests of another replica.
pub(super) fn seeds_of_requests() -> Vec<Vec<u8>> {
    let (_, records) = records();
    let salt = [3; 16];
    let part = Part::WHOLE;
    let name = Element::record(records[2].name);
    let id = Shortener::new(&charter().name(), &salt).id(&name).to_le_bytes();
    let later = Part { since: 2, ..part };
    let compare = |part, symbols| Operation::Compare {
        salt,
        part,
        symbols,
        unless: [0; 32],
    };
    let signature = Operation::Signature {
        record: records[4].name,
    };
    vec![
        request(&[compare(part, 8), signature]),
        request(&[compare(later, 3)]),
        request(&[Operation::Elements { salt, part, ids: &id }]),
    ]
}
