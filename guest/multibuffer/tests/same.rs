//! The results are those of the functions for one input.

use selfsame_multibuffer::{keyed, keyed_each};

/// Bytes that a seed repeats.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn key(seed: u64) -> [u8; 32] {
    bytes(seed, 32).try_into().expect("32 bytes")
}

fn slices(inputs: &[Vec<u8>]) -> Vec<&[u8]> {
    inputs.iter().map(Vec::as_slice).collect()
}

#[test]
fn hashes_of_all_lengths_are_those_of_blake3() {
    let key = key(1);
    for count in [1, 2, 7, 16, 17, 40] {
        for first in (0..5_000).step_by(61) {
            let inputs: Vec<_> = (0..count).map(|n| bytes(n, first + 3 * n as usize)).collect();
            let all = keyed(&key, &slices(&inputs));
            for (input, hash) in inputs.iter().zip(&all) {
                assert_eq!(
                    blake3::keyed_hash(&key, input).as_bytes(),
                    hash,
                    "{} bytes",
                    input.len()
                );
            }
            assert_eq!(all.len(), inputs.len());
        }
    }
}

#[test]
fn inputs_of_very_different_lengths_do_not_disturb_each_other() {
    let key = key(2);
    let lengths = [
        0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 3072, 7168, 1, 0, 20_000, 64, 130, 200, 31_745,
    ];
    let inputs: Vec<_> = (0..).zip(lengths).map(|(n, len)| bytes(n, len)).collect();
    let all = keyed(&key, &slices(&inputs));
    for (input, hash) in inputs.iter().zip(all) {
        assert_eq!(
            blake3::keyed_hash(&key, input).as_bytes(),
            &hash,
            "{} bytes",
            input.len()
        );
    }
}

#[test]
fn whole_chunks_are_hashed_under_their_own_keys() {
    for count in [1, 2, 7, 16, 17, 40] {
        let keys: Vec<_> = (0..count).map(|n| key(50 + n)).collect();
        for first in (0..=1024).step_by(32) {
            let lengths = (0..count).map(|n| (first + 96 * n as usize) % 1056);
            let inputs: Vec<_> = (0..).zip(lengths).map(|(n, len)| bytes(n, len)).collect();
            let all = keyed_each(&keys, &slices(&inputs));
            assert_eq!(all.len(), inputs.len());
            for ((key, input), hash) in keys.iter().zip(&inputs).zip(all) {
                let expected = blake3::keyed_hash(key, input);
                assert_eq!(expected.as_bytes(), &hash, "{} bytes", input.len());
            }
        }
    }
}
