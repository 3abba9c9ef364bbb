//! A replica with a store that can lose what was not made durable, as disks do.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use selfsame_capsule::acknowledgement::{Acknowledgement, Stored};
use selfsame_capsule::cache::Verified;
use selfsame_capsule::hash::{CapsuleName, RecordName};
use selfsame_capsule::introduction::{Introduction, Place};
use selfsame_capsule::keys::{Key, KeyPair, Signature};
use selfsame_capsule::message::{Envelope, Operation, SessionId};
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::record::Record;
use selfsame_capsule::replica::{Effect, Limits, PeerId, Replica, Source, Synced};
use selfsame_capsule::verifier::Verifier;
use selfsame_capsule::writer::Written;
use selfsame_codec::{Code, Field, Reader};
use selfsame_write_batch::WriteBatch;

use super::view;

const NOW: u64 = 1_800_000_000_000;

pub(crate) type Map = BTreeMap<Vec<u8>, Bytes>;

pub(crate) struct Server {
    pub(crate) replica: Replica,
    pub(crate) public: Key,
    pub(crate) store: Map,
    pub(crate) durable: Map,
    /// Durable commits that are not done yet, if they are held back.
    pub(crate) held: Vec<u32>,
    pub(crate) holds: bool,
    pub(crate) durable_commits: usize,
    /// Of how many keys it has read the values, and how often it has asked for some.
    pub(crate) reads: usize,
    pub(crate) gets: usize,
    /// How often it has looked for keys: when it opens a capsule, or goes over its records.
    pub(crate) scans: usize,
    /// Of how many it may: one that goes on reading fails.
    pub(crate) most_reads: usize,
    /// Bytes that its store gave for them.
    pub(crate) read_bytes: usize,
    /// How many commits it carries out before its machine stops.
    pub(crate) lives_for: usize,
    pub(crate) responses: BTreeMap<u32, Vec<u8>>,
    /// What it wants to ask other replicas: tag, peer and request.
    pub(crate) asks: Vec<(u32, PeerId, Vec<u8>)>,
    pub(crate) synced: Vec<Synced>,
    /// From where requests come that say nothing else.
    pub(crate) source: Source,
    /// Requests in the order in which they were answered lately.
    pub(crate) answered: Vec<u32>,
    last: u32,
}

pub(crate) fn key() -> KeyPair {
    KeyPair::from_seed(&[42; 32])
}

impl Server {
    pub(crate) fn new(store: Map) -> Self {
        Self::with_key(key(), store)
    }

    /// The same, which holds only capsules of these owners.
    pub(crate) fn for_owners(mut self, owners: Vec<Key>) -> Self {
        self.replica = self.replica.for_owners(owners);
        self
    }

    pub(crate) fn with_key(key: KeyPair, store: Map) -> Self {
        Self {
            public: key.public(),
            replica: Replica::new(
                key,
                Limits {
                    cache: 4 << 20,
                    mirrors: 1 << 20,
                },
            ),
            durable: store.clone(),
            store,
            held: Vec::new(),
            holds: false,
            durable_commits: 0,
            reads: 0,
            gets: 0,
            scans: 0,
            most_reads: usize::MAX,
            read_bytes: 0,
            lives_for: usize::MAX,
            responses: BTreeMap::new(),
            asks: Vec::new(),
            synced: Vec::new(),
            source: [0; 32],
            answered: Vec::new(),
            last: 0,
        }
    }

    /// What is left after a power loss.
    pub(crate) fn lose_power(self) -> Self {
        Self::new(self.durable)
    }

    pub(crate) fn send(&mut self, message: Vec<u8>) -> u32 {
        self.send_from(self.source, message)
    }

    /// The same, from somewhere.
    pub(crate) fn send_from(&mut self, source: Source, message: Vec<u8>) -> u32 {
        self.last += 1;
        self.answered.clear();
        self.replica.request(NOW, self.last, source, message);
        self.work();
        self.last
    }

    pub(crate) fn release(&mut self) {
        for tag in core::mem::take(&mut self.held) {
            self.durable = self.store.clone();
            self.replica.committed(1_800_000_000_001, tag, true);
        }
        self.work();
    }

    /// Its response to a request.
    pub(crate) fn respond(&mut self, message: Vec<u8>) -> Vec<u8> {
        let request = self.send(message);
        self.responses.remove(&request).expect("it is answered")
    }

