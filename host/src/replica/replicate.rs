use alloc::collections::BTreeSet;
use core::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::Replica;
use crate::capsule::{CapsuleName, Peer, find_servers};
use crate::error::Error;
use crate::keys::random_bytes;
use crate::node::Node;
use crate::task::Task;

/// How often a capsule is compared with another replica's: what a push has lost is back after as long, for two small requests.
const INTERVAL: Duration = Duration::from_secs(30);

/// Where the other replicas are
#[derive(Clone, Debug, Default)]
pub struct ReplicateOptions {
    keep: Vec<CapsuleName>,
    peers: Vec<Peer>,
    node: Option<Node>,
    interval: Option<Duration>,
}

impl ReplicateOptions {
    /// No other replica yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Capsules that this replica is to hold, and fetches if it does not; those that it holds are replicated anyway.
    #[must_use]
    pub fn keep(mut self, capsules: impl IntoIterator<Item = CapsuleName>) -> Self {
        self.keep.extend(capsules);
        self
    }

    /// One more replica, which holds every capsule.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.peers.push(peer);
        self
    }

    /// Finds those in the mesh that serve a capsule under its name, beside those that are given.
    #[must_use]
    pub fn mesh(mut self, node: &Node) -> Self {
        self.node = Some(node.clone());
        self
    }

    /// How often a capsule is compared: 30 seconds unless given, and up to half of it more or less, so that replicas that were
    /// started together do not ask together for ever.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = Some(interval);
        self
    }
}

/// A replica that keeps up with others, until this is dropped
#[derive(Debug)]
pub struct Replicating {
    rounds: mpsc::Sender<oneshot::Sender<()>>,
    joined: watch::Receiver<bool>,
    _task: Task,
}

impl Replicating {
    pub(super) fn start(replica: Replica, options: ReplicateOptions) -> Self {
        let (rounds, asked) = mpsc::channel(1);
        let (joins, joined) = watch::channel(false);
        let replicator = Replicator { replica, options };
        Self {
            rounds,
            joined,
            _task: Task::spawn(replicator.run(asked, joins)),
        }
    }

    /// Completes when each capsule was compared once, with the first replica that answered, and nothing is missing that it had.
    pub async fn joined(&self) {
        // Without its task nothing would be compared any more.
        _ = self.joined.clone().wait_for(|joined| *joined).await;
    }

    /// Compares each capsule now, in place of waiting for the interval to pass.
    pub async fn round(&self) {
        let (done, compared) = oneshot::channel();
        if self.rounds.send(done).await.is_ok() {
            // As above.
            _ = compared.await;
        }
    }
}

/// Compares one capsule after the other
struct Replicator {
    replica: Replica,
    options: ReplicateOptions,
}

impl Replicator {
    async fn run(self, mut rounds: mpsc::Receiver<oneshot::Sender<()>>, joins: watch::Sender<bool>) {
        let mut news = self.replica.shelf.listen();
        self.bring(self.capsules()).await;
        _ = joins.send(true);
        let mut next = self.next();
        loop {
            tokio::select! {
                () = sleep_until(next) => {
                    self.bring(self.capsules()).await;
                    next = self.next();
                }
                Some(done) = rounds.recv() => {
                    self.bring(self.capsules()).await;
                    // Who asked may have gone away.
                    _ = done.send(());
                }
                names = news.next() => match names {
                    Some(names) => self.bring(names).await,
                    None => return,
                },
            }
        }
    }

    /// Those that are here or are to be.
    fn capsules(&self) -> BTreeSet<CapsuleName> {
        let kept = self.options.keep.iter().copied();
        kept.chain(self.replica.capsules()).collect()
    }

    /// When the capsules are compared again: half the interval, and up to as long again.
    fn next(&self) -> Instant {
        let half = self.options.interval.unwrap_or(INTERVAL) / 2;
        let share = random_bytes::<1>().map_or(128, |[byte]| u32::from(byte));
        Instant::now() + half + half * 2 * share / 255
    }

    async fn bring(&self, capsules: BTreeSet<CapsuleName>) {
        for name in capsules {
            if let Err(error) = self.bring_one(name).await {
                tracing::warn!(%name, %error, "the other replicas of a capsule are not found");
            }
        }
    }

    /// Compares a capsule with others, in random order, until it holds the same as one of them.
    async fn bring_one(&self, name: CapsuleName) -> Result<(), Error> {
        let mut peers = self.peers_of(name).await?;
        self.replica.push_to(name, &peers).await?;
        shuffle(&mut peers)?;
        for peer in &peers {
            match self.replica.synchronise(name, peer).await {
                Ok(synchronised) if synchronised.agreed => break,
                Ok(_) => {}
                Err(error) => tracing::warn!(%name, %error, "a capsule was not compared"),
            }
        }
        Ok(())
    }

    async fn peers_of(&self, name: CapsuleName) -> Result<Vec<Peer>, Error> {
        let mut peers = self.options.peers.clone();
        if let Some(node) = &self.options.node {
            let found = find_servers(node, name).await?;
            peers.extend(found.iter().map(|server| server.peer().clone()));
        }
        Ok(peers)
    }
}

fn shuffle(peers: &mut Vec<Peer>) -> Result<(), Error> {
    let mut placed = Vec::with_capacity(peers.len());
    for peer in peers.drain(..) {
        placed.push((random_bytes::<8>()?, peer));
    }
    placed.sort_by_key(|(place, _)| *place);
    peers.extend(placed.into_iter().map(|(_, peer)| peer));
    Ok(())
}
