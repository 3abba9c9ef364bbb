//! What comes from servers that nobody has to trust: metadata, records, epoch records, proofs and paths. What is accepted is
//! written again byte for byte, and of what is not, nothing is believed.

use selfsame_capsule::authority::Authority;
use selfsame_capsule::authorship::Attribution;
use selfsame_capsule::cache::Verified;
use selfsame_capsule::epoch::{Added, EpochChange, Grant, ReaderKeys, Revoked, epoch_key};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::header::HeaderView;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::proof::{Anchor, Prover, encode_proof};
use selfsame_capsule::record::{Record, TreeBody};
use selfsame_capsule::writer::{Backpointers, Pen, Progress, Writer, Written};
use selfsame_codec::Reader;

use super::Target;
use super::decode::target;
use super::single::WriteOne as _;
use crate::mutate::Shape;

/// The decoders and verifiers.
pub(super) fn targets() -> Vec<Box<dyn Target>> {
    vec![
        target("capsule-metadata", 40, Shape::Cbor, metadata_seeds, run_metadata),
        target("capsule-record", 100, Shape::Bytes, record_seeds, run_record),
        target("capsule-epoch", 80, Shape::Cbor, epoch_seeds, run_epoch),
        target("capsule-proof", 60, Shape::Bytes, proof_seeds, run_proof),
        target("capsule-writer", 60, Shape::Bytes, progress_seeds, run_progress),
    ]
}

pub(super) fn owner() -> KeyPair {
    KeyPair::from_seed(&[1; 32])
}

pub(super) fn charter() -> Charter {
    let metadata = Metadata {
        hash: HashKind::Blake3,
        readers: Readers::Granted,
        created_ms: 1_800_000_000_000,
        salt: [2; 16],
        owner: owner().public(),
        writers: vec![KeyPair::from_seed(&[3; 32]).public()],
        description: "fuzzed".into(),
    };
    Charter::sign(metadata, &owner()).expect("the metadata is right")
}

fn writer() -> Writer {
    let charter = charter();
    let pen = Pen {
        number: 0,
        key: owner(),
        epoch: 0,
        seal: Some(epoch_key(&[1; 32], &charter.name(), 0)),
    };
    Writer::new(charter, pen, Progress::default())
}

/// A few records in a chain, the last of them with sub-records.
pub(super) fn records() -> (Writer, Vec<Written>) {
    let mut writer = writer();
    let mut records: Vec<Written> = (0..4)
        .map(|_| writer.write(b"content", &Backpointers::Shortcuts, &[4; 16]))
        .collect::<Result<_, _>>()
        .expect("they are small");
    let parts: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
    let committed = writer.commit(&parts, &Backpointers::Shortcuts, &[5; 16]);
    records.push(committed.expect("it is small"));
    (writer, records)
}

fn metadata_seeds() -> Vec<Vec<u8>> {
    vec![charter().encoded().to_vec()]
}

fn run_metadata(input: &[u8]) {
    match Charter::decode(input) {
        Ok(charter) => assert_eq!(charter.encoded(), input),
        Err(refusal) => assert!(refusal.at as usize <= input.len().max(2048)),
    }
}

fn record_seeds() -> Vec<Vec<u8>> {
    let (_, records) = records();
    records
        .into_iter()
        .map(|record| [record.header, record.body].concat())
        .collect()
}

fn run_record(input: &[u8]) {
    let mut reader = Reader::new(input);
    let Ok(record) = Record::read(&mut reader) else {
        return;
    };
    let mut again = Vec::new();
    record.header.to_header().encode(&mut again);
    assert_eq!(again, record.header.encoded());
    assert_eq!(
        HeaderView::decode(&again).map(|view| view.to_header()),
        Ok(record.header.to_header())
    );
    let charter = charter();
    if record.check(charter.hasher(), true).is_ok() {
        assert_eq!(
            record.header.name(charter.hasher()),
            HeaderView::decode(&again)
                .expect("what was encoded")
                .name(charter.hasher())
        );
    }
    for sealed in [true, false] {
        if let Ok(tree) = TreeBody::decode(record.body, sealed) {
            let mut again = Vec::new();
            tree.encode(&mut again);
            assert_eq!(again, record.body);
        }
    }
}

fn epoch_seeds() -> Vec<Vec<u8>> {
    let charter = charter();
    let reader = ReaderKeys::from_seed(&[6; 32]);
    let key = epoch_key(&[1; 32], &charter.name(), 1);
    let grant = Grant::seal(&charter.name(), 1, &key, reader.public(), &[7; 64]);
    let change = EpochChange {
        added: vec![Added {
            number: 2,
            key: KeyPair::from_seed(&[8; 32]).public(),
        }],
        revoked: vec![Revoked {
            number: 1,
            heads: vec![RecordName([9; 32])],
        }],
        grants: vec![grant.expect("the key is one")],
    };
    vec![EpochChange::default().encode(), change.encode()]
}

fn run_epoch(input: &[u8]) {
    if let Ok(change) = EpochChange::decode(input) {
        assert_eq!(change.encode(), input);
        let reader = ReaderKeys::from_seed(&[6; 32]);
        for grant in &change.grants {
            // A grant that opens for somebody else's capsule would be a forgery.
            assert!(reader.open(&charter().name(), u32::MAX, grant).is_err());
        }
    }
}

fn proof_seeds() -> Vec<Vec<u8>> {
    let (writer, records) = records();
    let signed = Anchor::Signed(writer.sign(&records[4].name));
    let proof = |anchor: &Anchor, path: &[usize]| {
        let mut proof = Vec::new();
        let headers: Vec<&[u8]> = path
            .iter()
            .map(|index| records[*index].header.as_slice())
            .collect();
        encode_proof(anchor, headers.into_iter(), &mut proof);
        proof
    };
    vec![
        proof(&signed, &[4, 3, 2]),
        proof(&signed, &[4]),
        proof(&Anchor::Verified, &[3, 2]),
        proof(&Anchor::Verified, &[]),
    ]
}

/// A record of the log may be proven; a name that is no record's must not be.
fn run_proof(input: &[u8]) {
    let charter = charter();
    let (_, records) = records();
    let authority = Authority::new(charter.metadata());
    let mut prover = Prover::default();
    let mut verified = Verified::new(6);
    let header = HeaderView::decode(&records[3].header).expect("a sound header");
    verified.learn(&records[3].name.0, Attribution::signed(&header));
    let before = verified.clone();
    let honest = prover.verify(
        charter.hasher(),
        &authority,
        &mut verified,
        &records[1].name,
        input,
    );
    if honest.is_err() {
        assert!(before == verified, "something of a wrong proof was believed");
    }
    let nobody = RecordName([0xee; 32]);
    let forged = prover.verify(charter.hasher(), &authority, &mut verified, &nobody, input);
    assert!(forged.is_err(), "a record that nobody has written was believed");
}

fn progress_seeds() -> Vec<Vec<u8>> {
    let (writer, _) = records();
    let mut encoded = Vec::new();
    writer.progress().encode(&mut encoded);
    let mut first = Vec::new();
    Progress::default().encode(&mut first);
    vec![encoded, first]
}

fn run_progress(input: &[u8]) {
    if let Ok(progress) = Progress::decode(input) {
        let mut again = Vec::new();
        progress.encode(&mut again);
        assert_eq!(again, input);
    }
}
