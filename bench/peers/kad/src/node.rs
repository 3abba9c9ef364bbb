use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use bench_pair::Outcome;
use futures_util::StreamExt;
use libp2p::kad::store::MemoryStore;
use libp2p::kad::{Behaviour, Config, Event, Mode, QueryId, QueryResult};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::{NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm, SwarmBuilder, identify, noise, tcp, yamux};
use tokio::sync::{mpsc, oneshot};

/// As many requests of one lookup at a time as the others have in flight.
const ALPHA: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");
/// Longer than any benchmark: connections stay once they are up.
const IDLE: Duration = Duration::from_secs(3600);
const PROTOCOL: StreamProtocol = StreamProtocol::new("/bench/kad/1.0.0");
const IDENTIFY: &str = "/bench/identify/1.0.0";
const LISTEN: &str = "/ip4/127.0.0.1/tcp/0";

/// Who waits for a lookup: it is told how many requests that took
type Waiter = oneshot::Sender<u64>;

/// Kademlia, and the protocol by which a node that is dialled learns where the dialler listens
#[derive(NetworkBehaviour)]
struct Protocols {
    kad: Behaviour<MemoryStore>,
    identify: identify::Behaviour,
}

/// A node that a task drives
#[derive(Clone)]
pub(crate) struct Node {
    lookups: mpsc::UnboundedSender<Waiter>,
}

impl Node {
    /// Starts a node and gives its address; it is ready when it has looked itself up through the bootstrap.
    pub(crate) async fn start(bootstrap: &str) -> Outcome<(Self, String)> {
        let mut swarm = swarm()?;
        swarm
            .listen_on(LISTEN.parse().map_err(one_line)?)
            .map_err(one_line)?;
        let address = loop {
            if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
                break address;
            }
        };
        swarm.add_external_address(address.clone());
        let own = address.with(Protocol::P2p(*swarm.local_peer_id()));
        if !bootstrap.is_empty() {
            join(&mut swarm, bootstrap).await?;
        }
        let (lookups, asked) = mpsc::unbounded_channel();
        tokio::spawn(drive(swarm, asked));
        Ok((Self { lookups }, own.to_string()))
    }

    /// Looks a random id up; tells how many requests that took.
    pub(crate) async fn lookup(&self) -> Outcome<u64> {
        let (waiter, answer) = oneshot::channel();
        self.lookups.send(waiter).map_err(|_| "a node has ended")?;
        answer.await.map_err(|_| "a node has ended".into())
    }
}

fn swarm() -> Outcome<Swarm<Protocols>> {
    let swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(
            tcp::Config::default().nodelay(true),
            noise::Config::new,
            yamux::Config::default,
        )
        .map_err(one_line)?
        .with_behaviour(|key| {
            let id = key.public().to_peer_id();
            let mut config = Config::new(PROTOCOL);
            config
                .set_parallelism(ALPHA)
                .set_periodic_bootstrap_interval(None);
            let mut kad = Behaviour::with_config(id, MemoryStore::new(id), config);
            kad.set_mode(Some(Mode::Server));
            let identify = identify::Config::new(IDENTIFY.into(), key.public());
            Protocols {
                kad,
                identify: identify::Behaviour::new(identify),
            }
        })
        .map_err(one_line)?
        .with_swarm_config(|config| config.with_idle_connection_timeout(IDLE));
    Ok(swarm.build())
}

/// Looks the node itself up through a node that it knows.
async fn join(swarm: &mut Swarm<Protocols>, bootstrap: &str) -> Outcome<()> {
    let mut address: Multiaddr = bootstrap.parse().map_err(one_line)?;
    let Some(Protocol::P2p(peer)) = address.pop() else {
        return Err(format!("{bootstrap} names no peer"));
    };
    swarm.behaviour_mut().kad.add_address(&peer, address);
    swarm.behaviour_mut().kad.bootstrap().map_err(one_line)?;
    loop {
        if let Some(Event::OutboundQueryProgressed { result, step, .. }) = next_event(swarm).await
            && let QueryResult::Bootstrap(result) = result
            && step.last
        {
            return result.map(drop).map_err(one_line);
        }
    }
}

/// Waits for what happens next, and keeps the addresses at which others say that they listen.
async fn next_event(swarm: &mut Swarm<Protocols>) -> Option<Event> {
    match swarm.select_next_some().await {
        SwarmEvent::Behaviour(ProtocolsEvent::Kad(event)) => Some(event),
        SwarmEvent::Behaviour(ProtocolsEvent::Identify(identify::Event::Received {
            peer_id, info, ..
        })) => {
            for address in info.listen_addrs {
                swarm.behaviour_mut().kad.add_address(&peer_id, address);
            }
            None
        }
        _ => None,
    }
}

/// Runs a node until nobody drives it any more.
async fn drive(mut swarm: Swarm<Protocols>, mut asked: mpsc::UnboundedReceiver<Waiter>) {
    let mut waiting: HashMap<QueryId, Waiter> = HashMap::new();
    loop {
        tokio::select! {
            event = next_event(&mut swarm) => {
                if let Some(Event::OutboundQueryProgressed { id, stats, step, .. }) = event
                    && step.last
                    && let Some(waiter) = waiting.remove(&id)
                {
                    // Whoever gave the lookup up does not wait.
                    _ = waiter.send(u64::from(stats.num_requests()));
                }
            }
            waiter = asked.recv() => {
                let Some(waiter) = waiter else { return };
                let query = swarm.behaviour_mut().kad.get_closest_peers(PeerId::random());
                waiting.insert(query, waiter);
            }
        }
    }
}

fn one_line(error: impl core::fmt::Display) -> String {
    error.to_string().replace('\n', " ")
}
