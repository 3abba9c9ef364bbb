//! The results are those of the functions for one input.

use selfsame_multibuffer::{Message, apply, keyed, keyed_each, keyed_wide, keyed_wide_each, tags};
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

/// The tag as libsodium has it, of what ChaCha20-Poly1305 takes of a ciphertext without associated data.
fn tag_of(key: &[u8; 32], cipher: &[u8]) -> [u8; 16] {
    let mut padded = cipher.to_vec();
    padded.resize(cipher.len().next_multiple_of(16), 0);
    padded.extend_from_slice(&0_u64.to_le_bytes());
    padded.extend_from_slice(&(cipher.len() as u64).to_le_bytes());
    aead::authenticate(key, &padded)
}

#[track_caller]
fn same_tags(keys: &[[u8; 32]], ciphers: &[Vec<u8>]) {
    let sealed: Vec<_> = keys
        .iter()
        .zip(ciphers)
        .map(|(key, cipher)| (key, cipher.as_slice()))
        .collect();
    // Elsewhere they are faster one after the other.
    let Some(all) = tags(&sealed) else { return };
    assert_eq!(all.len(), sealed.len());
    for ((key, cipher), tag) in sealed.into_iter().zip(all) {
        assert_eq!(tag_of(key, cipher), tag, "{} bytes, key {key:02x?}", cipher.len());
    }
}

#[test]
fn tags_of_all_lengths_are_those_of_libsodium() {
    for count in [8, 9, 15, 16, 17, 33, 100] {
        let keys: Vec<_> = (0..count).map(|n| key(n + 7)).collect();
        for first in (0..1_200).step_by(37) {
            let equal: Vec<_> = (0..count).map(|n| bytes(n, first)).collect();
            same_tags(&keys, &equal);
            let others: Vec<_> = (0..count)
                .map(|n| bytes(n, first + (n as usize * 29) % 310))
                .collect();
            same_tags(&keys, &others);
        }
    }
}

#[test]
fn tags_of_numbers_at_the_edge_are_those_of_libsodium() {
    // Keys and ciphertexts whose limbs are as long as they can be, sums about 2^130 - 5, and factors of 0, 1 and 2.
    let halves = |first: u128, second: u128| {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&first.to_le_bytes());
        key[16..].copy_from_slice(&second.to_le_bytes());
        key
    };
    let factors = [
        0,
        1,
        2,
        4,
        5,
        u128::MAX,
        u128::MAX - 4,
        1 << 127,
        1 << 64,
        (1 << 44) - 1,
        (1 << 88) - 1,
    ];
    let fills = [0x00, 0x01, 0x7f, 0x80, 0xfb, 0xff];
    let mut keys = Vec::new();
    let mut ciphers = Vec::new();
    for first in factors {
        for second in [0, 1, u128::MAX] {
            for fill in fills {
                for len in [0, 1, 15, 16, 17, 48, 63, 64, 65, 1040] {
                    keys.push(halves(first, second));
                    let mut cipher = vec![fill; len];
                    if let (Some(byte), true) = (cipher.first_mut(), fill == 0xff) {
                        *byte = 0xfb;
                    }
                    ciphers.push(cipher);
                }
            }
        }
    }
    same_tags(&keys, &ciphers);
}

#[test]
fn tags_that_can_be_counted_by_hand_are_right() {
    let key = |factor: u8, second: u8| {
        let mut key = [0; 32];
        (key[0], key[16]) = (factor, second);
        key
    };
    let first = |key: &[u8; 32]| {
        let cipher: &[u8] = &[0; 16];
        let found = tags(&[(key, cipher); 8])?;
        assert!(found.iter().all(|tag| *tag == found[0]));
        Some(u128::from_le_bytes(found[0]))
    };
    let Some(found) = first(&key(0, 9)) else { return };
    // Times 0 all is 0, and only the key's second half is left.
    assert_eq!(found, 9);
    // Times 1: 2^128, then the length 16 in the second half of a step, and 2^128 more; what is above 2^128 is cut.
    assert_eq!(first(&key(1, 0)), Some(16 << 64));
    // Times 2 each: 4 * 2^128 + 2 * 2^128 + 2 * 16 * 2^64, and each 2^130 counts 5.
    assert_eq!(first(&key(2, 0)), Some(5 + ((2 * 16) << 64)));
}
