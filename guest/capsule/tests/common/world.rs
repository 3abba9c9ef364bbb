//! Some replicas that reach each other, and what went to and fro between them.

use selfsame_capsule::hash::CapsuleName;
use selfsame_capsule::message::{Envelope, Operation};
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::replica::{PeerId, SyncOutcome, Synced};
use selfsame_capsule::writer::{Backpointers, Writer, Written};
use selfsame_codec::{Code, Field, Reader};

use super::server::{Client, Map, Server, sign, write};
use super::{Log, charter};

const NOW: u64 = 1_800_000_000_000;

/// What one synchronisation cost
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Requests, and bytes either way, until the difference was known.
    pub(crate) round_trips: usize,
    pub(crate) bytes: usize,
    /// Requests in all.
    pub(crate) requests: usize,
}

pub(crate) struct World {
    pub(crate) servers: Vec<Server>,
    pub(crate) cost: Cost,
    pub(crate) pushes: usize,
    syncs: u8,
}

pub(crate) fn peer(index: usize) -> PeerId {
    [index as u8; 32]
}

/// Each request of a replica to another has one kind of operation; it begins after the envelope.
const FIRST_OPERATION: usize = 53;

impl World {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            servers: (0..count).map(|_| Server::new(Map::new())).collect(),
            cost: Cost::default(),
            pushes: 0,
            syncs: 0,
        }
    }

    /// Replicas that all have the capsule.
    pub(crate) fn created(count: usize, charter: &Charter) -> Self {
        let mut world = Self::new(count);
        let metadata = charter.encoded().to_vec();
        for index in 0..count {
            world.ask(index, charter, &[Operation::Create { metadata: &metadata }]);
        }
        world
    }

    /// One replica that has all records of a log.
    pub(crate) fn of(log: &Log) -> Self {
        let mut world = Self::created(1, &log.charter);
        let records: Vec<&Written> = log.records.iter().collect();
        give(&mut world, 0, &log.charter, &records, &[]);
        world
    }

    /// Sends a client's operations to one of them; what came of each.
    pub(crate) fn ask(
        &mut self,
        index: usize,
        charter: &Charter,
        operations: &[Operation<'_>],
    ) -> Vec<Result<Vec<u8>, Code>> {
        let mut client = Client::of(charter);
        let given = operations
            .chunks(4000)
            .flat_map(|operations| client.ask(&mut self.servers[index], operations))
            .collect();
        self.carry();
        given
    }

    /// Lets one synchronise with another.
    pub(crate) fn sync(&mut self, from: usize, to: usize, capsule: CapsuleName) -> Synced {
        self.sync_with(from, to, capsule, |_, response| response)
    }

    /// The same, with somebody who looks at requests.
    pub(crate) fn sync_watched(
        &mut self,
        from: usize,
        to: usize,
        capsule: CapsuleName,
        watch: impl FnMut(&[u8]),
    ) -> Synced {
        self.sync_between(from, to, capsule, watch, |_, response| response)
    }

    /// The same, with somebody on the way who changes responses.
    pub(crate) fn sync_with(
        &mut self,
        from: usize,
        to: usize,
        capsule: CapsuleName,
        change: impl FnMut(u8, Vec<u8>) -> Vec<u8>,
    ) -> Synced {
        self.sync_between(from, to, capsule, |_| {}, change)
    }

    fn sync_between(
        &mut self,
        from: usize,
        to: usize,
        capsule: CapsuleName,
        mut watch: impl FnMut(&[u8]),
        mut change: impl FnMut(u8, Vec<u8>) -> Vec<u8>,
    ) -> Synced {
        self.syncs = self.syncs.wrapping_add(1);
        self.cost = Cost::default();
        let mut entropy = [self.syncs; 32];
        entropy[1] = from as u8;
        let server = &mut self.servers[from];
        server.replica.sync(NOW, peer(to), capsule, entropy);
        server.work();
        while let Some((tag, peer, message)) = self.servers[from].asks.pop() {
            let operation = message[FIRST_OPERATION];
            let to = usize::from(peer[0]);
            let sent = message.len();
            watch(&message);
            let response = change(operation, self.servers[to].respond(message));
            self.cost.requests += 1;
            assert!(self.cost.requests < 20_000, "it does not end");
            // What is known is what comparing and asking for elements gave, before anything was brought.
            if matches!(operation, 11 | 12) && self.servers[from].synced.is_empty() {
                self.cost.round_trips += 1;
                self.cost.bytes += sent + response.len();
            }
            let server = &mut self.servers[from];
            server.replica.answered(NOW, tag, Some(&response));
            server.work();
        }
        self.servers[from].synced.pop().expect("it has ended")
    }

    /// Carries what is pushed, until nothing is under way.
    pub(crate) fn carry(&mut self) {
        while let Some(from) = (0..self.servers.len()).find(|index| !self.servers[*index].asks.is_empty()) {
            let (tag, peer, message) = self.servers[from].asks.remove(0);
            let response = self.servers[usize::from(peer[0])].respond(message);
            self.pushes += 1;
            let server = &mut self.servers[from];
            server.replica.answered(NOW, tag, Some(&response));
            server.work();
        }
    }

    /// What two of them store of records in their sets, bodies and signatures, in which they must not differ when they agree.
    pub(crate) fn stored(&self, index: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let store = &self.servers[index].store;
        let is_unsigned = |key: &[u8]| store.contains_key(&[&key[..32], b"U", &key[33..65]].concat());
        store
            .iter()
            .filter_map(|(key, value)| match key[32] {
                b'B' | b'R' if is_unsigned(key) => None,
                b'B' | b'G' | b'M' | b'H' | b'E' | b'W' => Some((key.clone(), value.to_vec())),
                b'R' => Some((key.clone(), without_witness(value).to_vec())),
                _ => None,
            })
            .collect()
    }

    /// Which records one of them can prove.
    pub(crate) fn proven(&mut self, index: usize, charter: &Charter) -> Vec<Vec<u8>> {
        let names: Vec<[u8; 32]> = self.servers[index]
            .store
            .keys()
            .filter(|key| key[32] == b'R')
            .map(|key| key[33..].try_into().expect("a name"))
            .collect();
        let prove = |name: &[u8; 32]| Operation::Prove {
            record: selfsame_capsule::hash::RecordName(*name),
        };
        let operations: Vec<Operation<'_>> = names.iter().map(prove).collect();
        let given = self.ask(index, charter, &operations);
        let proven = names.into_iter().zip(given).filter(|(_, given)| given.is_ok());
        proven.map(|(name, _)| name.to_vec()).collect()
    }

    /// Checks that two of them store the same and prove the same.
    pub(crate) fn assert_same(&mut self, one: usize, other: usize, charter: &Charter, what: &str) {
        let (here, there) = (self.stored(one), self.stored(other));
        let apart = |all: &[(Vec<u8>, Vec<u8>)], others: &[(Vec<u8>, Vec<u8>)]| {
            let only = all.iter().filter(|pair| !others.contains(pair));
            only.map(|(key, _)| (key[32] as char, key.get(33..37).map(<[u8]>::to_vec)))
                .collect::<Vec<_>>()
        };
        assert!(
            here == there,
            "{what}: {:?} here, {:?} there",
            apart(&here, &there),
            apart(&there, &here)
        );
        assert_eq!(self.proven(one, charter), self.proven(other, charter), "{what}");
    }

    /// Synchronises two of them until they agree, and checks that they do.
    pub(crate) fn converge(&mut self, one: usize, other: usize, charter: &Charter, what: &str) -> Synced {
        let synced = self.sync(one, other, charter.name());
        assert_eq!(synced.outcome, SyncOutcome::Agreed, "{what}: {synced:?}");
        self.assert_same(one, other, charter, what);
        synced
    }
}

