//! Services by name: who provides them, which provider a call goes to, and how often calls may be tried again.

mod budget;
mod choice;
mod health;

pub use choice::Wish;

use alloc::string::String;
use alloc::vec::Vec;

use crate::identity::{PeerId, PublicKey};
use crate::random::Random;
use crate::ring::Provider;
use selfsame_sorted_map::Map;

/// How long the providers of a name are used without the ring's having been asked again.
const PROVIDERS_FRESH_MS: u64 = 30_000;
/// After how long a call has the ring asked again beside it, so that new replicas and weights are known soon.
pub const REFRESH_MS: u64 = 5_000;
/// After how long a call that failed at a provider has the ring asked again: another one may have taken its place.
const DOUBTFUL_MS: u64 = 1_000;
/// Most names whose providers are remembered.
const MAX_NAMES: usize = 256;

/// A name and its owner
pub type Name = (Option<PublicKey>, String);

/// What is known of a service
#[derive(Default)]
struct Service {
    providers: Vec<Provider>,
    found_ms: u64,
    /// When it was last of use.
    used_ms: u64,
    budget: budget::Budget,
}

/// How a provider has answered this node
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether it gets no requests for a while, because it failed.
    pub is_ejected: bool,
    /// Requests that it has not answered whole.
    pub in_flight: u32,
    /// How long its answers took to begin lately, in milliseconds; `None` when it was not asked.
    pub latency_ms: Option<u32>,
}

/// Services of which something is known, and how their providers answer
#[derive(Default)]
pub struct Mesh {
    services: Map<Name, Service>,
    healths: health::Healths,
}

impl Mesh {
    /// The providers of a name that were found lately.
    #[must_use]
    pub fn providers(&self, name: &Name, now_ms: u64) -> Option<&[Provider]> {
        let service = self.services.get(name)?;
        let is_fresh = now_ms < service.found_ms.saturating_add(PROVIDERS_FRESH_MS);
        (is_fresh && !service.providers.is_empty()).then_some(service.providers.as_slice())
    }

    /// Whether the ring should be asked for a name whose providers are known.
    #[must_use]
    pub fn is_due(&self, name: &Name, now_ms: u64) -> bool {
        let service = self.services.get(name);
        service.is_none_or(|service| service.found_ms.saturating_add(REFRESH_MS) <= now_ms)
    }

    /// Whether the ring should be asked for a name one of whose providers has just failed.
    #[must_use]
    pub fn is_doubtful(&self, name: &Name, now_ms: u64) -> bool {
        let service = self.services.get(name);
        service.is_none_or(|service| service.found_ms.saturating_add(DOUBTFUL_MS) <= now_ms)
    }

    /// Whether a known provider of a name has failed and not answered well since: others may be named elsewhere.
    #[must_use]
    pub fn is_failing(&self, name: &Name) -> bool {
        let service = self.services.get(name);
        let has_failed = |provider: &Provider| self.healths.was_ejected(&provider.peer);
        service.is_some_and(|service| service.providers.iter().any(has_failed))
    }

    /// Remembers the providers of a name.
    pub fn learn(&mut self, name: Name, providers: Vec<Provider>, now_ms: u64) {
        let service = self.service(name, now_ms);
        service.providers = providers;
        service.found_ms = now_ms;
    }

    /// Forgets the providers of a name, so that the ring is asked again.
    pub fn forget(&mut self, name: &Name) {
        if let Some(service) = self.services.get_mut(name) {
            service.providers = Vec::new();
        }
    }

    /// A call for the first time.
    pub fn first_try(&mut self, name: &Name, now_ms: u64) {
        self.service(name.clone(), now_ms).budget.earn();
    }

    /// A call again; says whether that is within the budget.
    pub fn retry(&mut self, name: &Name, now_ms: u64) -> bool {
        self.service(name.clone(), now_ms).budget.spend(now_ms)
    }

    /// Chooses a provider for a call.
    #[must_use]
    pub fn choose(&self, name: &Name, wish: &Wish<'_>, random: &mut Random, now_ms: u64) -> Option<PeerId> {
        let providers = self.providers(name, now_ms)?;
        choice::choose(providers, wish, &self.healths, random, now_ms)
    }

    /// How a peer has answered.
    #[must_use]
    pub fn standing(&self, peer: &PeerId, now_ms: u64) -> Standing {
        Standing {
            is_ejected: self.healths.is_ejected(peer, now_ms),
            in_flight: self.healths.in_flight(peer),
            latency_ms: self.healths.latency_ms(peer, now_ms),
        }
    }

    /// A peer could not be reached, and is avoided for a while.
    pub fn unreachable(&mut self, peer: PeerId, now_ms: u64) {
        self.healths.unreachable(peer, now_ms);
    }

    /// A peer can be reached.
    pub fn reached(&mut self, peer: &PeerId) {
        self.healths.reached(peer);
    }

