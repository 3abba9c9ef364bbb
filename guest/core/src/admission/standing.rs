//! Who of a closed network stands in its DNS, as far as the host has looked them up.

use alloc::vec::Vec;

use selfsame_codec::Code;

use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::quota::{Entry, Hold, Holder, Room, room};
use selfsame_sorted_map::Map;

/// Peers that are remembered as confirmed: as many as there are records in the book.
const MAX_CONFIRMED: u64 = 1024;
/// Peers that are remembered as refused, apart, so that they drive out nobody who is confirmed.
const MAX_REFUSED: u64 = 256;

/// What is known of a peer
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its certificate stands in the DNS, or nobody asks for that.
    Confirmed,
    /// It does not, or the DNS gave no answer a moment ago.
    Refused(Code),
    /// It was not looked up yet.
    Unknown,
}

/// An answer of the host, for as long as it counts
#[derive(Debug)]
struct Known {
    refusal: Option<Code>,
    until_ms: u64,
    noted_ms: u64,
    source: Holder,
}

/// The answers of the host
#[derive(Debug, Default)]
pub(crate) struct Standings {
    confirmed: Map<PeerId, Known>,
    refused: Map<PeerId, Known>,
}

impl Standings {
    pub(crate) fn of(&self, peer: &PeerId, now_ms: u64) -> Standing {
        let known = self.confirmed.get(peer).or_else(|| self.refused.get(peer));
        match known.filter(|known| now_ms < known.until_ms) {
            None => Standing::Unknown,
            Some(known) => known.refusal.map_or(Standing::Confirmed, Standing::Refused),
        }
    }

    /// Keeps an answer of a peer that came from this source, until this time.
    pub(crate) fn note(
        &mut self,
        peer: PeerId,
        refusal: Option<Code>,
        source: Holder,
        now_ms: u64,
        until_ms: u64,
    ) {
        self.confirmed.remove(&peer);
        self.refused.remove(&peer);
        let (table, most) = if refusal.is_none() {
            (&mut self.confirmed, MAX_CONFIRMED)
        } else {
            (&mut self.refused, MAX_REFUSED)
        };
        table.retain(|_, known| now_ms < known.until_ms);
        let entries: Vec<Entry> = table.iter().map(|(peer, known)| known.as_entry(peer)).gather();
        match room(most, &entries) {
            Room::Free => {}
            Room::Evict(position) => {
                let evicted = table.keys().nth(position).copied();
                evicted.map(|evicted| table.remove(&evicted));
            }
            Room::Full => return,
        }
        let known = Known {
            refusal,
            until_ms,
            noted_ms: now_ms,
            source,
        };
        table.insert(peer, known);
    }
}

impl Known {
    fn as_entry(&self, peer: &PeerId) -> Entry {
        Entry {
            holders: [Holder::peer(peer), self.source],
            size: 1,
            used_ms: self.noted_ms,
            hold: Hold::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u16) -> PeerId {
        let mut id = [0; 32];
        id[..2].copy_from_slice(&number.to_be_bytes());
        PeerId(id)
    }

    #[test]
    fn answer_counts_until_its_time() {
        let mut standings = Standings::default();
        standings.note(peer(1), None, Holder::EXEMPT, 0, 10);
        standings.note(peer(2), Some(Code::NoCertificate), Holder::EXEMPT, 0, 5);
        assert_eq!(standings.of(&peer(1), 9), Standing::Confirmed);
        assert_eq!(standings.of(&peer(2), 4), Standing::Refused(Code::NoCertificate));
        assert_eq!(standings.of(&peer(1), 10), Standing::Unknown);
        assert_eq!(standings.of(&peer(2), 5), Standing::Unknown);
        standings.note(peer(2), None, Holder::EXEMPT, 5, 10);
        assert_eq!(standings.of(&peer(2), 6), Standing::Confirmed);
    }

    #[test]
    fn one_source_crowds_out_neither_others_nor_who_is_confirmed() {
        let mut standings = Standings::default();
        let (one, other) = (Holder::network("192.0.2.1"), Holder::network("198.51.100.1"));
        standings.note(peer(1), None, other, 0, u64::MAX);
        standings.note(peer(2), Some(Code::NoCertificate), other, 0, u64::MAX);
        for number in 10..5_000 {
            let refusal = (number % 2 == 0).then_some(Code::NoCertificate);
            standings.note(peer(number), refusal, one, u64::from(number), u64::MAX);
        }
        assert_eq!(standings.of(&peer(1), 5_000), Standing::Confirmed);
        assert_eq!(
            standings.of(&peer(2), 5_000),
            Standing::Refused(Code::NoCertificate)
        );
        assert!(standings.confirmed.len() as u64 <= MAX_CONFIRMED);
        assert!(standings.refused.len() as u64 <= MAX_REFUSED);
    }
}
