//! A client, its servers, and a network between them that does what a test wants.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use selfsame_capsule::client::{Client, Command, Config, Effect, Heads, Reply, Start, Value};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::map::{self, Map};
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::{Refusal, Result};
use selfsame_codec::Code;
use zeroize::Zeroizing;

use super::server::{self, Server};

pub(crate) const START: u64 = 1_800_000_000_000;

/// What becomes of a message
pub(crate) enum Fate {
    /// It comes after so many milliseconds.
    After(u64),
    /// It comes twice, at these times.
    Twice(u64, u64),
    /// It is lost, and nobody says so.
    Lost,
    /// It is lost, and the sender is told.
    Failed,
}

/// Decides about each response of a server to a request, which it may change.
pub(crate) type Rule = Box<dyn FnMut((usize, &[u8]), &mut Vec<u8>) -> Fate>;

pub(crate) fn server_key(index: usize) -> KeyPair {
    KeyPair::from_seed(&[100 + index as u8; 32])
}

/// Whether all servers whose answers count named the same records.
pub(crate) fn agree(heads: &Heads) -> bool {
    let named: Vec<_> = heads.answers.iter().map(|(_, fresh)| &fresh.heads).collect();
    named.windows(2).all(|pair| pair[0] == pair[1])
}

pub(crate) fn servers(count: usize) -> Vec<Server> {
    (0..count)
        .map(|index| Server::with_key(server_key(index), server::Map::new()))
        .collect()
}

pub(crate) fn config(charter: &Charter, count: usize, seed: Option<[u8; 32]>, entropy: u8) -> Config {
    let keys = (0..count).map(|index| server_key(index).public()).collect();
    Config {
        metadata: Some(charter.encoded().to_vec()),
        seed: seed.map(Zeroizing::new),
        ..Config::new(charter.name(), keys, [entropy; 32])
    }
}

enum Event {
    Request(usize, u32, Vec<u8>),
    Response(u32, Vec<u8>),
    Failed(u32),
}

/// What a host drives: a client, or a map in a capsule
pub(crate) trait Driven: Sized {
    type Command;
    type Reply;

    fn open(config: Config) -> Result<Self>;
    fn command(&mut self, now: u64, id: u32, command: Self::Command);
    fn response(&mut self, now: u64, request: u32, response: &[u8]);
    fn failed(&mut self, now: u64, request: u32);
    fn values(&mut self, now: u64, tag: u32, values: &[(Vec<u8>, Value)]);
    fn committed(&mut self, now: u64, tag: u32, is_written: bool);
    fn wake(&mut self, now: u64);
    fn next_wake(&self) -> Option<u64>;
    fn next_effect(&mut self) -> Option<Effect<Self::Reply>>;
}

macro_rules! driven {
    ($machine:ty, $command:ty, $reply:ty) => {
        impl Driven for $machine {
            type Command = $command;
            type Reply = $reply;

            fn open(config: Config) -> Result<Self> {
                Self::new(config)
            }

            fn command(&mut self, now: u64, id: u32, command: Self::Command) {
                self.command(now, id, command);
            }

            fn response(&mut self, now: u64, request: u32, response: &[u8]) {
                self.response(now, request, response);
            }

            fn failed(&mut self, now: u64, request: u32) {
                self.failed(now, request);
            }

            fn values(&mut self, now: u64, tag: u32, values: &[(Vec<u8>, Value)]) {
                self.values(now, tag, values);
            }

            fn committed(&mut self, now: u64, tag: u32, is_written: bool) {
                self.committed(now, tag, is_written);
            }

            fn wake(&mut self, now: u64) {
                self.wake(now);
            }

            fn next_wake(&self) -> Option<u64> {
                self.next_wake()
            }

            fn next_effect(&mut self) -> Option<Effect<Self::Reply>> {
                self.next_effect()
            }
        }
    };
}

driven!(Client, Command, Reply);
driven!(Map, map::Command, map::Reply);

/// One client with its store
pub(crate) type User = Driver<Client>;

/// One map with its store
pub(crate) type MapUser = Driver<Map>;

/// A machine with its store, and the network between it and its servers
pub(crate) struct Driver<M: Driven> {
    pub(crate) client: M,
    pub(crate) store: server::Map,
    pub(crate) durable: server::Map,
    pub(crate) now: u64,
    pub(crate) rule: Rule,
    /// Servers that were asked, in order.
    pub(crate) asked: Vec<usize>,
    pub(crate) bytes: usize,
    /// Whether its store writes nothing.
    pub(crate) fails: bool,
    events: BTreeMap<(u64, u64), Event>,
    ordinal: u64,
    pub(crate) replies: BTreeMap<u32, Result<M::Reply>>,
    open: BTreeSet<u32>,
    last: u32,
}

impl<M: Driven> Driver<M> {
    pub(crate) fn new(config: Config) -> Self {
        Self::with_store(config, server::Map::new())
    }

    pub(crate) fn with_store(config: Config, store: server::Map) -> Self {
        Self {
            client: M::open(config).expect("the configuration is right"),
            durable: store.clone(),
            store,
            now: START,
            rule: Box::new(|_, _| Fate::After(5)),
            asked: Vec::new(),
            bytes: 0,
            fails: false,
            events: BTreeMap::new(),
            ordinal: 0,
            replies: BTreeMap::new(),
            open: BTreeSet::new(),
            last: 0,
        }
    }

    /// Gives a command, whose reply comes later.
    pub(crate) fn give(&mut self, command: M::Command) -> u32 {
        self.last += 1;
        self.open.insert(self.last);
        self.client.command(self.now, self.last, command);
        self.last
    }

