//! Keys of epochs, grants, and the owner's records of who writes and reads.

use selfsame_capsule::authority::Authority;
use selfsame_capsule::epoch::{
    Added, EpochChange, Grant, MAX_ACCEPTED, MAX_CHANGES, ReaderKeys, Revoked, epoch_key,
};
use selfsame_capsule::hash::{CapsuleName, HashKind, RecordName};
use selfsame_capsule::header::{Header, HeaderView, RecordKind};
use selfsame_capsule::keys::Signature;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::seal::EpochKey;
use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_sodium::aead;
use selfsame_sodium::hash::derive_key;
use selfsame_sodium::xwing;

use super::fixture::{
    OWNER, READER, WRITER, capsule, changed, cut, keys, list, longer, open_capsule, public, refused,
};
use super::json::{Json, hex, number, text};

/// Random bytes of an encapsulation, used once.
const ENCAPSULATION: [u8; 64] = [10; 64];
const OTHER_READER: [u8; 32] = [11; 32];
const RECORD: &str = "selfsame/1 capsule record";

pub(super) fn vectors() -> Json {
    let charter = capsule(HashKind::Blake3, Readers::Granted);
    Json::Object(vec![
        ("metadata", hex(charter.encoded())),
        ("owner_seed", hex(&OWNER)),
        ("writer_seed", hex(&WRITER)),
        ("epoch_keys", epoch_keys(&charter.name())),
        ("readers", list([READER, OTHER_READER].iter().map(reader))),
        ("grants", grants(&charter.name())),
        ("refused_grants", refused_grants(&charter.name())),
        ("refused_bodies", refused_bodies()),
        ("records", records(&charter)),
    ])
}

fn epoch_keys(capsule: &CapsuleName) -> Json {
    list([0, 1, u32::MAX].map(|epoch| {
        Json::Object(vec![
            ("capsule", hex(&capsule.0)),
            ("epoch", number(epoch)),
            ("key", hex(epoch_key(&OWNER, capsule, epoch).as_bytes())),
        ])
    }))
}

fn reader(seed: &[u8; 32]) -> Json {
    let reader = ReaderKeys::from_seed(seed);
    Json::Object(vec![
        ("seed", hex(seed)),
        ("public_key", hex(reader.public())),
        ("reader", hex(reader.id())),
    ])
}

fn seal(capsule: &CapsuleName, epoch: u32, reader: &[u8; 32]) -> Grant {
    let key = epoch_key(&OWNER, capsule, epoch);
    let reader = ReaderKeys::from_seed(reader);
    let grant = Grant::seal(capsule, epoch, &key, reader.public(), &ENCAPSULATION);
    grant.expect("a right reader's key")
}

fn body_of(grant: &Grant) -> Vec<u8> {
    EpochChange {
        grants: vec![grant.clone()],
        ..EpochChange::default()
    }
    .encode()
}

fn grants(capsule: &CapsuleName) -> Json {
    let both = [(0, READER), (1, OTHER_READER)];
    list(both.map(|(epoch, seed)| {
        let grant = seal(capsule, epoch, &seed);
        let opened = ReaderKeys::from_seed(&seed).open(capsule, epoch, &grant);
        Json::Object(vec![
            ("capsule", hex(&capsule.0)),
            ("epoch", number(epoch)),
            ("reader_seed", hex(&seed)),
            ("body", hex(&body_of(&grant))),
            ("key", hex(opened.expect("its reader opens it").as_bytes())),
        ])
    }))
}

/// Reader, ciphertext and sealed key of the one grant of a body.
fn parts_of(body: &[u8]) -> [Vec<u8>; 3] {
    let mut decoder = Decoder::new(body);
    let mut read = || {
        decoder.array_of(4)?;
        decoder.uint()?;
        for most in [0, 0, 1] {
            decoder.array(most)?;
        }
        decoder.array_of(3)?;
        Ok::<_, selfsame_codec::Malformed>([
            decoder.bytes(32)?.to_vec(),
            decoder.bytes(1120)?.to_vec(),
            decoder.bytes(48)?.to_vec(),
        ])
    };
    read().expect("a body of one grant")
}

