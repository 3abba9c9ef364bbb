//! Which provider a call goes to: first a version by the shares, then one of its replicas.

use alloc::vec::Vec;

use selfsame_codec::{MAX_WEIGHT, Policy};

use super::health::Healths;
use crate::gather::Gather as _;
use crate::identity::{PeerId, labelled_hash};
use crate::random::Random;
use crate::ring::Provider;

/// Purpose of the hash that gives each key its order of the replicas.
const STICKY: &str = "selfsame/1 sticky choice";

/// What a call asks of the choice
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Equal keys get the same provider while there is one; empty for none.
    pub key: &'a [u8],
    /// How a replica is chosen when there is no key.
    pub policy: Policy,
    /// Providers that have failed this request.
    pub tried: &'a [PeerId],
}

/// Chooses among the providers that were not tried. Ejected ones come in only when nobody else is left, those that answer
/// badly also when more than half would be ejected.
pub(super) fn choose(
    providers: &[Provider],
    wish: &Wish<'_>,
    healths: &Healths,
    random: &mut Random,
    now_ms: u64,
) -> Option<PeerId> {
    let untried: Vec<&Provider> = providers
        .iter()
        .filter(|provider| provider.weight > 0 && !wish.tried.contains(&provider.peer))
        .gather();
    let without = |is_out: &dyn Fn(&PeerId) -> bool| -> Vec<&Provider> {
        let rest = untried.iter().filter(|provider| !is_out(&provider.peer));
        rest.copied().gather()
    };
    let mut candidates = without(&|peer| healths.is_ejected(peer, now_ms));
    if candidates.len() * 2 < untried.len() {
        candidates = without(&|peer| healths.is_unreachable(peer, now_ms));
    }
    if candidates.is_empty() {
        candidates = untried;
    }
    if !wish.tried.is_empty() {
        // Whoever named those that failed may have named others that do not exist: one member has one sibling object.
        let most = candidates.iter().map(|provider| provider.siblings).max();
        candidates.retain(|provider| Some(provider.siblings) == most);
    }
    let replicas = replicas_of_one_version(&candidates, wish.key, healths, random);
    if !wish.key.is_empty() {
        let order = |provider: &&&Provider| labelled_hash(STICKY, &[wish.key, &provider.peer.0]);
        return replicas.iter().max_by_key(order).map(|provider| provider.peer);
    }
    let any = |random: &mut Random| Some(replicas.get(random.below(replicas.len().max(1)))?.peer);
    let first = any(random)?;
    if wish.policy == Policy::Random || replicas.len() == 1 {
        return Some(first);
    }
    let others: Vec<PeerId> = replicas
        .iter()
        .map(|provider| provider.peer)
        .filter(|peer| *peer != first)
        .gather();
    let second = others[random.below(others.len())];
    let is_better = healths.load(&second, now_ms) < healths.load(&first, now_ms);
    Some(if is_better { second } else { first })
}

/// A version and what it gets of the requests
struct Share<'a> {
    version: &'a str,
    /// Whether one of its replicas has not been ejected since it last answered well.
    is_sound: bool,
    replicas: u64,
    /// Sum of what these replicas say, in ten-thousandths.
    sum: u64,
}

impl<'a> Share<'a> {
    fn of(version: &'a str) -> Self {
        Self {
            version,
            is_sound: false,
            replicas: 0,
            sum: 0,
        }
    }

    /// Counts what a replica says. One that may be dead says what was true when it died: it counts among its like only.
    fn count(&mut self, weight: u16, is_sound: bool) {
        if is_sound && !self.is_sound {
            *self = Self {
                is_sound,
                ..Self::of(self.version)
            };
        }
        if is_sound == self.is_sound {
            self.replicas += 1;
            self.sum += u64::from(weight);
        }
    }

    fn weight(&self) -> u64 {
        self.sum / self.replicas
    }
}

/// Draws a version by its share and gives its replicas. Versions are in the order of their names, so that a share that
/// grows moves no more keys than it must.
fn replicas_of_one_version<'a>(
    candidates: &[&'a Provider],
    key: &[u8],
    healths: &Healths,
    random: &mut Random,
) -> Vec<&'a Provider> {
    let mut shares: Vec<Share<'a>> = Vec::new();
    for provider in candidates {
        let version = provider.version.as_str();
        let at = shares.partition_point(|share| share.version < version);
        if shares.get(at).is_none_or(|share| share.version != version) {
            shares.insert(at, Share::of(version));
        }
        shares[at].count(provider.weight, !healths.was_ejected(&provider.peer));
    }
    if shares.len() < 2 {
        return candidates.to_vec();
    }
    let parts = parts(&shares);
    let total: u64 = parts.iter().sum();
    let mut at = if key.is_empty() {
        random.below(total as usize) as u64
    } else {
        let hash = labelled_hash(STICKY, &[key]);
        let drawn = u64::from(u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]]));
        (drawn * total) >> 32
    };
    let drawn = shares.iter().zip(&parts).find(|(_, part)| {
        let is_here = at < **part;
        at = at.saturating_sub(**part);
        is_here
    });
    let version = drawn.map_or("", |(share, _)| share.version);
    let of_version = candidates.iter().filter(|provider| provider.version == version);
    of_version.copied().gather()
}

/// What each version gets: those below the whole what they ask for, the others even parts of the rest.
fn parts(shares: &[Share<'_>]) -> Vec<u64> {
    let whole = u64::from(MAX_WEIGHT);
    let rest = shares.iter().filter(|share| share.weight() >= whole).count() as u64;
    let asked: u64 = shares
        .iter()
        .map(Share::weight)
        .filter(|weight| *weight < whole)
        .sum();
    let part = |share: &Share<'_>| match share.weight() {
        weight if weight < whole => weight * rest.max(1),
        _ => whole.saturating_sub(asked),
    };
    shares.iter().map(part).gather()
}
