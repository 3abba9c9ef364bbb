//! A server of capsules: stores what writers send it, proves it to readers and signs for what is durable.
//!
//! What it says and does is decided in `capsule.wasm`; this module gives it a store, a clock and a way to its clients.

use alloc::sync::Arc;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use selfsame_codec::Code;
use selfsame_codec::capsule::ReplicaConfig;
use tokio::sync::{Semaphore, broadcast, oneshot};

use crate::capsule::engine::{self, Event, Orders};
use crate::capsule::peer::{Peer, Peers};
use crate::capsule::{self, CapsuleName};
use crate::error::Error;
use crate::keys::{Seed, random_bytes};
use crate::node::Node;
use crate::options::ServeOptions;
use crate::store::{DiskStore, MemoryStore, Storage, StoreError};
use crate::task::Task;

mod file;

mod service;
pub use service::{ReplicaBody, ReplicaService};

mod guest;
pub use guest::Synchronised;
use guest::{Asked, Order, ReplicaGuest};

mod replicate;
pub use replicate::{ReplicateOptions, Replicating};

/// Most bytes of a request to a replica.
pub const MAX_CAPSULE_REQUEST: usize = 8 << 20;
/// Name of the file with the capsules in a replica's folder.
pub const CAPSULES_FILE: &str = "capsules.redb";
/// Name of the file with the seed of a replica's key in its folder.
pub const REPLICA_KEY_FILE: &str = "replica.key";

/// Memory for what is stored and for mirrors of readers' caches.
const CACHE: u32 = 64 << 20;
const MIRRORS: u32 = 32 << 20;
/// Bytes of requests that wait for the replica, of which many fit the module's memory; beyond that whoever asks waits.
const MAX_UNDER_WAY: usize = 64 << 20;
/// What a request takes besides its bytes.
const REQUEST_BYTES: usize = 256;
/// What a request that creates a capsule has in it, and where its response has codes, as `docs/specification/capsules.md` says.
const REQUEST_VERSION: u8 = 1;
const SESSION_BYTES: usize = 16;
const CREATE: u8 = 1;
const CODES_AT: [usize; 2] = [1, 7];
/// Export files that are made or stored over HTTP at a time: each takes some memory as long as it lasts.
const FILES: usize = 4;
/// Names of new capsules that a listener may be behind.
const NEWS: usize = 1024;

/// Which capsules a replica holds
#[derive(Debug)]
struct Shelf {
    held: Mutex<BTreeSet<CapsuleName>>,
    news: broadcast::Sender<CapsuleName>,
}

impl Shelf {
    fn held(&self) -> MutexGuard<'_, BTreeSet<CapsuleName>> {
        // Nothing panics between two changes of the set.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a key: each begins with the name of its capsule.
    fn hold(&self, key: &[u8]) {
        if let Some(name) = key.first_chunk().copied().map(CapsuleName)
            && self.held().insert(name)
        {
            // Nobody need be listening.
            _ = self.news.send(name);
        }
    }
}

/// A replica of capsules; it ends with its last clone, once what was asked is answered
#[derive(Clone, Debug)]
pub struct Replica {
    key: [u8; 32],
    orders: Orders<Order>,
    peers: Peers,
    room: Arc<Semaphore>,
    files: Arc<Semaphore>,
    shelf: Arc<Shelf>,
}

