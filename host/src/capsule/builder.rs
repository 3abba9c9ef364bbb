use alloc::sync::Arc;
use core::sync::atomic::AtomicU32;
use core::time::Duration;
use std::path::PathBuf;

use futures_util::future::join_all;
use selfsame_codec::Code;
use tokio::time::timeout;

use super::CapsuleName;
use super::client::{Capsule, Parts};
use super::engine;
use super::guest::{ClientGuest, ClientSettings};
use super::module::{describe, public_key};
use super::peer::{CapsuleServer, Peer, Peers};
use super::request::{self, Sender};
use crate::error::Error;
use crate::id::{CapsuleKey, Owner, PeerId};
use crate::keys::Seed;
use crate::node::Node;
use crate::store::{DiskStore, MemoryStore, Storage, StoreError};

/// How long a client waits
///
/// Unless it says otherwise: for servers on the internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Before it asks a second server what the first has not answered: 250 ms, in which nine of ten answers come.
    pub hedge: Duration,
    /// Before it gives up a request: 5 s.
    pub attempt: Duration,
    /// For how long it asks others first after a server has failed or lied: 10 s.
    pub avoid: Duration,
    /// Before it gives up what it was asked for: 30 s.
    pub deadline: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            hedge: Duration::from_millis(250),
            attempt: Duration::from_secs(5),
            avoid: Duration::from_secs(10),
            deadline: Duration::from_secs(30),
        }
    }
}

/// Where a client keeps what it must not forget
#[derive(Default)]
enum Place {
    #[default]
    Unsaid,
    Memory,
    Folder(PathBuf),
    Store(Box<dyn Storage>),
}

/// How a capsule is opened
#[derive(Default)]
pub struct CapsuleBuilder {
    name: Option<CapsuleName>,
    metadata: Option<Vec<u8>>,
    servers: Vec<CapsuleServer>,
    node: Option<Node>,
    seed: Option<Seed>,
    place: Place,
    quorums: [Option<u32>; 2],
    timing: Timing,
}

impl CapsuleBuilder {
    /// The capsule of this name, whose metadata the servers are asked for.
    #[must_use]
    pub fn name(mut self, name: CapsuleName) -> Self {
        self.name = Some(name);
        self
    }

    /// The capsule of this signed metadata, as [`Plan::sign`](super::Plan::sign) gives it for a new one.
    #[must_use]
    pub fn metadata(mut self, metadata: impl Into<Vec<u8>>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    /// One more server, at most 32 in all. A quorum is worth something if you know whose they are.
    #[must_use]
    pub fn server(mut self, server: CapsuleServer) -> Self {
        self.servers.push(server);
        self
    }

    /// Finds servers in the mesh by the capsule's name, beside those that are given. They may be anybody's.
    #[must_use]
    pub fn mesh(mut self, node: &Node) -> Self {
        self.node = Some(node.clone());
        self
    }

    /// The secret seed of the owner, a writer or a reader. Without one only what everybody may read is read.
    #[must_use]
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Keeps what the client must not forget in a file of this folder, named after the capsule: which sequence numbers it has
    /// used, and what it has seen, so that it notices when it is shown an older state. One process at a time opens it.
    #[must_use]
    pub fn storage(mut self, folder: impl Into<PathBuf>) -> Self {
        self.place = Place::Folder(folder.into());
        self
    }

    /// Keeps that in any store, which nothing else uses.
    #[must_use]
    pub fn store(mut self, store: impl Storage) -> Self {
        self.place = Place::Store(Box::new(store));
        self
    }

    /// Forgets everything with the process: for those who read. A writer that forgets which sequence numbers it has used may
    /// use one twice, which others can prove against it.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.place = Place::Memory;
        self
    }

    /// How many servers must have stored something before it counts as written; more than half unless given.
    #[must_use]
    pub fn write_quorum(mut self, servers: u32) -> Self {
        self.quorums[0] = Some(servers);
        self
    }

    /// How many servers must have said which records are the newest; more than half unless given.
    #[must_use]
    pub fn read_quorum(mut self, servers: u32) -> Self {
        self.quorums[1] = Some(servers);
        self
    }

    /// How long it waits.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Finds the servers and opens the store.
    ///
    /// # Errors
    /// [`Error::Input`] when something is missing or not usable, [`Error::Core`] when metadata does not verify or no server is
    /// found, [`Error::Store`] when the store cannot be opened.
    pub async fn open(self) -> Result<Capsule, Error> {
        let name = self.capsule()?;
        let asked = self.servers.clone();
        // Not all of `self`: where the store is may be somewhere that only one thread may use.
        let (node, metadata) = (self.node.as_ref(), self.metadata.as_deref());
        let Servers { servers, silent } =
            servers_of(asked, node, (name, metadata), self.timing.attempt).await?;
        let keys: Vec<CapsuleKey> = servers.iter().map(|peer| CapsuleKey(peer.id())).collect();
        let settings = self.settings(name, &keys, &silent)?;
        let key = self.seed.as_ref().map(public_key).transpose()?;
        let peers = Peers::default();
        let known = servers.into_iter().map(|peer| peers.add(peer)).collect();
        let lives = Arc::new(AtomicU32::new(0));
        let guest = ClientGuest::new(settings, known, Arc::clone(&lives));
        let store = open_store(self.place, name)?;
        let orders = engine::start(guest, store, peers.clone())?;
        Ok(Capsule::new(Parts {
            name,
            key,
            servers: keys,
            peers,
            orders,
            lives,
        }))
    }

    fn capsule(&self) -> Result<CapsuleName, Error> {
        match (&self.metadata, self.name) {
            (Some(metadata), _) => Ok(describe(metadata)?.name),
            (None, Some(name)) => Ok(name),
            (None, None) => Err(Error::Input("say which capsule: its name or its metadata".into())),
        }
    }