/// A body of one grant, whose parts may be wrong.
fn body_with([reader, ciphertext, sealed]: &[Vec<u8>; 3]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.array(4).uint(1).array(0).array(0).array(1);
    encoder.array(3).bytes(reader).bytes(ciphertext).bytes(sealed);
    out
}

/// What the owner would seal if the key of a grant were derived under another label.
fn sealed_under(label: &'static str, capsule: &CapsuleName, key: &EpochKey) -> Vec<u8> {
    let reader = ReaderKeys::from_seed(&READER);
    let (_, shared) = xwing::encapsulate(reader.public(), &ENCAPSULATION).expect("a right key");
    let material = [
        &shared.as_bytes()[..],
        &capsule.0,
        &0_u32.to_le_bytes(),
        reader.id(),
    ]
    .concat();
    let mut sealed = key.as_bytes().to_vec();
    let sealing = aead::Key::new(derive_key(label, &material));
    let tag = aead::seal_in_place(&sealing, &[0; aead::NONCE_BYTES], &[], &mut sealed);
    sealed.extend_from_slice(&tag);
    sealed
}

fn refused_grants(capsule: &CapsuleName) -> Json {
    let grant = seal(capsule, 0, &READER);
    let [reader, ciphertext, sealed] = parts_of(&body_of(&grant));
    let right = body_with(&[reader.clone(), ciphertext.clone(), sealed.clone()]);
    assert_eq!(right, body_of(&grant), "the encoding of this file is the crate's");
    let key = epoch_key(&OWNER, capsule, 0);
    let correct = sealed_under("selfsame/1 capsule grant", capsule, &key);
    assert_eq!(correct, sealed, "the derivation of this file is the crate's");
    let other_label = sealed_under("selfsame/1 capsule epoch key", capsule, &key);
    let with = |ciphertext: Vec<u8>, sealed: Vec<u8>| body_with(&[reader.clone(), ciphertext, sealed]);
    let other = open_capsule().name();
    let of_lattice = with(changed(&ciphertext, 0), sealed.clone());
    let of_curve = with(changed(&ciphertext, 1088), sealed.clone());
    let of_sealed = with(ciphertext.clone(), changed(&sealed, 0));
    let of_tag = with(ciphertext.clone(), changed(&sealed, 47));
    let of_zeros = with([&ciphertext[..1088], &[0; 32]].concat(), sealed.clone());
    let cases = [
        (
            "one byte of the ciphertext is another",
            *capsule,
            0,
            READER,
            of_lattice,
        ),
        ("one byte of the point is another", *capsule, 0, READER, of_curve),
        ("a point of small order", *capsule, 0, READER, of_zeros),
        (
            "one byte of the sealed key is another",
            *capsule,
            0,
            READER,
            of_sealed,
        ),
        ("one byte of the tag is another", *capsule, 0, READER, of_tag),
        ("another reader", *capsule, 0, OTHER_READER, right.clone()),
        ("another epoch", *capsule, 1, READER, right.clone()),
        ("another capsule", other, 0, READER, right),
        (
            "another label",
            *capsule,
            0,
            READER,
            with(ciphertext, other_label),
        ),
    ];
    list(cases.into_iter().map(|(what, capsule, epoch, seed, body)| {
        let change = EpochChange::decode(&body).expect("the body is right");
        let opened = ReaderKeys::from_seed(&seed).open(&capsule, epoch, &change.grants[0]);
        Json::Object(vec![
            ("what", text(what)),
            ("capsule", hex(&capsule.0)),
            ("epoch", number(epoch)),
            ("reader_seed", hex(&seed)),
            ("body", hex(&body)),
            ("code", refused(what, opened)),
        ])
    }))
}

