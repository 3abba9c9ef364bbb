//! Arithmetic on the circle of 256-bit ids, read as big-endian numbers.

/// A place on the circle
pub(crate) type Position = [u8; 32];

/// Way clockwise from one position to another.
pub(crate) fn distance(from: &Position, to: &Position) -> Position {
    let (from, to) = (limbs(from), limbs(to));
    let mut out = [0; 32];
    let mut borrow = false;
    for (index, place) in out.as_chunks_mut().0.iter_mut().enumerate().rev() {
        let (difference, first) = to[index].overflowing_sub(from[index]);
        let (difference, second) = difference.overflowing_sub(u64::from(borrow));
        *place = difference.to_be_bytes();
        borrow = first || second;
    }
    out
}

/// A position in four numbers, the most significant first.
fn limbs(position: &Position) -> [u64; 4] {
    let mut limbs = [0; 4];
    for (limb, bytes) in limbs.iter_mut().zip(position.as_chunks().0) {
        *limb = u64::from_be_bytes(*bytes);
    }
    limbs
}

/// The leading 64 bits of a distance: enough to compare distances by how often one fits into the other.
pub(crate) fn leading(distance: &Position) -> u64 {
    distance
        .first_chunk()
        .map_or(0, |leading| u64::from_be_bytes(*leading))
}

/// Whether `middle` lies clockwise after `from` and not after `to`; from a position to itself is the whole circle.
pub(crate) fn in_half_open(from: &Position, middle: &Position, to: &Position) -> bool {
    from == to || (middle != from && distance(from, middle) <= distance(from, to))
}

/// Whether `middle` lies strictly between; from a position to itself is all but that position.
pub(crate) fn in_open(from: &Position, middle: &Position, to: &Position) -> bool {
    middle != to && middle != from && in_half_open(from, middle, to)
}

/// The position 2^`bit` further on.
pub(crate) fn plus_power(position: &Position, bit: u8) -> Position {
    let mut out = *position;
    let mut index = 31 - usize::from(bit / 8);
    let mut carry = 1u8 << (bit % 8);
    loop {
        let (sum, overflow) = out[index].overflowing_add(carry);
        out[index] = sum;
        if !overflow || index == 0 {
            return out;
        }
        carry = 1;
        index -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(high: u8, low: u8) -> Position {
        let mut position = [0; 32];
        position[0] = high;
        position[31] = low;
        position
    }

    #[test]
    fn distance_goes_clockwise_around_zero() {
        assert_eq!(distance(&at(0, 5), &at(0, 9)), at(0, 4));
        assert_eq!(distance(&[0xff; 32], &at(0, 1)), at(0, 2));
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
        assert_eq!(plus_power(&at(0, 0xff), 0)[30..], [1, 0]);
        assert_eq!(plus_power(&at(0xff, 0), 255), at(0x7f, 0));
        assert_eq!(plus_power(&[0xff; 32], 0), [0; 32]);
        assert_eq!(plus_power(&at(0, 0), 248), at(1, 0));
    }
}
