//! Requests to a replica of capsules: each is answered once, whatever it holds, and what is not understood changes nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use selfsame_capsule::header::HeaderView;
use selfsame_capsule::introduction::{Introduction, Place};
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::message::{Envelope, FreshQuery, Operation};
use selfsame_capsule::record::Record;
use selfsame_capsule::replica::{Effect, Limits, Replica};
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::Field;

use super::Target;
use super::capsule::{charter, owner, records};
use super::decode::target;
use super::exchange::seeds_of_requests;
use super::single::WriteOne as _;
use crate::mutate::Shape;

pub(super) const NOW: u64 = 1_800_000_000_000;
/// The request that is fuzzed; those before it store a capsule.
const FUZZED: u32 = 2;

/// The session of all requests.
const SESSION: [u8; 16] = [1; 16];
/// Where all of them come from.
pub(super) const SOURCE: [u8; 32] = [3; 32];

/// Requests to a replica that holds a capsule.
pub(super) fn targets() -> Vec<Box<dyn Target>> {
    vec![target("capsule-request", 60, Shape::Bytes, seeds, run)]
}

/// A request with every operation that there is.
pub(super) fn request(operations: &[Operation<'_>]) -> Vec<u8> {
    let mut message = Vec::new();
    let envelope = Envelope {
        capsule: charter().name(),
        session: SESSION,
        verified: 1,
    };
    envelope.write(&mut message);
    operations
        .iter()
        .for_each(|operation| operation.write(&mut message));
    message
}

pub(super) fn stored() -> Vec<u8> {
    let (writer, records) = records();
    let charter = charter();
    let mut operations = vec![
        Operation::Create {
            metadata: charter.encoded(),
        },
        Operation::Open { slots_log2: 6 },
    ];
    operations.extend(records.iter().map(|record| Operation::Write {
        record: Record {
            header: HeaderView::decode(&record.header).expect("it was just made"),
            body: &record.body,
        },
    }));
    let last = records[4].name;
    operations.push(Operation::Sign {
        record: last,
        signature: writer.sign(&last),
    });
    request(&operations)
}

fn seeds() -> Vec<Vec<u8>> {
    let (_, records) = records();
    let record = records[4].name;
    let reading = [
        Operation::Read { record },
        Operation::Prove {
            record: records[1].name,
        },
        Operation::QueryFresh(FreshQuery {
            nonce: [2; 32],
            writer: Some(owner().public()),
        }),
        Operation::ReadPart {
            record,
            index: 3,
            levels: 1,
        },
        Operation::Subrecords { record },
        Operation::Describe,
        Operation::Open { slots_log2: 5 },
    ];
    let mut seeds = vec![stored(), request(&reading), unsigned()];
    seeds.extend(seeds_of_requests());
    seeds
}

/// What a writer that makes itself known has not signed yet.
fn unsigned() -> Vec<u8> {
    let (mut writer, _) = records();
    let place = Place {
        server: &server().public(),
        capsule: &charter().name(),
        session: &SESSION,
    };
    let made = Introduction::sign(&owner(), 0, &place, NOW);
    let record = writer.write(b"more", &Backpointers::Shortcuts, &[6; 16]);
    let record = record.expect("it is small");
    let write = Operation::Write {
        record: Record {
            header: HeaderView::decode(&record.header).expect("it was just made"),
            body: &record.body,
        },
    };
    request(&[Operation::Introduce(made), write])
}

fn server() -> KeyPair {
    KeyPair::from_seed(&[9; 32])
}

fn run(input: &[u8]) {
    let mut replica = Replica::new(server(), Limits::default());
    let mut store = BTreeMap::new();
    replica.request(NOW, 1, SOURCE, stored());
    let first = work(&mut replica, &mut store).responses;
    assert_eq!(first.len(), 1, "the capsule is stored");
    let before = store.clone();
    replica.request(NOW, FUZZED, SOURCE, input.to_vec());
    let responses = work(&mut replica, &mut store).responses;
    assert!(
        matches!(responses.as_slice(), [(FUZZED, _)]),
        "{} responses to a request",
        responses.len()
    );
    let refused = responses[0].1.get(1..3).is_some_and(|code| code != [0, 0]);
    assert!(
        !refused || store == before,
        "a request that was refused changed the store"
    );
}

pub(super) type Store = BTreeMap<Vec<u8>, Bytes>;

/// What came of a replica's work
#[derive(Default)]
pub(super) struct Done {
    pub(super) responses: Vec<(u32, Vec<u8>)>,
    /// What it asks another replica.
    pub(super) asks: Vec<(u32, Vec<u8>)>,
    /// Whether a synchronisation has ended.
    pub(super) ended: bool,
}

/// Does what the replica asks for.
pub(super) fn work(replica: &mut Replica, store: &mut Store) -> Done {
    let mut done = Done::default();
    while let Some(effect) = replica.next_effect() {
        match effect {
            Effect::Get { tag, keys } => {
                let value = |key: &Vec<u8>| store.get(key).map(|value| &value[..]);
                let values: Vec<_> = keys.iter().map(value).collect();
                replica.values(tag, keys.iter().map(Vec::as_slice).zip(values));
            }
            Effect::Scan {
                tag,
                start,
                end,
                limit,
            } => {
                let keys = store.range(start..end).take(limit);
                let keys: Vec<Vec<u8>> = keys.map(|(key, _)| key.clone()).collect();
                replica.keys(tag, &keys);
            }
            Effect::Commit { tag, batch, .. } => {
                for row in batch.rows() {
                    match row.value {
                        Some(value) => _ = store.insert(row.key.to_vec(), Bytes::copy_from_slice(value)),
                        None => _ = store.remove(row.key),
                    }
                }
                replica.committed(NOW, tag, true);
            }
            Effect::Respond { request, response } => done.responses.push((request, response)),
            Effect::Ask { tag, message, .. } => done.asks.push((tag, message)),
            Effect::Synced(_) => done.ended = true,
        }
    }
    done
}
