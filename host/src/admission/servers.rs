use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use http::Uri;

use super::error::ResolveError;
use crate::transport::{Connector, PostClient, post_client};

/// Where the system says which name servers it uses.
const SYSTEM_FILE: &str = "/etc/resolv.conf";
/// Longest file of that kind that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// Most name servers (resolv.conf(5), MAXNS).
const MAX_SERVERS: usize = 3;
const DNS_PORT: u16 = 53;

/// Which name servers are asked, and how
#[derive(Clone)]
pub struct NameServers(pub(super) Kind);

#[derive(Clone)]
pub(super) enum Kind {
    /// Over UDP, and TCP where a response does not fit a datagram.
    Plain(Vec<SocketAddr>),
    /// Over HTTPS (RFC 8484).
    Https { url: Uri, client: PostClient },
}

impl NameServers {
    /// The name servers of the system, from `/etc/resolv.conf`.
    ///
    /// # Errors
    /// [`ResolveError::Input`] when the file cannot be read.
    pub fn system() -> Result<Self, ResolveError> {
        let text = read(Path::new(SYSTEM_FILE))
            .map_err(|error| ResolveError::Input(format!("{SYSTEM_FILE}: {error}; name the name servers")))?;
        Ok(Self(Kind::Plain(parse(&text))))
    }

    /// Name servers at these addresses, at most 3, each of which resolves names for others or is responsible for the domain.
    ///
    /// # Errors
    /// [`ResolveError::Input`] when there are none or more.
    pub fn at(addresses: impl IntoIterator<Item = SocketAddr>) -> Result<Self, ResolveError> {
        let addresses: Vec<SocketAddr> = addresses.into_iter().take(MAX_SERVERS + 1).collect();
        if addresses.is_empty() || addresses.len() > MAX_SERVERS {
            let what = format!("a resolver needs 1 to {MAX_SERVERS} name servers");
            return Err(ResolveError::Input(what));
        }
        Ok(Self(Kind::Plain(addresses)))
    }

    /// A resolver over HTTPS at a URL, such as `https://dns.example/dns-query`.
    ///
    /// # Errors
    /// [`ResolveError::Input`] when the URL is none of `https` or `http`.
    pub fn https(url: &str) -> Result<Self, ResolveError> {
        let wrong = || {
            ResolveError::Input(format!(
                "\"{url}\" is no URL such as https://dns.example/dns-query"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        if !matches!(uri.scheme_str(), Some("https" | "http")) || uri.host().is_none() {
            return Err(wrong());
        }
        Ok(Self(Kind::Https {
            url: uri,
            // Whoever configures a resolver means it, wherever it is.
            client: post_client(Connector::new(true, &[])?),
        }))
    }
}

impl fmt::Debug for NameServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Plain(addresses) => f.debug_tuple("NameServers").field(addresses).finish(),
            Kind::Https { url, .. } => f.debug_tuple("NameServers").field(url).finish(),
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the first name servers of a file of the kind of resolv.conf(5); the machine itself if it names none.
fn parse(text: &str) -> Vec<SocketAddr> {
    let addresses = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            return None;
        }
        // One with a zone, such as fe80::1%eth0, leads nowhere without it.
        let ip: IpAddr = words.next()?.parse().ok()?;
        Some(SocketAddr::new(ip, DNS_PORT))
    });
    let mut addresses: Vec<_> = addresses.take(MAX_SERVERS).collect();
    if addresses.is_empty() {
        addresses.push((Ipv4Addr::LOCALHOST, DNS_PORT).into());
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_the_system_names_three_servers_at_most() {
        let text = "# nameserver 9.9.9.9\nsearch example\nnameserver 192.0.2.1\n nameserver\t2001:db8::1 # two\nnameserver fe80::1%eth0\n\
            nameserver\nnameserver x\noptions edns0\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n";
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.3:53"];
        assert_eq!(
            parse(text),
            expected.map(|address| address.parse().expect("an address"))
        );
        assert_eq!(parse(""), ["127.0.0.1:53".parse().expect("an address")]);
    }
}
