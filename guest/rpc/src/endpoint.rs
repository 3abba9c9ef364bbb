//! Network addresses of peers, as the host writes them.

/// An IPv6 or IPv4-mapped address and a port, or whatever else the host tells its peers apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint(pub [u8; Self::BYTES]);

/// The prefix of an address that one subscriber usually has: /64 of IPv6, the whole of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePrefix([u8; 12]);

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Endpoint {
    /// Length of an endpoint: 16 bytes of address, 2 of the port, which is big-endian.
    pub const BYTES: usize = 18;

    /// Returns the address without the port, which a NAT may change at any time.
    pub(crate) fn address(&self) -> [u8; 16] {
        let mut address = [0; 16];
        address.copy_from_slice(&self.0[..16]);
        address
    }

    /// Returns the prefix by which quotas are counted.
    #[must_use]
    pub fn prefix(&self) -> SourcePrefix {
        let mut prefix = [0; 12];
        match self.0[..16].strip_prefix(&MAPPED) {
            Some(v4) => {
                prefix[..4].copy_from_slice(&MAPPED[8..]);
                prefix[8..].copy_from_slice(v4);
            }
            None => prefix[..8].copy_from_slice(&self.0[..8]),
        }
        SourcePrefix(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v6(address: [u8; 16], port: u16) -> Endpoint {
        let mut bytes = [0; Endpoint::BYTES];
        bytes[..16].copy_from_slice(&address);
        bytes[16..].copy_from_slice(&port.to_be_bytes());
        Endpoint(bytes)
    }

    #[test]
    fn prefix_is_64_bits_of_ipv6_and_all_of_ipv4() {
        let one = v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1], 1);
        let same = v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2], 2);
        let other = v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1], 1);
        assert_eq!(one.prefix(), same.prefix());
        assert_ne!(one.prefix(), other.prefix());
        let mapped = |last| v6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last], 9);
        assert_ne!(mapped(1).prefix(), mapped(2).prefix());
    }
}
