//! How a service is offered, and how a request is sent.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::collections::HashSet;

use selfsame_codec::{MAX_WEIGHT, Policy};

use crate::caller::Caller;
use crate::error::Error;
use crate::id::Owner;
use crate::id::PeerId;

/// Objects of a name beside the first one: the name survives the loss of a node and its mirrors.
const REPLICAS: u8 = 1;
/// Time until an answer begins unless a request says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How a service is offered: its version and share of the requests, and who may call it
///
/// Without more, everybody may call it, and it shares the requests evenly with the other providers of its name.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    replicas: Option<u8>,
    version: String,
    weight: Option<f64>,
    allow: Allow,
    is_unowned: bool,
}

impl ServeOptions {
    /// Options as `Node::serve` has them.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Objects of the name beside the first one, 0 to 3: each is held by other nodes. 1 unless this says otherwise.
    #[must_use]
    pub fn replicas(mut self, replicas: u8) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Names the version of the service: each version gets its share of the requests.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Share of the requests that this version gets, 0 to 1, such as 0.1 for a canary; versions of weight 1 share what
    /// the others leave.
    #[must_use]
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = Some(weight);
        self
    }

    /// Lets only these peers call the service; others are answered 403.
    #[must_use]
    pub fn allow(self, peers: impl IntoIterator<Item = PeerId>) -> Self {
        let peers: HashSet<PeerId> = peers.into_iter().collect();
        self.allow_if(move |caller| peers.contains(&caller.peer))
    }

    /// Lets only callers for which this is true call the service; others are answered 403. It is asked for each request.
    #[must_use]
    pub fn allow_if(mut self, permits: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Self {
        self.allow = Allow::If(Arc::new(permits));
        self
    }

    /// Publishes the name as one that belongs to nobody, whatever owner the node's other names have: callers must ask for
    /// it so.
    #[must_use]
    pub fn unowned(mut self) -> Self {
        self.is_unowned = true;
        self
    }

    pub(crate) fn is_unowned(&self) -> bool {
        self.is_unowned
    }

    pub(crate) fn version_name(&self) -> &str {
        &self.version
    }

    pub(crate) fn access(&self) -> Allow {
        self.allow.clone()
    }

    /// What is published, or what is wrong with it.
    pub(crate) fn published(&self) -> Result<Published<'_>, Error> {
        let weight = self.weight.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&weight) {
            return Err(Error::Input(format!(
                "the weight {weight} is no share of the requests: it is 0 to 1, such as 0.1 for a tenth"
            )));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 10,000"
        )]
        let weight = (weight * f64::from(MAX_WEIGHT)).round() as u16;
        Ok(Published {
            replicas: self.replicas.unwrap_or(REPLICAS),
            version: &self.version,
            weight,
        })
    }
}

/// How one request is sent; as an extension of the request it stands over the node's settings
///
/// ```
/// # use selfsame_host::{Body, FetchOptions};
/// # use core::time::Duration;
/// let options = FetchOptions::new().timeout(Duration::from_secs(2)).retry(false);
/// let request = http::Request::get("https://check.mesh/").extension(options).body(Body::empty());
/// # assert!(request.is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct FetchOptions {
    owner: Option<Owner>,
    key: Vec<u8>,
    policy: Option<Policy>,
    peer: Option<PeerId>,
    timeout: Option<Duration>,
    is_sent_once: bool,
}

impl FetchOptions {
    /// Options as `Node::fetch` has them: any provider, another one if that fails and no harm can
    /// come of it, 30 s until the answer begins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Means the names of this owner, or those without.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Requests of equal keys, such as a user's name, go to the same provider while there is one. At most 256 bytes.
    #[must_use]
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = key.into();
        self
    }

    /// How the provider is chosen among those of a version when there is no key: the better of two unless this says
    /// otherwise.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Sends the request to this provider and no other.
    #[must_use]
    pub fn peer(mut self, peer: PeerId) -> Self {
        self.peer = Some(peer);
        self
    }

    /// Longest time until the answer begins, with all attempts; it may then take as long as it likes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Whether the request may go to another provider when one fails and acting twice does no harm; it may unless this says
    /// otherwise.
    #[must_use]
    pub fn retry(mut self, may_repeat: bool) -> Self {
        self.is_sent_once = !may_repeat;
        self
    }

    pub(crate) fn whose(&self) -> Option<Owner> {
        self.owner
    }

    pub(crate) fn sticky_key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn choice(&self) -> Policy {
        self.policy.unwrap_or(Policy::PowerOfTwo)
    }

    pub(crate) fn one_peer(&self) -> Option<PeerId> {
        self.peer
    }

    pub(crate) fn longest(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    pub(crate) fn may_repeat(&self) -> bool {
        !self.is_sent_once
    }
}

/// The part of the options that the ring is told
pub(crate) struct Published<'a> {
    pub(crate) replicas: u8,
    pub(crate) version: &'a str,
    /// In ten-thousandths.
    pub(crate) weight: u16,
}

/// Whose requests a service answers
#[derive(Clone, Default)]
pub(crate) enum Allow {
    /// Everybody's.
    #[default]
    Everyone,
    /// Those of callers for which this is true.
    If(Arc<dyn Fn(&Caller) -> bool + Send + Sync>),
}

/// An extension of requests of a service that decides who may call it
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gated;

impl Allow {
    pub(crate) fn is_everyone(&self) -> bool {
        matches!(self, Self::Everyone)
    }

    pub(crate) fn permits(&self, caller: &Caller) -> bool {
        match self {
            Self::Everyone => true,
            Self::If(permits) => permits(caller),
        }
    }
}

impl fmt::Debug for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everyone => "Everyone",
            Self::If(_) => "If",
        })
    }
}
