//! Chains of ticket keys that replicas share: which of two is used, and what a replica tells another one.

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed};

use super::keys::TicketKeys;
use crate::error::Error;
use crate::keys::{Seed, random_bytes};

const VERSION: u64 = 1;
/// The longest offer.
pub(super) const MAX_OFFER_BYTES: usize = 128;
/// The longest time between two rotations, in seconds.
pub(super) const MAX_PERIOD_S: u32 = 30 * 86_400;
/// The largest number that all hosts have.
const MAX_NUMBER: u64 = (1 << 53) - 1;
/// Rotations that a secret may be behind: those of a replica that runs are of the time.
const MAX_BEHIND: u64 = 16;
/// How far the clock of the replica that has begun a chain may be ahead.
const MAX_AHEAD_MS: u64 = 60_000;

/// A chain of ticket keys: those of all replicas follow from one secret, and its rotations are told by the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyChain {
    /// Counts renewals: of two chains that of more renewals is used.
    pub(super) series: u64,
    /// When it began, in milliseconds since 1970: else the older chain is used.
    pub(super) born_ms: u64,
    /// Random.
    pub(super) id: [u8; 16],
    /// Seconds between two rotations.
    pub(super) period_s: u32,
}

/// A chain with the oldest secret that a replica has, for another replica. Secret.
pub(super) struct KeyOffer {
    pub(super) chain: KeyChain,
    /// How many rotations come before the secret.
    pub(super) rotations: u64,
    pub(super) secret: Seed,
}

impl KeyChain {
    /// Begins a chain.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no random bytes.
    pub(super) fn begin(series: u64, period_s: u32, now_ms: u64) -> Result<Self, Error> {
        Ok(Self {
            series,
            born_ms: now_ms,
            id: random_bytes()?,
            period_s,
        })
    }

    /// Returns how many rotations it has behind it.
    pub(super) fn rotations(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.born_ms) / self.period_ms()
    }

    /// Returns when it rotates for that time, in milliseconds since 1970.
    pub(super) fn rotates_at_ms(&self, rotations: u64) -> u64 {
        self.born_ms
            .saturating_add(rotations.saturating_mul(self.period_ms()))
    }

    pub(super) fn period_ms(&self) -> u64 {
        u64::from(self.period_s) * 1000
    }

    /// Whether a clock has leapt since it was begun or its secrets were of the time: how many rotations are due is not known then.
    pub(super) fn is_lost(&self, rotations: u64, now_ms: u64) -> bool {
        self.born_ms > now_ms.saturating_add(MAX_AHEAD_MS)
            || self.rotations(now_ms).saturating_sub(rotations) > MAX_BEHIND
    }

    /// Whether it has more rotations behind it than a replica's whose clock is a little ahead.
    pub(super) fn is_ahead(&self, rotations: u64, now_ms: u64) -> bool {
        rotations > self.rotations(now_ms) + 1
    }

    /// Whether replicas that have another one, too, use this one.
    pub(super) fn is_preferred_to(&self, other: &Self) -> bool {
        let rank = |chain: &Self| (core::cmp::Reverse(chain.series), chain.born_ms, chain.id);
        rank(self) < rank(other)
    }
}

