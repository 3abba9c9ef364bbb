//! Quotas of tables that strangers can fill: a newcomer evicts the oldest entry of the largest holder.
//!
//! A newcomer evicts somebody once a holder has more places than are free. So no quota applies up to half occupancy, one
//! holder has at most half of a table and one entry, and `n` holders that take all they can have `1 / (n + 1)` each and leave
//! as much to everybody else (the dynamic threshold of Choudhury and Hahne, 1998).

use alloc::vec::Vec;

use crate::address::{before, read_v4, read_v6};
use crate::identity::PeerId;

/// A full table is divided into this many shares. A holder with no more than one keeps its active entries.
const SHARES: u64 = 16;
/// Tags of holders, so that an IPv4 network, an IPv6 network and the unknown address never meet.
const IPV4: u64 = 4;
const IPV6: u64 = 6;

/// Who holds a place in a table: a peer, or the network of an address
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder(u64);

impl Holder {
    /// A holder that is not counted.
    pub const EXEMPT: Self = Self(0);

    /// Whoever is at what is no IP address.
    pub(crate) const UNKNOWN: Self = Self(1);

    /// The holder for a peer. Two ids that share these 64 bits cost more to find than a table is worth.
    #[must_use]
    pub(crate) fn peer(peer: &PeerId) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = peer.0;
        Self(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }

    /// The network of an IP address as a host reports it: an IPv4 /24, with or without a port, or an IPv6 /56, which is what one
    /// customer gets. Loopback is exempt, since a proxy there brings everybody. All other texts are one holder.
    #[must_use]
    pub fn network(address: &str) -> Self {
        let text = address.as_bytes();
        // As in a URL, with a port behind it or none.
        let text = text
            .strip_prefix(b"[")
            .map_or(text, |text| before(text, |byte| byte == b']'));
        if let Some(groups) = read_v6(text) {
            let prefix = groups[..4]
                .iter()
                .fold(0, |prefix, group| prefix << 16 | u64::from(*group));
            return match groups {
                [.., 0, 0xffff, high, low] if prefix == 0 => Self::v4(u32::from(high) << 16 | u32::from(low)),
                _ if prefix == 0 => Self::EXEMPT,
                _ => Self(prefix & !0xff | IPV6),
            };
        }
        let text = text.strip_prefix(b"::ffff:").unwrap_or(text);
        read_v4(before(text, |byte| byte == b':')).map_or(Self::UNKNOWN, Self::v4)
    }

    /// A peer as the one that brings what others hold.
    pub(crate) fn bringing(peer: &PeerId) -> Self {
        Self(!Self::peer(peer).0)
    }

    /// As it is stored.
    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// A holder as it was stored.
    pub(crate) fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    fn v4(address: u32) -> Self {
        if address >> 24 == 127 {
            Self::EXEMPT
        } else {
            Self(u64::from(address & !0xff) | IPV4)
        }
    }
}

/// When an entry may be evicted
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// When its holder is over the quota, or the table is full.
    Idle,
    /// When the table is full.
    Stalled,
    /// When the table is full and its holder has more than one share of it.
    Active,
    /// Never.
    Needed,
}

/// An entry of a table as the quota sees it
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The peer and the network that hold it.
    pub(crate) holders: [Holder; 2],
    /// What it takes of the capacity: 1 where entries are counted.
    pub(crate) size: u64,
    /// When it was last in use.
    pub(crate) used_ms: u64,
    /// When it may be evicted.
    pub(crate) hold: Hold,
}

/// Whether a table takes a newcomer
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room.
    Free,
    /// There is, once the entry at this position has been evicted.
    Evict(usize),
    /// The table is full of entries that stay.
    Full,
}

/// Finds room in a table for a newcomer of size 1.
#[must_use]
pub(crate) fn room(capacity: u64, entries: &[Entry]) -> Room {
    let taken: u64 = entries.iter().map(|entry| entry.size).sum();
    let free = capacity.saturating_sub(taken);
    if taken <= free {
        return Room::Free;
    }
    let mut holdings = Vec::new();
    holdings.resize(4 * entries.len(), (Holder::EXEMPT, 0));
    for entry in entries {
        for holder in entry.holders.iter().filter(|holder| **holder != Holder::EXEMPT) {
            *held(&mut holdings, *holder) += entry.size;
        }
    }
    let mut highest = (0, 0);
    let mut found = if free == 0 { Room::Full } else { Room::Free };
    for (position, entry) in entries.iter().enumerate() {
        let [one, other] = entry.holders.map(|holder| *held(&mut holdings, holder));
        let most = one.max(other).max(entry.size);
        let may_go = match entry.hold {
            Hold::Idle => free == 0 || most > free,
            Hold::Stalled => free == 0,
            Hold::Active => free == 0 && most > capacity / SHARES,
            Hold::Needed => false,
        };
        let rank = (most, u64::MAX - entry.used_ms);
        if may_go && rank > highest {
            highest = rank;
            found = Room::Evict(position);
        }
    }
    found
}