    /// Servers that do not say who they are count, and have nothing.
    fn settings(
        &self,
        name: CapsuleName,
        servers: &[CapsuleKey],
        silent: &[String],
    ) -> Result<ClientSettings, Error> {
        let all = (servers.len() + silent.len()) as u32;
        let [write_quorum, read_quorum] = self.quorums.map(|quorum| quorum.unwrap_or(all / 2 + 1));
        let (least, most) = (write_quorum.min(read_quorum), write_quorum.max(read_quorum));
        if least == 0 || most > all {
            return Err(Error::Input(format!(
                "a quorum of {all} servers has 1 to {all} of them"
            )));
        }
        if most > servers.len() as u32 {
            let text = format!("too few servers say who they are: {}", silent.join("; "));
            return Err(Error::core(Code::NoQuorum.as_u16(), &text));
        }
        let Timing {
            hedge,
            attempt,
            avoid,
            deadline,
        } = self.timing;
        let ms = |wait: Duration| u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        Ok(ClientSettings {
            capsule: name.0,
            metadata: self.metadata.clone().unwrap_or_default(),
            servers: servers.iter().flat_map(|key| key.0).collect(),
            seed: self.seed.clone(),
            write_quorum,
            read_quorum,
            timing: [hedge, attempt, avoid, deadline].map(ms),
        })
    }
}

impl core::fmt::Debug for CapsuleBuilder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CapsuleBuilder")
            .field("name", &self.name)
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

fn open_store(place: Place, name: CapsuleName) -> Result<Box<dyn Storage>, Error> {
    match place {
        Place::Memory => Ok(Box::new(MemoryStore::new())),
        Place::Store(store) => Ok(store),
        Place::Folder(folder) => {
            std::fs::create_dir_all(&folder).map_err(|error| StoreError::io(&folder, error))?;
            Ok(Box::new(DiskStore::open(&folder.join(name.to_string()))?))
        }
        Place::Unsaid => Err(Error::Input(
            "say where the client keeps what it must not forget: a folder (storage), or nowhere (in_memory)"
                .into(),
        )),
    }
}

/// The servers of a capsule
#[derive(Default)]
struct Servers {
    /// Each by the key that it signs with.
    servers: Vec<Peer>,
    /// Of those that were named: where each is that does not say who it is, and why.
    silent: Vec<String>,
}

/// Asks servers who they are, each for so long.
async fn servers_of(
    named: Vec<CapsuleServer>,
    node: Option<&Node>,
    (name, metadata): (CapsuleName, Option<&[u8]>),
    patience: Duration,
) -> Result<Servers, Error> {
    let found = match node {
        Some(node) => find_servers(node, name).await?,
        None => Vec::new(),
    };
    if named.is_empty() && found.is_empty() {
        return Err(Error::Input(
            "say who serves the capsule (server), or where they are found (mesh)".into(),
        ));
    }
    let is_named = core::iter::repeat_n(true, named.len()).chain(core::iter::repeat(false));
    let asked = named.into_iter().chain(found).zip(is_named);
    let asked = asked.map(async |(CapsuleServer { key, peer }, is_named)| {
        let key = match key {
            Some(key) => Ok(key),
            None => timeout(patience, key_of(&peer, name, metadata))
                .await
                .unwrap_or_else(|_| Err(Error::from_code(Code::TimedOut))),
        };
        (peer, key, is_named)
    });
    let (mut all, mut last) = (Servers::default(), None);
    for (peer, key, is_named) in join_all(asked).await {
        match key {
            Ok(key) if all.servers.iter().any(|other| other.id() == key.0) => {
                if is_named {
                    let text = format!(
                        "{} is a server that is named already: name each once",
                        peer.place()
                    );
                    return Err(Error::Input(text));
                }
            }
            Ok(key) => all.servers.push(peer.known_by(key)),
            Err(error) => {
                tracing::warn!("{} does not say who it is: {error}", peer.place());
                all.silent
                    .extend(is_named.then(|| format!("{}: {error}", peer.place())));
                last = Some(error);
            }
        }
    }
    match last {
        Some(error) if all.servers.is_empty() => Err(error),
        _ => Ok(all),
    }
}

/// Those in the mesh who serve a capsule under its name, the node itself left out.
///
/// # Errors
/// [`Error::Core`] when nobody in the ring answers.
pub async fn find_servers(node: &Node, name: CapsuleName) -> Result<Vec<CapsuleServer>, Error> {
    let found = match node.find_of(Owner::Unowned, &name.to_string()).await {
        Err(error) if error.code() == Some(Code::NoProvider) => Vec::new(),
        found => found?,
    };
    let others = found.iter().map(|provider| PeerId(provider.peer));
    Ok(others
        .filter(|peer| *peer != node.id())
        .map(|peer| CapsuleServer::unknown(Peer::in_mesh(node, peer)))
        .collect())
}

/// The key that a server says it signs with: nothing is believed of it, as what is signed with another key counts for nothing. One
/// that does not have the capsule yet says it when that is created there.
async fn key_of(peer: &Peer, name: CapsuleName, metadata: Option<&[u8]>) -> Result<CapsuleKey, Error> {
    let mut request = request::query_fresh(name)?;
    let mut response = peer.ask(request.clone()).await?;
    let refused = request::refusal(&request, &response).and_then(|refused| refused.code());
    if let (Some(Code::NoCapsule), Some(metadata)) = (refused, metadata) {
        request = request::create(Sender::Client, name, metadata)?;
        response = peer.ask(request.clone()).await?;
    }
    request::result(&response)?;
    request::signer(&request, &response).ok_or_else(|| Error::from_code(Code::BadMessage))
}
