//! Messages that members pass on from one to the next.
//!
//! Of a message each member decides by itself to whom it goes next; here nothing else of it is simulated: no sessions, no
//! frames. A liar that is to pass one on drops it.

use std::collections::{BTreeMap, BTreeSet};

use selfsame_core::Place;

use crate::machine::Native;
use crate::world::World;

/// Most members that pass a message on.
const MAX_HOPS: usize = 32;

/// What became of messages
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    pub(super) sent: usize,
    /// How many have arrived with so many tries: one, two, and so on.
    pub(super) arrived: Vec<usize>,
    /// Members that passed on what has arrived, the last ones included.
    pub(super) hops: usize,
}

impl Messages {
    /// Share of those that have arrived within so many tries.
    pub(super) fn share(&self, tries: usize) -> f64 {
        let arrived: usize = self.arrived.iter().take(tries).sum();
        arrived as f64 / self.sent.max(1) as f64
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.hops += other.hops;
        let longest = self.arrived.len().max(other.arrived.len());
        self.arrived.resize(longest, 0);
        for (all, one) in self.arrived.iter_mut().zip(&other.arrived) {
            *all += one;
        }
    }
}

/// Lets honest members send messages to each other, each with so many tries.
pub(super) fn messages(world: &mut World<Native>, honest: &[usize], count: usize, tries: usize) -> Messages {
    let running = (0..world.hosts().len()).filter(|host| world.hosts()[*host].is_running());
    let hosts: BTreeMap<[u8; 32], usize> = running.map(|host| (world.hosts()[host].id().0, host)).collect();
    let honest: Vec<usize> = honest
        .iter()
        .copied()
        .filter(|host| world.hosts()[*host].is_running())
        .collect();
    let trusted: BTreeSet<usize> = honest.iter().copied().collect();
    let mut messages = Messages {
        arrived: vec![0; tries],
        ..Messages::default()
    };
    for _ in 0..count {
        let from = honest[world.dice().usize(..honest.len())];
        let to = honest[world.dice().usize(..honest.len())];
        messages.sent += 1;
        let mut attempts = (0..tries).map(|attempt| (attempt, pass_on(world, &hosts, &trusted, from, to)));
        if let Some((attempt, hops)) = attempts.find_map(|(attempt, hops)| Some((attempt, hops?))) {
            messages.arrived[attempt] += 1;
            messages.hops += hops;
        }
    }
    messages
}

/// How many members a message goes to until it arrives, if it does.
fn pass_on(
    world: &mut World<Native>,
    hosts: &BTreeMap<[u8; 32], usize>,
    trusted: &BTreeSet<usize>,
    from: usize,
    to: usize,
) -> Option<usize> {
    let target = Place(world.hosts()[to].id().0);
    let mut at = from;
    for hops in 0..MAX_HOPS {
        if at == to {
            return Some(hops);
        }
        if !trusted.contains(&at) {
            return None;
        }
        let core = world.hosts()[at].core()?;
        let next = world.machine_mut().hops_to(core, &target);
        // Nobody passes anything on to whom it cannot reach.
        at = next.iter().find_map(|peer| hosts.get(&peer.0).copied())?;
    }
    None
}
