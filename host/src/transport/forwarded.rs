//! The client's address in the headers of a trusted proxy: `forwarded` (RFC 7239) and `x-forwarded-for`.
//!
//! A proxy appends the address that it sees, so everything before that may be a client's invention. Headers are read from
//! their end: nothing that stands further left changes how the proxy's own entry is read.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};

use crate::error::Error;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Bytes at the end of a header that are read; room for [`MAX_HOPS`] elements with all parameters of RFC 7239.
const MAX_TAIL: usize = 4096;
/// Entries at the end of a header that are read: more proxies than a request passes.
const MAX_HOPS: usize = 16;
/// Most prefixes of trusted proxies: several times what a large content delivery network publishes.
const MAX_PREFIXES: usize = 256;

/// The proxies whose forwarded addresses count
#[derive(Debug, Default)]
pub struct TrustedProxies(Vec<Prefix>);

/// An address prefix (RFC 4632)
#[derive(Debug)]
struct Prefix {
    network: IpAddr,
    len_bits: u32,
}

impl TrustedProxies {
    /// Reads addresses and prefixes such as `192.0.2.1`, `10.0.0.0/8` and `2001:db8::/32`.
    ///
    /// # Errors
    /// [`Error::Input`] for what is neither, and for more than 256 of them.
    pub fn parse(proxies: &[String]) -> Result<Self, Error> {
        if proxies.len() > MAX_PREFIXES {
            let most = format!("a node has at most {MAX_PREFIXES} trusted proxies");
            return Err(Error::Input(most));
        }
        let parse = |text: &String| {
            Prefix::parse(text).ok_or_else(|| {
                Error::Input(format!(
                    "trusted proxy \"{text}\" is no address or prefix such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32"
                ))
            })
        };
        proxies.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a proxy at this address is trusted.
    pub(crate) fn trusts(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|prefix| prefix.contains(ip))
    }

    /// The address from which a request counts: of a trusted proxy the one in its header `forwarded` (RFC 7239) or
    /// `x-forwarded-for`, if these name one.
    #[must_use]
    pub fn source(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.trusts(peer) {
            return peer;
        }
        let forwarded = joined(headers, &FORWARDED).map(|list| self.client(&list, forwarded_for));
        let x_forwarded_for = joined(headers, &X_FORWARDED_FOR).map(|list| self.client(&list, node_address));
        let client = match (forwarded, x_forwarded_for) {
            // A proxy that writes one header may pass on what a client made up in the other.
            (Some(one), Some(other)) if one != other => None,
            (one, other) => one.or(other).flatten(),
        };
        client.unwrap_or(peer)
    }

    /// The last address of a list that is not a trusted proxy's; `None` if something else stands there.
    fn client(&self, list: &[u8], read: impl Fn(&[u8]) -> Option<IpAddr>) -> Option<IpAddr> {
        let start = list.len().saturating_sub(MAX_TAIL);
        let entries = entries_from_end(&list[start..], b',', start > 0);
        let mut hops = entries.take(MAX_HOPS).map(read);
        let client = hops.find(|hop| !hop.is_some_and(|ip| self.trusts(ip)))??;
        (!is_own(client)).then_some(client)
    }
}

impl Prefix {
    fn parse(text: &str) -> Option<Self> {
        let (network, len) = text.split_once('/').unzip();
        let network: IpAddr = network.unwrap_or(text).parse().ok()?;
        let network = network.to_canonical();
        let width_bits = if network.is_ipv4() { 32 } else { 128 };
        let len_bits = match len {
            None => width_bits,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
            Some(_) => return None,
        };
        (len_bits <= width_bits).then_some(Self { network, len_bits })
    }

    fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let differing = left_aligned(self.network) ^ left_aligned(ip);
        self.network.is_ipv4() == ip.is_ipv4() && differing.leading_zeros() >= self.len_bits
    }
}

fn left_aligned(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// Whether the core takes an address for this machine, which no quota applies to: a header does not get a client that.
fn is_own(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.segments()[..4] == [0; 4],
    }
}

/// The values of a header as one list (RFC 9110, section 5.3).
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let values: Vec<_> = headers
        .get_all(name)
        .iter()
        .map(|value| value.as_bytes())
        .collect();
    (!values.is_empty()).then(|| values.join(&b","[..]))
}

/// The entries of a list, the last one first, without empty ones. Separators in quoted strings do not count. The first entry of a
/// list that `is_cut` is not whole and is left out.
fn entries_from_end(list: &[u8], separator: u8, is_cut: bool) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(list);
    let entries = core::iter::from_fn(move || {
        let list = rest?;
        let at = last_separator(list, separator);
        rest = at.map(|at| &list[..at]);
        let is_whole = at.is_some() || !is_cut;
        is_whole.then(|| list[at.map_or(0, |at| at + 1)..].trim_ascii())
    });
    entries.filter(|entry| !entry.is_empty())
}

fn last_separator(list: &[u8], separator: u8) -> Option<usize> {
    let mut is_quoted = false;
    for (at, byte) in list.iter().enumerate().rev() {
        if *byte == separator && !is_quoted {
            return Some(at);
        }
        is_quoted ^= *byte == b'"' && !is_escaped(list, at);
    }
    None
}

/// Whether a byte belongs to a quoted pair (RFC 9110, section 5.6.4).
fn is_escaped(list: &[u8], at: usize) -> bool {
    let backslashes = list[..at].iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

/// The address in the one parameter `for` of an element of `forwarded`.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let mut values = entries_from_end(element, b';', false).filter_map(|pair| {
        let (name, value) = pair.split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    });
    let value = values.next()?;
    let unquoted = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    if values.next().is_some() {
        return None;
    }
    node_address(unquoted.unwrap_or(value))
}

/// The address of a node with or without a port: `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`.
fn node_address(node: &[u8]) -> Option<IpAddr> {
    let text = core::str::from_utf8(node).ok()?;
    let whole = || text.parse().ok();
    let bracketed = || {
        let (ip, port) = text.strip_prefix('[')?.split_once(']')?;
        let is_node = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        ip.parse::<Ipv6Addr>().ok().filter(|_| is_node).map(IpAddr::V6)
    };
    let with_port = || {
        let (ip, port) = text.split_once(':')?;
        ip.parse::<Ipv4Addr>()
            .ok()
            .filter(|_| is_port(port))
            .map(IpAddr::V4)
    };
    let ip: Option<IpAddr> = whole().or_else(bracketed).or_else(with_port);
    ip.map(|ip| ip.to_canonical())
}

/// Whether a text is a port, or the obfuscated name of one (RFC 7239, section 6).
fn is_port(text: &str) -> bool {
    let is_number = matches!(text.len(), 1..=5) && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    is_number || text.strip_prefix('_').is_some_and(is_name)
}

#[cfg(test)]
mod tests;
