//! A client and its servers.

use std::collections::BTreeMap;

use selfsame_capsule::authorship::Authorship;
use selfsame_capsule::client::Timing;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::message::Operation;
use selfsame_capsule::metadata::Charter;
use selfsame_codec::client::{ClientConfig, Command, Reply};
use selfsame_codec::{Field as _, Item, Reader};

use super::host::Source;
use super::{Capsules, Host, Lie};

/// Source and session of requests that nobody signs: no writer has made itself known there.
const STRANGERS: (Source, [u8; 16]) = ([0x5a; 32], [7; 16]);
/// Rounds after which a command counts as never answered.
const PATIENCE: usize = 10_000;

/// The key of a server.
pub(crate) fn server_key(index: usize) -> KeyPair {
    KeyPair::from_seed(&server_seed(index))
}

fn server_seed(index: usize) -> [u8; 32] {
    [100 + index as u8; 32]
}

/// Replicas of one capsule, each a server of its clients
pub(crate) struct Servers {
    /// The capsule.
    pub(crate) charter: Charter,
    /// The replicas.
    pub(crate) hosts: Vec<Host>,
    /// What the first one says in place of the truth.
    pub(crate) lie: Option<Lie>,
    syncs: u8,
}

impl Servers {
    /// Replicas that all have the capsule.
    pub(crate) fn new(capsules: &Capsules, count: usize, charter: &Charter) -> Self {
        let mut servers = Self {
            charter: charter.clone(),
            hosts: (0..count)
                .map(|index| Host::replica(capsules, server_seed(index)))
                .collect(),
            lie: None,
            syncs: 0,
        };
        let metadata = charter.encoded();
        for index in 0..count {
            assert_eq!(servers.perform(index, &[Operation::Create { metadata }]), 1);
        }
        servers
    }

    /// Sends operations to one of them as a stranger does; how many succeeded.
    pub(crate) fn perform(&mut self, index: usize, operations: &[Operation<'_>]) -> usize {
        let stored = self.hosts[index].perform(&self.charter, STRANGERS, operations);
        self.carry(index);
        stored
    }

    fn respond(&mut self, index: usize, source: Source, message: &[u8]) -> Option<Vec<u8>> {
        let response = self.hosts[index].respond(source, message);
        match &self.lie {
            Some(lie) if index == 0 => lie.answer(&self.charter, message).or(response),
            _ => response,
        }
    }

    /// Carries what one of them asks others, until it asks nothing more.
    fn carry(&mut self, index: usize) {
        while let Some(ask) = self.hosts[index].asks.pop_front() {
            let (to, source) = (usize::from(ask.peer[0]), [index as u8; 32]);
            let response = self.hosts[to].respond(source, &ask.message);
            self.hosts[index].answer(ask.tag, response.as_deref());
        }
    }

    /// Lets one synchronise with another; whether they agree, and how many records came.
    pub(crate) fn sync(&mut self, from: usize, to: usize) -> (bool, u64) {
        self.syncs += 1;
        let (peer, entropy) = ([to as u8; 32], [self.syncs; 32]);
        let charter = self.charter.clone();
        self.hosts[from].sync(peer, &charter, entropy);
        self.carry(from);
        let synced = self.hosts[from].synced.pop();
        synced.map_or((false, 0), |synced| (synced.is_agreed, synced.pulled))
    }

    /// How many of them read their store without end.
    pub(crate) fn stuck(&self) -> usize {
        self.hosts.iter().filter(|host| host.is_stuck).count()
    }

    /// How many of them have trapped.
    pub(crate) fn trapped(&self) -> usize {
        self.hosts.iter().filter(|host| host.is_trapped).count()
    }
}

/// A client of all servers
pub(crate) struct Client {
    host: Host,
    source: Source,
    keys: Vec<[u8; 32]>,
    last: u32,
}

impl Client {
    /// A client with the seed of a writer, or of nobody, and the store of an earlier one.
    pub(crate) fn new(
        capsules: &Capsules,
        servers: &Servers,
        seed: Option<&[u8; 32]>,
        read_quorum: u32,
        store: BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Self {
        let keys: Vec<[u8; 32]> = (0..servers.hosts.len())
            .map(|index| server_key(index).public().0)
            .collect();
        let Timing {
            hedge_ms,
            attempt_ms,
            avoid_ms,
            deadline_ms,
        } = Timing::default();
        let timing = [hedge_ms, attempt_ms, avoid_ms, deadline_ms];
        let config = ClientConfig {
            capsule: servers.charter.name().0,
            metadata: servers.charter.encoded(),
            servers: keys.as_flattened(),
            seed: seed.map_or(&[], |seed| seed),
            write_quorum: 2,
            read_quorum,
            timing: timing.map(|ms| ms as u32),
            entropy: [store.len() as u8 ^ 5; 32],
        };
        Self {
            host: Host::client(capsules, &config, store),
            source: KeyPair::from_seed(seed.unwrap_or(&[0; 32])).public().0,
            keys,
            last: 0,
        }
    }

    /// What it has stored.
    pub(crate) fn store(&self) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.host.store
    }

