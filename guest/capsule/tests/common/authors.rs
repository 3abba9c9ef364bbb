//! A capsule of an owner and two writers, and what one of them makes up in the name of others.

use super::net::User;
use super::server::Server;
use super::single::WriteOne as _;
use super::{OWNER_SEED, charter_of, proof_of, writer};
use bytes::Bytes;
use selfsame_capsule::authority::{Evidence, Fork};
use selfsame_capsule::authorship::Authorship;
use selfsame_capsule::client::{Command, Reply, Signing};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::{Envelope, Operation};
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::proof::Anchor;
use selfsame_capsule::writer::{Backpointers, Writer, Written};
use selfsame_codec::Field;

pub(crate) const ALICE: [u8; 32] = [51; 32];
pub(crate) const BOB: [u8; 32] = [52; 32];
/// Sequences that once locked a writer out when others made them up.
pub(crate) const FAR: [u64; 3] = [1 << 40, u64::MAX - 1, u64::MAX];

/// A capsule of its owner, Alice, who is writer 1, and Bob, who is writer 2.
pub(crate) fn shared() -> Charter {
    let keys = [ALICE, BOB].map(|seed| KeyPair::from_seed(&seed).public());
    charter_of(HashKind::Blake3, Readers::Everybody, keys.to_vec())
}

pub(crate) fn alice(charter: &Charter) -> Writer {
    writer(charter, 1, KeyPair::from_seed(&ALICE), None)
}

pub(crate) fn seed_of(writer: u16) -> [u8; 32] {
    [OWNER_SEED, ALICE, BOB][usize::from(writer)]
}

/// A record of a writer's that points to others.
pub(crate) fn pointing(by: &mut Writer, to: &[&Written]) -> (Written, Signature) {
    let names = to.iter().map(|record| record.name).collect();
    let made = by.write(b"mine", &Backpointers::Own(names), &[0; 16]);
    let made = made.expect("it is small");
    let signature = by.sign(&made.name);
    (made, signature)
}

/// Gives servers operations, and the capsule before.
pub(crate) fn put(servers: &mut [Server], charter: &Charter, operations: &[Operation<'_>]) {
    for server in servers {
        let mut message = Vec::new();
        Envelope {
            capsule: charter.name(),
            session: [0; 16],
            verified: 0,
        }
        .write(&mut message);
        let metadata = charter.encoded();
        Operation::Create { metadata }.write(&mut message);
        operations
            .iter()
            .for_each(|operation| operation.write(&mut message));
        assert_eq!(server.respond(message)[..3], [1, 0, 0]);
    }
}

pub(crate) fn content(text: &'static [u8]) -> Command {
    Command::Write {
        contents: vec![Bytes::from_static(text)],
        backpointers: Backpointers::Chain,
        signing: Signing::Last,
    }
}

pub(crate) fn fork_of(path: &[&Written], pair: [&Written; 2], signature: Signature) -> Fork {
    let evidence = |record: &Written| {
        let mut headers: Vec<&[u8]> = path.iter().map(|record| record.header.as_slice()).collect();
        headers.push(&record.header);
        Evidence {
            header: record.header.clone(),
            proof: proof_of(&Anchor::Signed(signature), &headers),
        }
    };
    Fork {
        one: evidence(pair[0]),
        other: evidence(pair[1]),
    }
}

/// What a reader is told of records.
pub(crate) fn authorships(
    user: &mut User,
    servers: &mut [Server],
    records: &[RecordName],
) -> Vec<Authorship> {
    let records = records.to_vec();
    match user.run(servers, Command::Read { records }) {
        Ok(Reply::Records(records)) => records
            .into_iter()
            .map(|record| record.expect("it is proven").authorship)
            .collect(),
        other => panic!("{other:?}"),
    }
}