fn refused_bodies() -> Json {
    let right = EpochChange::default().encode();
    let parts = |sealed: usize, ciphertext: usize, reader: usize| {
        body_with(&[vec![0; reader], vec![0; ciphertext], vec![0; sealed]])
    };
    let added = |count| EpochChange {
        added: vec![
            Added {
                number: 2,
                key: public(&WRITER),
            };
            count
        ],
        ..EpochChange::default()
    };
    let heads = |count| EpochChange {
        revoked: vec![Revoked {
            number: 1,
            heads: vec![RecordName([0; 32]); count],
        }],
        ..EpochChange::default()
    };
    let cases = [
        ("it ends early", cut(&right).to_vec()),
        ("a byte follows", longer(&right)),
        ("version 2", [&[right[0], 2], &right[2..]].concat()),
        ("65 writers join", added(MAX_CHANGES + 1).encode()),
        ("17 heads of one writer", heads(MAX_ACCEPTED + 1).encode()),
        ("a sealed key of 47 bytes", parts(47, 1120, 32)),
        ("a ciphertext of 1119 bytes", parts(48, 1119, 32)),
        ("a reader of 31 bytes", parts(48, 1120, 31)),
        ("the number 2^16", number_of_17_bits()),
    ];
    list(cases.into_iter().map(|(what, body)| {
        Json::Object(vec![
            ("what", text(what)),
            ("body", hex(&body)),
            ("code", refused(what, EpochChange::decode(&body))),
        ])
    }))
}

fn number_of_17_bits() -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.array(4).uint(1).array(1);
    encoder.array(2).uint(1 << 16).bytes(&public(&WRITER).0);
    encoder.array(0).array(0);
    out
}

/// An epoch record with its signature.
struct Signed {
    header: Vec<u8>,
    body: Vec<u8>,
    signature: Signature,
}

/// What an epoch record says beside its body.
struct Place {
    writer: u16,
    epoch: u32,
    sequence: u64,
    backpointers: Vec<RecordName>,
}

fn signed(
    charter: &Charter,
    change: &EpochChange,
    place: Place,
    seed: &[u8; 32],
    label: &'static str,
) -> Signed {
    let body = change.encode();
    let header = Header {
        kind: RecordKind::Epoch,
        writer: place.writer,
        epoch: place.epoch,
        sequence: place.sequence,
        body_len: body.len() as u32,
        body: charter.hasher().body(&body),
        backpointers: place.backpointers,
    };
    let mut encoded = Vec::new();
    header.encode(&mut encoded);
    let name = name_of(charter, &encoded);
    Signed {
        header: encoded,
        body,
        signature: keys(seed).sign(label, &name.0),
    }
}

fn name_of(charter: &Charter, header: &[u8]) -> RecordName {
    let view = HeaderView::decode(header).expect("a right header");
    view.name(charter.hasher())
}

impl Signed {
    fn apply(&self, charter: &Charter, authority: &mut Authority) -> selfsame_capsule::Result<EpochChange> {
        let header = HeaderView::decode(&self.header)?;
        let name = header.name(charter.hasher());
        authority.apply(&name, &header, &self.body, &self.signature)
    }

