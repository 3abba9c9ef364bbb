#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod authors;
pub(crate) mod dice;
pub(crate) mod maps;
pub(crate) mod net;
pub(crate) mod server;
pub(crate) mod single;
pub(crate) mod world;

use selfsame_capsule::authority::Authority;
use selfsame_capsule::cache::Verified;
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::header::{Header, HeaderView, RecordKind};
use selfsame_capsule::keys::{Key, KeyPair, Signature};
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::proof::{Anchor, Prover, encode_proof};
use selfsame_capsule::seal::EpochKey;
use selfsame_capsule::writer::{Backpointers, Pen, Progress, Writer, Written};
use single::WriteOne as _;

pub(crate) const OWNER_SEED: [u8; 32] = [1; 32];

pub(crate) fn metadata(hash: HashKind, readers: Readers, writers: Vec<Key>) -> Metadata {
    Metadata {
        hash,
        readers,
        created_ms: 1_800_000_000_000,
        salt: [9; 16],
        owner: owner().public(),
        writers,
        description: "a test".into(),
    }
}

pub(crate) fn owner() -> KeyPair {
    KeyPair::from_seed(&OWNER_SEED)
}

pub(crate) fn charter() -> Charter {
    charter_of(HashKind::Blake3, Readers::Everybody, Vec::new())
}

pub(crate) fn charter_of(hash: HashKind, readers: Readers, writers: Vec<Key>) -> Charter {
    Charter::sign(metadata(hash, readers, writers), &owner()).expect("metadata is right")
}

pub(crate) fn writer(charter: &Charter, number: u16, key: KeyPair, seal: Option<EpochKey>) -> Writer {
    let pen = Pen {
        number,
        key,
        epoch: 0,
        seal,
    };
    Writer::new(charter.clone(), pen, Progress::default())
}

/// A writer with its records, each pointing to the one before.
pub(crate) struct Log {
    pub(crate) charter: Charter,
    pub(crate) writer: Writer,
    pub(crate) records: Vec<Written>,
}

impl Log {
    pub(crate) fn new(charter: Charter, count: usize, backpointers: &Backpointers) -> Self {
        let mut writer = writer(&charter, 0, owner(), None);
        let records = (0..count)
            .map(|index| {
                let content = format!("record {index}");
                writer
                    .write(content.as_bytes(), backpointers, &[0; 16])
                    .expect("it is small")
            })
            .collect();
        Self {
            charter,
            writer,
            records,
        }
    }

    pub(crate) fn name(&self, index: usize) -> RecordName {
        self.records[index].name
    }

    pub(crate) fn sign(&self, index: usize) -> Anchor {
        Anchor::Signed(self.writer.sign(&self.name(index)))
    }

    pub(crate) fn headers(&self, path: &[usize]) -> Vec<&[u8]> {
        path.iter()
            .map(|index| self.records[*index].header.as_slice())
            .collect()
    }

    /// The proof that leads along these records.
    pub(crate) fn proof(&self, anchor: &Anchor, path: &[usize]) -> Vec<u8> {
        proof_of(anchor, &self.headers(path))
    }

    pub(crate) fn verify(
        &self,
        verified: &mut Verified,
        index: usize,
        proof: &[u8],
    ) -> selfsame_capsule::Result<()> {
        verify(&self.charter, verified, &self.name(index), proof)
    }
}

pub(crate) fn proof_of(anchor: &Anchor, headers: &[&[u8]]) -> Vec<u8> {
    let mut proof = Vec::new();
    encode_proof(anchor, headers.iter().copied(), &mut proof);
    proof
}

pub(crate) fn verify(
    charter: &Charter,
    verified: &mut Verified,
    name: &RecordName,
    proof: &[u8],
) -> selfsame_capsule::Result<()> {
    let authority = Authority::new(charter.metadata());
    Prover::default()
        .verify(charter.hasher(), &authority, verified, name, proof)
        .map(|_| ())
}

/// A record that names a writer who never made it.
pub(crate) fn fabricated(
    charter: &Charter,
    (writer, sequence): (u16, u64),
    backpointers: Vec<RecordName>,
    body: &[u8],
) -> Written {
    let header = Header {
        kind: RecordKind::Plain,
        writer,
        epoch: 0,
        sequence,
        body_len: body.len() as u32,
        body: charter.hasher().body(body),
        backpointers,
    };
    let mut encoded = Vec::new();
    header.encode(&mut encoded);
    let name = HeaderView::decode(&encoded)
        .expect("it was just made")
        .name(charter.hasher());
    Written {
        name,
        header: encoded,
        body: body.to_vec(),
    }
}

pub(crate) fn view(written: &Written) -> HeaderView<'_> {
    HeaderView::decode(&written.header).expect("it was just made")
}

pub(crate) fn nobody() -> Signature {
    Signature([0; 64])
}
