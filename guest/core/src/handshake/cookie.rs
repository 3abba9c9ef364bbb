use selfsame_sodium::{hash, memory};
use zeroize::Zeroizing;

use super::wire::{COOKIE_BYTES, Initiation};
use crate::identity::labelled_hash;
use crate::random::Random;

const COOKIE: &str = "selfsame/1 handshake cookie";

/// How long one secret makes cookies. It is accepted for as long again, so that a cookie is good for 30 to 60 s.
const SECRET_LIFETIME_MS: u64 = 30_000;

/// Makes and checks the cookies that prove, under load, that an initiator receives at its address
pub struct CookieJar {
    current: Zeroizing<[u8; 32]>,
    previous: Zeroizing<[u8; 32]>,
    epoch: u64,
}

impl CookieJar {
    /// A jar with fresh secrets.
    #[must_use]
    pub fn new(random: &mut Random, now_ms: u64) -> Self {
        Self {
            current: random.secret(),
            previous: random.secret(),
            epoch: now_ms / SECRET_LIFETIME_MS,
        }
    }

    /// The cookie that `initiation` must carry when it comes from `address`.
    pub fn cookie(
        &mut self,
        random: &mut Random,
        now_ms: u64,
        address: &str,
        initiation: &Initiation<'_>,
    ) -> [u8; COOKIE_BYTES] {
        self.renew(random, now_ms);
        mac(&self.current, address, initiation)
    }

    /// Whether `initiation` carries a cookie of ours for `address` that has not expired.
    #[must_use]
    pub fn accepts(
        &mut self,
        random: &mut Random,
        now_ms: u64,
        address: &str,
        initiation: &Initiation<'_>,
    ) -> bool {
        self.renew(random, now_ms);
        [&self.current, &self.previous]
            .iter()
            .any(|secret| memory::equal(&mac(secret, address, initiation), initiation.cookie))
    }

    fn renew(&mut self, random: &mut Random, now_ms: u64) {
        let epoch = now_ms / SECRET_LIFETIME_MS;
        if epoch != self.epoch {
            let renewals = if epoch == self.epoch + 1 { 1 } else { 2 };
            for _ in 0..renewals {
                self.previous = core::mem::replace(&mut self.current, random.secret());
            }
            self.epoch = epoch;
        }
    }
}

fn mac(secret: &[u8; 32], address: &str, initiation: &Initiation<'_>) -> [u8; COOKIE_BYTES] {
    hash::keyed(
        secret,
        &labelled_hash(COOKIE, &[address.as_bytes(), initiation.uncookied]),
    )
}
