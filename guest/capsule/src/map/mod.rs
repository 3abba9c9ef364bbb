//! A map of keys to values in a capsule: its records hold operations, and now and then a tree of what all of them come to (DCS,
//! section 6.4, as something to use).
//!
//! It does no I/O. It goes between an application and a client of the capsule: a host hands it commands and what happens, as it
//! does with a [`Client`], and carries out the effects that it asks for.

mod command;
mod feed;
mod format;
mod growth;
mod node;
mod order;
mod parts;
mod reading;
mod refreshing;
mod tree;
mod view;
mod writing;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use bytes::Bytes;
use selfsame_codec::Code;

use crate::client::{self, Client, Config, Effect, Value};
use crate::hash::RecordName;
use crate::refusal::{Refusal, Result};
pub use command::{
    Command, Entries, Entry, Freshness, Held, MAX_ENTRIES, MAX_KEY_BYTES, MAX_OPERATIONS, MAX_VALUE_BYTES,
    Operation, Place, Range, Reply,
};
use feed::{Feed, Watcher};
use parts::Parts;
use reading::Reading;
use refreshing::{Refreshing, Waiter};
use view::View;
use writing::{Committed, Paged, Writing};

/// Commands of the application's have smaller numbers; larger ones are the map's own.
pub const MAX_COMMAND: u32 = (1 << 31) - 1;
/// Shortest time between two questions for those who wait for changes.
const MIN_EVERY_MS: u64 = 10;

/// What a command to the client is for
#[derive(Debug)]
enum Call {
    Fresh,
    Outlines(Vec<RecordName>),
    Plain(Vec<RecordName>),
    Lineage,
    Parts(Vec<Place>),
    Init,
    /// Signs what was written before this client was started.
    Recover,
    /// Signs what was written, as it is to be read.
    Sign(BTreeSet<RecordName>),
    /// Signs what was written, before what is known is forgotten.
    SignFirst,
    Commit(Committed),
    Page(Box<Paged>),
}

/// A map, with the client of its capsule
#[derive(Debug)]
pub struct Map {
    client: Client,
    now: u64,
    calls: BTreeMap<u32, Call>,
    last_call: u32,
    /// Signatures that the application asked for, and of what.
    signing: Vec<(u32, BTreeSet<RecordName>)>,
    replies: VecDeque<(u32, Result<Reply>)>,
    /// Jobs that can go on.
    ready: VecDeque<u32>,
    view: View,
    parts: Parts,
    feed: Feed,
    reading: Reading,
    refreshing: Refreshing,
    refreshed_ms: u64,
    writing: Writing,
}

impl Map {
    /// The map in a capsule. It reads nothing before it is asked for something.
    ///
    /// # Errors
    /// Those of [`Client::new`].
    pub fn new(config: Config) -> Result<Self> {
        Ok(Self {
            client: Client::new(config)?,
            now: 0,
            calls: BTreeMap::new(),
            last_call: MAX_COMMAND,
            signing: Vec::new(),
            replies: VecDeque::new(),
            ready: VecDeque::new(),
            view: View::default(),
            parts: Parts::default(),
            feed: Feed::default(),
            reading: Reading::default(),
            refreshing: Refreshing::default(),
            refreshed_ms: 0,
            writing: Writing::default(),
        })
    }

    /// What the host is to do next.
    pub fn next_effect(&mut self) -> Option<Effect<Reply>> {
        loop {
            if let Some((command, result)) = self.replies.pop_front() {
                return Some(Effect::Reply { command, result });
            }
            if let Some(job) = self.ready.pop_front() {
                self.run(job);
                continue;
            }
            return Some(match self.client.next_effect()? {
                Effect::Reply { command, result } => {
                    self.take_reply(command, result);
                    continue;
                }
                Effect::Send {
                    server,
                    request,
                    bytes,
                } => Effect::Send {
                    server,
                    request,
                    bytes,
                },
                Effect::Get { tag, keys } => Effect::Get { tag, keys },
                Effect::Commit { tag, batch, durable } => Effect::Commit { tag, batch, durable },
            });
        }
    }

    /// When [`Self::wake`] is to be called, if nothing else happens before.
    #[must_use]
    pub fn next_wake(&self) -> Option<u64> {
        self.client.next_wake().into_iter().chain(self.next_poll()).min()
    }

    /// Takes a command of the application, whose number is at most [`MAX_COMMAND`].
    pub fn command(&mut self, now_ms: u64, id: u32, command: Command) {
        self.now = now_ms;
        match command {
            Command::Capsule(command) => {
                if command == client::Command::Sign {
                    self.signing.push((id, self.unsigned()));
                }
                self.client.command(now_ms, id, command);
            }
            Command::Write { operations, signing } => self.write(id, operations, signing),
            Command::Get { key, freshness } => self.get(id, key, freshness),
            Command::List {
                range,
                limit,
                values,
                freshness,
            } => self.list(id, range, (limit, values), freshness),
            Command::History { key, before, limit } => self.history(id, key, before, limit),
            Command::Changes {
                range,
                since: Some(since),
                every_ms,
            } => self.watch(Watcher {
                command: id,
                range,
                since,
                every_ms: every_ms.max(MIN_EVERY_MS),
            }),
            Command::Changes { since: None, .. } => self.begin_watching(id),
            Command::Cancel { command } => {
                if self.cancel(command) {
                    self.reply(command, Err(Refusal::new(Code::Cancelled, 0)));
                }
                self.reply(id, Ok(Reply::Done));
            }
        }
    }

