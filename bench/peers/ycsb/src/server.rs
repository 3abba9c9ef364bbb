//! A replica with its store, in the thread of its only client or in one of its own.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bench_pair::Outcome;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::replica::{Effect, Limits, Replica};
use selfsame_store::Ended;
use selfsame_write_batch::WriteBatch;

use crate::backend::Durability;
use crate::store::Store;

/// A server has as much memory as its operator gives it: room for all that a run writes lately, and for a thousand readers.
const LIMITS: Limits = Limits {
    cache: 256 << 20,
    mirrors: 256 << 20,
};

/// A request, and what the client calls it
pub(crate) type Request = (u32, Arc<Vec<u8>>);
/// Its response
pub(crate) type Response = (u32, Vec<u8>);

/// How a client reaches a server
pub(crate) trait Link {
    /// Sends a request.
    ///
    /// # Errors
    /// When the server has ended.
    fn send(&mut self, request: Request) -> Outcome<()>;

    /// Waits for a response to one of the requests, which come in any order; nothing if all requests have theirs.
    ///
    /// # Errors
    /// When the server's store fails.
    fn receive(&mut self) -> Outcome<Option<Response>>;
}

/// The key pair with which the server signs.
pub(crate) fn server_key() -> KeyPair {
    KeyPair::from_seed(&[2; 32])
}

/// A commit that the store has not been told yet
struct Commit {
    tag: u32,
    batch: WriteBatch,
    durable: bool,
}

/// A replica and its store
pub(crate) struct Server {
    replica: Replica,
    store: Store,
    durability: Durability,
    commits: Vec<Commit>,
    /// Commits that were written as they were to be.
    written: Vec<u32>,
    /// Commits that were written, and are to be on the disk.
    durable: Vec<u32>,
    /// Those of them that the disk is waited for.
    syncing: Vec<u32>,
    responses: VecDeque<Response>,
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
            durable: Vec::new(),
            syncing: Vec::new(),
            responses: VecDeque::new(),
        })
    }

    /// Carries out what the replica asks for, until it asks for nothing more or waits for the disk. `ended` makes what is called
    /// when that has written: then [`Self::synced`] goes on.
    fn work(&mut self, ended: impl Fn() -> Ended) -> Outcome<()> {
        loop {
            while let Some(effect) = self.replica.next_effect() {
                self.carry_out(effect)?;
            }
            self.write()?;
            if self.syncing.is_empty() && !self.durable.is_empty() {
                let is_begun = self.store.begin_sync(ended())?;
                let waiting = if is_begun {
                    &mut self.syncing
                } else {
                    &mut self.written
                };
                waiting.append(&mut self.durable);
            }
            if self.written.is_empty() {
                return Ok(());
            }
            for tag in core::mem::take(&mut self.written) {
                self.replica.committed(now_ms(), tag, true);
            }
        }
    }

    /// The disk has what was waited for.
    fn synced(&mut self) -> Outcome<()> {
        self.store.end_sync()?;
        self.written.append(&mut self.syncing);
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect) -> Outcome<()> {
        match effect {
            Effect::Get { tag, keys } => {
                self.write()?;
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let values = self.store.get(&keys)?;
                let values = values.iter().map(Option::as_deref);
                self.replica.values(tag, keys.into_iter().zip(values));
            }
            Effect::Scan {
                tag,
                start,
                end,
                limit,
            } => {
                self.write()?;
                let keys = self.store.scan(&start, &end, limit)?;
                self.replica.keys(tag, &keys);
            }
            Effect::Commit { tag, batch, durable } => self.commits.push(Commit { tag, batch, durable }),
            Effect::Respond { request, response } => self.responses.push_back((request, response)),
            // It was told of no other replica.
            Effect::Ask { .. } | Effect::Synced(_) => {}
        }
        Ok(())
    }

    /// Writes the commits that wait.
    fn write(&mut self) -> Outcome<()> {
        for Commit { tag, batch, durable } in self.commits.drain(..) {
            self.store.commit(&batch)?;
            let waits = durable && self.durability == Durability::Synced;
            let waiting = if waits {
                &mut self.durable
            } else {
                &mut self.written
            };
            waiting.push(tag);
        }
        Ok(())
    }
}

impl Link for Server {
    fn send(&mut self, (request, message): Request) -> Outcome<()> {
        self.replica.request(now_ms(), request, [0; 32], message);
        Ok(())
    }