    /// A request goes to a peer.
    pub fn started(&mut self, peer: PeerId, now_ms: u64) {
        self.healths.started(peer, now_ms);
    }

    /// A request did not come to a peer after all.
    pub fn left(&mut self, peer: &PeerId) {
        self.healths.left(peer);
    }

    /// A peer began to answer a request.
    pub fn answered(&mut self, peer: &PeerId, took_ms: u64, now_ms: u64) {
        self.healths.answered(peer, took_ms, now_ms);
    }

    /// A request to a peer is over; whether that peer has failed.
    pub fn ended(&mut self, peer: &PeerId, has_failed: bool, now_ms: u64) {
        self.healths.ended(peer, has_failed, now_ms);
    }

    /// What is known of a service; the one that was of no use for longest makes room for a new one.
    fn service(&mut self, name: Name, now_ms: u64) -> &mut Service {
        if self.services.len() >= MAX_NAMES && !self.services.contains_key(&name) {
            let oldest = self.services.iter().min_by_key(|(_, service)| service.used_ms);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest
                .into_iter()
                .for_each(|name| _ = self.services.remove(&name));
        }
        let service = self.services.get_or_insert_with(name, Service::default);
        service.used_ms = now_ms;
        service
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use selfsame_codec::Policy;

    const NAME: (Option<PublicKey>, &str) = (None, "check");

    fn provider(id: u8, version: &str, weight: u16) -> Provider {
        Provider {
            peer: PeerId([id; 32]),
            public: PublicKey([id; 32]),
            version: version.into(),
            weight,
            owner: None,
            siblings: 1,
            record: None,
        }
    }

    fn name() -> Name {
        (NAME.0, NAME.1.into())
    }

    fn mesh(providers: Vec<Provider>) -> Mesh {
        let mut mesh = Mesh::default();
        mesh.learn(name(), providers, 0);
        mesh
    }

    fn wish<'a>(key: &'a [u8], policy: Policy, tried: &'a [PeerId]) -> Wish<'a> {
        Wish { key, policy, tried }
    }

    /// How often each provider is chosen in ten thousand calls.
    fn counts(mesh: &Mesh, policy: Policy) -> [u32; 8] {
        let mut random = Random::new(&[3; 32]);
        let mut counts = [0; 8];
        for _ in 0..10_000 {
            let chosen = mesh.choose(&name(), &wish(&[], policy, &[]), &mut random, 0);
            counts[usize::from(chosen.expect("there are providers").0[0])] += 1;
        }
        counts
    }

    #[test]
    fn a_version_below_the_whole_gets_its_share_and_the_rest_is_divided_evenly() {
        for policy in [Policy::PowerOfTwo, Policy::Random] {
            let canary = provider(3, "2", 1_000);
            let stable = [provider(1, "1", 10_000), provider(2, "1", 10_000)];
            let counts = counts(&mesh(vec![stable[0].clone(), canary, stable[1].clone()]), policy);
            assert!((900..1_100).contains(&counts[3]), "{counts:?}");
            assert!((4_300..4_700).contains(&counts[1]), "{counts:?}");
            assert!((4_300..4_700).contains(&counts[2]), "{counts:?}");
        }
    }

    #[test]
    fn versions_that_all_ask_for_less_than_the_whole_share_in_proportion() {
        let providers = vec![provider(1, "1", 100), provider(2, "2", 300), provider(3, "3", 0)];
        let counts = counts(&mesh(providers), Policy::PowerOfTwo);
        assert!((2_300..2_700).contains(&counts[1]), "{counts:?}");
        assert_eq!(counts[3], 0);
    }

    #[test]
    fn what_a_replica_that_may_be_dead_said_of_its_version_does_not_count() {
        let stable = provider(1, "1", 10_000);
        let (dead, canary) = (provider(2, "2", 1_000), provider(3, "2", 5_000));
        let mut mesh = mesh(vec![stable, dead, canary]);
        mesh.unreachable(PeerId([2; 32]), 0);
        let later_ms = 10_000;
        let mut random = Random::new(&[3; 32]);
        let mut canaries = |mesh: &Mesh| {
            let choices = (0..10_000).map(|_| {
                let wish = wish(&[], Policy::Random, &[]);
                mesh.choose(&name(), &wish, &mut random, later_ms)
            });
            choices.filter(|chosen| *chosen != Some(PeerId([1; 32]))).count()
        };
        let without = canaries(&mesh);
        assert!((4_800..5_200).contains(&without), "{without}");
        mesh.started(PeerId([2; 32]), later_ms);
        mesh.ended(&PeerId([2; 32]), false, later_ms);
        let with = canaries(&mesh);
        assert!((2_800..3_200).contains(&with), "{with}");
    }

    #[test]
    fn of_two_the_one_with_less_latency_and_fewer_requests_in_flight_is_chosen() {
        let mut mesh = mesh(vec![provider(1, "", 10_000), provider(2, "", 10_000)]);
        mesh.started(PeerId([1; 32]), 0);
        assert_eq!(counts(&mesh, Policy::PowerOfTwo)[1], 0);
        assert!(counts(&mesh, Policy::Random)[1] > 4_500);
        mesh.started(PeerId([2; 32]), 0);
        mesh.answered(&PeerId([2; 32]), 50, 0);
        assert_eq!(counts(&mesh, Policy::PowerOfTwo)[2], 0);
    }

    #[test]
    fn an_unreachable_provider_is_the_last_resort() {
        let mut mesh = mesh(vec![provider(1, "", 10_000), provider(2, "", 10_000)]);
        mesh.unreachable(PeerId([1; 32]), 0);
        assert_eq!(counts(&mesh, Policy::Random)[1], 0);
        let mut random = Random::new(&[3; 32]);
        let mut choose = |tried: &[PeerId]| {
            let wish = wish(&[], Policy::PowerOfTwo, tried);
            mesh.choose(&name(), &wish, &mut random, 1)
        };
        assert_eq!(choose(&[PeerId([2; 32])]), Some(PeerId([1; 32])));
        assert_eq!(choose(&[PeerId([1; 32]), PeerId([2; 32])]), None);
    }

    #[test]
    fn providers_that_answer_badly_are_not_all_ejected() {
        let mut mesh = mesh((1..5).map(|id| provider(id, "", 10_000)).collect());
        let fail = |mesh: &mut Mesh, id: u8| {
            for _ in 0..5 {
                mesh.started(PeerId([id; 32]), 0);
                mesh.ended(&PeerId([id; 32]), true, 0);
            }
        };
        fail(&mut mesh, 1);
        fail(&mut mesh, 2);
        let few = counts(&mesh, Policy::Random);
        assert_eq!(few[1] + few[2], 0);
        fail(&mut mesh, 3);
        let most = counts(&mesh, Policy::Random);
        assert!(most[1] > 2_000 && most[3] > 2_000, "{most:?}");
    }

    #[test]
    fn equal_keys_get_the_same_provider_and_few_move_when_one_goes() {
        let all: Vec<Provider> = (1..6).map(|id| provider(id, "", 10_000)).collect();
        let (five, four) = (mesh(all.clone()), mesh(all[1..].to_vec()));
        let mut random = Random::new(&[3; 32]);
        let mut choose = |mesh: &Mesh, key: u16| {
            let key = key.to_le_bytes();
            mesh.choose(&name(), &wish(&key, Policy::PowerOfTwo, &[]), &mut random, 0)
        };
        for key in 0..1_000 {
            let before = choose(&five, key).expect("there are providers");
            assert_eq!(choose(&five, key), Some(before));
            if before != PeerId([1; 32]) {
                assert_eq!(choose(&four, key), Some(before));
            }
        }
    }

    #[test]
    fn a_share_that_grows_takes_keys_and_gives_none_back() {
        let with = |weight| mesh(vec![provider(1, "1", 10_000), provider(2, "2", weight)]);
        let (tenth, half) = (with(1_000), with(5_000));
        let mut random = Random::new(&[3; 32]);
        let mut is_new = |mesh: &Mesh, key: u16| {
            let key = key.to_le_bytes();
            let chosen = mesh.choose(&name(), &wish(&key, Policy::PowerOfTwo, &[]), &mut random, 0);
            chosen == Some(PeerId([2; 32]))
        };
        let mut count = 0;
        for key in 0..2_000 {
            let (before, after) = (is_new(&tenth, key), is_new(&half, key));
            assert!(after || !before, "key {key} goes back");
            count += u32::from(after);
        }
        assert!((900..1_100).contains(&count), "{count}");
    }

    #[test]
    fn what_was_found_is_known_for_a_while_and_asked_for_again_before_that() {
        let mut mesh = mesh(vec![provider(1, "", 1)]);
        assert!(!mesh.is_due(&name(), REFRESH_MS - 1));
        assert!(mesh.is_due(&name(), REFRESH_MS));
        assert!(!mesh.is_doubtful(&name(), DOUBTFUL_MS - 1));
        assert!(mesh.is_doubtful(&name(), DOUBTFUL_MS));
        assert!(mesh.providers(&name(), PROVIDERS_FRESH_MS - 1).is_some());
        assert!(mesh.providers(&name(), PROVIDERS_FRESH_MS).is_none());
        mesh.forget(&name());
        assert!(mesh.providers(&name(), 1).is_none());
    }

    #[test]
    fn few_names_are_remembered() {
        let mut mesh = Mesh::default();
        for number in 0..2 * MAX_NAMES as u64 {
            let name = (None, alloc::format!("name-{number}"));
            mesh.learn(name, vec![provider(1, "", 1)], number);
        }
        assert_eq!(mesh.services.len(), MAX_NAMES);
    }
}
