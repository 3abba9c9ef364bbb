use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::is_public;

/// What counts as one source: the network that one customer gets, /24 of IPv4 and /56 of IPv6. Private addresses have none, since
/// a proxy in front of the node, which counts for itself, brings everybody's connections.
pub(crate) fn network_of(remote: IpAddr) -> Option<IpAddr> {
    match remote.to_canonical() {
        ip if !is_public(ip) => None,
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Some(Ipv6Addr::new(a, b, c, d & 0xff00, 0, 0, 0, 0).into())
        }
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            Some(Ipv4Addr::new(a, b, c, 0).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Option<IpAddr> {
        network_of(text.parse().expect("an IP"))
    }

    #[test]
    fn an_ipv4_network_is_one_source_however_it_is_written() {
        assert_eq!(network("1.1.1.1"), network("::ffff:1.1.1.1"));
        assert_eq!(network("1.1.1.1"), network("1.1.1.255"));
        assert_ne!(network("1.1.1.1"), network("1.1.2.1"));
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        assert_eq!(network("2606:4700:1:2::1"), network("2606:4700:1:2:ffff::"));
        assert_eq!(network("2606:4700:1:2::1"), network("2606:4700:1:ff::1"));
        assert_ne!(network("2606:4700:1:2::1"), network("2606:4700:1:102::1"));
    }

    #[test]
    fn a_proxy_is_not_counted() {
        for remote in ["127.0.0.1", "::1", "10.0.0.1", "fd00::1"] {
            assert_eq!(network(remote), None, "{remote}");
        }
    }
}
