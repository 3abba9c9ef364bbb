//! How peers have answered lately: latency, requests in flight, failures.

use crate::identity::PeerId;
use selfsame_sorted_map::Map;

/// Most peers of which this is known.
const MAX_PEERS: usize = 1024;
/// Failures in a row after which a peer is ejected: fewer may be the fault of what was asked.
const MOST_FAILURES: u32 = 5;
/// How long a peer gets no requests after it failed, doubled each time until it has answered well.
const FIRST_EJECTION_MS: u64 = 5_000;
/// Longest ejection: a peer that recovers is found out within a minute.
const LAST_EJECTION_MS: u64 = 60_000;
/// After this time without an answer what is known of a peer's latency counts half: a slow one gets another chance.
const LATENCY_HALVES_MS: u64 = 5_000;
/// Latencies are kept in sixteenths of a millisecond, so that small ones can be averaged.
const PER_MS: u32 = 16;
/// Longest latency that is told from others.
const MAX_LATENCY_MS: u64 = 600_000;
/// An answer counts for one eighth of the average.
const DECAY: u32 = 8;

/// How one peer has answered
#[derive(Clone, Debug, Default)]
struct Health {
    in_flight: u32,
    /// Average time until an answer began, in [`PER_MS`] parts; the worst is believed at once, better ones by and by.
    latency: Option<u32>,
    latency_at_ms: u64,
    failures: u32,
    ejections: u32,
    ejected_until_ms: u64,
    /// It could not be reached, so that a request to it would only cost time.
    is_unreachable: bool,
    used_ms: u64,
}

impl Health {
    fn latency_now(&self, now_ms: u64) -> Option<u32> {
        let halvings = now_ms.saturating_sub(self.latency_at_ms) / LATENCY_HALVES_MS;
        Some(self.latency? >> halvings.min(31))
    }

    fn eject(&mut self, now_ms: u64) {
        let ejection_ms = FIRST_EJECTION_MS << self.ejections.min(8);
        self.ejected_until_ms = now_ms.saturating_add(ejection_ms.min(LAST_EJECTION_MS));
        self.ejections += 1;
        self.failures = 0;
    }
}

/// What is known of how peers answer
#[derive(Debug, Default)]
pub(super) struct Healths {
    peers: Map<PeerId, Health>,
}

impl Healths {
    /// Whether a peer gets no requests at this time while others can.
    pub(super) fn is_ejected(&self, peer: &PeerId, now_ms: u64) -> bool {
        let health = self.peers.get(peer);
        health.is_some_and(|health| now_ms < health.ejected_until_ms)
    }

    /// Whether a peer was ejected and has not answered well since.
    pub(super) fn was_ejected(&self, peer: &PeerId) -> bool {
        let health = self.peers.get(peer);
        health.is_some_and(|health| health.ejections > 0)
    }

    /// Whether a peer is ejected because it could not be reached.
    pub(super) fn is_unreachable(&self, peer: &PeerId, now_ms: u64) -> bool {
        let health = self.peers.get(peer);
        health.is_some_and(|health| health.is_unreachable && now_ms < health.ejected_until_ms)
    }

    pub(super) fn in_flight(&self, peer: &PeerId) -> u32 {
        self.peers.get(peer).map_or(0, |health| health.in_flight)
    }

    /// How long answers took to begin, in milliseconds, if any was seen.
    pub(super) fn latency_ms(&self, peer: &PeerId, now_ms: u64) -> Option<u32> {
        Some(self.peers.get(peer)?.latency_now(now_ms)?.div_ceil(PER_MS))
    }

    /// How much a peer has to do and how slowly it does it; the less the better. A peer that was not asked yet has none.
    pub(super) fn load(&self, peer: &PeerId, now_ms: u64) -> u64 {
        let Some(health) = self.peers.get(peer) else {
            return 0;
        };
        let latency = health.latency_now(now_ms).unwrap_or(0);
        // At least one millisecond, so that requests in flight count where answers are quick.
        u64::from(latency.max(PER_MS)) * u64::from(health.in_flight + 1)
    }

    /// A request goes to a peer.
    pub(super) fn started(&mut self, peer: PeerId, now_ms: u64) {
        if self.peers.len() >= MAX_PEERS && !self.peers.contains_key(&peer) {
            self.forget_one();
        }
        let health = self.peers.get_or_insert_with(peer, Health::default);
        health.in_flight += 1;
        health.used_ms = now_ms;
    }

    /// A request did not come to a peer after all, which says nothing of how it answers.
    pub(super) fn left(&mut self, peer: &PeerId) {
        if let Some(health) = self.peers.get_mut(peer) {
            health.in_flight = health.in_flight.saturating_sub(1);
        }
    }

    /// The peer began to answer.
    pub(super) fn answered(&mut self, peer: &PeerId, took_ms: u64, now_ms: u64) {
        if let Some(health) = self.peers.get_mut(peer) {
            let sample = took_ms.min(MAX_LATENCY_MS) as u32 * PER_MS;
            let before = health.latency_now(now_ms).unwrap_or(sample);
            health.latency = Some(sample.max(before - before / DECAY + sample / DECAY));
            health.latency_at_ms = now_ms;
        }
    }