/// A stored record without its witness, nor the checksum of both.
fn without_witness(value: &[u8]) -> &[u8] {
    let mut reader = Reader::new(&value[..value.len() - 8]);
    _ = reader
        .field::<selfsame_capsule::witness::Witness>()
        .expect("a witness");
    reader.rest()
}

/// A request of a replica to another.
pub(crate) fn between_replicas(capsule: CapsuleName, operations: &[Operation<'_>]) -> Vec<u8> {
    let mut message = Vec::new();
    Envelope {
        capsule,
        session: selfsame_capsule::message::REPLICAS,
        verified: 0,
    }
    .write(&mut message);
    operations
        .iter()
        .for_each(|operation| operation.write(&mut message));
    message
}

/// Gives a replica these records, and their signatures.
pub(crate) fn give(
    world: &mut World,
    index: usize,
    charter: &Charter,
    records: &[&Written],
    signed: &[(&Writer, &Written)],
) {
    let mut operations: Vec<Operation<'_>> = records.iter().map(|record| write(record)).collect();
    operations.extend(
        signed
            .iter()
            .map(|(by, record)| sign(record.name, by.sign(&record.name))),
    );
    assert!(world.ask(index, charter, &operations).iter().all(Result::is_ok));
}

/// A chain of so many records.
pub(crate) fn chain(count: usize) -> Log {
    Log::new(charter(), count, &Backpointers::Chain)
}
