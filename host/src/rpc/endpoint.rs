//! Socket addresses as the module of the RPC knows them.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use selfsame_codec::rpc::ENDPOINT_BYTES;

/// The bytes of an endpoint.
pub(super) type Endpoint = [u8; ENDPOINT_BYTES];

/// Where a caller is that was only met in a session of the mesh: no datagram comes from there.
pub(super) const UNKNOWN: Endpoint = [0; ENDPOINT_BYTES];

/// Returns the endpoint of an address.
pub(super) fn endpoint_of(address: SocketAddr) -> Endpoint {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut endpoint = [0; ENDPOINT_BYTES];
    endpoint[..16].copy_from_slice(&ip.octets());
    endpoint[16..].copy_from_slice(&address.port().to_be_bytes());
    endpoint
}

/// Returns the address of an endpoint.
pub(super) fn address_of(endpoint: &Endpoint) -> SocketAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&endpoint[..16]);
    let port = u16::from_be_bytes([endpoint[16], endpoint[17]]);
    SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_return_from_endpoints() {
        for text in ["192.0.2.1:7400", "[2001:db8::1]:1", "0.0.0.0:0", "[::1]:65535"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(address_of(&endpoint_of(address)), address);
        }
    }
}