    /// A request to a peer is over, for good or ill.
    pub(super) fn ended(&mut self, peer: &PeerId, has_failed: bool, now_ms: u64) {
        let Some(health) = self.peers.get_mut(peer) else {
            return;
        };
        health.in_flight = health.in_flight.saturating_sub(1);
        if !has_failed {
            health.failures = 0;
            health.ejections = 0;
            return;
        }
        health.failures += 1;
        if health.failures >= MOST_FAILURES {
            health.is_unreachable = false;
            health.eject(now_ms);
        }
    }

    /// A peer could not be reached.
    pub(super) fn unreachable(&mut self, peer: PeerId, now_ms: u64) {
        if self.peers.len() >= MAX_PEERS && !self.peers.contains_key(&peer) {
            self.forget_one();
        }
        let health = self.peers.get_or_insert_with(peer, Health::default);
        health.is_unreachable = true;
        health.used_ms = now_ms;
        health.eject(now_ms);
    }

    /// A peer can be reached.
    pub(super) fn reached(&mut self, peer: &PeerId) {
        if let Some(health) = self.peers.get_mut(peer).filter(|health| health.is_unreachable) {
            health.is_unreachable = false;
            health.ejected_until_ms = 0;
            health.ejections = 0;
        }
    }

    /// Makes room: the one that was not used for longest goes.
    fn forget_one(&mut self) {
        let idle = self.peers.iter().filter(|(_, health)| health.in_flight == 0);
        let oldest = idle
            .min_by_key(|(_, health)| health.used_ms)
            .map(|(peer, _)| *peer);
        oldest.into_iter().for_each(|peer| _ = self.peers.remove(&peer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerId = PeerId([1; 32]);

    fn fail(healths: &mut Healths, times: u32, now_ms: u64) {
        for _ in 0..times {
            healths.started(PEER, now_ms);
            healths.ended(&PEER, true, now_ms);
        }
    }

    #[test]
    fn failures_in_a_row_eject_for_longer_each_time() {
        let mut healths = Healths::default();
        fail(&mut healths, MOST_FAILURES - 1, 0);
        assert!(!healths.is_ejected(&PEER, 0));
        fail(&mut healths, 1, 0);
        assert!(healths.is_ejected(&PEER, FIRST_EJECTION_MS - 1));
        assert!(!healths.is_ejected(&PEER, FIRST_EJECTION_MS));
        fail(&mut healths, MOST_FAILURES, FIRST_EJECTION_MS);
        assert!(healths.is_ejected(&PEER, 3 * FIRST_EJECTION_MS - 1));
        fail(&mut healths, 20 * MOST_FAILURES, 100_000);
        assert!(!healths.is_ejected(&PEER, 100_000 + LAST_EJECTION_MS));
    }

    #[test]
    fn one_good_answer_ends_a_row_of_failures() {
        let mut healths = Healths::default();
        fail(&mut healths, MOST_FAILURES - 1, 0);
        healths.started(PEER, 0);
        healths.ended(&PEER, false, 0);
        fail(&mut healths, MOST_FAILURES - 1, 0);
        assert!(!healths.is_ejected(&PEER, 0));
    }

    #[test]
    fn a_peer_that_is_reached_again_is_no_longer_ejected() {
        let mut healths = Healths::default();
        healths.unreachable(PEER, 0);
        assert!(healths.is_ejected(&PEER, 1) && healths.is_unreachable(&PEER, 1));
        healths.reached(&PEER);
        assert!(!healths.is_ejected(&PEER, 1));
        fail(&mut healths, MOST_FAILURES, 0);
        healths.reached(&PEER);
        assert!(
            healths.is_ejected(&PEER, 1),
            "one that answers badly can be reached, too"
        );
    }

    #[test]
    fn the_worst_latency_is_believed_at_once_and_forgotten_by_and_by() {
        let mut healths = Healths::default();
        healths.started(PEER, 0);
        assert_eq!(healths.latency_ms(&PEER, 0), None);
        healths.answered(&PEER, 2, 0);
        assert_eq!(healths.latency_ms(&PEER, 0), Some(2));
        healths.answered(&PEER, 800, 0);
        assert_eq!(healths.latency_ms(&PEER, 0), Some(800));
        healths.answered(&PEER, 0, 0);
        assert_eq!(healths.latency_ms(&PEER, 0), Some(700));
        assert_eq!(healths.latency_ms(&PEER, LATENCY_HALVES_MS), Some(350));
        assert_eq!(healths.latency_ms(&PEER, 1_000_000), Some(0));
    }

    #[test]
    fn memory_is_bounded_and_peers_with_requests_in_flight_stay() {
        let mut healths = Healths::default();
        healths.started(PEER, 0);
        for number in 0..2 * MAX_PEERS as u64 {
            let mut id = [2; 32];
            id[..8].copy_from_slice(&number.to_le_bytes());
            healths.unreachable(PeerId(id), number);
        }
        assert_eq!(healths.peers.len(), MAX_PEERS);
        assert_eq!(healths.in_flight(&PEER), 1);
    }
}