    /// Gives a command and waits for its reply; `None` if it is never answered, or fails.
    pub(crate) fn run<'a>(
        &mut self,
        servers: &mut Servers,
        command: impl FnOnce(u32) -> Command<'a>,
    ) -> Option<Answered> {
        self.last += 1;
        self.host.command(&command(self.last));
        for _ in 0..PATIENCE {
            while let Some(ask) = self.host.asks.pop_front() {
                let index = self.keys.iter().position(|key| *key == ask.peer)?;
                let response = servers.respond(index, self.source, &ask.message);
                servers.carry(index);
                self.host.answer(ask.tag, response.as_deref());
            }
            if let Some((kind, payload)) = self.host.replies.remove(&self.last) {
                let answered = Answered { kind, payload };
                return (!matches!(answered.reply(), Reply::Failed { .. })).then_some(answered);
            }
            if !self.host.wake() {
                return None;
            }
        }
        None
    }

    /// Begins to write; the sequence number of its next record, if it can.
    pub(crate) fn begin(&mut self, servers: &mut Servers) -> Option<u64> {
        let answered = self.run(servers, |command| Command::Init { command, after: &[] })?;
        match answered.reply() {
            Reply::Ready { sequence, .. } => Some(sequence),
            _ => None,
        }
    }

    /// Writes and signs a record after the last one; its name if a quorum has stored it.
    pub(crate) fn write(&mut self, servers: &mut Servers, content: &[u8]) -> Option<[u8; 32]> {
        self.append(servers, content, true)
    }

    /// The same, without a signature: servers keep it for the writer, as it makes itself known.
    pub(crate) fn write_unsigned(&mut self, servers: &mut Servers, content: &[u8]) -> Option<[u8; 32]> {
        self.append(servers, content, false)
    }

    fn append(&mut self, servers: &mut Servers, content: &[u8], sign: bool) -> Option<[u8; 32]> {
        let mut contents = Vec::new();
        content.write(&mut contents);
        let answered = self.run(servers, |command| Command::Write {
            command,
            sign,
            shortcuts: false,
            pointers: &[],
            contents: &contents,
        })?;
        match answered.reply() {
            Reply::Written { names, .. } => names.try_into().ok(),
            _ => None,
        }
    }

    /// The newest records, and pairs with one sequence number; `None` without a quorum.
    pub(crate) fn fresh(&mut self, servers: &mut Servers) -> Option<Fresh> {
        let answered = self.run(servers, |command| Command::QueryFresh { command })?;
        let Reply::Fresh { heads, forks, .. } = answered.reply() else {
            return None;
        };
        let mut reader = Reader::new(heads);
        let mut names = Vec::new();
        while !reader.is_empty() {
            names.push(reader.array().ok()?);
            reader.field::<&[u8]>().ok()?;
        }
        let (pairs, _) = forks.as_chunks::<64>();
        Some(Fresh {
            heads: names,
            forks: pairs.to_vec(),
        })
    }

    /// How many of these records it reads as signed by the writers that they name.
    pub(crate) fn read(&mut self, servers: &mut Servers, names: &[[u8; 32]]) -> usize {
        let names_bytes = names.as_flattened();
        let read = self.run(servers, |command| Command::Read {
            command,
            names: names_bytes,
        });
        let Some(answered) = read else { return 0 };
        let Reply::Records { results, .. } = answered.reply() else {
            return 0;
        };
        count_records(results)
    }
}

/// What `QueryFresh` gave
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    /// Names of the newest records.
    pub(crate) heads: Vec<[u8; 32]>,
    /// Pairs of names.
    pub(crate) forks: Vec<[u8; 64]>,
}

/// A reply as it came
pub(crate) struct Answered {
    kind: u8,
    payload: Vec<u8>,
}

impl Answered {
    /// What it says.
    pub(crate) fn reply(&self) -> Reply<'_> {
        let item = Item {
            kind: self.kind,
            payload: &self.payload,
        };
        Reply::decode(item).expect("a module encodes its replies")
    }
}

/// How many results of `Read` are records that their writers have signed.
fn count_records(results: &[u8]) -> usize {
    let mut reader = Reader::new(results);
    let mut records = 0;
    while let Ok(code) = reader.field::<u16>() {
        let is_whole = if code == 0 {
            let parts = (
                reader.field::<&[u8]>(),
                reader.field::<Authorship>(),
                reader.field::<u8>(),
                reader.field::<&[u8]>(),
            );
            records += usize::from(parts.1.is_ok_and(|authorship| authorship.is_signed()));
            parts.0.is_ok() && parts.3.is_ok()
        } else {
            reader.field::<u32>().is_ok()
        };
        assert!(is_whole, "a module encodes its replies");
    }
    records
}
