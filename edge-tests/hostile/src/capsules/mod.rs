//! Replicas and clients of capsules in the module under attack, and the network between them.

mod client;
mod host;
mod liar;

pub(crate) use client::{Client, Servers};
pub(crate) use host::{Capsules, Host};
pub(crate) use liar::Lie;

use selfsame_capsule::hash::HashKind;
use selfsame_capsule::header::{Header, HeaderView, RecordKind};
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::{Envelope, Operation, SessionId};
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::record::Record;
use selfsame_capsule::writer::{Pen, Progress, Writer, Written};

/// When everything begins, in milliseconds since 1970.
pub(crate) const START_MS: u64 = 1_800_000_000_000;
/// Seeds of the owner and of the writers 1 and 2.
pub(crate) const SEEDS: [[u8; 32]; 3] = [[1; 32], [51; 32], [52; 32]];

/// A capsule that everybody reads, with an owner and two writers.
pub(crate) fn charter() -> Charter {
    let [owner, one, two] = SEEDS.map(|seed| KeyPair::from_seed(&seed));
    let metadata = Metadata {
        hash: HashKind::Blake3,
        readers: Readers::Everybody,
        created_ms: START_MS,
        salt: [9; 16],
        owner: owner.public(),
        writers: vec![one.public(), two.public()],
        description: "under attack".into(),
    };
    Charter::sign(metadata, &owner).expect("the metadata is right")
}

/// A writer that signs by hand, without a client.
pub(crate) fn writer(charter: &Charter, number: u16) -> Writer {
    let pen = Pen {
        number,
        key: KeyPair::from_seed(&SEEDS[usize::from(number)]),
        epoch: 0,
        seal: None,
    };
    Writer::new(charter.clone(), pen, Progress::default())
}

/// A record that names a writer who never made it.
pub(crate) fn fabricated(charter: &Charter, writer: u16, sequence: u64, body: &[u8]) -> Written {
    let header = Header {
        kind: RecordKind::Plain,
        writer,
        epoch: 0,
        sequence,
        body_len: body.len() as u32,
        body: charter.hasher().body(body),
        backpointers: Vec::new(),
    };
    let mut encoded = Vec::new();
    header.encode(&mut encoded);
    Written {
        name: view(&encoded).name(charter.hasher()),
        header: encoded,
        body: body.to_vec(),
    }
}

/// A header that was just made.
pub(crate) fn view(header: &[u8]) -> HeaderView<'_> {
    HeaderView::decode(header).expect("it was just made")
}

/// Stores a record.
pub(crate) fn store(written: &Written) -> Operation<'_> {
    Operation::Write {
        record: Record {
            header: view(&written.header),
            body: &written.body,
        },
    }
}

/// Stores a signature.
pub(crate) fn sign(written: &Written, signature: Signature) -> Operation<'static> {
    Operation::Sign {
        record: written.name,
        signature,
    }
}

/// A request with these operations.
pub(crate) fn request(charter: &Charter, session: SessionId, operations: &[Operation<'_>]) -> Vec<u8> {
    let mut message = Vec::new();
    let envelope = Envelope {
        capsule: charter.name(),
        session,
        verified: 0,
    };
    selfsame_codec::Field::write(&envelope, &mut message);
    operations
        .iter()
        .for_each(|operation| operation.write(&mut message));
    message
}
