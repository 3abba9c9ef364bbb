//! The order of two pieces of memory, which WebAssembly finds with a function of ours.

use core::cmp::Ordering;

/// Beyond four words and what is left of a fifth.
const LONGEST: usize = 41;

fn naive(left: &[u8], right: &[u8]) -> Ordering {
    let differing = left.iter().zip(right).find(|(a, b)| a != b);
    differing.map_or(Ordering::Equal, |(a, b)| a.cmp(b))
}

#[cfg_attr(test, test)]
pub(crate) fn every_length_and_place_has_the_order_of_its_first_difference() {
    for length in 0..=LONGEST {
        let same: Vec<u8> = (0..length).map(|at| 0x7f ^ at as u8).collect();
        assert_eq!(same.as_slice().cmp(&same.clone()), Ordering::Equal);
        for first in 0..length {
            for (later, by) in (first..length).flat_map(|later| [(later, 0x80), (later, 0x01)]) {
                let mut other = same.clone();
                other[first] ^= by;
                other[later] = other[later].wrapping_sub(0x55);
                assert_eq!(
                    same.as_slice().cmp(&other),
                    naive(&same, &other),
                    "{same:?} {other:?}"
                );
                assert_eq!(same == other, naive(&same, &other).is_eq());
            }
        }
    }
}
