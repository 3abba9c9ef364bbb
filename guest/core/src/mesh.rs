//! Which provider of a service a call goes to.

use alloc::string::String;
use alloc::vec::Vec;

use crate::identity::{PeerId, PublicKey};
use crate::map::Map;
use crate::random::Random;
use crate::ring::Provider;

/// How long the providers of a name are known without asking the ring again.
const PROVIDERS_FRESH_MS: u64 = 30_000;
/// Most names whose providers are remembered.
const MAX_NAMES: usize = 256;
/// How long a peer that did not answer is avoided.
const SUSPECT_MS: u64 = 30_000;
/// Most peers that are avoided at once.
const MAX_SUSPECTS: usize = 1024;

/// A name and its owner
pub type Name = (Option<PublicKey>, String);

struct Known {
    providers: Vec<Provider>,
    until_ms: u64,
}

/// What is known of providers: where they are, and which did not answer lately
#[derive(Default)]
pub struct Mesh {
    known: Map<Name, Known>,
    suspects: Map<PeerId, u64>,
}

impl Mesh {
    /// The providers of a name that were found lately.
    #[must_use]
    pub fn providers(&self, name: &Name, now_ms: u64) -> Option<&[Provider]> {
        self.known
            .get(name)
            .filter(|known| now_ms < known.until_ms)
            .map(|known| known.providers.as_slice())
    }

    /// Remembers the providers of a name.
    pub fn learn(&mut self, name: Name, providers: Vec<Provider>, now_ms: u64) {
        if self.known.len() >= MAX_NAMES && !self.known.contains_key(&name) {
            let oldest = self
                .known
                .iter()
                .min_by_key(|(_, known)| known.until_ms)
                .map(|(name, _)| name.clone());
            oldest.into_iter().for_each(|name| _ = self.known.remove(&name));
        }
        self.known.insert(
            name,
            Known {
                providers,
                until_ms: now_ms.saturating_add(PROVIDERS_FRESH_MS),
            },
        );
    }

    /// Forgets the providers of a name, so that the ring is asked again.
    pub fn forget(&mut self, name: &Name) {
        self.known.remove(name);
    }

    /// Avoids a peer for a while, because it did not answer.
    pub fn suspect(&mut self, peer: PeerId, now_ms: u64) {
        self.suspects.retain(|_, until_ms| now_ms < *until_ms);
        if self.suspects.len() < MAX_SUSPECTS {
            self.suspects.insert(peer, now_ms.saturating_add(SUSPECT_MS));
        }
    }

    /// A peer answered.
    pub fn trust(&mut self, peer: &PeerId) {
        self.suspects.remove(peer);
    }

    /// Chooses at random, by weight, among the providers that were not tried; those that did not answer lately only
    /// when there is no other.
    #[must_use]
    pub fn choose(
        &self,
        providers: &[Provider],
        tried: &[PeerId],
        random: &mut Random,
        now_ms: u64,
    ) -> Option<PeerId> {
        let untried = || {
            providers
                .iter()
                .filter(|provider| provider.weight > 0 && !tried.contains(&provider.peer))
        };
        let answering: Vec<&Provider> = untried()
            .filter(|provider| !self.is_suspect(&provider.peer, now_ms))
            .collect();
        if answering.is_empty() {
            return by_weight(&untried().collect::<Vec<_>>(), random);
        }
        by_weight(&answering, random)
    }

    fn is_suspect(&self, peer: &PeerId, now_ms: u64) -> bool {
        self.suspects.get(peer).is_some_and(|until_ms| now_ms < *until_ms)
    }
}

fn by_weight(providers: &[&Provider], random: &mut Random) -> Option<PeerId> {
    let total: usize = providers
        .iter()
        .map(|provider| usize::from(provider.weight))
        .sum();
    if total == 0 {
        return None;
    }
    let mut at = random.below(total);
    for provider in providers {
        let weight = usize::from(provider.weight);
        if at < weight {
            return Some(provider.peer);
        }
        at -= weight;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn provider(id: u8, weight: u16) -> Provider {
        Provider {
            peer: PeerId([id; 32]),
            public: PublicKey([id; 32]),
            version: String::new(),
            weight,
            owner: None,
            record: None,
        }
    }

    #[test]
    fn weights_divide_the_calls() {
        let mesh = Mesh::default();
        let mut random = Random::new(&[3; 32]);
        let providers = vec![provider(1, 90), provider(2, 10), provider(3, 0)];
        let mut counts = [0_u32; 4];
        for _ in 0..10_000 {
            let chosen = mesh
                .choose(&providers, &[], &mut random, 0)
                .expect("there are providers");
            counts[usize::from(chosen.0[0])] += 1;
        }
        assert!((8_800..9_200).contains(&counts[1]), "{counts:?}");
        assert_eq!(counts[3], 0);
    }

    #[test]
    fn a_suspect_is_the_last_resort() {
        let mut mesh = Mesh::default();
        let mut random = Random::new(&[3; 32]);
        let providers = vec![provider(1, 1), provider(2, 1)];
        mesh.suspect(PeerId([1; 32]), 0);
        for _ in 0..50 {
            assert_eq!(
                mesh.choose(&providers, &[], &mut random, 1),
                Some(PeerId([2; 32]))
            );
        }
        assert_eq!(
            mesh.choose(&providers, &[PeerId([2; 32])], &mut random, 1),
            Some(PeerId([1; 32]))
        );
        assert_eq!(
            mesh.choose(&providers, &[PeerId([1; 32]), PeerId([2; 32])], &mut random, 1),
            None
        );
    }

    #[test]
    fn what_was_found_is_known_for_a_while() {
        let mut mesh = Mesh::default();
        let name: Name = (None, "check".into());
        mesh.learn(name.clone(), vec![provider(1, 1)], 0);
        assert!(mesh.providers(&name, 1).is_some());
        assert!(mesh.providers(&name, PROVIDERS_FRESH_MS).is_none());
        mesh.forget(&name);
        assert!(mesh.providers(&name, 1).is_none());
    }
}
