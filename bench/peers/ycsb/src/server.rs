//! A replica with its store, in the thread of its only client or in one of its own.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{SystemTime, UNIX_EPOCH};

use bench_pair::Outcome;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::replica::{Change, Effect, Limits, Replica};

use crate::backend::Durability;
use crate::store::Store;

/// A server has as much memory as its operator gives it: room for all that a run writes lately, and for a thousand readers.
const LIMITS: Limits = Limits {
    cache: 256 << 20,
    mirrors: 256 << 20,
};

/// A request or a response, and what the client calls it
pub(crate) type Message = (u32, Vec<u8>);

/// How a client reaches a server
pub(crate) trait Link {
    /// Sends requests, one after the other, and waits for all responses, which come in any order.
    ///
    /// # Errors
    /// When the server's store fails.
    fn ask(&mut self, requests: Vec<Message>) -> Outcome<Vec<Message>>;
}

/// The key pair with which the server signs.
pub(crate) fn server_key() -> KeyPair {
    KeyPair::from_seed(&[2; 32])
}

/// A commit that the store has not been told yet
struct Commit {
    tag: u32,
    changes: Vec<Change>,
    durable: bool,
}

/// A replica and its store
pub(crate) struct Server {
    replica: Replica,
    store: Store,
    durability: Durability,
    commits: Vec<Commit>,
    /// Commits that were written, and may not be on the disk yet.
    written: Vec<u32>,
    is_sync_wanted: bool,
    is_dirty: bool,
    responses: Vec<Message>,
}

impl Server {
    /// A server whose store is in a folder.
    ///
    /// # Errors
    /// When the store cannot be created.
    pub(crate) fn create(folder: &Path, durability: Durability) -> Outcome<Self> {
        Ok(Self {
            replica: Replica::new(server_key(), LIMITS),
            store: Store::create(&folder.join("store"))?,
            durability,
            commits: Vec::new(),
            written: Vec::new(),
            is_sync_wanted: false,
            is_dirty: false,
            responses: Vec::new(),
        })
    }

    /// Carries out what the replica asks for, until it asks for nothing more.
    fn work(&mut self) -> Outcome<()> {
        loop {
            while let Some(effect) = self.replica.next_effect() {
                self.carry_out(effect)?;
            }
            if self.commits.is_empty() && self.written.is_empty() {
                return Ok(());
            }
            self.write(true)?;
            for tag in core::mem::take(&mut self.written) {
                self.replica.committed(now_ms(), tag, true);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Outcome<()> {
        match effect {
            Effect::Get { tag, keys } => {
                self.write(false)?;
                let values = self.store.get(keys)?;
                self.replica.values(tag, values);
            }
            Effect::Scan {
                tag,
                start,
                end,
                limit,
            } => {
                self.write(false)?;
                let keys = self.store.scan(&start, &end, limit)?;
                self.replica.keys(tag, &keys);
            }
            Effect::Commit {
                tag,
                changes,
                durable,
            } => self.commits.push(Commit {
                tag,
                changes,
                durable,
            }),
            Effect::Respond { request, response } => self.responses.push((request, response)),
            // It was told of no other replica.
            Effect::Ask { .. } | Effect::Synced(_) => {}
        }
        Ok(())
    }

    /// Writes the commits that wait as one, and waits for the disk if it `may_sync` and one of them asked for it.
    fn write(&mut self, may_sync: bool) -> Outcome<()> {
        let commits = core::mem::take(&mut self.commits);
        self.is_dirty |= commits.iter().any(|commit| !commit.changes.is_empty());
        self.is_sync_wanted |=
            self.durability == Durability::Synced && commits.iter().any(|commit| commit.durable);
        let is_synced = may_sync && self.is_sync_wanted && self.is_dirty;
        let changes: Vec<&Change> = commits.iter().flat_map(|commit| &commit.changes).collect();
        if is_synced || !changes.is_empty() {
            self.store.commit(&changes, is_synced)?;
        }
        if may_sync {
            self.is_dirty &= !is_synced;
            self.is_sync_wanted = false;
        }
        self.written.extend(commits.iter().map(|commit| commit.tag));
        Ok(())
    }
}

impl Link for Server {
    fn ask(&mut self, requests: Vec<Message>) -> Outcome<Vec<Message>> {
        for (request, message) in requests {
            self.replica.request(now_ms(), request, message);
        }
        self.work()?;
        Ok(core::mem::take(&mut self.responses))
    }
}

/// A request on its way to a server, and where its response goes
type Letter = (Message, Sender<Message>);

/// The way to a server in a thread of its own
pub(crate) struct Channel {
    server: Sender<Letter>,
    answers: (Sender<Message>, Receiver<Message>),
}

impl Channel {
    /// A way to the server that [`serve`] runs.
    pub(crate) fn new(server: Sender<Letter>) -> Self {
        Self {
            server,
            answers: channel(),
        }
    }
}

impl Link for Channel {
    fn ask(&mut self, requests: Vec<Message>) -> Outcome<Vec<Message>> {
        let gone = "the server has ended";
        let count = requests.len();
        for request in requests {
            let letter = (request, self.answers.0.clone());
            self.server.send(letter).map_err(|_| gone)?;
        }
        (0..count)
            .map(|_| self.answers.1.recv().map_err(|_| gone.into()))
            .collect()
    }
}

/// Serves until nobody can ask any more. Requests that came while the store wrote are carried out together.
///
/// # Errors
/// When the store fails.
pub(crate) fn serve(mut server: Server, requests: &Receiver<Letter>) -> Outcome<()> {
    let mut asking: HashMap<u32, (u32, Sender<Message>)> = HashMap::new();
    let mut last: u32 = 0;
    while let Ok(first) = requests.recv() {
        for ((request, message), answer) in core::iter::once(first).chain(requests.try_iter()) {
            last = last.wrapping_add(1);
            asking.insert(last, (request, answer));
            server.replica.request(now_ms(), last, message);
        }
        server.work()?;
        for (number, response) in server.responses.drain(..) {
            if let Some((request, answer)) = asking.remove(&number) {
                // Who asked may have given up.
                _ = answer.send((request, response));
            }
        }
    }
    Ok(())
}

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    elapsed.as_millis() as u64
}
