//! Round trips and packets between the first member and another one, through the ring.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bench_closed_loop::closed_loop;
use bench_pair::Outcome;
use selfsame_host::{BoxError, Node, RouteTarget, RoutedMessage};
use tokio::sync::Notify;

use crate::clock::cpu_time;
use crate::ring::{Ring, told};

/// First byte of messages.
const PING: u8 = 0;
const SEND: u8 = 1;
const PACKET: u8 = 2;
pub(crate) const POTATO: u8 = 3;
pub(crate) const CONFIRM: u8 = 4;
/// Packets under way from a responder at a time.
const WINDOW: u64 = 64;
/// How long packets may take.
const LONGEST: Duration = Duration::from_secs(60);

/// When packets came to the first member
#[derive(Default)]
pub(crate) struct Arrivals {
    seen: Mutex<Seen>,
    changed: Notify,
}

#[derive(Default)]
struct Seen {
    count: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Arrivals {
    fn clear(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen::default();
    }

    fn note(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        seen.first.get_or_insert(now);
        seen.last = Some(now);
        seen.count += 1;
        drop(seen);
        self.changed.notify_one();
    }

    /// Waits for so many packets; the time between the first and the last one.
    async fn wait(&self, count: u64) -> Duration {
        loop {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let (true, Some(first), Some(last)) = (seen.count >= count, seen.first, seen.last) {
                return last - first;
            }
            drop(seen);
            self.changed.notified().await;
        }
    }
}

impl Ring {
    /// Answers messages at all members.
    pub(crate) fn serve(&self) {
        for node in self.nodes.iter() {
            let (arrivals, potatoes) = (Arc::clone(&self.arrivals), Arc::clone(&self.potatoes));
            let answering = node.clone();
            node.serve_routed(move |message: RoutedMessage| {
                let node = answering.clone();
                match message.body.first() {
                    Some(&PACKET) => arrivals.note(),
                    Some(&SEND) => _ = tokio::spawn(send(node, message.clone())),
                    Some(&POTATO) => potatoes.caught(&message),
                    Some(&CONFIRM) => potatoes.confirmed(node, &message),
                    _ => {}
                }
                async move { Ok::<_, BoxError>(message.body) }
            });
        }
    }
}

/// Sends as many packets to who has asked for them.
async fn send(node: Node, message: RoutedMessage) {
    let count = message.body.get(1..9).and_then(|count| count.try_into().ok());
    let count = count.map_or(0, u64::from_le_bytes);
    let target = RouteTarget::Member(message.from);
    let work = move |_| {
        let node = node.clone();
        async move { node.route(target, &[PACKET; 32]).await.map_err(told).map(|_| 1) }
    };
    if let Err(error) = closed_loop(WINDOW, count, work).await {
        eprintln!("a packet was lost: {error}");
    }
}

fn ends(ring: &Ring, peer: u64) -> Outcome<(Node, RouteTarget)> {
    let (Some(first), Some(peer)) = (ring.nodes.first(), ring.nodes.get(peer as usize)) else {
        return Err(format!("there is no member {peer}"));
    };
    Ok((first.clone(), RouteTarget::Member(peer.id())))
}

/// Pings a member; tells the nanoseconds, elapsed and of the processor, of one round trip.
pub(crate) async fn pings(ring: &Ring, peer: u64, count: u64) -> Outcome<String> {
    let (first, target) = ends(ring, peer)?;
    let (begin, cpu) = (Instant::now(), cpu_time());
    for _ in 0..count {
        first.route(target, &[PING; 32]).await.map_err(told)?;
    }
    let each = |took: Duration| took.as_nanos() as f64 / count.max(1) as f64;
    let (ns, cpu_ns) = (each(begin.elapsed()), each(cpu_time() - cpu));
    Ok(format!(r#"{{"ns":{ns},"cpu_ns":{cpu_ns}}}"#))
}

/// Has a member send packets; tells the nanoseconds between two of them.
pub(crate) async fn packets(ring: &Ring, peer: u64, count: u64) -> Outcome<String> {
    let (first, target) = ends(ring, peer)?;
    ring.arrivals.clear();
    let mut request = vec![SEND];
    request.extend_from_slice(&count.to_le_bytes());
    first.route(target, &request).await.map_err(told)?;
    let arrived = tokio::time::timeout(LONGEST, ring.arrivals.wait(count)).await;
    let took = arrived.map_err(|_| "packets did not arrive")?;
    Ok((took.as_nanos() as f64 / count.saturating_sub(1).max(1) as f64).to_string())
}
