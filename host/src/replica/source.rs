use core::net::{IpAddr, SocketAddr};

use http::Extensions;

use crate::caller::Caller;

/// From where a request to a replica comes, by which it tells sources apart: one crowds out no other
///
/// A server that puts a request's [`SocketAddr`] into its extensions lets the replica tell networks apart; a node does so with its
/// [`Caller`]. Of all others there is one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source(pub(super) [u8; 32]);

impl Source {
    /// The source that a request names in its extensions.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        if let Some(caller) = extensions.get::<Caller>() {
            return Self(caller.peer.0);
        }
        let address = extensions.get::<SocketAddr>();
        address.map_or_else(Self::default, |address| Self::network(address.ip()))
    }

    /// The network of an address: whoever has one address of an IPv4 /24 or an IPv6 /56 can have the others.
    #[must_use]
    pub fn network(address: IpAddr) -> Self {
        let mut source = [0; 32];
        match address.to_canonical() {
            IpAddr::V4(address) => {
                source[0] = 4;
                source[1..4].copy_from_slice(&address.octets()[..3]);
            }
            IpAddr::V6(address) => {
                source[0] = 6;
                source[1..8].copy_from_slice(&address.octets()[..7]);
            }
        }
        Self(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> Source {
        Source::network(address.parse().expect("an address"))
    }

    #[test]
    fn addresses_of_one_network_are_one_source() {
        assert_eq!(source("192.0.2.1"), source("192.0.2.200"));
        assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.7"));
        assert_ne!(source("192.0.2.1"), source("192.0.3.1"));
        assert_eq!(source("2001:db8:0:100::1"), source("2001:db8:0:1ff::2"));
        assert_ne!(source("2001:db8:0:100::1"), source("2001:db8:0:200::1"));
    }

    #[test]
    fn a_request_without_an_address_is_of_no_source() {
        let mut extensions = Extensions::new();
        assert_eq!(Source::of(&extensions), Source::default());
        let address: SocketAddr = "192.0.2.1:80".parse().expect("an address");
        extensions.insert(address);
        assert_eq!(Source::of(&extensions), source("192.0.2.9"));
    }
}