    pub(crate) fn work(&mut self) {
        while let Some(effect) = self.replica.next_effect() {
            match effect {
                Effect::Get { tag, keys } => {
                    self.reads += keys.len();
                    self.gets += 1;
                    assert!(self.reads <= self.most_reads, "{} keys read", self.reads);
                    let store = &self.store;
                    let value = |key: &Vec<u8>| store.get(key).map(|value| &value[..]);
                    let values: Vec<_> = keys.iter().map(value).collect();
                    let given = values.iter().flatten();
                    self.read_bytes += given.map(|value| value.len()).sum::<usize>();
                    let keys = keys.iter().map(Vec::as_slice);
                    self.replica.values(tag, keys.zip(values));
                }
                Effect::Scan {
                    tag,
                    start,
                    end,
                    limit,
                } => {
                    self.scans += 1;
                    let keys: Vec<Vec<u8>> = self
                        .store
                        .range(start..end)
                        .take(limit)
                        .map(|(key, _)| key.clone())
                        .collect();
                    self.replica.keys(tag, &keys);
                }
                Effect::Commit { tag, batch, durable } => {
                    let changes = batch.rows().count();
                    assert!(changes <= 500, "{changes} changes at once");
                    let Some(left) = self.lives_for.checked_sub(1) else {
                        return;
                    };
                    self.lives_for = left;
                    let keys: BTreeSet<&[u8]> = batch.rows().map(|row| row.key).collect();
                    assert_eq!(keys.len(), changes, "a key is changed twice at once");
                    self.apply(&batch);
                    self.durable_commits += usize::from(durable);
                    if durable && self.holds {
                        self.held.push(tag);
                    } else {
                        if durable {
                            self.durable = self.store.clone();
                        }
                        self.replica.committed(1_800_000_000_001, tag, true);
                    }
                }
                Effect::Respond { request, response } => {
                    self.answered.push(request);
                    assert!(
                        self.responses.insert(request, response).is_none(),
                        "answered twice"
                    );
                }
                Effect::Ask { tag, peer, message } => self.asks.push((tag, peer, message)),
                Effect::Synced(synced) => self.synced.push(synced),
            }
        }
    }

    fn apply(&mut self, batch: &WriteBatch) {
        for row in batch.rows() {
            match row.value {
                Some(value) => _ = self.store.insert(row.key.to_vec(), Bytes::copy_from_slice(value)),
                None => _ = self.store.remove(row.key),
            }
        }
    }
}

/// What came of one operation
pub(crate) type Given = Result<Vec<u8>, Code>;

pub(crate) struct Client {
    pub(crate) capsule: CapsuleName,
    pub(crate) charter: Charter,
    pub(crate) session: SessionId,
    pub(crate) verified: u32,
    pub(crate) cache: Verified,
    /// The writer as whom it makes itself known before it writes; nobody if there is none.
    pub(crate) writer: Option<(u16, KeyPair)>,
    pub(crate) source: Source,
}

impl Client {
    pub(crate) fn of(charter: &Charter) -> Self {
        Self {
            capsule: charter.name(),
            charter: charter.clone(),
            session: [7; 16],
            verified: 0,
            cache: Verified::new(8),
            writer: Some((0, super::owner())),
            source: [0; 32],
        }
    }