/// Whether a table that evicts nobody takes a newcomer whose holder has `own` of the places that are taken: while that is no
/// more than a quarter of what is free.
#[must_use]
pub(crate) fn admits(capacity: usize, taken: usize, newcomer: Holder, own: usize) -> bool {
    let own = if newcomer == Holder::EXEMPT { 0 } else { own };
    taken + (4 * own).max(1) <= capacity
}

/// What a holder has, in a table of which at least half stays empty: hashed by the id or address, with linear probing.
fn held(holdings: &mut [(Holder, u64)], holder: Holder) -> &mut u64 {
    // Fibonacci hashing (Knuth, volume 3, section 6.4).
    let mut at = (holder.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    loop {
        at %= holdings.len();
        if holdings[at].1 == 0 || holdings[at].0 == holder {
            holdings[at].0 = holder;
            return &mut holdings[at].1;
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(peer: u8, network: &str, used_ms: u64) -> Entry {
        Entry {
            holders: [Holder::peer(&PeerId([peer; 32])), Holder::network(network)],
            size: 1,
            used_ms,
            hold: Hold::Idle,
        }
    }

    #[test]
    fn networks_are_told_apart_by_their_prefix() {
        let of = Holder::network;
        let same = [
            ("192.0.2.1", "192.0.2.255"),
            ("192.0.2.1:80", "192.0.2.9"),
            ("::ffff:192.0.2.1", "192.0.2.7"),
            ("2001:db8:0:100::1", "2001:db8:0:1ff:9::"),
            ("::ffff:c000:201", "192.0.2.7"),
            ("[2001:db8:0:100::1]:443", "2001:db8:0:100::2"),
            ("", "unix socket"),
        ];
        for (one, other) in same {
            assert_eq!(of(one), of(other), "{one} {other}");
            assert_ne!(of(one), Holder::EXEMPT, "{one}");
        }
        let apart = [
            "192.0.2.1",
            "192.0.3.1",
            "2001:db8:0:100::",
            "2001:db8:0:200::",
            "0.0.0.1",
            "",
        ];
        for (at, one) in apart.iter().enumerate() {
            assert!(apart[at + 1..].iter().all(|other| of(one) != of(other)), "{one}");
        }
    }

    #[test]
    fn loopback_is_exempt() {
        for address in ["127.0.0.1", "127.9.9.9:1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(Holder::network(address), Holder::EXEMPT, "{address}");
        }
    }

    #[test]
    fn no_quota_applies_below_half_occupancy() {
        let entries: Vec<Entry> = (0..8).map(|n| entry(1, "192.0.2.1", n)).collect();
        for len in 0..=8 {
            assert_eq!(room(16, &entries[..len]), Room::Free, "{len}");
        }
    }

    #[test]
    fn the_largest_holder_loses_its_oldest_entry() {
        // Nine of one network, each of another peer, and one of another network that is older than all of them.
        let mut entries = vec_of(9, |n| entry(n, "192.0.2.1", 100 - u64::from(n)));
        entries.push(entry(77, "198.51.100.1", 0));
        assert_eq!(room(16, &entries), Room::Evict(8));
        // The same by peer.
        let mut entries = vec_of(9, |n| entry(5, "127.0.0.1", 100 + u64::from(n)));
        entries.push(entry(77, "127.0.0.1", 0));
        assert_eq!(room(16, &entries), Room::Evict(0));
    }

    #[test]
    fn many_small_holders_fill_a_table_and_then_the_oldest_goes() {
        let entries = vec_of(16, |n| entry(n, "127.0.0.1", u64::from(n ^ 5)));
        for len in 0..16 {
            assert_eq!(room(16, &entries[..len]), Room::Free, "{len}");
        }
        assert_eq!(room(16, &entries), Room::Evict(5));
    }

    #[test]
    fn what_is_in_use_stays_while_others_can_go() {
        let mut entries = vec_of(32, |n| Entry {
            hold: Hold::Active,
            ..entry(n, "127.0.0.1", u64::from(n))
        });
        assert_eq!(room(32, &entries), Room::Full);
        entries[9].hold = Hold::Stalled;
        assert_eq!(
            room(33, &entries),
            Room::Free,
            "stalled entries stay until the table is full"
        );
        assert_eq!(room(32, &entries), Room::Evict(9));
        // Three are more than a sixteenth of 32.
        entries[20].holders = entries[21].holders;
        entries[22].holders = entries[21].holders;
        assert_eq!(room(32, &entries), Room::Evict(20));
        entries[20].hold = Hold::Needed;
        assert_eq!(room(32, &entries), Room::Evict(21));
    }

    #[test]
    fn sizes_count_in_place_of_entries() {
        let mut entries = vec_of(3, |n| entry(n, "127.0.0.1", u64::from(n)));
        entries[1].size = 70;
        assert_eq!(room(100, &entries), Room::Evict(1));
        assert_eq!(room(144, &entries), Room::Free);
    }

    fn vec_of(len: u8, make: impl Fn(u8) -> Entry) -> Vec<Entry> {
        (0..len).map(make).collect()
    }
}
