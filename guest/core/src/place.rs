//! Places on the ring, a circle of 256-bit numbers, and arithmetic on them.

use crate::identity::PeerId;

/// A position on the ring, big-endian
///
/// Peers stand at places and objects lie at them. Where admission is open a peer's place follows from its id; in a closed
/// network its certificate names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub [u8; 32]);

/// Way clockwise from one place to another, big-endian; distances compare like numbers
pub(crate) type Distance = [u8; 32];

impl Place {
    /// The place of a peer in an open network: its id.
    #[must_use]
    pub const fn open(peer: &PeerId) -> Self {
        Self(peer.0)
    }

    /// The peer that would stand here in an open network.
    pub(crate) const fn open_peer(self) -> PeerId {
        PeerId(self.0)
    }
}

impl PeerId {
    /// The place at which this peer stands.
    pub(crate) const fn place(&self) -> Place {
        Place::open(self)
    }
}

/// Way clockwise from one place to another.
pub(crate) fn distance(from: &Place, to: &Place) -> Distance {
    let (from, to) = (limbs(from), limbs(to));
    let mut out = [0; 32];
    let mut borrow = false;
    for (index, limb) in out.as_chunks_mut().0.iter_mut().enumerate().rev() {
        let (difference, first) = to[index].overflowing_sub(from[index]);
        let (difference, second) = difference.overflowing_sub(u64::from(borrow));
        *limb = difference.to_be_bytes();
        borrow = first || second;
    }
    out
}

/// A place in four numbers, the most significant first.
fn limbs(place: &Place) -> [u64; 4] {
    let mut limbs = [0; 4];
    for (limb, bytes) in limbs.iter_mut().zip(place.0.as_chunks().0) {
        *limb = u64::from_be_bytes(*bytes);
    }
    limbs
}

/// The leading 64 bits of a distance: enough to compare distances by how often one fits into the other.
pub(crate) fn leading(distance: &Distance) -> u64 {
    distance
        .first_chunk()
        .map_or(0, |leading| u64::from_be_bytes(*leading))
}

/// Whether `middle` lies clockwise after `from` and not after `to`; from a place to itself is the whole circle.
pub(crate) fn in_half_open(from: &Place, middle: &Place, to: &Place) -> bool {
    from == to || (middle != from && distance(from, middle) <= distance(from, to))
}

/// Whether `middle` lies strictly between; from a place to itself is all but that place.
pub(crate) fn in_open(from: &Place, middle: &Place, to: &Place) -> bool {
    middle != to && middle != from && in_half_open(from, middle, to)
}

/// The place 2^`bit` further on.
pub(crate) fn plus_power(place: &Place, bit: u8) -> Place {
    let Place(mut out) = *place;
    let mut index = 31 - usize::from(bit / 8);
    let mut carry = 1u8 << (bit % 8);
    loop {
        let (sum, overflow) = out[index].overflowing_add(carry);
        out[index] = sum;
        if !overflow || index == 0 {
            return Place(out);
        }
        carry = 1;
        index -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(high: u8, low: u8) -> Place {
        let mut place = [0; 32];
        place[0] = high;
        place[31] = low;
        Place(place)
    }

    #[test]
    fn distance_goes_clockwise_around_zero() {
        assert_eq!(distance(&at(0, 5), &at(0, 9)), at(0, 4).0);
        assert_eq!(distance(&Place([0xff; 32]), &at(0, 1)), at(0, 2).0);
        assert_eq!(distance(&at(0, 1), &at(0, 0)), [0xff; 32]);
        assert_eq!(distance(&at(3, 3), &at(3, 3)), [0; 32]);
    }

    #[test]
    fn intervals_wrap_and_cover_the_circle() {
        assert!(in_half_open(&at(2, 0), &at(3, 0), &at(3, 0)));
        assert!(!in_half_open(&at(2, 0), &at(2, 0), &at(3, 0)));
        assert!(in_half_open(&at(9, 0), &at(1, 0), &at(2, 0)));
        assert!(!in_half_open(&at(9, 0), &at(5, 0), &at(2, 0)));
        assert!(in_half_open(&at(4, 0), &at(4, 0), &at(4, 0)));
        assert!(!in_open(&at(4, 0), &at(4, 0), &at(4, 0)));
        assert!(in_open(&at(4, 0), &at(5, 0), &at(4, 0)));
        assert!(!in_open(&at(2, 0), &at(3, 0), &at(3, 0)));
    }

    #[test]
    fn powers_carry() {
        assert_eq!(plus_power(&at(0, 0xff), 0).0[30..], [1, 0]);
        assert_eq!(plus_power(&at(0xff, 0), 255), at(0x7f, 0));
        assert_eq!(plus_power(&Place([0xff; 32]), 0), at(0, 0));
        assert_eq!(plus_power(&at(0, 0), 248), at(1, 0));
    }
}