    fn to_json(&self, mut more: Vec<(&'static str, Json)>) -> Json {
        more.extend([
            ("header", hex(&self.header)),
            ("body", hex(&self.body)),
            ("signature", hex(&self.signature.0)),
        ]);
        Json::Object(more)
    }
}

fn joins(number: u16, seed: &[u8; 32]) -> EpochChange {
    EpochChange {
        added: vec![Added {
            number,
            key: public(seed),
        }],
        ..EpochChange::default()
    }
}

fn leaves(number: u16, heads: Vec<RecordName>) -> EpochChange {
    EpochChange {
        revoked: vec![Revoked { number, heads }],
        ..EpochChange::default()
    }
}

/// The seed of the writer who joins.
const OTHER: [u8; 32] = [12; 32];

/// Where the owner's record of an epoch stands.
fn place(epoch: u32, backpointers: Vec<RecordName>) -> Place {
    Place {
        writer: 0,
        epoch,
        sequence: u64::from(epoch),
        backpointers,
    }
}

/// Two epoch records of which the second revokes writer 1, then ones that are refused after these.
fn records(charter: &Charter) -> Json {
    let head = RecordName([13; 32]);
    let first = signed(charter, &joins(2, &OTHER), place(0, Vec::new()), &OWNER, RECORD);
    let before = name_of(charter, &first.header);
    let change = leaves(1, vec![head]);
    let second = signed(charter, &change, place(1, vec![before, head]), &OWNER, RECORD);
    let last = name_of(charter, &second.header);
    let mut authority = Authority::new(charter.metadata());
    for record in [&first, &second] {
        record.apply(charter, &mut authority).expect("it is in force");
    }
    let cases = refused_after(charter, head, last);
    let cases = cases.into_iter().map(|(what, record)| {
        let outcome = record.apply(charter, &mut authority.clone());
        record.to_json(vec![("what", text(what)), ("code", refused(what, outcome))])
    });
    Json::Object(vec![
        (
            "in_force",
            list([&first, &second].map(|record| record.to_json(Vec::new()))),
        ),
        ("then_refused", list(cases)),
        ("then_signatures", signatures(charter, &authority, &OTHER)),
    ])
}

/// Epoch records that are refused after the last one, which points to a head.
fn refused_after(charter: &Charter, head: RecordName, last: RecordName) -> Vec<(&'static str, Signed)> {
    let by = |change: &EpochChange, epoch, seed, label| {
        signed(charter, change, place(epoch, vec![last]), seed, label)
    };
    let nothing = EpochChange::default();
    let mut wrong_byte = by(&nothing, 2, &OWNER, RECORD);
    wrong_byte.signature.0[0] ^= 1;
    let by_other = Place {
        writer: 2,
        ..place(2, vec![last])
    };
    let elsewhere = place(2, vec![head, last]);
    vec![
        ("the epoch before", by(&nothing, 0, &OWNER, RECORD)),
        ("two epochs further", by(&nothing, 3, &OWNER, RECORD)),
        (
            "the first backpointer is another",
            signed(charter, &nothing, elsewhere, &OWNER, RECORD),
        ),
        (
            "a number that is known",
            by(&joins(2, &[14; 32]), 2, &OWNER, RECORD),
        ),
        (
            "a number that was revoked",
            by(&joins(1, &[14; 32]), 2, &OWNER, RECORD),
        ),
        ("a key that is known", by(&joins(3, &OTHER), 2, &OWNER, RECORD)),
        (
            "the owner is revoked",
            by(&leaves(0, Vec::new()), 2, &OWNER, RECORD),
        ),
        (
            "who is no writer is revoked",
            by(&leaves(9, Vec::new()), 2, &OWNER, RECORD),
        ),
        (
            "who was revoked is revoked again",
            by(&leaves(1, Vec::new()), 2, &OWNER, RECORD),
        ),
        (
            "it revokes without a new epoch",
            by(&leaves(2, Vec::new()), 1, &OWNER, RECORD),
        ),
        (
            "a head that is no backpointer",
            by(&leaves(2, vec![head]), 2, &OWNER, RECORD),
        ),
        (
            "another writer's record",
            signed(charter, &nothing, by_other, &OTHER, RECORD),
        ),
        ("another writer signs", by(&nothing, 2, &OTHER, RECORD)),
        (
            "another label",
            by(&nothing, 2, &OWNER, "selfsame/1 capsule metadata"),
        ),
        ("one byte of the signature is another", wrong_byte),
    ]
}

/// Whose signatures count after these epoch records.
fn signatures(charter: &Charter, authority: &Authority, joined: &[u8; 32]) -> Json {
    use selfsame_capsule::proof::Writers as _;
    let cases = [
        ("the writer who joined", 2, 1, joined),
        ("the owner", 0, 1, &OWNER),
        ("the writer who was revoked", 1, 0, &WRITER),
        ("a writer that does not exist", 3, 1, joined),
    ];
    list(cases.into_iter().map(|(what, writer, epoch, seed)| {
        let header = Header {
            kind: RecordKind::Plain,
            writer,
            epoch,
            sequence: 0,
            body_len: 0,
            body: charter.hasher().body(b""),
            backpointers: Vec::new(),
        };
        let mut encoded = Vec::new();
        header.encode(&mut encoded);
        let name = name_of(charter, &encoded);
        let signature = keys(seed).sign(RECORD, &name.0);
        let view = HeaderView::decode(&encoded).expect("a right header");
        let code = authority.check(&view, &name, &signature).err();
        Json::Object(vec![
            ("what", text(what)),
            ("header", hex(&encoded)),
            ("signature", hex(&signature.0)),
            ("code", code.map_or(Json::Null, |code| text(code.name()))),
        ])
    }))
}
