//! A ring of members in one process, joined over sockets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bench_closed_loop::{closed_loop, random_id};
use bench_pair::Outcome;
use selfsame_host::{Builder, CertificateTerms, Error, Node, Seed};

use crate::ping::Arrivals;
use crate::potato::Potatoes;

/// Where every node listens.
const LISTEN: &str = "ws://127.0.0.1:0";
/// Name of the network.
const NETWORK: &str = "bench";
/// How long certificates last.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Lookups of each member before anything is measured, and how many at a time, so that fingers are found.
const LOOKUPS: u64 = 20;
const WINDOW: u64 = 16;
/// Time in which members look for their fingers.
const SETTLED: Duration = Duration::from_secs(20);

/// Members in the order in which they joined
pub(crate) struct Ring {
    pub(crate) nodes: Arc<Vec<Node>>,
    /// Packets that have come to the first member.
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) potatoes: Arc<Potatoes>,
}

/// What a network admits by
enum Admission {
    Open,
    Closed { authority: Seed, network: String },
}

impl Admission {
    fn parse(name: &str) -> Outcome<Self> {
        match name {
            "open" => Ok(Self::Open),
            "closed" => {
                let authority = Seed::from_bytes([200; 32]);
                let key = authority.authority_key(NETWORK).map_err(told)?;
                Ok(Self::Closed {
                    authority,
                    network: format!("{NETWORK}@{key}"),
                })
            }
            _ => Err(format!("no admission {name}")),
        }
    }

    fn member(&self, index: u64) -> Outcome<Builder> {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&index.to_le_bytes());
        let seed = Seed::from_bytes(bytes);
        let builder = match self {
            Self::Open => Node::builder(NETWORK),
            Self::Closed { authority, network } => {
                let now = SystemTime::now();
                let terms = CertificateTerms {
                    key: seed.node_key(network).map_err(told)?,
                    address: Some(format!("127.0.0.1:{}", 7000 + index)),
                    not_before: now,
                    expires: now + DAY,
                };
                let certificate = authority.certify(NETWORK, &terms).map_err(told)?;
                Node::builder(network).certificate(certificate)
            }
        };
        let builder = builder.seed(seed).in_memory().unowned();
        Ok(builder.allow_private(true).listen(LISTEN))
    }
}

impl Ring {
    /// Starts members one after the other.
    ///
    /// They have the same seeds each time, and so the same places.
    pub(crate) async fn start(admission: &str, count: u64) -> Outcome<Self> {
        let admission = Admission::parse(admission)?;
        let mut nodes: Vec<Node> = Vec::new();
        for index in 0..count {
            let mut builder = admission.member(index)?;
            if let Some(first) = nodes.first() {
                builder = builder.bootstrap([address(first)?]);
            }
            nodes.push(builder.start().await.map_err(told)?);
        }
        let ring = Self {
            nodes: Arc::new(nodes),
            arrivals: Arc::default(),
            potatoes: Arc::default(),
        };
        ring.serve();
        Ok(ring)
    }

    /// Waits until members know their fingers.
    pub(crate) async fn settle(&self) -> Outcome<String> {
        tokio::time::sleep(SETTLED).await;
        let nodes = Arc::clone(&self.nodes);
        let count = LOOKUPS * nodes.len() as u64;
        let work = move |turn: u64| {
            let node = nodes[turn as usize % nodes.len()].clone();
            async move {
                // Members that have joined last may not be known everywhere yet.
                Ok(node
                    .find_node(random_id()?)
                    .await
                    .map_or(0, |(_, hops)| u64::from(hops)))
            }
        };
        Ok(closed_loop(WINDOW, count, work).await?.to_json())
    }

    /// Counts the times that a message is sent on between random members, from the tables that all have.
    pub(crate) async fn hops(&self, count: u64) -> Outcome<String> {
        let known = self.tables().await?;
        let ids: Vec<[u8; 32]> = known.keys().copied().collect();
        let mut hops = 0;
        for turn in 0..count {
            let from = ids[turn as usize % ids.len()];
            hops += path_len(&known, from, owner(&ids, random_id()?))?;
        }
        Ok((hops as f64 / count as f64).to_string())
    }

    /// Counts the same from the first member to each and back.
    pub(crate) async fn paths(&self) -> Outcome<String> {
        let known = self.tables().await?;
        let mut all = Vec::new();
        let first = self.nodes.first().ok_or("no member is started")?.id().0;
        for node in self.nodes.iter() {
            let other = node.id().0;
            let (there, back) = (path_len(&known, first, other)?, path_len(&known, other, first)?);
            all.push(format!("[{there},{back}]"));
        }
        Ok(format!("[{}]", all.join(",")))
    }

    /// Whom each member knows.
    async fn tables(&self) -> Outcome<BTreeMap<[u8; 32], Vec<[u8; 32]>>> {
        let mut known = BTreeMap::new();
        for node in self.nodes.iter() {
            let status = node.status().await.map_err(told)?;
            let tables = status
                .successors
                .iter()
                .chain(&status.fingers)
                .chain(&status.predecessor);
            known.insert(node.id().0, tables.map(|node| node.id).collect());
        }
        Ok(known)
    }
}

/// The member responsible for an id.
fn owner(ids: &[[u8; 32]], id: [u8; 32]) -> [u8; 32] {
    let at = ids.partition_point(|other| *other < id);
    ids[at % ids.len()]
}

/// How many times a message is sent from member to member on its way.
fn path_len(known: &BTreeMap<[u8; 32], Vec<[u8; 32]>>, from: [u8; 32], to: [u8; 32]) -> Outcome<u64> {
    let (mut at, mut hops) = (from, 0);
    while at != to {
        let is_between = |id: &&[u8; 32]| distance(at, **id) <= distance(at, to) && **id != at;
        let closer = known[&at].iter().filter(is_between);
        let next = closer.max_by_key(|id| distance(at, **id));
        at = *next.ok_or("a member knows nobody closer to another one")?;
        hops += 1;
    }
    Ok(hops)
}

/// The way clockwise, by its first 16 bytes.
fn distance(from: [u8; 32], to: [u8; 32]) -> u128 {
    let leading = |id: [u8; 32]| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&id[..16]);
        u128::from_be_bytes(bytes)
    };
    leading(to).wrapping_sub(leading(from))
}

fn address(node: &Node) -> Outcome<String> {
    let address = node.addresses().first().ok_or("a node has no address")?;
    Ok(format!("{address}#{}", node.id()))
}

/// An error in one line.
pub(crate) fn told(error: Error) -> String {
    error.to_string()
}
