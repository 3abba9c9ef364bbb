//! Hot potatoes: messages that each member that has one passes to whoever is responsible for a random id.
//!
//! A pass is the potato, its acknowledgement, which is the answer, and the acknowledgement of that, upon which the next pass
//! begins; the library answers the last one, too.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bench_closed_loop::random_id;
use bench_pair::Outcome;
use selfsame_host::{Node, RouteTarget, RoutedMessage};

use crate::clock::cpu_time;
use crate::ping::{CONFIRM, POTATO};
use crate::ring::Ring;

/// The game as all members of the process see it
#[derive(Default)]
pub(crate) struct Potatoes {
    /// Whether potatoes are passed on.
    is_on: AtomicBool,
    passes: Mutex<Vec<u64>>,
    lost: AtomicU64,
    under_way: AtomicU64,
}

impl Potatoes {
    /// A member has a potato, and will pass it on when it hears that this is known.
    pub(crate) fn caught(&self, message: &RoutedMessage) {
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = number_of(message).and_then(|number| passes.get_mut(number)) {
            *count += 1;
        }
    }

    /// A member may pass a potato on.
    pub(crate) fn confirmed(self: &Arc<Self>, node: Node, message: &RoutedMessage) {
        if let Some(number) = number_of(message) {
            tokio::spawn(pass(Arc::clone(self), node, number));
        }
    }
}

fn number_of(message: &RoutedMessage) -> Option<usize> {
    let bytes = message.body.get(1..5)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
}

fn message(kind: u8, number: usize) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend_from_slice(&(number as u32).to_le_bytes());
    body
}

/// Passes a potato to whoever is responsible for a random id, and tells it that the acknowledgement has come.
async fn pass(potatoes: Arc<Potatoes>, node: Node, number: usize) {
    if !potatoes.is_on.load(Ordering::Relaxed) {
        potatoes.under_way.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let passed = async {
        let id = random_id()?;
        let target = RouteTarget::Responsible(id);
        let answer = node.route(target, &message(POTATO, number)).await;
        answer.map_err(|error| error.to_string())?;
        let known = node.route(target, &message(CONFIRM, number)).await;
        known.map_err(|error| error.to_string())
    };
    if let Err(error) = passed.await {
        eprintln!("potato {number} was lost: {error}");
        potatoes.lost.fetch_add(1, Ordering::Relaxed);
        potatoes.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Plays with so many potatoes for some time; tells the passes a second of each, and the processor time of one.
pub(crate) async fn play(ring: &Ring, count: u64, time_ms: u64) -> Outcome<String> {
    let potatoes = &ring.potatoes;
    *potatoes.passes.lock().unwrap_or_else(PoisonError::into_inner) = vec![0; count as usize];
    potatoes.lost.store(0, Ordering::Relaxed);
    potatoes.under_way.store(count, Ordering::Relaxed);
    potatoes.is_on.store(true, Ordering::Relaxed);
    let (begin, cpu) = (Instant::now(), cpu_time());
    for number in 0..count as usize {
        let node = ring.nodes[number % ring.nodes.len()].clone();
        tokio::spawn(pass(Arc::clone(potatoes), node, number));
    }
    tokio::time::sleep(Duration::from_millis(time_ms)).await;
    let passes = potatoes
        .passes
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), cpu_time() - cpu);
    potatoes.is_on.store(false, Ordering::Relaxed);
    while potatoes.under_way.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let all: u64 = passes.iter().sum();
    let each: Vec<String> = passes
        .iter()
        .map(|passes| (*passes as f64 / seconds).to_string())
        .collect();
    Ok(format!(
        r#"{{"passes_per_second":{},"cpu_ns":{},"lost":{},"each":[{}]}}"#,
        all as f64 / seconds,
        cpu.as_nanos() as f64 / all.max(1) as f64,
        potatoes.lost.load(Ordering::Relaxed),
        each.join(",")
    ))
}
