use alloc::collections::BTreeSet;
use core::convert::Infallible;
use core::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, Response};
use selfsame_host::{Body, BoxError, Node, PeerId};
use tokio::time::{Instant, interval, timeout};

use crate::Outcome;
use crate::network::{Network, REVOKED};
use crate::process::{Process, service};

/// Members that are restarted from their folders.
pub(crate) const STORED: [u16; 2] = [1, 2];
/// The member that the others join through.
pub(crate) const ANCHOR: u16 = 3;
/// Nodes that join at a time, and calls.
const AT_ONCE: usize = 8;
/// How long the ring may take until all know their successors.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The members of a network
pub(crate) struct Ring {
    /// Those in this process, by their numbers.
    pub(crate) nodes: Vec<Node>,
    /// The process that is told of the revocation.
    pub(crate) told: Process,
    /// The process that sleeps meanwhile.
    pub(crate) asleep: Process,
    /// Where the two are joined through, in this order.
    pub(crate) addresses: [String; 2],
}

impl Ring {
    /// Starts all members, and waits until each knows its successor.
    pub(crate) async fn start(network: &Network, peers: u16) -> Outcome<Self> {
        let anchor = start(network, ANCHOR, None).await?;
        let through = address(&anchor)?;
        let numbers = (0..peers - 2).filter(|number| *number != ANCHOR);
        let joins = numbers.map(|number| start(network, number, Some(&through)));
        let mut nodes: Vec<Node> = stream::iter(joins).buffered(AT_ONCE).try_collect().await?;
        nodes.insert(usize::from(ANCHOR), anchor);
        let mut told = Process::start(network, peers - 2, &through)?;
        let mut asleep = Process::start(network, peers - 1, &through)?;
        let addresses = [joined(&mut told).await?, joined(&mut asleep).await?];
        let ring = Self {
            nodes,
            told,
            asleep,
            addresses,
        };
        timeout(SETTLE_TIMEOUT, ring.settle()).await??;
        Ok(ring)
    }

    async fn settle(&self) -> Outcome<()> {
        let mut looks = interval(LOOK);
        let mut unsettled = self.nodes.iter().collect::<Vec<_>>();
        let mut ids: BTreeSet<PeerId> = self.nodes.iter().map(Node::id).collect();
        for address in &self.addresses {
            ids.insert(id_of(address)?.parse()?);
        }
        while !unsettled.is_empty() {
            looks.tick().await;
            let mut left = Vec::new();
            for node in unsettled {
                let next = ids.range(node.id()..).nth(1).or_else(|| ids.first());
                let successor = node
                    .status()
                    .await?
                    .successors
                    .first()
                    .map(|node| PeerId(node.id));
                if successor.as_ref() != next {
                    left.push(node);
                }
            }
            unsettled = left;
        }
        Ok(())
    }

    /// Lets every member have a session with the one that is to be revoked.
    pub(crate) async fn connect_all(&self, peers: u16) -> Outcome<()> {
        let revoked = &self.nodes[usize::from(REVOKED)];
        let answer = async |_| Ok::<_, Infallible>(Response::new(Body::empty()));
        let serve = async || revoked.serve(&service(REVOKED), tower::service_fn(answer)).await;
        patiently(serve).await?;
        let callers = self.nodes.iter().filter(|node| node.id() != revoked.id());
        let calls = callers.map(|node| call(node, REVOKED));
        stream::iter(calls)
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        call(revoked, peers - 2).await?;
        call(revoked, peers - 1).await
    }
}

/// Starts a member; those that are restarted keep their state.
async fn start(network: &Network, number: u16, through: Option<&String>) -> Outcome<Node> {
    // On a busy machine a member that many join through answers late.
    let builder = network
        .member(number)?
        .bootstrap(through.cloned())
        .keep_trying(true);
    let builder = if STORED.contains(&number) {
        builder.storage(network.folder(number))
    } else {
        builder
    };
    Ok(builder.start().await?)
}

/// Where a process that has joined can be joined through.
async fn joined(process: &mut Process) -> Outcome<String> {
    let (_, started) = process.event("started", None).await?;
    process.event("joined", None).await?;
    match (started["addresses"][0].as_str(), started["id"].as_str()) {
        (Some(url), Some(id)) => Ok(format!("{url}#{id}")),
        _ => Err("a process does not say where it is".into()),
    }
}

/// Calls what a member serves; any answer will do.
pub(crate) async fn call(node: &Node, number: u16) -> Outcome<()> {
    let url = format!("https://{}.mesh/", service(number));
    let call = async || {
        let request = Request::get(&url).body(Body::empty())?;
        node.fetch(request).await.map(drop).map_err(BoxError::from)
    };
    patiently(call).await
}

/// Tries something again while members that have joined at once still disagree who stores a name.
async fn patiently<E: Into<BoxError>>(attempt: impl AsyncFn() -> Result<(), E>) -> Outcome<()> {
    let until = Instant::now() + SETTLE_TIMEOUT;
    let mut looks = interval(LOOK);
    loop {
        match attempt().await {
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => _ = looks.tick().await,
            Ok(()) => return Ok(()),
        }
    }
}

/// Where a node can be joined through.
pub(crate) fn address(node: &Node) -> Outcome<String> {
    let url = node.addresses().first().ok_or("a member has an address")?;
    Ok(format!("{url}#{}", node.id()))
}

fn id_of(address: &str) -> Outcome<&str> {
    Ok(address.split_once('#').ok_or("an address has an id")?.1)
}
