use alloc::sync::Arc;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::Bytes;
use selfsame_codec::{Admission, Config, Input, Role};
use tokio::runtime::Handle as Runtime;
use tokio::sync::{broadcast, oneshot};

#[cfg(feature = "admission")]
use crate::admission::DnsCertificates;
use crate::certificate::{Certificate, Certified};
use crate::core::CoreModule;
use crate::driver::{self, Parts};
use crate::error::Error;
use crate::fetch::fetch;
use crate::grants::Grants;
use crate::handle::{Control, Effect, Handle, Item, Waiter};
use crate::id::Owner;
use crate::id::{OwnerKey, PeerId};
use crate::keys::{Grant, Seed, check_network, module_of, parts};
use crate::newcomers::Newcomers;
use crate::node::{Inner, Node};
use crate::observe::{Observer, Unobserved, Watcher};
use crate::options::FetchOptions;
use crate::serve::Services;
use crate::store::{DiskStore, MemoryStore, Opened, StoreError};
use crate::transport::{Address, Connector, DIALS, Dialler, Exchanges, Listener, Server, TrustedProxies};

/// Name of the file that holds a node's seed, in its folder.
pub const IDENTITY_FILE: &str = "identity.key";
/// Name of the folder that holds a node's state, in its folder.
pub const STORE_FOLDER: &str = "store";
/// How long a node sleeps at most when nothing happens.
const IDLE: Duration = Duration::from_secs(15);
/// Events that wait for a slow listener.
const EVENTS: usize = 256;
/// Most addresses of a node, as many as a record holds.
const MAX_ADDRESSES: usize = 8;

/// Settings of a node that is not started yet
#[derive(Debug)]
#[must_use = "a node runs once `start` is called"]
pub struct Builder {
    network: String,
    storage: Place,
    seed: Option<Seed>,
    listen: Vec<String>,
    trusted_proxies: Vec<String>,
    addresses: Vec<String>,
    bootstraps: Vec<String>,
    owner: Option<Owner>,
    grants: Vec<Grant>,
    allow_private: bool,
    trust_on_first_use: bool,
    keep_trying: bool,
    take_over: bool,
    domain: String,
    certificate: Option<Certificate>,
    newcomers: Option<Newcomers>,
    core: Option<CoreModule>,
    watcher: Watcher,
}

#[derive(Debug)]
enum Place {
    Unset,
    Folder(PathBuf),
    Memory,
}

impl Node {
    /// Settings of a node in a network, a closed one named `name@key` with the key of its authority.
    pub fn builder(network: &str) -> Builder {
        Builder::new(network)
    }
}

impl Builder {
    fn new(network: &str) -> Self {
        Self {
            network: network.into(),
            storage: Place::Unset,
            seed: None,
            listen: Vec::new(),
            trusted_proxies: Vec::new(),
            addresses: Vec::new(),
            bootstraps: Vec::new(),
            owner: None,
            grants: Vec::new(),
            allow_private: false,
            trust_on_first_use: false,
            keep_trying: false,
            take_over: false,
            domain: String::new(),
            certificate: None,
            newcomers: None,
            core: None,
            watcher: Watcher::default(),
        }
    }

    /// Keeps identity and state in this folder, which is made when it does not exist.
    pub fn storage(mut self, folder: impl AsRef<Path>) -> Self {
        self.storage = Place::Folder(folder.as_ref().into());
        self
    }

    /// Keeps nothing: the node forgets its state, and its identity unless [`Self::seed`] gives one, when it ends.
    pub fn in_memory(mut self) -> Self {
        self.storage = Place::Memory;
        self
    }

    /// Uses this seed instead of the one in the folder.
    pub fn seed(mut self, seed: Seed) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Listens on a URL such as `ws://0.0.0.0:7000`, where WebSockets and HTTPS POST share the port, or
    /// `tcp://0.0.0.0:7001`, or `udp://0.0.0.0:7001`. Port 0 is any free one.
    pub fn listen(mut self, url: impl Into<String>) -> Self {
        self.listen.push(url.into());
        self
    }

    /// Counts peers behind these proxies by the address in the header `forwarded` or `x-forwarded-for` that the proxy sends:
    /// addresses or prefixes such as `10.0.0.0/8`, loopback too only if it is named. They must append to these headers, or
    /// replace what clients send in them.
    pub fn trusted_proxies<I>(mut self, proxies: I) -> Self
    where
        I: IntoIterator<Item: Into<String>>,
    {
        self.trusted_proxies.extend(proxies.into_iter().map(Into::into));
        self
    }

