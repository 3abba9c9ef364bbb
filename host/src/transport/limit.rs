//! How many connections strangers may open to a server that is no node's own.

use alloc::sync::Arc;
use core::net::IpAddr;

use super::forwarded::TrustedProxies;
use super::network::network_of;
use crate::shares::{Share, Shares};

/// One network has at most one part in so many.
const NETWORK_PART: usize = 4;

/// How many connections a server takes: of all, and of one public network, IPv4 /24 or IPv6 /56
#[derive(Clone, Debug)]
pub struct ConnectionLimit {
    shares: Arc<Shares<IpAddr>>,
    proxies: Arc<TrustedProxies>,
}

/// The place of a connection, given back when it is dropped
#[derive(Debug)]
pub struct ConnectionPlace {
    _share: Share<IpAddr>,
}

impl ConnectionLimit {
    /// Lets so many connections be open at a time, a quarter of them to one network; those of trusted proxies bring everybody's.
    #[must_use]
    pub fn new(most: usize, proxies: Arc<TrustedProxies>) -> Self {
        Self {
            shares: Shares::new(most / NETWORK_PART, most),
            proxies,
        }
    }

    /// A place for a connection from an address; `None` when its network or all have too many.
    #[must_use]
    pub fn take(&self, from: IpAddr) -> Option<ConnectionPlace> {
        let network = network_of(from).filter(|_| !self.proxies.trusts(from));
        let share = self.shares.take(network, 1)?;
        Some(ConnectionPlace { _share: share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_leaves_room_for_others() {
        let proxies = TrustedProxies::parse(&["9.9.9.9".to_owned()]).expect("a proxy");
        let limit = ConnectionLimit::new(64, Arc::new(proxies));
        let places = |from: &str, count| -> Vec<_> {
            let from = from.parse().expect("an address");
            (0..count).map_while(|_| limit.take(from)).collect()
        };
        let held = places("1.1.1.1", 64);
        assert_eq!(held.len(), 16);
        assert_eq!(places("1.1.1.2", 1).len(), 0, "of the same network");
        assert_eq!(places("1.1.2.1", 16).len(), 16);
        assert_eq!(places("9.9.9.9", 48).len(), 48, "of a proxy that is trusted");
        drop(held);
        assert_eq!(places("1.1.1.2", 16).len(), 16);
    }
}
