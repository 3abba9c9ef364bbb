//! Who failed lately: a peer that drops or leads astray is asked last, and never expelled for it.

use crate::identity::PeerId;
use selfsame_sorted_map::Map;

/// Most peers with a score: as many as the routes of a member and some lookups.
const MAX_SCORES: usize = 256;
/// Failures, less what worked since, from which on a peer is avoided: one may be an accident of the network.
const POOR: u8 = 2;
/// Most failures that count, so that one that mends is soon trusted again.
const MOST: u8 = 8;

/// Failures of peers, less what worked since
#[derive(Debug, Default)]
pub(super) struct Scores {
    failures: Map<PeerId, u8>,
}

impl Scores {
    /// A peer gave no answer, or one that led away. Where there are too many, one with the fewest failures is forgotten.
    pub(super) fn failed(&mut self, peer: PeerId) {
        if self.failures.len() >= MAX_SCORES && !self.failures.contains_key(&peer) {
            let fewest = self.failures.iter().min_by_key(|(_, failures)| **failures);
            if let Some(fewest) = fewest.map(|(peer, _)| *peer) {
                self.failures.remove(&fewest);
            }
        }
        let failures = self.failures.get_or_insert_with(peer, u8::default);
        *failures = failures.saturating_add(1).min(MOST);
    }

    /// A peer was of use.
    pub(super) fn worked(&mut self, peer: &PeerId) {
        if let Some(failures) = self.failures.get_mut(peer) {
            *failures -= 1;
            if *failures == 0 {
                self.failures.remove(peer);
            }
        }
    }

    pub(super) fn is_poor(&self, peer: &PeerId) -> bool {
        self.failures.get(peer).is_some_and(|failures| *failures >= POOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u64) -> PeerId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        PeerId(id)
    }

    #[test]
    fn peer_is_poor_after_some_failures_and_mends() {
        let mut scores = Scores::default();
        scores.failed(peer(1));
        assert!(!scores.is_poor(&peer(1)));
        scores.failed(peer(1));
        assert!(scores.is_poor(&peer(1)));
        scores.worked(&peer(1));
        assert!(!scores.is_poor(&peer(1)));
        scores.worked(&peer(1));
        scores.worked(&peer(1));
        assert!(scores.failures.is_empty());
    }

    #[test]
    fn many_that_fail_once_do_not_drive_out_who_fails_always() {
        let mut scores = Scores::default();
        for _ in 0..=u64::from(MOST) {
            scores.failed(peer(0));
        }
        for number in 1..1000 {
            scores.failed(peer(number));
            assert!(scores.failures.len() <= MAX_SCORES);
        }
        assert!(scores.is_poor(&peer(0)));
    }
}