impl KeyOffer {
    /// Returns the encoding,
    /// `[version: 1, series: uint, born: uint, id: bytes .size 16, period: uint, rotations: uint, secret: bytes .size 32]`. Secret.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_OFFER_BYTES);
        Encoder::new(&mut out)
            .array(7)
            .uint(VERSION)
            .uint(self.chain.series)
            .uint(self.chain.born_ms)
            .bytes(&self.chain.id)
            .uint(u64::from(self.chain.period_s))
            .uint(self.rotations)
            .bytes(self.secret.bytes());
        out
    }

    /// Decodes an offer as another replica gives it.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(7)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        let (series, born_ms) = (decoder.uint_max(MAX_NUMBER)?, decoder.uint_max(MAX_NUMBER)?);
        let id = decoder.fixed()?;
        let period_s = decoder.uint_max(u64::from(MAX_PERIOD_S))? as u32;
        let rotations = decoder.uint_max(MAX_NUMBER)?;
        let secret = Seed::from_bytes(decoder.fixed()?);
        decoder.finish()?;
        if period_s == 0 {
            return Err(Malformed);
        }
        let chain = KeyChain {
            series,
            born_ms,
            id,
            period_s,
        };
        Ok(Self {
            chain,
            rotations,
            secret,
        })
    }

    /// Returns the keys that it leads to, and how many rotations they have behind them.
    ///
    /// # Errors
    /// `WrongClock` when the other replica has another time.
    pub(super) fn keys(&self, now_ms: u64) -> Result<(TicketKeys, u64), Error> {
        // Nobody renews once a second for decades; a larger series would leave no room for one that shuts its replica out.
        let is_renewable = self.chain.series <= now_ms / 1000;
        if !is_renewable
            || self.chain.is_ahead(self.rotations, now_ms)
            || self.chain.is_lost(self.rotations, now_ms)
        {
            return Err(Error::from_code(Code::WrongClock));
        }
        let due = self.chain.rotations(now_ms);
        let mut keys = TicketKeys::new(self.secret.clone());
        for _ in self.rotations..due {
            keys.rotate();
        }
        Ok((keys, due.max(self.rotations)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> KeyOffer {
        KeyOffer {
            chain: KeyChain {
                series: 0,
                born_ms: 1_000_000,
                id: [1; 16],
                period_s: 60,
            },
            rotations: 3,
            secret: Seed::from_bytes([5; 32]),
        }
    }

    #[test]
    fn chains_are_preferred_by_renewals_then_by_age_then_by_id() {
        let chain = |series, born_ms, id| KeyChain {
            series,
            born_ms,
            id: [id; 16],
            period_s: 60,
        };
        let in_order = [chain(2, 3, 1), chain(1, 1, 1), chain(1, 2, 0), chain(1, 2, 1)];
        for (at, one) in in_order.iter().enumerate() {
            for (place, other) in in_order.iter().enumerate() {
                assert_eq!(one.is_preferred_to(other), at < place);
            }
        }
    }

    #[test]
    fn offer_leads_to_the_keys_of_the_time_unless_its_clock_is_another() {
        let offer = offer();
        let at = |rotations: u64| offer.chain.rotates_at_ms(rotations);
        for (now, rotations) in [(3, 3), (5, 5), (2, 3), (19, 19)] {
            let (keys, reached) = offer.keys(at(now)).expect("the same time");
            assert_eq!(reached, rotations);
            assert_eq!(keys.oldest().1, rotations > 3);
        }
        for now in [1, 20, u64::from(u32::MAX)] {
            assert!(offer.keys(at(now)).is_err());
        }
    }

    #[test]
    fn offer_that_could_not_be_renewed_is_refused() {
        let of = |series| KeyOffer {
            chain: KeyChain {
                series,
                ..offer().chain
            },
            ..offer()
        };
        // 1180 s after 1970.
        let now_ms = offer().chain.rotates_at_ms(3);
        assert!(of(1180).keys(now_ms).is_ok());
        for series in [1181, MAX_NUMBER] {
            assert!(of(series).keys(now_ms).is_err(), "{series}");
        }
    }

    #[test]
    fn offer_of_the_future_is_refused() {
        let now_ms = 10_000_000;
        let of = |born_ms| KeyOffer {
            chain: KeyChain {
                born_ms,
                ..offer().chain
            },
            rotations: 0,
            ..offer()
        };
        assert!(of(now_ms + 60_000).keys(now_ms).is_ok());
        for born_ms in [now_ms + 60_001, MAX_NUMBER] {
            assert!(of(born_ms).keys(now_ms).is_err());
        }
    }

    #[test]
    fn offer_is_read_whole_or_not_at_all() {
        let bytes = offer().encode();
        let read = KeyOffer::decode(&bytes).expect("whole");
        assert_eq!((&read.chain, read.rotations), (&offer().chain, 3));
        assert_eq!(read.encode(), bytes);
        for len in 0..bytes.len() {
            assert!(KeyOffer::decode(&bytes[..len]).is_err());
        }
        let extreme = KeyOffer {
            chain: KeyChain {
                born_ms: u64::MAX,
                ..offer().chain
            },
            ..offer()
        };
        assert!(KeyOffer::decode(&extreme.encode()).is_err());
        let [mut other_version, mut no_period] = [bytes.clone(), bytes];
        other_version[1] = 2;
        assert!(KeyOffer::decode(&other_version).is_err());
        let period = no_period
            .windows(2)
            .position(|two| two == [0x18, 60])
            .expect("the period");
        no_period[period + 1] = 0;
        assert!(KeyOffer::decode(&no_period).is_err());
    }
}
