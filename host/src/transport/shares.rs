//! What one source may hold of what there is for all, so that none can take everything.

use alloc::sync::Arc;
use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::address::is_public;

/// How much each source holds
#[derive(Debug)]
pub(super) struct Shares {
    most: usize,
    held: Mutex<HashMap<IpAddr, usize>>,
}

/// What one holder has; given back when it is dropped
#[derive(Debug)]
pub(super) struct Share {
    shares: Arc<Shares>,
    /// `None` when the source is not counted.
    source: Option<IpAddr>,
    amount: usize,
}

impl Shares {
    /// Lets each source hold at most this much.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            held: Mutex::default(),
        })
    }

    /// A share of a source; `None` when it would hold too much.
    pub(super) fn take(self: &Arc<Self>, remote: IpAddr, amount: usize) -> Option<Share> {
        let mut share = Share {
            shares: Arc::clone(self),
            source: source_of(remote),
            amount: 0,
        };
        share.grow(amount).then_some(share)
    }

    /// A share that counts for no source: that of a proxy's connection, behind which each peer counts for its own.
    pub(super) fn uncounted(self: &Arc<Self>) -> Share {
        Share {
            shares: Arc::clone(self),
            source: None,
            amount: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Nothing panics between two changes of the table.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Adds to the share; whether the source may hold that much.
    pub(super) fn grow(&mut self, more: usize) -> bool {
        let Some(source) = self.source else {
            return true;
        };
        let mut table = self.shares.lock();
        let held = table.get(&source).copied().unwrap_or_default() + more;
        if held > self.shares.most {
            return false;
        }
        table.insert(source, held);
        self.amount += more;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(source) = self.source else {
            return;
        };
        let mut table = self.shares.lock();
        let left = table.get(&source).copied().unwrap_or_default() - self.amount;
        // Only sources that hold something are remembered, so the table is as bounded as what they hold.
        if left == 0 {
            table.remove(&source);
        } else {
            table.insert(source, left);
        }
    }
}

/// What counts as one source: an IPv4 address, or the IPv6 network that one customer gets. Private addresses are not
/// counted, since a proxy in front of the node, which counts for itself, brings everybody's connections.
fn source_of(remote: IpAddr) -> Option<IpAddr> {
    match remote.to_canonical() {
        ip if !is_public(ip) => None,
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Some(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
        }
        ip @ IpAddr::V4(_) => Some(ip),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an IP")
    }

    #[test]
    fn a_source_gets_its_share_and_others_get_theirs() {
        let shares = Shares::new(2);
        let first = shares.take(ip("1.1.1.1"), 1).expect("a share");
        let mut second = shares.take(ip("::ffff:1.1.1.1"), 1).expect("a share");
        assert!(shares.take(ip("1.1.1.1"), 1).is_none());
        assert!(!second.grow(1));
        assert!(shares.take(ip("1.1.1.2"), 2).is_some());
        drop(first);
        assert!(second.grow(1));
        drop(second);
        assert!(shares.take(ip("1.1.1.1"), 2).is_some());
        assert!(shares.lock().is_empty(), "what nobody holds is forgotten");
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let shares = Shares::new(1);
        let _held = shares.take(ip("2606:4700:1:2::1"), 1).expect("a share");
        assert!(shares.take(ip("2606:4700:1:2:ffff::"), 1).is_none());
        assert!(shares.take(ip("2606:4700:1:3::1"), 1).is_some());
    }

    #[test]
    fn a_proxy_is_not_counted() {
        let shares = Shares::new(0);
        for remote in ["127.0.0.1", "::1", "10.0.0.1", "fd00::1"] {
            assert!(shares.take(ip(remote), 1).is_some(), "{remote}");
        }
    }
}