    fn receive(&mut self) -> Outcome<Option<Response>> {
        if self.responses.is_empty() {
            // Nothing else is to be done meanwhile.
            self.work(|| Box::new(|| {}))?;
            while !self.syncing.is_empty() {
                self.synced()?;
                self.work(|| Box::new(|| {}))?;
            }
        }
        Ok(self.responses.pop_front())
    }
}

/// What a server in a thread of its own hears
enum Letter {
    /// A request, and where its response goes.
    Request(Request, SyncSender<Response>),
    /// The disk has what was waited for.
    Synced,
    /// Nobody asks any more.
    End,
}

/// Letters that wait for a server, and responses for a client: more than are ever under way, in memory that is taken once.
const LETTERS: usize = 1024;
const ANSWERS: usize = 64;

/// How long a thread looks again before it sleeps, as to wake it takes longer than most of what it waits for. As long as a thread
/// of RocksDB that writes (its `write_thread_max_yield_usec`).
const LOOKING: Duration = Duration::from_micros(100);
/// How often it looks before it lets others go first.
const LOOKS: usize = 32;
/// When others had so much to do meanwhile, so often, it sleeps, as RocksDB's do (its `write_thread_slow_yield_usec`).
const SLOW: Duration = Duration::from_micros(3);
const SLOW_TURNS: usize = 3;

/// Waits for the next message; nothing when none can come any more.
fn next<T>(messages: &Receiver<T>) -> Option<T> {
    let begin = Instant::now();
    let (mut now, mut slow) = (begin, 0);
    while now - begin < LOOKING && slow < SLOW_TURNS {
        for _ in 0..LOOKS {
            match messages.try_recv() {
                Ok(message) => return Some(message),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => core::hint::spin_loop(),
            }
        }
        let before = Instant::now();
        thread::yield_now();
        now = Instant::now();
        slow += usize::from(now - before >= SLOW);
    }
    messages.recv().ok()
}

/// Where a server in a thread of its own is reached
pub(crate) struct Address(SyncSender<Letter>);

/// Does something beside a server that is [created](Server::create) in a thread of its own, and ends with it.
///
/// # Errors
/// When the server or what is done fails.
pub(crate) fn beside<T>(
    folder: &Path,
    durability: Durability,
    work: impl FnOnce(&Address) -> Outcome<T>,
) -> Outcome<T> {
    let (asking, inbox) = sync_channel(LETTERS);
    thread::scope(|scope| {
        let inbox = (asking.clone(), inbox);
        let server = scope.spawn(move || serve(Server::create(folder, durability)?, inbox));
        let address = Address(asking);
        let worked = work(&address);
        // One that has failed does not hear it.
        _ = address.0.send(Letter::End);
        server.join().map_err(|_| "the server panicked")??;
        worked
    })
}

/// The way to a server in a thread of its own
pub(crate) struct Channel {
    server: SyncSender<Letter>,
    answers: (SyncSender<Response>, Receiver<Response>),
    under_way: usize,
}

impl Channel {
    /// A way to a server.
    pub(crate) fn new(to: &Address) -> Self {
        Self {
            server: to.0.clone(),
            answers: sync_channel(ANSWERS),
            under_way: 0,
        }
    }
}

const GONE: &str = "the server has ended";

impl Link for Channel {
    fn send(&mut self, request: Request) -> Outcome<()> {
        let letter = Letter::Request(request, self.answers.0.clone());
        self.server.send(letter).map_err(|_| GONE)?;
        self.under_way += 1;
        Ok(())
    }

    fn receive(&mut self) -> Outcome<Option<Response>> {
        if self.under_way == 0 {
            return Ok(None);
        }
        let answer = next(&self.answers.1).ok_or(GONE)?;
        self.under_way -= 1;
        Ok(Some(answer))
    }
}

/// Serves until it is told to end. What comes while the disk writes is carried out meanwhile, and written together afterwards.
///
/// # Errors
/// When the store fails.
fn serve(mut server: Server, (letters, inbox): (SyncSender<Letter>, Receiver<Letter>)) -> Outcome<()> {
    let ended = || -> Ended {
        let letters = letters.clone();
        // When the server has ended, nobody waits.
        Box::new(move || _ = letters.send(Letter::Synced))
    };
    let mut asking: HashMap<u32, (u32, SyncSender<Response>)> = HashMap::new();
    let mut last: u32 = 0;
    while let Some(letter) = next(&inbox) {
        match letter {
            Letter::Request((request, message), answer) => {
                last = last.wrapping_add(1);
                asking.insert(last, (request, answer));
                server.replica.request(now_ms(), last, [0; 32], message);
            }
            Letter::Synced => server.synced()?,
            Letter::End => break,
        }
        server.work(ended)?;
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