    /// As [`Client::response`].
    pub fn response(&mut self, now_ms: u64, request: u32, response: &[u8]) {
        self.now = now_ms;
        self.client.response(now_ms, request, response);
    }

    /// As [`Client::failed`].
    pub fn failed(&mut self, now_ms: u64, request: u32) {
        self.now = now_ms;
        self.client.failed(now_ms, request);
    }

    /// As [`Client::values`].
    pub fn values(&mut self, now_ms: u64, tag: u32, values: &[(Vec<u8>, Value)]) {
        self.now = now_ms;
        self.client.values(now_ms, tag, values);
    }

    /// As [`Client::committed`].
    pub fn committed(&mut self, now_ms: u64, tag: u32, is_written: bool) {
        self.now = now_ms;
        self.client.committed(now_ms, tag, is_written);
    }

    /// The time of [`Self::next_wake`] has come.
    pub fn wake(&mut self, now_ms: u64) {
        self.now = now_ms;
        if self.next_poll().is_some_and(|at| at <= now_ms) {
            self.refresh(Waiter::Watchers);
        }
        if self.client.next_wake().is_some_and(|at| at <= now_ms) {
            self.client.wake(now_ms);
        }
    }

    fn next_poll(&self) -> Option<u64> {
        let every = self.reading.watchers.iter().map(|watcher| watcher.every_ms);
        let every = every.min().filter(|_| !self.refreshing.is_asking())?;
        Some(self.refreshed_ms + every)
    }

    fn reply(&mut self, command: u32, result: Result<Reply>) {
        self.replies.push_back((command, result));
    }

    fn call(&mut self, call: Call, command: client::Command) {
        self.last_call = self.last_call.wrapping_add(1).max(MAX_COMMAND + 1);
        self.calls.insert(self.last_call, call);
        self.client.command(self.now, self.last_call, command);
    }

    /// Takes what the client says: to the application, or to the map itself.
    fn take_reply(&mut self, command: u32, result: Result<client::Reply>) {
        let Some(call) = self.calls.remove(&command) else {
            if let Some(at) = self.signing.iter().position(|(number, _)| *number == command) {
                let (_, unsigned) = self.signing.swap_remove(at);
                self.signed(&unsigned, done(&result));
            }
            return self.reply(command, result.map(Reply::Capsule));
        };
        let done = done(&result);
        match call {
            Call::Fresh => self.take_fresh(result.and_then(heads)),
            Call::Outlines(names) => {
                let outlines = result.and_then(outlines);
                let outlines = spread(outlines, names.len());
                self.take_outlines(names, outlines);
            }
            Call::Plain(names) => {
                let records = result.and_then(records);
                let records = spread(records, names.len());
                self.take_plain(names, records);
            }
            Call::Lineage => self.take_lineage(spread(result.and_then(outlines), 1)),
            Call::Parts(places) => {
                let parts = spread(result.and_then(parts_of), places.len());
                self.take_parts(&places, parts);
            }
            Call::Init => self.begun(result.and_then(position)),
            Call::Recover => self.recovered(done),
            Call::Sign(unsigned) => {
                self.signed(&unsigned, done);
                self.signed_for_jobs(done);
            }
            Call::SignFirst => self.signed_first(done.is_ok()),
            Call::Commit(committed) => self.written(committed, result.and_then(name)),
            Call::Page(paged) => self.paged(*paged, result.and_then(name)),
        }
    }
}

fn done<T>(result: &Result<T>) -> Result<()> {
    result.as_ref().map(|_| ()).map_err(|refusal| *refusal)
}

/// What came of each, also if nothing came of all.
fn spread<T>(results: Result<Vec<Result<T>>>, count: usize) -> Vec<Result<T>> {
    match results {
        Ok(results) => results,
        Err(refusal) => (0..count).map(|_| Err(refusal)).collect(),
    }
}

fn heads(reply: client::Reply) -> Result<client::Heads> {
    match reply {
        client::Reply::Fresh(heads) => Ok(heads),
        _ => Err(unexpected()),
    }
}

fn outlines(reply: client::Reply) -> Result<Vec<Result<client::Outline>>> {
    match reply {
        client::Reply::Subrecords(outlines) => Ok(outlines),
        _ => Err(unexpected()),
    }
}

fn records(reply: client::Reply) -> Result<Vec<Result<client::Got>>> {
    match reply {
        client::Reply::Records(records) => Ok(records),
        _ => Err(unexpected()),
    }
}

fn parts_of(reply: client::Reply) -> Result<Vec<Result<Bytes>>> {
    match reply {
        client::Reply::Parts(parts) => Ok(parts),
        _ => Err(unexpected()),
    }
}

fn position(reply: client::Reply) -> Result<client::Position> {
    match reply {
        client::Reply::Ready(position) => Ok(position),
        _ => Err(unexpected()),
    }
}

fn name(reply: client::Reply) -> Result<RecordName> {
    match reply {
        client::Reply::Written(names) => names.first().copied().ok_or_else(unexpected),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Refusal {
    Refusal::new(Code::BadMessage, 0)
}

/// A record that is of a map and does not hold what it should.
fn bad_record() -> Refusal {
    Refusal::new(Code::BadRecord, 0)
}
