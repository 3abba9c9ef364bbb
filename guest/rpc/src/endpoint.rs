//! Network addresses of peers, as the host writes them.

/// An IPv6 or IPv4-mapped address and a port, or whatever else the host tells its peers apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint(pub [u8; Self::BYTES]);

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

    /// Returns what quotas are counted by, which one subscriber usually has: /64 of IPv6, the whole of IPv4.
    #[must_use]
    pub(crate) fn prefix(&self) -> Self {
        let mut prefix = *self;
        let from = if self.0.starts_with(&MAPPED) { 16 } else { 8 };
        prefix.0[from..].fill(0);
        prefix
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