    /// Gives a command and waits for the reply.
    pub(crate) fn run(&mut self, servers: &mut [Server], command: M::Command) -> Result<M::Reply> {
        let id = self.give(command);
        self.finish(servers);
        self.replies.remove(&id).expect("each command is answered")
    }

    /// Lets time pass until all commands are answered.
    pub(crate) fn finish(&mut self, servers: &mut [Server]) {
        for _ in 0..2_000_000 {
            self.work();
            if self.open.is_empty() {
                return;
            }
            self.step(servers);
        }
        panic!("commands {:?} are never answered", self.open);
    }

    /// Lets what is under way come to its end.
    pub(crate) fn settle(&mut self, servers: &mut [Server]) {
        self.work();
        while !self.events.is_empty() {
            self.step(servers);
            self.work();
        }
    }

    fn step(&mut self, servers: &mut [Server]) {
        let wake = self.client.next_wake();
        let next = self.events.first_key_value().map(|((at, _), _)| *at);
        match (next, wake) {
            (Some(at), wake) if wake.is_none_or(|wake| at <= wake) => {
                let (_, event) = self.events.pop_first().expect("there is one");
                self.now = self.now.max(at);
                self.happen(servers, event);
            }
            (_, Some(wake)) => {
                assert!(wake >= self.now || self.now - wake < 1, "it wakes in the past");
                self.now = self.now.max(wake);
                self.client.wake(self.now);
            }
            (_, None) => panic!("commands {:?} wait for nothing", self.open),
        }
    }

    fn happen(&mut self, servers: &mut [Server], event: Event) {
        match event {
            Event::Request(server, request, bytes) => {
                let sent = servers[server].send(bytes.clone());
                let mut response = servers[server].responses.remove(&sent).expect("it answers");
                self.bytes += response.len();
                match (self.rule)((server, &bytes), &mut response) {
                    Fate::After(ms) => self.later(ms, Event::Response(request, response)),
                    Fate::Twice(first, second) => {
                        self.later(first, Event::Response(request, response.clone()));
                        self.later(second, Event::Response(request, response));
                    }
                    Fate::Lost => {}
                    Fate::Failed => self.later(1, Event::Failed(request)),
                }
            }
            Event::Response(request, bytes) => self.client.response(self.now, request, &bytes),
            Event::Failed(request) => self.client.failed(self.now, request),
        }
    }

    fn later(&mut self, ms: u64, event: Event) {
        self.ordinal += 1;
        self.events.insert((self.now + ms, self.ordinal), event);
    }

    pub(crate) fn work(&mut self) {
        while let Some(effect) = self.client.next_effect() {
            match effect {
                Effect::Send {
                    server,
                    request,
                    bytes,
                } => {
                    self.asked.push(usize::from(server));
                    self.later(5, Event::Request(usize::from(server), request, bytes.to_vec()));
                }
                Effect::Get { tag, keys } => {
                    let value = |key: Vec<u8>| (key.clone(), self.store.get(&key).cloned());
                    let values: Vec<_> = keys.into_iter().map(value).collect();
                    self.client.values(self.now, tag, &values);
                }
                Effect::Commit { tag, batch, durable } => {
                    if self.fails {
                        self.client.committed(self.now, tag, false);
                        continue;
                    }
                    for row in batch.rows() {
                        match row.value {
                            Some(value) => {
                                _ = self.store.insert(row.key.to_vec(), Bytes::copy_from_slice(value))
                            }
                            None => _ = self.store.remove(row.key),
                        }
                    }
                    if durable {
                        self.durable = self.store.clone();
                    }
                    self.client.committed(self.now, tag, true);
                }
                Effect::Reply { command, result } => {
                    assert!(self.open.remove(&command), "command {command} is answered twice");
                    self.replies.insert(command, result);
                }
            }
        }
    }

    /// Lets something happen, so many times.
    pub(crate) fn advance(&mut self, servers: &mut [Server], steps: u64) {
        for _ in 0..steps {
            self.work();
            if !self.open.is_empty() {
                self.step(servers);
            }
        }
        self.work();
    }
}

impl User {
    pub(crate) fn begin(&mut self, servers: &mut [Server]) {
        let start = Start::Resume;
        let ready = self.run(servers, Command::Init { start });
        assert!(matches!(ready, Ok(Reply::Ready(_))), "{ready:?}");
    }

    pub(crate) fn written(&mut self, servers: &mut [Server], command: Command) -> Vec<RecordName> {
        match self.run(servers, command) {
            Ok(Reply::Written(names)) => names,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn fresh(&mut self, servers: &mut [Server]) -> Result<Heads> {
        match self.run(servers, Command::QueryFresh)? {
            Reply::Fresh(heads) => Ok(heads),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn heads(&mut self, servers: &mut [Server]) -> Vec<RecordName> {
        let heads = self.fresh(servers).expect("a quorum answers");
        heads.heads.iter().map(|head| head.name).collect()
    }

    /// What a record holds.
    pub(crate) fn read(&mut self, servers: &mut [Server], record: RecordName) -> Result<Vec<u8>> {
        use selfsame_capsule::client::Content;
        let records = vec![record];
        let Reply::Records(mut got) = self.run(servers, Command::Read { records })? else {
            panic!("it reads records");
        };
        match got.remove(0)?.content {
            Content::Plain(content) => Ok(content.into()),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn code<T>(result: core::result::Result<T, Refusal>) -> Code {
    result.err().expect("it is refused").code
}