    pub(crate) fn message(&self, operations: &[Operation<'_>]) -> Vec<u8> {
        let mut message = Vec::new();
        Envelope {
            capsule: self.capsule,
            session: self.session,
            verified: self.verified,
        }
        .write(&mut message);
        operations
            .iter()
            .for_each(|operation| operation.write(&mut message));
        message
    }

    /// Sends operations; what each gave, and checks that what was stored is acknowledged.
    pub(crate) fn ask(&mut self, server: &mut Server, operations: &[Operation<'_>]) -> Vec<Given> {
        let introduction = self.introduction(&server.public);
        let writes = |operation: &Operation<'_>| matches!(operation, Operation::Write { .. });
        let introduction = introduction.filter(|_| operations.iter().any(writes));
        // After what creates the capsule.
        let is_create = |operation: &&Operation<'_>| matches!(operation, Operation::Create { .. });
        let at = operations.iter().take_while(is_create).count();
        let (before, after) = operations.split_at(at);
        let all: Vec<Operation<'_>> = before
            .iter()
            .copied()
            .chain(introduction)
            .chain(after.iter().copied())
            .collect();
        let request = server.send_from(self.source, self.message(&all));
        let response = server.responses.remove(&request).expect("it is answered");
        let mut given = self.read(&response, &all).expect("the request is understood");
        if introduction.is_some() {
            assert_eq!(given.remove(at).map(|_| ()), Ok(()), "it is known");
        }
        given
    }

    /// What makes its writer known to a server.
    pub(crate) fn introduction(&self, server: &Key) -> Option<Operation<'static>> {
        let (number, key) = self.writer.as_ref()?;
        let place = Place {
            server,
            capsule: &self.capsule,
            session: &self.session,
        };
        let made = Introduction::sign(key, *number, &place, NOW);
        Some(Operation::Introduce(made))
    }

    pub(crate) fn read(
        &mut self,
        response: &[u8],
        operations: &[Operation<'_>],
    ) -> Result<Vec<Given>, (Code, u32)> {
        let mut reader = Reader::new(response);
        assert_eq!(reader.field::<u8>(), Ok(1));
        let code: u16 = reader.field().expect("a code");
        if code != 0 {
            let at = reader.field().expect("where");
            return Err((Code::from_u16(code).expect("a known code"), at));
        }
        self.verified = reader.field().expect("a serial");
        let mut stored = Stored::default();
        let given = operations
            .iter()
            .map(|operation| {
                let given = given(&mut reader, operation);
                if given.is_ok() {
                    self.note(&mut stored, operation);
                }
                given
            })
            .collect();
        match reader.field::<u8>().expect("an acknowledgement or none") {
            0 => assert!(stored.is_empty(), "nothing was acknowledged"),
            _ => {
                let word: Acknowledgement = reader.field().expect("an acknowledgement");
                assert!(
                    word.server == key().public()
                        && word.verify(&mut Verifier::default(), &self.capsule, &stored)
                );
            }
        }
        assert!(reader.is_empty());
        Ok(given)
    }

    /// Asks for a proof and verifies it; how many bytes it has.
    pub(crate) fn proves(
        &mut self,
        server: &mut Server,
        charter: &Charter,
        record: RecordName,
    ) -> Result<usize, Code> {
        let given = self.ask(server, &[Operation::Prove { record }]).remove(0)?;
        let mut reader = Reader::new(&given);
        let proof: &[u8] = reader.field().expect("a proof");
        let verified = super::verify(charter, &mut self.cache, &record, proof);
        verified.map(|()| proof.len()).map_err(|refusal| refusal.code)
    }

    fn note(&self, stored: &mut Stored, operation: &Operation<'_>) {
        match operation {
            Operation::Create { .. } => stored.capsule(),
            Operation::Write { record } => stored.record(&record.header.name(self.charter.hasher())),
            Operation::Sign { record, .. } => stored.signature(record),
            _ => {}
        }
    }
}

fn given(reader: &mut Reader<'_>, operation: &Operation<'_>) -> Given {
    let code: u16 = reader.field().expect("a code");
    if code != 0 {
        let _at: u32 = reader.field().expect("where");
        return Err(Code::from_u16(code).expect("a known code"));
    }
    let before = reader.rest();
    match operation {
        Operation::Read { .. } => _ = Record::read(reader).expect("a record"),
        Operation::ReadPart { .. } => {
            _ = reader.field::<&[u8]>().expect("a sub-record");
            let hashes: u16 = reader.field().expect("a count");
            _ = reader.take(usize::from(hashes) * 32).expect("hashes");
        }
        Operation::Signature { .. } => _ = reader.take(73).expect("a signature"),
        Operation::Prove { .. } | Operation::Describe => _ = reader.field::<&[u8]>().expect("bytes"),
        Operation::QueryFresh { .. } => {
            _ = reader.field::<selfsame_capsule::message::Fresh>().expect("heads");
        }
        _ => {}
    }
    let len = before.len() - reader.rest().len();
    Ok(before[..len].to_vec())
}

pub(crate) fn write(written: &Written) -> Operation<'_> {
    Operation::Write {
        record: Record {
            header: view(written),
            body: &written.body,
        },
    }
}

pub(crate) fn sign(record: RecordName, signature: Signature) -> Operation<'static> {
    Operation::Sign { record, signature }
}

/// A server with a capsule, and a client of it.
pub(crate) fn created(charter: &Charter) -> (Server, Client) {
    let (mut server, mut client) = (Server::new(Map::new()), Client::of(charter));
    let metadata = charter.encoded();
    let given = client.ask(&mut server, &[Operation::Create { metadata }]);
    assert_eq!(given, [Ok(Vec::new())]);
    (server, client)
}
