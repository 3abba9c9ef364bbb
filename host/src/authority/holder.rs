//! Whose share of the certificates an address is in.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use psl::Type;

use super::AuthorityError;

/// What one party can have many addresses in
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The first 24 bits of an IPv4 address.
    V4(Ipv4Addr),
    /// The first 48 bits of an IPv6 address.
    V6(Ipv6Addr),
    /// Addresses out of Teredo (RFC 4380), which anybody makes for every port of an IPv4 address.
    Teredo,
    /// A domain that a registry has sold.
    Domain(String),
    /// Leaves that were not seen at an address.
    Leaves,
}

impl Holder {
    /// The holder of an address, `host:port`, which has one spelling only: each other one would be another place.
    pub(super) fn of_address(address: &str) -> Result<Self, AuthorityError> {
        let wrong = |reason| AuthorityError::Address {
            address: address.into(),
            reason,
        };
        let (host, port) = address
            .rsplit_once(':')
            .ok_or_else(|| wrong("write the address as HOST:PORT"))?;
        let is_port = port
            .parse::<u16>()
            .is_ok_and(|number| number > 0 && number.to_string() == port);
        if !is_port {
            return Err(wrong(
                "the port is a number from 1 to 65535, without zeros before it",
            ));
        }
        if let Some(inner) = host.strip_prefix('[') {
            let ip: Option<Ipv6Addr> = inner.strip_suffix(']').and_then(|text| text.parse().ok());
            let ip = ip.ok_or_else(|| wrong("an IPv6 address stands in brackets, without a zone"))?;
            if ip.to_ipv4_mapped().is_some() {
                return Err(wrong("write an IPv4 address as one"));
            }
            if format!("[{ip}]") != host {
                return Err(wrong(
                    "write the IPv6 address in its shortest form, in lower case (RFC 5952)",
                ));
            }
            return Ok(Self::of_ip(ip.into()));
        }
        if let Ok(ip) = host.parse::<Ipv4Addr>() {
            return Ok(Self::of_ip(ip.into()));
        }
        Self::of_name(host).map_err(wrong)
    }

    pub(super) fn of_ip(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::of_v4(ip),
            IpAddr::V6(ip) => {
                let [a, b, c, .., g, h] = ip.segments();
                let v4 =
                    |high: u16, low: u16| Self::of_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
                match (a, b) {
                    // 6to4 and NAT64 give every IPv4 address networks of its own.
                    (0x2002, _) => v4(b, c),
                    (0x64, 0xff9b) => v4(g, h),
                    (0x2001, 0) => Self::Teredo,
                    _ => Self::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)),
                }
            }
        }
    }

    fn of_v4(ip: Ipv4Addr) -> Self {
        let [a, b, c, _] = ip.octets();
        Self::V4(Ipv4Addr::new(a, b, c, 0))
    }

    fn of_name(host: &str) -> Result<Self, &'static str> {
        if !host.is_ascii() {
            return Err("write a name in other letters as the DNS does, xn--...");
        }
        if host.ends_with('.') {
            return Err("write the name without a dot at its end");
        }
        let is_label = |label: &str| {
            let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            (1..=63).contains(&label.len())
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if host.len() > 253 || !host.split('.').all(is_label) {
            return Err("a host name has labels of lower-case letters, digits and hyphens");
        }
        let last = host.rsplit('.').next().unwrap_or_default();
        if last.starts_with(|first: char| first.is_ascii_digit()) {
            return Err("write an IPv4 address as four decimal numbers");
        }
        Ok(Self::Domain(registrable(host).into()))
    }
}

/// The domain that a registry has sold: one label more than a suffix of a registry. What others give away below their own domains
/// counts for these.
fn registrable(host: &str) -> &str {
    let starts = host.match_indices('.').map(|(dot, _)| dot + 1);
    let tails: Vec<&str> = core::iter::once(0)
        .chain(starts)
        .map(|start| &host[start..])
        .collect();
    let is_of_registry = |tail: &str| {
        psl::suffix(tail.as_bytes())
            .is_some_and(|suffix| suffix.as_bytes() == tail.as_bytes() && suffix.typ() != Some(Type::Private))
    };
    let suffix = tails.iter().position(|tail| is_of_registry(tail));
    let sold = suffix.map_or(0, |index| index.saturating_sub(1));
    tails[sold]
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(ip) => write!(f, "{ip}/24"),
            Self::V6(ip) => write!(f, "{ip}/48"),
            Self::Teredo => f.write_str("2001::/32"),
            Self::Domain(name) => f.write_str(name),
            Self::Leaves => f.write_str("leaves"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> String {
        match Holder::of_address(address) {
            Ok(holder) => holder.to_string(),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn addresses_share_by_prefix() {
        for (address, holder) in [
            ("192.0.2.1:443", "192.0.2.0/24"),
            ("192.0.2.255:1", "192.0.2.0/24"),
            ("[2001:db8:1:2::3]:443", "2001:db8:1::/48"),
            ("[2001:db8:1:ffff::]:443", "2001:db8:1::/48"),
            ("[2002:c000:201::1]:443", "192.0.2.0/24"),
            ("[64:ff9b::c000:201]:443", "192.0.2.0/24"),
            ("[2001:0:1:2:3:4:5:6]:443", "2001::/32"),
        ] {
            assert_eq!(of(address), holder, "{address}");
        }
        assert_eq!(
            Holder::of_ip("::ffff:192.0.2.7".parse().expect("an IP")).to_string(),
            "192.0.2.0/24"
        );
    }

    #[test]
    fn names_share_by_what_a_registry_has_sold() {
        for (name, holder) in [
            ("node.example.com", "example.com"),
            ("example.com", "example.com"),
            ("a.b.c.example.co.uk", "example.co.uk"),
            ("mine.duckdns.org", "duckdns.org"),
            ("ring.mine.workers.dev", "workers.dev"),
            ("a.b.unlisted", "b.unlisted"),
            ("xn--bcher-kva.example.com", "example.com"),
            ("www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
            ("a.example.kawasaki.jp", "a.example.kawasaki.jp"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(of(&format!("{name}:443")), holder, "{name}");
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for address in [
            "node.example.com.:443",
            "Node.example.com:443",
            "b\u{fc}cher.example:443",
            "node..example:443",
            "-node.example:443",
            "no_de.example:443",
            "127.1:443",
            "0x7f.0.0.1:443",
            "192.0.2.01:443",
            "192.0.2.256:443",
            "3221225985:443",
            "[2001:DB8::1]:443",
            "[2001:db8:0:0::1]:443",
            "[::ffff:192.0.2.1]:443",
            "[::ffff:c000:201]:443",
            "[fe80::1%eth0]:443",
            "2001:db8::1:443",
            "node.example.com:0",
            "node.example.com:0443",
            "node.example.com:65536",
            "node.example.com",
            ":443",
        ] {
            assert!(Holder::of_address(address).is_err(), "{address}");
        }
    }
}
