use alloc::sync::Arc;
use core::fmt;
use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use super::cache::Cache;
use super::error::ResolveError;
use super::module::{Module, Outcome};
use super::rate::QueryRate;
use super::servers::{Kind, NameServers};
use super::{https, plain};
use crate::transport::network_of;

/// How often name servers are asked, in turn, for one name.
const TRIES: usize = 3;
/// Time for one of these, with TCP or HTTPS.
const TRY_TIMEOUT: Duration = Duration::from_secs(3);

/// What DNS holds under a name
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsValues {
    /// The values, in any order; there are several while an old one is replaced, and none when the name has none.
    pub values: Vec<Vec<u8>>,
    /// Whether the resolver says that it has verified them with DNSSEC.
    pub is_authentic: bool,
}

/// Looks up certificates in DNS, and remembers them for as long as the zone says; cheap to clone
#[derive(Clone)]
pub struct Resolver(Arc<Shared>);

struct Shared {
    module: Module,
    servers: Kind,
    state: Mutex<State>,
    /// Datagrams that answered another query, since they were last told.
    strays: AtomicU64,
}

struct State {
    /// Only names that the authority has filled.
    found: Cache<Arc<DnsValues>>,
    /// Apart, so that names that strangers make up push out none that has values.
    absent: Cache<()>,
    rate: QueryRate,
    /// Names that are being looked up: all who ask for one meanwhile get the same answer.
    lookups: HashMap<String, Lookup>,
}

/// For whom a name is looked up
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// For this node itself: not counted.
    Own,
    /// For a peer that wrote from an address, if it is known.
    Stranger(Option<IpAddr>),
}

type Lookup = Arc<OnceCell<Result<Arc<DnsValues>, ResolveError>>>;

impl Resolver {
    /// A resolver that asks these name servers.
    ///
    /// # Errors
    /// [`ResolveError::Module`] when the build embedded no module of admission.
    pub fn new(servers: NameServers) -> Result<Self, ResolveError> {
        Ok(Self(Arc::new(Shared {
            module: Module::load()?,
            servers: servers.0,
            state: Mutex::new(State {
                found: Cache::new(),
                absent: Cache::new(),
                rate: QueryRate::new(Instant::now()),
                lookups: HashMap::new(),
            }),
            strays: AtomicU64::new(0),
        })))
    }

    /// The certificates of the peer that has this public key, in a network's domain.
    ///
    /// # Errors
    /// [`ResolveError`]: why no name server gives an answer that counts.
    pub async fn certificates(
        &self,
        public_key: &[u8; 32],
        domain: &str,
    ) -> Result<Arc<DnsValues>, ResolveError> {
        let name = self.0.module.peer_name(public_key, domain)?;
        self.0.look_up(name, Asker::Own).await
    }

    /// The certificates of a peer that nobody vouches for and that wrote from this address, if that is known: its network, IPv4 /24 or
    /// IPv6 /56, and all such peers together cause a few queries a second.
    ///
    /// # Errors
    /// [`ResolveError::TooManyQueries`] beyond that, and as [`Self::certificates`].
    pub async fn certificates_of_stranger(
        &self,
        public_key: &[u8; 32],
        domain: &str,
        source: impl Into<Option<IpAddr>>,
    ) -> Result<Arc<DnsValues>, ResolveError> {
        let name = self.0.module.peer_name(public_key, domain)?;
        self.0.look_up(name, Asker::Stranger(source.into())).await
    }

    /// Whether datagrams have answered other queries since this was asked last: late ones, or somebody guesses.
    pub(super) fn take_strays(&self) -> bool {
        self.0.strays.swap(0, Ordering::Relaxed) > 0
    }