    /// Tells others a URL at which they can dial this node, such as `wss://node.example`; of several they try the one
    /// that was given first. Without one, the URLs that are listened on count, unless they mean every interface.
    pub fn address(mut self, url: impl Into<String>) -> Self {
        self.addresses.push(url.into());
        self
    }

    /// Joins through these nodes, each `url#peer-id`. A node without any begins a ring of its own.
    pub fn bootstrap<I>(mut self, peers: I) -> Self
    where
        I: IntoIterator<Item: Into<String>>,
    {
        self.bootstraps.extend(peers.into_iter().map(Into::into));
        self
    }

    /// Means the names of this owner, unless a call says otherwise.
    pub fn owner(mut self, owner: OwnerKey) -> Self {
        self.owner = Some(Owner::Key(owner));
        self
    }

    /// Means names without an owner, which anybody may serve, unless a call says otherwise.
    pub fn unowned(mut self) -> Self {
        self.owner = Some(Owner::Unowned);
        self
    }

    /// Adds an owner's permission to serve a name.
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grants.push(grant);
        self
    }

    /// Dials private, loopback and link-local addresses that other nodes name: for tests and closed networks.
    pub fn allow_private(mut self, allow: bool) -> Self {
        self.allow_private = allow;
        self
    }

    /// Accepts bootstraps without a peer id, and whoever answers there.
    pub fn trust_on_first_use(mut self, trust: bool) -> Self {
        self.trust_on_first_use = trust;
        self
    }

    /// Starts although no bootstrap answers, and tries again until one does.
    pub fn keep_trying(mut self, keep_trying: bool) -> Self {
        self.keep_trying = keep_trying;
        self
    }

    /// Takes the identity over from another node that runs with it, which then stops. Without this, the node that was started
    /// later stops with [`Code::DuplicateIdentity`](selfsame_codec::Code::DuplicateIdentity).
    pub fn take_over(mut self, take_over: bool) -> Self {
        self.take_over = take_over;
        self
    }

    /// Names what fails together with this node, such as a region: replicas are spread over such domains.
    pub fn domain(mut self, label: impl Into<String>) -> Self {
        self.domain = label.into();
        self
    }

    /// Shows this certificate, by which the authority of a closed network admits the node; [`Node::renew_certificate`] takes the next
    /// one.
    pub fn certificate(mut self, certificate: Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// Takes newcomers to a closed network for neighbours only once their certificates stand in the DNS. While that gives no answer, who
    /// is a neighbour already stays.
    #[cfg(feature = "admission")]
    pub fn confirm_newcomers(mut self, source: DnsCertificates) -> Self {
        self.newcomers = Some(source.newcomers(&self.network));
        self
    }

    /// Runs this core instead of the embedded one.
    pub fn core(mut self, core: CoreModule) -> Self {
        self.core = Some(core);
        self
    }

    /// Follows the requests that the node sends and serves.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.watcher = Watcher::new(Some(observer));
        self
    }

    /// Starts the node and joins the ring. Must be called within a tokio runtime, which the node's tasks run on.
    ///
    /// # Errors
    /// [`Error`] says which setting is not usable, or why the node cannot join.
    pub async fn start(self) -> Result<Node, Error> {
        self.check()?;
        let proxies = Arc::new(TrustedProxies::parse(&self.trusted_proxies)?);
        let (seed, store) = self.open().await?;
        let module = match &self.core {
            Some(core) => core.clone(),
            None => {
                let network = self.network.clone();
                blocking(move || module_of(&network)).await??
            }
        };
        let certified = self.certified(&seed)?;
        let (id, grants) = self.identify(&seed, certified.as_ref())?;
        let mut listeners = Vec::new();
        for url in &self.listen {
            listeners.push(Listener::bind(url).await?);
        }
        let config = self.config(&seed, &listeners)?;
        if config.role == Role::Leaf && config.bootstraps.is_empty() {
            return Err(Error::Input(
                "a node without an address is a leaf and joins through others: give a bootstrap (--join), or the address at which \
                 others dial it (--address)"
                    .into(),
            ));
        }
        let connector = Connector::new(self.allow_private, &self.bootstraps)?;
        let (handle, queues) = Handle::new();
        let unobserved = unobserved(&handle, self.owner);
        self.watcher
            .follow(id, &self.network, &self.domain, unobserved.as_ref())?;
        let services = Services::new(self.watcher.clone());
        let (events, _) = broadcast::channel(EVENTS);
        let parts = Parts {
            module,
            config: config.clone(),
            store,
            dialler: Arc::new(Dialler::new(connector)),
            services: Arc::clone(&services),
            events: events.clone(),
            newcomers: self.newcomers,
            runtime: Runtime::current(),
        };
        let (started, ready) = oneshot::channel();
        let driver = driver::start(parts, handle.clone(), queues, started)?;
        ready.await.unwrap_or(Err(Error::Stopped))?;
        let listening = listeners.iter().map(|listener| listener.local).collect();
        let servers = serve(listeners, &handle, &proxies, &health(id, &self.network));
        let owner = self.owner;
        let network = self.network;
        let watcher = self.watcher;
        let inner = Inner {
            handle,
            id,
            network,
            allow_private: self.allow_private,
            owner,
            grants,
            offered: Mutex::default(),
            addresses: config.addresses,
            listening,
            services,
            watcher,
            events,
            servers: Mutex::new(servers),
            driver: Mutex::new(Some(driver)),
        };
        let node = Node::new(inner);
        join(&node, self.keep_trying).await?;
        Ok(node)
    }

    /// Names every mistake in the settings before anything is started.
    fn check(&self) -> Result<(), Error> {
        check_network(&self.network)?;
        let is_closed = parts(&self.network)?.1.is_some();
        if is_closed != self.certificate.is_some() {
            return Err(Error::Input(if is_closed {
                "the network is closed: give the certificate with which its authority admits this node (--certificate)".into()
            } else {
                "the network is open and takes no certificate: name a closed one as NAME@KEY, with its authority's key".into()
            }));
        }
        if self.newcomers.is_some() && !is_closed {
            return Err(Error::Input(
                "the network is open, and anybody may come: only a closed one, NAME@KEY, has newcomers confirmed".into(),
            ));
        }
        if matches!(self.storage, Place::Unset) {
            return Err(Error::Input(
                "say where the node keeps its state: a folder, or memory in so many words".into(),
            ));
        }
        if self.addresses.len() > MAX_ADDRESSES {
            return Err(Error::Input(format!(
                "a node has at most {MAX_ADDRESSES} addresses"
            )));
        }
        for url in self.addresses.iter().chain(&self.bootstraps) {
            Address::parse(url)?;
        }
        for url in &self.listen {
            Listener::check(url)?;
        }
        for url in &self.bootstraps {
            match url.split_once('#') {
                Some((_, id)) => _ = id.parse::<PeerId>()?,
                None if self.trust_on_first_use => {}
                None => {
                    return Err(Error::Input(format!(
                        "\"{url}\" has no peer id: append #ID (`selfsame id show` prints it), or set trust_on_first_use \
                         (--trust-on-first-use) to accept whoever answers there"
                    )));
                }
            }
        }
        Ok(())
    }

    async fn open(&self) -> Result<(Seed, Opened), Error> {
        let given = self.seed.clone();
        let Place::Folder(folder) = &self.storage else {
            let seed = given.map_or_else(Seed::generate, Ok)?;
            return Ok((seed, Opened::InMemory(MemoryStore::new())));
        };
        let folder = folder.clone();
        blocking(move || {
            std::fs::create_dir_all(&folder).map_err(|error| StoreError::io(&folder, error))?;
            let seed = given.map_or_else(|| Seed::load_or_create(&folder.join(IDENTITY_FILE)), Ok)?;
            let store = DiskStore::open(&folder.join(STORE_FOLDER))?;
            Ok((seed, Opened::OnDisk(Box::new(store))))
        })
        .await?
    }

    /// What the certificate says, if there is one.
    fn certified(&self, seed: &Seed) -> Result<Option<Certified>, Error> {
        let certificate = self.certificate.as_ref();
        certificate
            .map(|certificate| certificate.verify(&self.network, &seed.node_key(&self.network)?))
            .transpose()
    }

    /// The node's id, and its grants by name; a grant that is not for this node is a mistake.
    fn identify(&self, seed: &Seed, certified: Option<&Certified>) -> Result<(PeerId, Grants), Error> {
        let id = match certified {
            Some(certified) => certified.peer,
            None => seed.peer_id(&self.network)?,
        };
        let grants = Grants::new(id, &self.network);
        for grant in &self.grants {
            grants.add(grant.clone())?;
        }
        Ok((id, grants))
    }

    fn config(&self, seed: &Seed, listeners: &[Listener]) -> Result<Config, Error> {
        let mut addresses = self.addresses.clone();
        if addresses.is_empty() {
            let own = self
                .listen
                .iter()
                .zip(listeners)
                .filter(|(_, listener)| !listener.local.ip().is_unspecified());
            addresses.extend(own.filter_map(|(url, listener)| dialable(url, listener.local.port())));
            addresses.truncate(MAX_ADDRESSES);
        }
        if addresses.is_empty() && !listeners.is_empty() {
            tracing::warn!("no address says where others can dial this node, so it is a leaf: set one");
        }
        let role = if addresses.is_empty() {
            Role::Leaf
        } else {
            Role::Member
        };
        let (network, authority) = parts(&self.network)?;
        Ok(Config {
            seed: *seed.bytes(),
            entropy: [0; 32],
            // A process starts seldom: it computes its public key.
            known_key: Vec::new(),
            network: network.into(),
            role,
            addresses,
            bootstraps: self.bootstraps.clone(),
            dials: DIALS.map(String::from).into(),
            allow_private: self.allow_private,
            trust_on_first_use: self.trust_on_first_use,
            idle_ms: u64::try_from(IDLE.as_millis()).unwrap_or(u64::MAX),
            domain: self.domain.clone(),
            admission: if authority.is_some() {
                Admission::Dns
            } else {
                Admission::Open
            },
            authority: authority.map_or_else(Vec::new, |key| key.0.into()),
            certificate: self
                .certificate
                .as_ref()
                .map_or_else(Vec::new, |certificate| certificate.as_bytes().into()),
            confirms: self.newcomers.is_some(),
            take_over: self.take_over,
        })
    }
}

