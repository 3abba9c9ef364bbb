//! The capsules, keys and records of which the vectors are.

use super::single::WriteOne as _;
use selfsame_capsule::Result;
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::header::HeaderView;
use selfsame_capsule::keys::{Key, KeyPair};
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::record::Record;
use selfsame_capsule::seal::EpochKey;
use selfsame_capsule::writer::{Backpointers, Pen, Progress, Writer, Written};
use selfsame_codec::Code;

use super::json::{Json, hex, text};

/// When everything happens: 2027-01-15.
pub(super) const NOW: u64 = 1_800_000_000_000;
pub(super) const OWNER: [u8; 32] = [1; 32];
pub(super) const WRITER: [u8; 32] = [2; 32];
pub(super) const READER: [u8; 32] = [3; 32];
pub(super) const SERVER: [u8; 32] = [4; 32];
pub(super) const SALT: [u8; 16] = [5; 16];

pub(super) fn keys(seed: &[u8; 32]) -> KeyPair {
    KeyPair::from_seed(seed)
}

pub(super) fn public(seed: &[u8; 32]) -> Key {
    keys(seed).public()
}

/// A capsule of the owner's in which writer 1 writes too.
pub(super) fn capsule(hash: HashKind, readers: Readers) -> Charter {
    let metadata = Metadata {
        hash,
        readers,
        created_ms: NOW,
        salt: [9; 16],
        owner: public(&OWNER),
        writers: vec![public(&WRITER)],
        description: "vectors".into(),
    };
    Charter::sign(metadata, &keys(&OWNER)).expect("metadata within its bounds")
}

pub(super) fn open_capsule() -> Charter {
    capsule(HashKind::Blake3, Readers::Everybody)
}

/// The writer with a number, 0 for the owner, before its first record.
pub(super) fn writer(charter: &Charter, number: u16, seal: Option<EpochKey>) -> Writer {
    let pen = Pen {
        number,
        key: keys(if number == 0 { &OWNER } else { &WRITER }),
        epoch: 0,
        seal,
    };
    Writer::new(charter.clone(), pen, Progress::default())
}

/// A record that points to the one before, and to no other.
pub(super) fn chained(writer: &mut Writer, content: &[u8]) -> Written {
    let written = writer.write(content, &Backpointers::Chain, &SALT);
    written.expect("content within its bounds")
}

pub(super) fn view(written: &Written) -> HeaderView<'_> {
    HeaderView::decode(&written.header).expect("a header that the writer made")
}

pub(super) fn record(written: &Written) -> Record<'_> {
    Record {
        header: view(written),
        body: &written.body,
    }
}

/// The bytes with one bit of the byte at `at` changed.
pub(super) fn changed(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

/// The bytes without the last.
pub(super) fn cut(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() - 1]
}

/// The bytes and one more.
pub(super) fn longer(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0]].concat()
}

/// The name of the code with which something was refused.
pub(super) fn refused<T>(what: &str, outcome: Result<T>) -> Json {
    match outcome {
        Err(refusal) => text(refusal.code.name()),
        Ok(_) => panic!("{what}: it was accepted"),
    }
}

/// As [`refused`], of what says no more than a code.
pub(super) fn refused_code(what: &str, outcome: core::result::Result<(), Code>) -> Json {
    refused(
        what,
        outcome.map_err(|code| selfsame_capsule::Refusal::new(code, 0)),
    )
}

pub(super) fn list(items: impl IntoIterator<Item = Json>) -> Json {
    Json::List(items.into_iter().collect())
}

pub(super) fn hexes<T: AsRef<[u8]>>(items: impl IntoIterator<Item = T>) -> Json {
    list(items.into_iter().map(|item| hex(item.as_ref())))
}