    /// The keys of the authority of a network's domain.
    ///
    /// # Errors
    /// As [`Self::certificates`].
    pub async fn authority_keys(&self, domain: &str) -> Result<Arc<DnsValues>, ResolveError> {
        let name = self.0.module.authority_name(domain)?;
        self.0.look_up(name, Asker::Own).await
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Shared {
    async fn look_up(&self, name: String, asker: Asker) -> Result<Arc<DnsValues>, ResolveError> {
        let network = match asker {
            Asker::Own => None,
            Asker::Stranger(source) => source.and_then(network_of),
        };
        let lookup = {
            let mut state = self.lock();
            let now = Instant::now();
            if let Some(values) = state.known(&name, now) {
                return Ok(values);
            }
            match state.lookups.get(&name).cloned() {
                Some(lookup) => lookup,
                None if asker != Asker::Own && !state.rate.take(network, now) => {
                    return Err(ResolveError::TooManyQueries);
                }
                None => Arc::clone(state.lookups.entry(name.clone()).or_default()),
            }
        };
        let _guard = LookupGuard {
            shared: self,
            name: &name,
            lookup: &lookup,
        };
        lookup.get_or_init(|| self.answer(&name, network)).await.clone()
    }

    /// Asks for a name and keeps the answer.
    async fn answer(&self, name: &str, network: Option<IpAddr>) -> Result<Arc<DnsValues>, ResolveError> {
        let outcome = self.ask(name).await?;
        let (mut state, now) = (self.lock(), Instant::now());
        let until = |ttl_s| now + Duration::from_secs(u64::from(ttl_s));
        Ok(match outcome {
            Outcome::Found {
                values,
                ttl_s,
                is_authentic,
            } => {
                let values = Arc::new(DnsValues { values, is_authentic });
                state.absent.remove(name);
                state
                    .found
                    .insert(name.into(), Arc::clone(&values), until(ttl_s), None, now);
                values
            }
            Outcome::Absent { ttl_s } => {
                state.found.remove(name);
                state.absent.insert(name.into(), (), until(ttl_s), network, now);
                Arc::default()
            }
            Outcome::Truncated => return Err(plain::wrong("over TCP", selfsame_codec::Code::BadDnsMessage)),
        })
    }

    /// Asks the name servers in turn.
    async fn ask(&self, name: &str) -> Result<Outcome, ResolveError> {
        let mut last = ResolveError::TimedOut {
            servers: self.servers.to_string(),
            tries: TRIES,
        };
        for index in 0..TRIES {
            match timeout(TRY_TIMEOUT, self.ask_once(name, index)).await {
                Ok(Err(error)) if error.may_pass() => last = error,
                Ok(answer) => return answer,
                Err(_) => {}
            }
        }
        Err(last)
    }

    async fn ask_once(&self, name: &str, index: usize) -> Result<Outcome, ResolveError> {
        match &self.servers {
            Kind::Plain(servers) => {
                plain::ask(&self.module, servers[index % servers.len()], name, &self.strays).await
            }
            Kind::Https { url, client } => https::ask(&self.module, client, url, name).await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics between two changes of the tables.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn known(&self, name: &str, now: Instant) -> Option<Arc<DnsValues>> {
        let absent = || self.absent.get(name, now).map(|()| Arc::default());
        self.found.get(name, now).or_else(absent)
    }
}

/// Forgets a lookup when it has ended or nobody waits for it any more.
struct LookupGuard<'a> {
    shared: &'a Shared,
    name: &'a str,
    lookup: &'a Lookup,
}

impl Drop for LookupGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let is_same = state
            .lookups
            .get(self.name)
            .is_some_and(|one| Arc::ptr_eq(one, self.lookup));
        // The table and this guard's caller hold it, and others that wait.
        if is_same && (self.lookup.initialized() || Arc::strong_count(self.lookup) <= 2) {
            state.lookups.remove(self.name);
        }
    }
}

/// The servers, for an error
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(servers) => {
                let texts: Vec<String> = servers.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join(", "))
            }
            Self::Https { url, .. } => url.fmt(f),
        }
    }
}
