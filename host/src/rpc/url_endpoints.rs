//! The endpoints that stand for URLs: of the prefix 100::/64, whose packets everybody discards (RFC 6666), they are nobody's address.

use alloc::collections::BTreeMap;
use core::net::{Ipv6Addr, SocketAddr};
use std::collections::HashMap;

use http::Uri;

/// URLs that have an endpoint at a time.
const MAX_URLS: usize = 4096;

/// The endpoints of the URLs of one way.
#[derive(Debug)]
pub(super) struct UrlEndpoints {
    way: u16,
    by_url: HashMap<Uri, SocketAddr>,
    by_number: BTreeMap<u32, Uri>,
    last_number: u32,
}

impl UrlEndpoints {
    /// Those of a way, which has a number of its own.
    pub(super) fn new(way: u16) -> Self {
        Self {
            way,
            by_url: HashMap::new(),
            by_number: BTreeMap::new(),
            last_number: 0,
        }
    }

    /// Returns the endpoint of a URL; beyond the bound the oldest is forgotten.
    pub(super) fn endpoint_of(&mut self, url: &Uri) -> SocketAddr {
        if let Some(known) = self.by_url.get(url) {
            return *known;
        }
        if self.by_url.len() >= MAX_URLS
            && let Some((_, oldest)) = self.by_number.pop_first()
        {
            self.by_url.remove(&oldest);
        }
        self.last_number = self.last_number.wrapping_add(1);
        let number = self.last_number;
        let [high, low] = [number >> 16, number & 0xffff].map(|half| half as u16);
        let endpoint = SocketAddr::from((Ipv6Addr::new(0x100, 0, 0, 0, self.way, 0, high, low), 0));
        self.by_url.insert(url.clone(), endpoint);
        self.by_number.insert(number, url.clone());
        endpoint
    }

    /// Returns the URL that an endpoint stands for.
    pub(super) fn url_of(&self, endpoint: SocketAddr) -> Option<&Uri> {
        let SocketAddr::V6(endpoint) = endpoint else {
            return None;
        };
        let [0x100, 0, 0, 0, way, 0, high, low] = endpoint.ip().segments() else {
            return None;
        };
        let number = u32::from(high) << 16 | u32::from(low);
        self.by_number.get(&number).filter(|_| way == self.way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(number: usize) -> Uri {
        format!("https://echo.example/{number}").parse().expect("a URL")
    }

    #[test]
    fn urls_return_from_their_endpoints_and_the_oldest_is_forgotten() {
        let mut endpoints = UrlEndpoints::new(1);
        let first = endpoints.endpoint_of(&url(0));
        assert_eq!(first.to_string(), "[100::1:0:0:1]:0");
        assert_eq!(endpoints.endpoint_of(&url(0)), first);
        for number in 1..MAX_URLS {
            let endpoint = endpoints.endpoint_of(&url(number));
            assert_eq!(endpoints.url_of(endpoint), Some(&url(number)));
        }
        assert_eq!(endpoints.url_of(first), Some(&url(0)));
        endpoints.endpoint_of(&url(MAX_URLS));
        assert_eq!(endpoints.url_of(first), None);
        for stranger in [
            "[100::0:0:1]:0",
            "[100::1:1:0:2]:0",
            "[2001:db8::1]:1",
            "192.0.2.1:1",
        ] {
            let endpoint = stranger.parse().expect("an address");
            assert_eq!(endpoints.url_of(endpoint), None, "{stranger}");
        }
    }
}
