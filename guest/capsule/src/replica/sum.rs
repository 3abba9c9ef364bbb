//! Checksums of what is stored: XXH64, which tells a damaged value from a whole one in a fraction of the time of a hash that
//! nobody can forge. Who can write to the store forges nothing by it: readers verify all that they get.

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIMES[1]))
        .rotate_left(31)
        .wrapping_mul(PRIMES[0])
}

/// XXH64 of some bytes.
pub(super) fn xxh64(seed: u64, bytes: &[u8]) -> u64 {
    let (stripes, tail) = bytes.as_chunks::<32>();
    let mut sum = seed.wrapping_add(PRIMES[4]);
    if !stripes.is_empty() {
        let mut lanes = [
            seed.wrapping_add(PRIMES[0]).wrapping_add(PRIMES[1]),
            seed.wrapping_add(PRIMES[1]),
            seed,
            seed.wrapping_sub(PRIMES[0]),
        ];
        for stripe in stripes {
            for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                *lane = round(*lane, u64::from_le_bytes(*word));
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]);
        sum = turned.fold(0, |sum, (lane, by)| sum.wrapping_add(lane.rotate_left(by)));
        for lane in lanes {
            sum = (sum ^ round(0, lane))
                .wrapping_mul(PRIMES[0])
                .wrapping_add(PRIMES[3]);
        }
    }
    finish(sum.wrapping_add(bytes.len() as u64), tail)
}

fn finish(mut sum: u64, tail: &[u8]) -> u64 {
    let (words, rest) = tail.as_chunks::<8>();
    for word in words {
        sum = (sum ^ round(0, u64::from_le_bytes(*word)))
            .rotate_left(27)
            .wrapping_mul(PRIMES[0])
            .wrapping_add(PRIMES[3]);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        sum = (sum ^ u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIMES[0]))
            .rotate_left(23)
            .wrapping_mul(PRIMES[1])
            .wrapping_add(PRIMES[2]);
    }
    for byte in rest {
        sum = (sum ^ u64::from(*byte).wrapping_mul(PRIMES[4]))
            .rotate_left(11)
            .wrapping_mul(PRIMES[0]);
    }
    sum = (sum ^ (sum >> 33)).wrapping_mul(PRIMES[1]);
    sum = (sum ^ (sum >> 29)).wrapping_mul(PRIMES[2]);
    sum ^ (sum >> 32)
}

#[cfg(test)]
mod tests {
    use super::xxh64;

    /// As its author's own program has them.
    #[test]
    fn sums_are_those_of_xxh64() {
        let spammish = b"Nobody inspects the spammish repetition";
        assert_eq!(xxh64(0, b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(0, b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(0, b"abc"), 0x44bc_2cf5_ad77_0999);
        assert_eq!(xxh64(0, spammish), 0xfbce_a83c_8a37_8bf1);
    }
}
