//! Where servers are reached.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

use http::Uri;
use http::uri::Scheme;
use selfsame_codec::Code;

use crate::error::Error;
use crate::transport::is_public;

/// Longest address of a server.
pub(super) const MAX_ADDRESS_BYTES: usize = 512;

/// Where a server is reached: a port of UDP, a URL that takes POSTs, or one that takes WebSockets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RpcAddress {
    /// An IP address and a port of UDP, such as `192.0.2.1:7400`.
    Udp(SocketAddr),
    /// A URL such as `https://service.example/rpc`.
    Http(Uri),
    /// A URL such as `wss://service.example/rpc`.
    WebSocket(Uri),
}

impl RpcAddress {
    /// Refuses addresses that lead inside, and URLs without TLS, which nobody but whoever allows private addresses means. Where a name leads is
    /// checked when it is dialled.
    pub(super) fn check_permitted(&self, allows_private: bool) -> Result<(), Error> {
        let is_permitted = match self {
            _ if allows_private => true,
            Self::Udp(address) => is_public(address.ip()),
            Self::Http(url) => url.scheme() == Some(&Scheme::HTTPS) && ip_of(url).is_none_or(is_public),
            Self::WebSocket(url) => url.scheme_str() == Some("wss") && ip_of(url).is_none_or(is_public),
        };
        if is_permitted {
            return Ok(());
        }
        let text = format!(
            "{self} is private or without TLS: give an address that others reach, or allow private ones"
        );
        Err(Error::core(Code::ForbiddenAddress.as_u16(), &text))
    }
}

/// Returns the IP address that a URL names, if it names one.
fn ip_of(url: &Uri) -> Option<IpAddr> {
    let host = url.host()?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host.parse().ok()
}

impl From<SocketAddr> for RpcAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Udp(address)
    }
}

impl FromStr for RpcAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::Input(format!(
                "\"{text}\" is no address such as 192.0.2.1:7400 or https://service.example/rpc"
            ))
        };
        if text.len() > MAX_ADDRESS_BYTES {
            let text = format!("the address of a server has at most {MAX_ADDRESS_BYTES} bytes");
            return Err(Error::Input(text));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(address)
                .filter(|address| address.port() != 0 && !address.ip().is_unspecified())
                .map(Self::Udp)
                .ok_or_else(wrong);
        }
        let url: Uri = text.parse().map_err(|_| wrong())?;
        let has_host = url
            .authority()
            .is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
        let scheme = url.scheme_str().map(str::to_ascii_lowercase);
        match scheme.as_deref().filter(|_| has_host && !text.contains('#')) {
            Some("http" | "https") => Ok(Self::Http(url)),
            Some(scheme @ ("ws" | "wss")) => with_scheme(url, scheme).map(Self::WebSocket).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

/// Returns a URL with another scheme.
fn with_scheme(url: Uri, scheme: &str) -> Option<Uri> {
    let mut parts = url.into_parts();
    parts.scheme = Some(scheme.parse().ok()?);
    Uri::from_parts(parts).ok()
}

impl fmt::Display for RpcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => address.fmt(f),
            Self::Http(url) | Self::WebSocket(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_return_from_their_text() {
        for text in [
            "192.0.2.1:7400",
            "[2001:db8::1]:1",
            "https://echo.example/rpc",
            "http://10.0.0.1:8080/rpc?x=y",
            "wss://echo.example/rpc",
            "ws://10.0.0.1:8080/rpc?x=y",
        ] {
            let address: RpcAddress = text.parse().expect("an address");
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("https://echo.example/{}", "x".repeat(MAX_ADDRESS_BYTES));
        for text in [
            "",
            "192.0.2.1",
            "192.0.2.1:0",
            "0.0.0.0:7400",
            "[::]:7400",
            "echo.example:7400",
            "ftp://echo.example/",
            "https://me@echo.example/",
            "wss://me@echo.example/",
            "wss://echo.example/#rpc",
            "wss:///rpc",
            "https:///rpc",
            "/rpc",
            &long,
        ] {
            assert!(text.parse::<RpcAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_public_and_sealed_ways_are_permitted_to_strangers() {
        for (text, is_permitted) in [
            ("1.1.1.1:7400", true),
            ("https://echo.example/", true),
            ("https://1.1.1.1/", true),
            ("https://[fd00::1]/", false),
            ("https://127.0.0.1/", false),
            ("10.0.0.1:7400", false),
            ("[::1]:7400", false),
            ("http://echo.example/", false),
            ("wss://echo.example/", true),
            ("WSS://1.1.1.1/", true),
            ("wss://[fd00::1]/", false),
            ("wss://127.0.0.1/", false),
            ("ws://echo.example/", false),
        ] {
            let address: RpcAddress = text.parse().expect("an address");
            assert_eq!(address.check_permitted(false).is_ok(), is_permitted, "{text}");
            assert!(address.check_permitted(true).is_ok(), "{text}");
        }
    }
}
