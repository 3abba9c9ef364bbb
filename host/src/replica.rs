//! A server of capsules: stores what writers send it, proves it to readers and signs for what is durable.
//!
//! What it says and does is decided in `capsule.wasm`; this module gives it a store, a clock and a way to its clients.

use alloc::sync::Arc;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use selfsame_codec::Code;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::oneshot;

use crate::capsule::engine::{Event, Orders};
use crate::capsule::peer::{Peer, Peers};
use crate::capsule::request::{self, Sender};
use crate::capsule::{self, CapsuleName};
use crate::error::Error;
use crate::keys::{Seed, random_bytes};
use crate::node::Node;
use crate::options::ServeOptions;
use crate::store::{Storage, StoreError};
use crate::task::Task;

mod builder;
pub use builder::ReplicaBuilder;

mod file;
use file::Files;

mod room;
use room::{Place, Room};

mod service;
pub use service::{ReplicaBody, ReplicaService};

mod source;
pub use source::Source;

mod guest;
pub use guest::Synchronised;
use guest::{Asked, Order};

mod replicate;
pub use replicate::{ReplicateOptions, Replicating};

/// Most bytes of a request to a replica.
pub const MAX_CAPSULE_REQUEST: usize = 8 << 20;
/// Name of the folder with the capsules in a replica's folder.
pub const CAPSULES_FOLDER: &str = "capsules";
/// Name of the file with the seed of a replica's key in its folder.
pub const REPLICA_KEY_FILE: &str = "replica.key";

/// Which capsules a replica holds
#[derive(Debug)]
struct Shelf {
    held: Mutex<BTreeSet<CapsuleName>>,
    news: broadcast::Sender<CapsuleName>,
}

impl Shelf {
    /// Hears of capsules that come from now on.
    fn listen(self: &Arc<Self>) -> News {
        News {
            heard: self.news.subscribe(),
            shelf: Arc::clone(self),
        }
    }

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

/// Hears of capsules as they come to a replica
struct News {
    heard: broadcast::Receiver<CapsuleName>,
    shelf: Arc<Shelf>,
}

impl News {
    /// The next ones, or all that are held when some were missed; nothing when no more will come.
    async fn next(&mut self) -> Option<BTreeSet<CapsuleName>> {
        match self.heard.recv().await {
            Ok(name) => Some([name].into()),
            Err(RecvError::Lagged(_)) => Some(self.shelf.held().clone()),
            Err(RecvError::Closed) => None,
        }
    }
}

/// A replica of capsules; it ends with its last clone, once what was asked is answered
#[derive(Clone, Debug)]
pub struct Replica {
    key: [u8; 32],
    orders: Orders<Order>,
    peers: Peers,
    room: Arc<Room>,
    files: Files,
    shelf: Arc<Shelf>,
}

impl Replica {
    /// Settings of a replica.
    #[must_use]
    pub fn builder() -> ReplicaBuilder {
        ReplicaBuilder::default()
    }

    /// Opens the replica in a folder as [`ReplicaBuilder::open`] does, with no settings of its own.
    ///
    /// # Errors
    /// Those of [`ReplicaBuilder::open`].
    pub fn open(folder: &Path) -> Result<Self, Error> {
        Self::builder().open(folder)
    }

    /// A replica that forgets everything with the process, with no settings of its own.
    ///
    /// # Errors
    /// Those of [`ReplicaBuilder::in_memory`].
    pub fn in_memory(seed: &Seed) -> Result<Self, Error> {
        Self::builder().in_memory(seed)
    }

    /// A replica over any store, which nothing else uses, with no settings of its own.
    ///
    /// # Errors
    /// Those of [`ReplicaBuilder::start`].
    pub fn start(seed: &Seed, store: impl Storage) -> Result<Self, Error> {
        Self::builder().start(seed, store)
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
        let create = request::create(Sender::Replica, name, metadata)?;
        request::result(&self.request(create).await?)?;
        Ok(name)
    }

    /// Carries out a request of this application's as `docs/specification/capsules.md` has it; the response.
    ///
    /// # Errors
    /// As [`Self::request_from`].
    pub async fn request(&self, message: Bytes) -> Result<Bytes, Error> {
        self.request_from(Source::default(), message).await
    }

    /// Carries out a request that came from somewhere; the response.
    ///
    /// # Errors
    /// [`Error::Core`] for a request that is too long, [`Error::Poisoned`] when the module failed, [`Error::Stopped`] when it
    /// has failed too often.
    pub async fn request_from(&self, source: Source, message: Bytes) -> Result<Bytes, Error> {
        if message.len() > MAX_CAPSULE_REQUEST {
            return Err(Error::from_code(Code::TooLarge));
        }
        let place = self.room.take(source, message.len()).await;
        self.request_in(place.ok_or(Error::Stopped)?, source, message)
            .await
    }

    /// Carries out a request for which there is a place.
    async fn request_in(&self, place: Place, source: Source, message: Bytes) -> Result<Bytes, Error> {
        let (answer, response) = oneshot::channel();
        let asked = Asked {
            source,
            message,
            answer,
            place,
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
        let (done, synced) = oneshot::channel();
        let order = Order::Sync {
            capsule,
            peer: self.peers.add(peer.clone()),
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
        let peers = peers.iter().map(|peer| self.peers.add(peer.clone())).collect();
        self.order(Order::Replicas { capsule, peers }).await
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
        self.peer_from(Source::default())
    }

    /// The same, for what comes from somewhere.
    fn peer_from(&self, source: Source) -> Peer {
        let replica = self.clone();
        Peer::new(self.key, move |message| {
            let replica = replica.clone();
            async move { replica.request_from(source, message).await }
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
        let mut news = self.shelf.listen();
        for name in self.capsules() {
            self.serve_one(node, &options, name).await?;
        }
        let (replica, node) = (self.clone(), node.clone());
        Ok(Serving(Task::spawn(async move {
            while let Some(names) = news.next().await {
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
    while let Some(key) = store.keys(&start, &end, 1)?.pop() {
        let Some(name) = key.first_chunk().copied() else {
            start = [key.as_slice(), &[0]].concat();
            continue;
        };
        names.insert(CapsuleName(name));
        start = [name.as_slice(), &[0xff]].concat();
    }
    Ok(names)
}
