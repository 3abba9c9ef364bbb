//! How many queries strangers may cause.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::HashMap;

use tokio::time::Instant;

/// Queries of all strangers: 32 a second, and as many at once.
const STRANGERS: Rate = Rate {
    interval: Duration::from_millis(1000 / 32),
    burst: 32,
};
/// Queries of the strangers of one network: 2 a second, 8 at once.
const NETWORK: Rate = Rate {
    interval: Duration::from_millis(500),
    burst: 8,
};

#[derive(Clone, Copy, Debug)]
struct Rate {
    interval: Duration,
    burst: u32,
}

/// How much of a rate is used.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When nothing of it is used any more.
    free_at: Instant,
}

impl Bucket {
    fn next(self, rate: Rate, now: Instant) -> Option<Self> {
        let free_at = self.free_at.max(now) + rate.interval;
        (free_at <= now + rate.interval * rate.burst).then_some(Self { free_at })
    }
}

/// Counts the queries of strangers.
#[derive(Debug)]
pub(super) struct QueryRate {
    all: Bucket,
    /// Of networks that have asked within the last seconds: as many as the rate of all lets ask.
    networks: HashMap<IpAddr, Bucket>,
}

impl QueryRate {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            all: Bucket { free_at: now },
            networks: HashMap::new(),
        }
    }

    /// Counts a query for a stranger of a network; whether it may be sent. A network that may not takes nothing of the others.
    pub(super) fn take(&mut self, network: Option<IpAddr>, now: Instant) -> bool {
        self.networks.retain(|_, bucket| now < bucket.free_at);
        let bucket = match network {
            None => None,
            Some(network) => {
                let used = self.networks.get(&network).copied();
                let Some(next) = used.unwrap_or(Bucket { free_at: now }).next(NETWORK, now) else {
                    return false;
                };
                Some((network, next))
            }
        };
        let Some(all) = self.all.next(STRANGERS, now) else {
            return false;
        };
        self.all = all;
        self.networks.extend(bucket);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(number: u8) -> Option<IpAddr> {
        Some(IpAddr::from([1, 1, number, 0]))
    }

    #[test]
    fn network_has_its_rate_and_leaves_the_others_theirs() {
        let now = Instant::now();
        let mut rate = QueryRate::new(now);
        let taken = (0..100).filter(|_| rate.take(network(1), now)).count();
        assert_eq!(taken, 8);
        let others: usize = (2..100)
            .map(|number| (0..2).filter(|_| rate.take(network(number), now)).count())
            .sum();
        assert_eq!(others, 24, "all together 32 at once");
        assert!(rate.networks.len() <= 32);
        let later = now + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| rate.take(network(1), later)).count(), 2);
        let end = now + Duration::from_secs(3600);
        assert!(rate.take(None, end));
        assert!(rate.networks.is_empty(), "who asks no more is forgotten");
    }

    #[test]
    fn sources_without_a_network_share_the_rate_of_all() {
        let now = Instant::now();
        let mut rate = QueryRate::new(now);
        assert_eq!((0..100).filter(|_| rate.take(None, now)).count(), 32);
    }
}
