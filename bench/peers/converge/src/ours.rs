use std::collections::BTreeMap;
use std::time::Instant;

use bench_pair::Outcome;
use bytes::Bytes;
use selfsame_capsule::authority::sign_record;
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::header::HeaderView;
use selfsame_capsule::introduction::{Introduction, Place, SessionId};
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::message::{Envelope, Operation};
use selfsame_capsule::record::Record;
use selfsame_capsule::replica::{Effect, Limits, PeerId, Replica, Source, SyncOutcome};
use selfsame_codec::Field;

use crate::Cost;
use crate::world::{World, owner};

const NOW: u64 = 1_800_000_000_000;
/// Records of one request.
const AT_ONCE: usize = 4000;
/// Where the operation of a request begins, and those that compare.
const OPERATION: usize = 53;
const COMPARE: u8 = 11;
const ELEMENTS: u8 = 12;
const THERE: PeerId = [1; 32];
/// Of all requests.
const SESSION: SessionId = [1; 16];
/// Where all requests come from.
const SOURCE: Source = [2; 32];

/// A replica with its store in memory
struct Server {
    replica: Replica,
    store: BTreeMap<Vec<u8>, Bytes>,
    responses: Vec<Vec<u8>>,
    asks: Vec<(u32, Vec<u8>)>,
    ended: Option<SyncOutcome>,
}

impl Server {
    fn holding(world: &World, side: usize) -> Self {
        let key = KeyPair::from_seed(&[3; 32]);
        let place = Place {
            server: &key.public(),
            capsule: &world.charter.name(),
            session: &SESSION,
        };
        let introduction = Operation::Introduce(Introduction::sign(&owner(), 0, &place, NOW));
        let mut server = Self {
            replica: Replica::new(key, Limits::default()),
            store: BTreeMap::new(),
            responses: Vec::new(),
            asks: Vec::new(),
            ended: None,
        };
        let metadata = world.charter.encoded();
        server.request(message(world, &[Operation::Create { metadata }]));
        let writes: Vec<Operation<'_>> = world
            .of(side)
            .map(|written| Operation::Write {
                record: Record {
                    header: HeaderView::decode(&written.header).expect("it was just made"),
                    body: &written.body,
                },
            })
            .collect();
        for writes in writes.chunks(AT_ONCE) {
            let operations: Vec<_> = [introduction].into_iter().chain(writes.iter().copied()).collect();
            server.request(message(world, &operations));
        }
        // Replicas compare what is proven.
        let heads = world.graph(side).heads.into_iter().map(RecordName);
        let signatures: Vec<_> = heads
            .map(|record| (record, sign_record(&owner(), &record)))
            .collect();
        let sign = |(record, signature): &(RecordName, Signature)| Operation::Sign {
            record: *record,
            signature: *signature,
        };
        for signatures in signatures.chunks(AT_ONCE) {
            let operations: Vec<_> = signatures.iter().map(sign).collect();
            server.request(message(world, &operations));
        }
        server
    }

    fn request(&mut self, message: Vec<u8>) -> Vec<u8> {
        self.replica.request(NOW, 0, SOURCE, message);
        self.work();
        self.responses.pop().unwrap_or_default()
    }

    fn work(&mut self) {
        while let Some(effect) = self.replica.next_effect() {
            match effect {
                Effect::Get { tag, keys } => {
                    let value = |key: &Vec<u8>| self.store.get(key).map(|value| &value[..]);
                    let values: Vec<_> = keys.iter().map(value).collect();
                    self.replica
                        .values(tag, keys.iter().map(Vec::as_slice).zip(values));
                }
                Effect::Scan {
                    tag,
                    start,
                    end,
                    limit,
                } => {
                    let found = self.store.range(start..end).take(limit);
                    let keys: Vec<Vec<u8>> = found.map(|(key, _)| key.clone()).collect();
                    self.replica.keys(tag, &keys);
                }
                Effect::Commit { tag, batch, .. } => {
                    for row in batch.rows() {
                        match row.value {
                            Some(value) => {
                                _ = self.store.insert(row.key.to_vec(), Bytes::copy_from_slice(value))
                            }
                            None => _ = self.store.remove(row.key),
                        }
                    }
                    self.replica.committed(NOW, tag, true);
                }
                Effect::Respond { response, .. } => self.responses.push(response),
                Effect::Ask { tag, message, .. } => self.asks.push((tag, message)),
                Effect::Synced(synced) => self.ended = Some(synced.outcome),
            }
        }
    }

    fn records(&self) -> impl Iterator<Item = [u8; 32]> {
        self.store
            .keys()
            .filter(|key| key[32] == b'R')
            .map(|key| key[33..].try_into().expect("a name has 32 bytes"))
    }
}

fn message(world: &World, operations: &[Operation<'_>]) -> Vec<u8> {
    let mut message = Vec::new();
    let envelope = Envelope {
        capsule: world.charter.name(),
        session: SESSION,
        verified: 0,
    };
    envelope.write(&mut message);
    operations
        .iter()
        .for_each(|operation| operation.write(&mut message));
    message
}

/// Lets one replica synchronise with another, and counts what goes to and fro before the first record does.
pub(crate) fn run(world: &World) -> Outcome<Cost> {
    let (mut here, mut there) = (Server::holding(world, 0), Server::holding(world, 1));
    let mut cost = Cost::default();
    let mut entropy = world.names(0)[0];
    // Not one of the times at which everything is compared without a quick check.
    entropy[0] = 1;
    let begin = Instant::now();
    here.replica.sync(NOW, THERE, world.charter.name(), entropy);
    here.work();
    let mut is_known = false;
    while let Some((tag, message)) = here.asks.pop() {
        is_known |= !matches!(message[OPERATION], COMPARE | ELEMENTS);
        if is_known && cost.nanoseconds == 0 {
            cost.nanoseconds = begin.elapsed().as_nanos();
        }
        let sent = message.len();
        let response = there.request(message);
        if !is_known {
            cost.bytes += sent + response.len();
            cost.round_trips += 1;
        }
        here.replica.answered(NOW, tag, Some(&response));
        here.work();
    }
    if here.ended != Some(SyncOutcome::Agreed) || !here.records().eq(there.records()) {
        return Err(format!("they end apart: {:?}", here.ended));
    }
    Ok(cost)
}