impl Replica {
    /// Opens the replica in a folder, or makes one there, with a key of its own.
    ///
    /// # Errors
    /// [`Error`] says which file cannot be used, and why.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(folder).map_err(|error| StoreError::io(folder, error))?;
        let seed = Seed::load_or_create(&folder.join(REPLICA_KEY_FILE))?;
        let store = DiskStore::open(&folder.join(CAPSULES_FILE))?;
        Self::start(&seed, store)
    }

    /// A replica that forgets everything with the process.
    ///
    /// # Errors
    /// [`Error`] when the module cannot be used.
    pub fn in_memory(seed: &Seed) -> Result<Self, Error> {
        Self::start(seed, MemoryStore::new())
    }

    /// A replica over any store, which nothing else uses.
    ///
    /// # Errors
    /// [`Error`] when the store or the module cannot be used.
    pub fn start(seed: &Seed, store: impl Storage) -> Result<Self, Error> {
        let shelf = Arc::new(Shelf {
            held: Mutex::new(list(&store)?),
            news: broadcast::channel(NEWS).0,
        });
        let key = capsule::public_key(seed)?;
        let config = ReplicaConfig {
            seed: *seed.bytes(),
            cache: CACHE,
            mirrors: MIRRORS,
            owners: Vec::new(),
        };
        let peers = Peers::default();
        let guest = ReplicaGuest::new(config, Arc::clone(&shelf));
        let orders = engine::start("selfsame-replica", guest, Box::new(store), peers.clone())?;
        let room = Arc::new(Semaphore::new(MAX_UNDER_WAY));
        Ok(Self {
            key: key.0,
            orders,
            peers,
            room,
            files: Arc::new(Semaphore::new(FILES)),
            shelf,
        })
    }

    /// The public key that it signs with.
    #[must_use]
    pub fn key(&self) -> [u8; 32] {
        self.key
    }

    /// Names of the capsules that it holds.
    #[must_use]
    pub fn capsules(&self) -> Vec<CapsuleName> {
        self.shelf.held().iter().copied().collect()
    }

    /// Stores a capsule by its signed metadata, unless it is stored; its name.
    ///
    /// # Errors
    /// [`Error::Core`] when these are no metadata of a capsule, and what [`Self::request`] says.
    pub async fn hold(&self, metadata: &[u8]) -> Result<CapsuleName, Error> {
        let name = capsule::describe(metadata)?.name;
        let length = u32::try_from(metadata.len()).map_err(|_| Error::from_code(Code::TooLarge))?;
        let message = [
            &[REQUEST_VERSION][..],
            &name.0,
            // It belongs to no session.
            &[0; SESSION_BYTES + 4],
            &[CREATE],
            &length.to_le_bytes(),
            metadata,
        ];
        let response = self.request(Bytes::from(message.concat())).await?;
        // Of the request as a whole, and of its one operation.
        for at in CODES_AT {
            let code = response.get(at..).and_then(|rest| rest.first_chunk());
            let code = code.map_or(0, |code| u16::from_le_bytes(*code));
            if let Some(code) = Code::from_u16(code) {
                return Err(Error::from_code(code));
            }
        }
        Ok(name)
    }

    /// Carries out a request as `docs/specification/capsules.md` has it; the response.
    ///
    /// # Errors
    /// [`Error::Core`] for a request that is too long, [`Error::Poisoned`] when the module failed, [`Error::Stopped`] when it
    /// has failed too often.
    pub async fn request(&self, message: Bytes) -> Result<Bytes, Error> {
        if message.len() > MAX_CAPSULE_REQUEST {
            return Err(Error::from_code(Code::TooLarge));
        }
        let bytes =
            u32::try_from(message.len() + REQUEST_BYTES).map_err(|_| Error::from_code(Code::TooLarge))?;
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await;
        let (answer, response) = oneshot::channel();
        let room = room.map_err(|_| Error::Stopped)?;
        let asked = Asked {
            message,
            answer,
            room,
        };
        self.order(Order::Request(asked)).await?;
        response.await.unwrap_or(Err(Error::Stopped))
    }

    /// Lets this replica and another one of a capsule come to hold the same; creates the capsule where it is missing.
    ///
    /// # Errors
    /// [`Error::Core`]: `Disconnected` when the other one does not answer, `TooManyRequests` while a synchronisation with it is
    /// under way, and otherwise what one of them refused, and where.
    pub async fn synchronise(&self, capsule: CapsuleName, peer: &Peer) -> Result<Synchronised, Error> {
        self.peers.add(peer.clone());
        let (done, synced) = oneshot::channel();
        let order = Order::Sync {
            capsule,
            peer: peer.id(),
            entropy: random_bytes()?,
            done,
        };
        self.order(order).await?;
        synced.await.unwrap_or(Err(Error::Stopped))
    }

    /// Says which other replicas of a capsule there are: what writers store here from now on is pushed to them.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the replica has ended.
    pub async fn push_to(&self, capsule: CapsuleName, peers: &[Peer]) -> Result<(), Error> {
        let ids = peers.iter().map(Peer::id).collect();
        peers.iter().for_each(|peer| self.peers.add(peer.clone()));
        self.order(Order::Replicas { capsule, peers: ids }).await
    }

    /// Keeps this replica at the same state as the other replicas of its capsules, until the result is dropped: what writers
    /// store here is pushed to them at once, and from time to time each capsule is compared with one of them, so that what was
    /// lost on the way comes after all.
    #[must_use]
    pub fn replicate(&self, options: ReplicateOptions) -> Replicating {
        Replicating::start(self.clone(), options)
    }

    async fn order(&self, order: Order) -> Result<(), Error> {
        let sent = self.orders.send(Event::Order(order)).await;
        sent.map_err(|_| Error::Stopped)
    }

    /// This replica as others in the process ask it.
    #[must_use]
    pub fn peer(&self) -> Peer {
        let replica = self.clone();
        Peer::new(self.key, move |message| {
            let replica = replica.clone();
            async move { replica.request(message).await }
        })
    }

    /// Ends the replica, also for its other clones, and closes its store; what is under way fails.
    pub async fn close(self) {
        // One that has ended by itself needs no telling.
        _ = self.orders.send(Event::End).await;
        self.orders.closed().await;
    }

    /// A tower service that answers `POST` of a request for any capsule with its response.
    #[must_use]
    pub fn service(&self) -> ReplicaService {
        ReplicaService::new(self.clone(), None)
    }

    /// Serves each capsule in the mesh, those of today and those to come: as an unowned service whose name is the capsule's, as
    /// whoever reads a capsule verifies all of it and so need not know who serves it. It goes on until the result is dropped;
    /// what is published stays.
    ///
    /// # Errors
    /// [`Error`] when a name cannot be published.
    pub async fn serve_capsules(&self, node: &Node, options: ServeOptions) -> Result<Serving, Error> {
        let options = options.unowned();
        let mut news = self.shelf.news.subscribe();
        for name in self.capsules() {
            self.serve_one(node, &options, name).await?;
        }
        let (replica, node) = (self.clone(), node.clone());
        Ok(Serving(Task::spawn(async move {
            loop {
                let names = match news.recv().await {
                    Ok(name) => vec![name],
                    // All that it may have missed.
                    Err(broadcast::error::RecvError::Lagged(_)) => replica.capsules(),
                    Err(broadcast::error::RecvError::Closed) => return,
                };
                for name in names {
                    if let Err(error) = replica.serve_one(&node, &options, name).await {
                        tracing::warn!(%name, %error, "a capsule is not published");
                    }
                }
            }
        })))
    }

    async fn serve_one(&self, node: &Node, options: &ServeOptions, name: CapsuleName) -> Result<(), Error> {
        let service = ReplicaService::new(self.clone(), Some(name));
        node.serve_with(&name.to_string(), options, service).await
    }
}

/// Publishes the capsules of a replica as they come, until it is dropped
#[derive(Debug)]
pub struct Serving(#[expect(dead_code, reason = "it is only dropped")] Task);

/// The names of the capsules in a store, each with one look into it.
fn list(store: &impl Storage) -> Result<BTreeSet<CapsuleName>, StoreError> {
    let mut names = BTreeSet::new();
    let mut start = Vec::new();
    // After every key: the byte after a name is a letter.
    let end = [0xff; 33];
    while let Some((key, _)) = store.scan(&start, &end, 1)?.pop() {
        let Some(name) = key.first_chunk().copied() else {
            start = [key.as_slice(), &[0]].concat();
            continue;
        };
        names.insert(CapsuleName(name));
        start = [name.as_slice(), &[0xff]].concat();
    }
    Ok(names)
}
