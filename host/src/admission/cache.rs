//! What is known of names, for as long as it is good.

use core::net::IpAddr;
use std::collections::HashMap;

use tokio::time::Instant;

/// Names of which something is known.
const MAX_ENTRIES: usize = 4096;
/// Names that strangers of one network have caused to be looked up.
const MAX_OF_NETWORK: usize = 256;

/// Names with what is known of each.
#[derive(Debug)]
pub(super) struct Cache<T> {
    entries: HashMap<String, Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    known: T,
    until: Instant,
    /// The network of the stranger for whom it was looked up.
    network: Option<IpAddr>,
}

impl<T: Clone> Cache<T> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
        }
    }

    pub(super) fn get(&self, name: &str, now: Instant) -> Option<T> {
        let entry = self.entries.get(name).filter(|entry| now < entry.until)?;
        Some(entry.known.clone())
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.entries.remove(name);
    }

    /// Keeps what is known of a name; what would end first makes room, of the network that has too much or the most.
    pub(super) fn insert(
        &mut self,
        name: String,
        known: T,
        until: Instant,
        network: Option<IpAddr>,
        now: Instant,
    ) {
        let of_network = self.entries.values().filter(|entry| entry.network == network);
        if network.is_some() && of_network.count() >= MAX_OF_NETWORK {
            self.evict(now, |_, entry| entry.network == network);
        } else if self.entries.len() >= MAX_ENTRIES {
            let largest = self.largest_network();
            self.evict(now, |_, entry| largest.is_none() || entry.network == largest);
        }
        let entry = Entry {
            known,
            until,
            network,
        };
        self.entries.insert(name, entry);
    }

    /// Removes what is over, or else the one of these that ends first.
    fn evict(&mut self, now: Instant, may_go: impl Fn(&str, &Entry<T>) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|_, entry| now < entry.until);
        if self.entries.len() < before {
            return;
        }
        let candidates = self.entries.iter().filter(|(name, entry)| may_go(name, entry));
        let first = candidates.min_by_key(|(_, entry)| entry.until);
        if let Some(name) = first.map(|(name, _)| name.clone()) {
            self.entries.remove(&name);
        }
    }

    fn largest_network(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for network in self.entries.values().filter_map(|entry| entry.network) {
            *counts.entry(network).or_default() += 1;
        }
        counts
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(network, _)| network)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn network(number: usize) -> Option<IpAddr> {
        Some(IpAddr::from([1, 1, number as u8, 0]))
    }

    #[test]
    fn network_evicts_its_own_entries_and_the_largest_goes_first() {
        let (now, mut cache) = (Instant::now(), Cache::new());
        let until = |seconds: usize| now + Duration::from_secs(seconds as u64);
        cache.insert("own".into(), 0, until(1), None, now);
        cache.insert("honest".into(), 0, until(1), network(200), now);
        for index in 0..2 * MAX_OF_NETWORK {
            cache.insert(format!("{index}"), 1, until(10 + index), network(1), now);
        }
        assert_eq!(cache.entries.len(), MAX_OF_NETWORK + 2);
        assert_eq!(cache.get("0", now), None, "what ends first");
        assert_eq!(cache.get("511", now), Some(1));
        for index in 0..2 * MAX_ENTRIES {
            cache.insert(
                format!("many {index}"),
                2,
                until(5),
                network(2 + index % 100),
                now,
            );
        }
        assert_eq!(cache.entries.len(), MAX_ENTRIES);
        assert_eq!(
            (cache.get("own", now), cache.get("honest", now)),
            (Some(0), Some(0))
        );
    }

    #[test]
    fn entries_end_and_make_room() {
        let (now, mut cache) = (Instant::now(), Cache::new());
        let soon = now + Duration::from_secs(1);
        for index in 0..MAX_ENTRIES {
            cache.insert(format!("{index}"), index, soon, None, now);
        }
        assert_eq!(cache.get("7", now), Some(7));
        assert_eq!(cache.get("7", soon), None);
        cache.insert("new".into(), 0, soon + Duration::from_secs(1), None, soon);
        assert_eq!(cache.entries.len(), 1);
    }
}
