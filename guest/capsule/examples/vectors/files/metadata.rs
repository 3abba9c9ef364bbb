//! Keys, signed metadata and names of capsules.

use selfsame_capsule::hash::{HashKind, Hasher};
use selfsame_capsule::keys::{Key, KeyPair};
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_codec::cbor::Encoder;

use super::fixture::{
    NOW, OWNER, READER, SERVER, WRITER, capsule, changed, cut, hexes, keys, list, longer, open_capsule,
    public, refused,
};
use super::json::{Json, hex, number, text};

const LABEL: &str = "selfsame/1 capsule metadata";

pub(super) fn vectors() -> Json {
    Json::Object(vec![
        ("keys", list([OWNER, WRITER, READER, SERVER].iter().map(key))),
        ("owner_seed", hex(&OWNER)),
        ("capsules", list(capsules().iter().map(described))),
        ("refused", refused_metadata()),
    ])
}

fn key(seed: &[u8; 32]) -> Json {
    Json::Object(vec![("seed", hex(seed)), ("public_key", hex(&public(seed).0))])
}

fn capsules() -> [Charter; 4] {
    let kinds = [HashKind::Blake3, HashKind::Sha256];
    let [[a, b], [c, d]] =
        kinds.map(|hash| [Readers::Everybody, Readers::Granted].map(|readers| capsule(hash, readers)));
    [a, b, c, d]
}

fn described(charter: &Charter) -> Json {
    let metadata = charter.metadata();
    Json::Object(vec![
        ("hash", number(metadata.hash as u64)),
        ("readers", number(metadata.readers as u64)),
        ("created_ms", number(metadata.created_ms)),
        ("salt", hex(&metadata.salt)),
        ("owner", hex(&metadata.owner.0)),
        ("writers", hexes(metadata.writers.iter().map(|key| key.0))),
        ("description", text(&metadata.description)),
        ("metadata", hex(charter.encoded())),
        ("name", hex(&charter.name().0)),
    ])
}

/// What is written in metadata, so that wrong ones can be signed as well.
struct Terms {
    version: u64,
    hash: u64,
    readers: u64,
    salt: Vec<u8>,
    writers: Vec<Key>,
    description: String,
}

fn terms() -> Terms {
    Terms {
        version: 1,
        hash: 1,
        readers: 0,
        salt: vec![9; 16],
        writers: vec![public(&WRITER)],
        description: "vectors".into(),
    }
}

impl Terms {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(8)
            .uint(self.version)
            .uint(self.hash)
            .uint(self.readers)
            .uint(NOW)
            .bytes(&self.salt)
            .bytes(&public(&OWNER).0)
            .array(self.writers.len());
        for writer in &self.writers {
            encoder.bytes(&writer.0);
        }
        encoder.text(&self.description);
        out
    }

    fn signed(&self) -> Vec<u8> {
        let statement = self.encode();
        let name = HashKind::Blake3.capsule_name(&statement);
        signed(&statement, &keys(&OWNER), LABEL, &name.0)
    }
}

fn signed(statement: &[u8], signer: &KeyPair, label: &'static str, name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out)
        .array(2)
        .bytes(statement)
        .bytes(&signer.sign(label, name).0);
    out
}

fn refused_metadata() -> Json {
    let right = terms().signed();
    assert_eq!(
        right,
        open_capsule().encoded(),
        "the encoding of this file is the crate's"
    );
    let mut cases = wrong_terms();
    cases.extend(wrong_signatures());
    cases.extend([
        ("one byte of the salt is another", changed(&right, 20)),
        ("it ends early", cut(&right).to_vec()),
        ("a byte follows", longer(&right)),
        (
            "2049 bytes",
            [right.as_slice(), &vec![0; 2049 - right.len()]].concat(),
        ),
    ]);
    list(cases.into_iter().map(|(what, metadata)| {
        Json::Object(vec![
            ("what", text(what)),
            ("metadata", hex(&metadata)),
            ("code", refused(what, Charter::decode(&metadata))),
        ])
    }))
}

/// What makes metadata wrong.
type Change = (&'static str, fn(&mut Terms));

fn wrong_terms() -> Vec<(&'static str, Vec<u8>)> {
    let many = |count: u8| (0..count).map(|at| public(&[100 + at; 32])).collect();
    let wrong: [Change; 7] = [
        ("version 2", |terms| terms.version = 2),
        ("hash function 3", |terms| terms.hash = 3),
        ("readers 2", |terms| terms.readers = 2),
        ("a salt of 15 bytes", |terms| terms.salt = vec![9; 15]),
        ("the owner is writer 1 too", |terms| {
            terms.writers = vec![public(&OWNER)];
        }),
        ("one key is two writers", |terms| {
            terms.writers = vec![public(&WRITER); 2];
        }),
        ("a description of 1025 bytes", |terms| {
            terms.description = "x".repeat(1025);
        }),
    ];
    let mut cases: Vec<_> = wrong
        .into_iter()
        .map(|(what, change)| {
            let mut terms = terms();
            change(&mut terms);
            (what, terms.signed())
        })
        .collect();
    let seventeen = Terms {
        writers: many(17),
        ..terms()
    };
    cases.push(("17 writers", seventeen.signed()));
    cases
}

fn wrong_signatures() -> [(&'static str, Vec<u8>); 4] {
    let statement = terms().encode();
    let name = HashKind::Blake3.capsule_name(&statement);
    let other = Hasher::new(HashKind::Blake3, &name).fields(&statement);
    let owner = keys(&OWNER);
    [
        (
            "the label of the signature is another",
            signed(&statement, &owner, "selfsame/1 capsule record", &name.0),
        ),
        (
            "the name is hashed under another label",
            signed(&statement, &owner, LABEL, &other),
        ),
        (
            "the name is hashed with another function",
            signed(
                &statement,
                &owner,
                LABEL,
                &HashKind::Sha256.capsule_name(&statement).0,
            ),
        ),
        (
            "a writer signs",
            signed(&statement, &keys(&WRITER), LABEL, &name.0),
        ),
    ]
}