/// The URL at which a listener can be dialled: as given, with the port that it got.
fn dialable(url: &str, port: u16) -> Option<String> {
    let mut address = Address::parse(url).ok()?;
    address.port = port;
    Some(address.url())
}

/// Requests that no observer is told of; of a node that knows whose names are meant.
fn unobserved(handle: &Handle, owner: Option<Owner>) -> Option<Unobserved> {
    let (handle, owner) = (handle.clone(), owner?);
    Some(Arc::new(move |request| {
        let handle = handle.clone();
        Box::pin(async move {
            let options = FetchOptions::default();
            fetch(&handle, &Watcher::default(), owner.bytes(), options, request).await
        })
    }))
}

fn health(id: PeerId, network: &str) -> Bytes {
    // A network's name may hold any character, so it is escaped like any text in JSON.
    let network: String = network
        .chars()
        .flat_map(|c| match c {
            '"' | '\\' | '\0'..='\x1f' => format!("\\u{:04x}", u32::from(c)).chars().collect(),
            _ => vec![c],
        })
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    format!("{{\"selfsame\":\"{version}\",\"network\":\"{network}\",\"id\":\"{id}\"}}\n").into()
}

fn serve(
    listeners: Vec<Listener>,
    handle: &Handle,
    proxies: &Arc<TrustedProxies>,
    health: &Bytes,
) -> Vec<Server> {
    let exchanges = Exchanges::new(handle.clone());
    listeners
        .into_iter()
        .map(|listener| Server::start(listener, handle, &exchanges, proxies, health))
        .collect()
}

async fn join(node: &Node, keep_trying: bool) -> Result<(), Error> {
    let item = |tag| Item::new(&Input::Join { tag });
    let handle = node.handle();
    match handle.command(Effect::Joins, item).await {
        Err(error) if keep_trying && error.may_pass() => {
            tracing::debug!(%error, "cannot join yet");
            let tag = handle.next_tag();
            handle.control(Control::Command {
                tag,
                item: item(tag),
                effect: Effect::Joins,
                waiter: Waiter::Driver { failures: 0 },
            });
            Ok(())
        }
        other => other.map(drop),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::io("a thread for the node", std::io::Error::other(error)))
}
