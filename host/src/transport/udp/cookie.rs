//! Cookies: proofs that an address can be answered at, for which nothing has to be kept.

use core::net::SocketAddr;
use core::time::Duration;

use ring::hmac::{HMAC_SHA256, Key, Tag, sign};
use tokio::time::Instant;

use super::packet::{Cookie, Id};
use crate::error::Error;
use crate::keys::random_bytes;

/// Cookies are of one such span of time; one of the span before counts as well.
const SPAN: Duration = Duration::from_secs(10);

/// What makes the cookies of one listener
#[derive(Debug)]
pub(super) struct Cookies {
    key: Key,
    began: Instant,
}

impl Cookies {
    pub(super) fn new(now: Instant) -> Result<Self, Error> {
        let secret: [u8; 32] = random_bytes()?;
        Ok(Self {
            key: Key::new(HMAC_SHA256, &secret),
            began: now,
        })
    }

    /// A cookie for whoever asks from an address for a connection of this id.
    pub(super) fn make(&self, from: SocketAddr, id: Id, now: Instant) -> Cookie {
        self.of_span(from, id, self.span(now))
    }

    /// Whether a cookie was made for them not long ago.
    pub(super) fn proves(&self, cookie: &Cookie, from: SocketAddr, id: Id, now: Instant) -> bool {
        let span = self.span(now);
        let is_of = |span| equal(cookie, &self.of_span(from, id, span));
        is_of(span) | span.checked_sub(1).is_some_and(is_of)
    }

    fn span(&self, now: Instant) -> u64 {
        (now - self.began).as_secs() / SPAN.as_secs()
    }

    fn of_span(&self, from: SocketAddr, id: Id, span: u64) -> Cookie {
        let place = match from {
            SocketAddr::V4(from) => from.ip().to_ipv6_mapped(),
            SocketAddr::V6(from) => *from.ip(),
        };
        let mut message = Vec::with_capacity(34);
        message.extend_from_slice(&span.to_le_bytes());
        message.extend_from_slice(&place.octets());
        message.extend_from_slice(&from.port().to_le_bytes());
        message.extend_from_slice(&id);
        first_half(&sign(&self.key, &message))
    }
}

fn first_half(tag: &Tag) -> Cookie {
    *tag.as_ref().first_chunk().expect("a tag has 32 bytes")
}

/// Compares in a time that tells nothing.
fn equal(left: &Cookie, right: &Cookie) -> bool {
    let differences = left.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b));
    core::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_for_one_address_one_id_and_a_while() {
        let now = Instant::now();
        let cookies = Cookies::new(now).expect("random bytes");
        let place = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        let (from, id) = (place("1.2.3.4:5"), [1; 8]);
        let now = now + SPAN;
        let cookie = cookies.make(from, id, now);
        assert!(cookies.proves(&cookie, from, id, now));
        assert!(
            cookies.proves(&cookie, place("[::ffff:1.2.3.4]:5"), id, now),
            "the same place"
        );
        assert!(cookies.proves(&cookie, from, id, now + SPAN));
        assert!(!cookies.proves(&cookie, from, id, now + 2 * SPAN), "too old");
        assert!(!cookies.proves(&cookie, from, [2; 8], now), "of another id");
        assert!(
            !cookies.proves(&cookie, place("1.2.3.4:6"), id, now),
            "of another port"
        );
        assert!(
            !cookies.proves(&cookie, place("1.2.3.5:5"), id, now),
            "of another address"
        );
        assert!(!cookies.proves(&[0; 16], from, id, now));
        let others = Cookies::new(now).expect("random bytes");
        assert!(!others.proves(&cookie, from, id, now), "of another listener");
    }
}
