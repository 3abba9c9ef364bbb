//! The results are those of the functions for one input.

use selfsame_multibuffer::{Message, apply, keyed, keyed_wide, keyed_wide_each};
use selfsame_sodium::aead;

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
fn wide_outputs_are_those_of_blake3() {
    let key = key(3);
    let inputs: Vec<_> = (0..65).map(|len| bytes(9, len)).collect();
    for (input, wide) in inputs.iter().zip(keyed_wide(&key, &slices(&inputs))) {
        let mut expected = [0; 64];
        let mut hasher = blake3::Hasher::new_keyed(&key);
        hasher.update(input).finalize_xof().fill(&mut expected);
        assert_eq!(expected, wide, "{} bytes", input.len());
    }
}

#[test]
fn each_input_is_hashed_under_its_own_key() {
    for count in [1, 2, 15, 16, 17, 65] {
        let keys: Vec<_> = (0..count).map(|n| key(50 + n)).collect();
        let inputs: Vec<_> = (0..count).map(|n| bytes(n, n as usize % 65)).collect();
        let pairs: Vec<_> = keys
            .iter()
            .zip(&inputs)
            .map(|(key, input)| (key, input.as_slice()))
            .collect();
        let all = keyed_wide_each(&pairs);
        assert_eq!(all.len(), pairs.len());
        for ((key, input), wide) in pairs.into_iter().zip(all) {
            assert_eq!(keyed_wide(key, &[input]), [wide], "{} bytes", input.len());
            assert_eq!(blake3::keyed_hash(key, input).as_bytes(), &wide[..32]);
        }
    }
}

#[test]
fn encryption_is_that_of_libsodium() {
    for count in [1, 3, 16, 33] {
        for len in [0, 1, 3, 31, 63, 64, 65, 127, 128, 300, 1024, 1088] {
            let keys: Vec<_> = (0..count).map(|n| key(100 + n)).collect();
            let plain: Vec<_> = (0..count).map(|n| bytes(n, len + n as usize)).collect();
            let mut sealed = plain.clone();
            let mut authenticators = vec![[0; 32]; plain.len()];
            let mut messages: Vec<_> = (keys.iter().zip(&mut sealed).zip(&mut authenticators))
                .map(|((key, bytes), authenticator)| Message {
                    key,
                    bytes,
                    authenticator,
                })
                .collect();
            apply(&mut messages);
            for ((key, plain), sealed) in keys.iter().zip(plain).zip(sealed) {
                let mut expected = plain;
                aead::seal_in_place(&aead::Key::new(*key), &[0; aead::NONCE_BYTES], &[], &mut expected);
                assert_eq!(expected, sealed);
            }
        }
    }
}

#[test]
fn authenticators_keys_are_the_first_block_of_the_key_stream() {
    // RFC 8439, appendix A.1, test vector 1: all zeros.
    let mut authenticator = [0; 32];
    apply(&mut [Message {
        key: &[0; 32],
        bytes: &mut [],
        authenticator: &mut authenticator,
    }]);
    let expected = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7";
    let found: String = authenticator.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, expected);
}
