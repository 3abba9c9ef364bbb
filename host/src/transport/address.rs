use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;

use super::DIALS;
use crate::error::Error;

/// The parts of a URL that a connection needs
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    /// Name or IP, an IPv6 address without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query as given; empty when the URL has none.
    pub(crate) path: String,
}

/// How an address is spoken to
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Udp,
    Tcp,
    Ws,
    Wss,
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn is_tls(self) -> bool {
        matches!(self, Self::Wss | Self::Https)
    }

    /// Whether frames stand in it and nothing else: there is no path.
    pub(crate) fn is_bare(self) -> bool {
        matches!(self, Self::Udp | Self::Tcp)
    }

    /// As it stands in a URL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Ws => "ws",
            Self::Wss => "wss",
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of a URL that names none; a bare connection has none.
    fn default_port(self) -> Option<u16> {
        match self {
            Self::Udp | Self::Tcp => None,
            Self::Ws | Self::Http => Some(80),
            Self::Wss | Self::Https => Some(443),
        }
    }
}

impl Address {
    /// Reads a URL; a fragment, such as a peer id, is ignored.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::Input(format!(
                "\"{url}\" is no address: {why}, such as ws://127.0.0.1:7000"
            ))
        };
        let plain = url.split('#').next().unwrap_or_default();
        let uri: Uri = plain.parse().map_err(|_| wrong("it has to be a URL"))?;
        let scheme = match uri.scheme_str() {
            Some("udp") => Scheme::Udp,
            Some("tcp") => Scheme::Tcp,
            Some("ws") => Scheme::Ws,
            Some("wss") => Scheme::Wss,
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => {
                return Err(wrong(&format!(
                    "it has to begin with one of {}",
                    DIALS.join(", ")
                )));
            }
        };
        let authority = uri.authority().ok_or_else(|| wrong("it has to name a host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it may not hold a user"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        if host.is_empty() {
            return Err(wrong("it has to name a host"));
        }
        let digits = authority
            .as_str()
            .rsplit_once(':')
            .map(|(_, port)| port)
            .filter(|port| !port.ends_with(']'));
        let port = match (authority.port_u16(), digits) {
            (Some(port), _) => port,
            (None, None) => scheme
                .default_port()
                .ok_or_else(|| wrong("it has to name its port, as tcp://127.0.0.1:7001 does"))?,
            (None, Some(_)) => return Err(wrong("its port has to be a number up to 65535")),
        };
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        let path = if path == "/" && !plain.ends_with('/') {
            ""
        } else {
            path
        };
        if scheme.is_bare() && !matches!(path, "" | "/") {
            return Err(wrong("a bare connection has no path"));
        }
        Ok(Self {
            scheme,
            host,
            port,
            path: path.into(),
        })
    }

    /// Host and port as they stand in a URL or a `Host` header.
    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        match (host.contains(':'), self.scheme.default_port() == Some(*port)) {
            (true, true) => format!("[{host}]"),
            (true, false) => format!("[{host}]:{port}"),
            (false, true) => host.clone(),
            (false, false) => format!("{host}:{port}"),
        }
    }

    /// The URL at which a node answers here.
    pub(crate) fn url(&self) -> String {
        let path = if self.scheme.is_bare() {
            ""
        } else {
            self.path_or_default()
        };
        format!("{}://{}{path}", self.scheme.name(), self.authority())
    }

    /// Path and query to ask for; nodes answer at `/.mesh` unless the URL says otherwise.
    pub(crate) fn path_or_default(&self) -> &str {
        if self.path.is_empty() {
            super::MESH_PATH
        } else {
            &self.path
        }
    }
}

/// Whether anybody on the internet could mean this address: not a private network, this machine, or a metadata service.
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let protocols = a == 192 && b == 0 && c == 0;
    let benchmarks = a == 198 && (b == 18 || b == 19);
    !(a == 0
        || a >= 224
        || shared
        || protocols
        || benchmarks
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation())
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    // Addresses that lead to an IPv4 address are judged by it: mapped, NAT64 and 6to4.
    let embedded = match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some((high, low)),
        [0x2002, high, low, ..] => Some((high, low)),
        _ => None,
    };
    if let Some((high, low)) = embedded {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    // Global unicast is 2000::/3; the rest is local, multicast or unassigned.
    segments[0] & 0xe000 == 0x2000 && !matches!(segments, [0x2001, 0xdb8, ..] | [0x2001, 0, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (Scheme, String, u16, String) {
        let address = Address::parse(url).expect("an address");
        (
            address.scheme,
            address.host.clone(),
            address.port,
            address.path_or_default().to_owned(),
        )
    }

    #[test]
    fn parts_of_an_address() {
        assert_eq!(
            parts("ws://127.0.0.1:7000"),
            (Scheme::Ws, "127.0.0.1".into(), 7000, "/.mesh".into())
        );
        assert_eq!(
            parts("wss://host/x?y#00ff"),
            (Scheme::Wss, "host".into(), 443, "/x?y".into())
        );
        assert_eq!(
            parts("http://[::1]:80/"),
            (Scheme::Http, "::1".into(), 80, "/".into())
        );
        assert_eq!(
            parts("https://[2001::1]"),
            (Scheme::Https, "2001::1".into(), 443, "/.mesh".into())
        );
        assert_eq!(parts("tcp://[::1]:7001").2, 7001);
        assert_eq!(
            Address::parse("wss://[::1]:9/").expect("an address").authority(),
            "[::1]:9"
        );
        for (url, same) in [
            ("tcp://[::1]:80/", "tcp://[::1]:80"),
            ("wss://host:443", "wss://host/.mesh"),
            ("http://host:81/x", "http://host:81/x"),
        ] {
            assert_eq!(Address::parse(url).expect("an address").url(), same);
        }
    }

    #[test]
    fn what_is_no_address_is_named() {
        for url in [
            "",
            "host",
            "ftp://host",
            "ws://",
            "ws://host:99999",
            "ws://host:x",
            "ws://me@host",
            "ws:///path",
            "tcp://host",
            "tcp://host:1/path",
        ] {
            let error = Address::parse(url).expect_err(url).to_string();
            assert!(
                error.contains(&format!("\"{url}\"")) && error.contains("ws://127.0.0.1:7000"),
                "{error}"
            );
        }
    }

    #[test]
    fn addresses_that_nobody_may_be_sent_to() {
        let inside = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
        ];
        for ip in inside {
            assert!(!is_public(ip.parse().expect("an IP")), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "192.0.3.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "2002:101:101::",
        ] {
            assert!(is_public(ip.parse().expect("an IP")), "{ip}");
        }
    }
}
