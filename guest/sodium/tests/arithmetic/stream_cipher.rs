//! ChaCha20-Poly1305, which WebAssembly computes with functions of ours: every length must give what RFC 8439 says.

use selfsame_sodium::aead::{self, Key};

use super::scalars::digest;

/// Beyond the start of a message and two times what follows at once, so that every way to end is met more than once.
const LONGEST: usize = 550;
/// More than three blocks of the authenticator, less one byte.
const LONGEST_AD: usize = 50;
/// The hash of the tags of all lengths, in their order.
const TAGS: &str = "d24be9eb1bc3bfb098a38a9b4bffc201fca2b99755820e3f98fa6c2736cfc8f9";

fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (x, y, z, bits) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[x] = state[x].wrapping_add(state[y]);
        state[z] = (state[z] ^ state[x]).rotate_left(bits);
    }
}

/// One block of the key stream (RFC 8439, section 2.3).
fn block(key: &[u8; 32], counter: u32, nonce: &[u8; 12]) -> Vec<u8> {
    let words = |bytes: &[u8]| -> Vec<u32> {
        let word = |word: &[u8]| u32::from_le_bytes(word.try_into().expect("four bytes"));
        bytes.chunks_exact(4).map(word).collect()
    };
    let start = [
        words(b"expand 32-byte k"),
        words(key),
        vec![counter],
        words(nonce),
    ]
    .concat();
    let start: [u32; 16] = start.try_into().expect("sixteen words");
    let mut state = start;
    for _ in 0..10 {
        for column in 0..4 {
            quarter_round(&mut state, [column, column + 4, column + 8, column + 12]);
        }
        for diagonal in 0..4 {
            let around = |row: usize| 4 * row + (diagonal + row) % 4;
            quarter_round(&mut state, [around(0), around(1), around(2), around(3)]);
        }
    }
    let sums = state
        .iter()
        .zip(start)
        .map(|(word, first)| word.wrapping_add(first));
    sums.flat_map(u32::to_le_bytes).collect()
}

/// Compares with a ChaCha20 written out as the standard has it.
#[cfg_attr(test, test)]
pub(crate) fn every_length_is_encrypted_with_the_stream_of_the_standard() {
    let key: [u8; 32] = core::array::from_fn(|at| at as u8 * 7 + 1);
    let nonce: [u8; 12] = core::array::from_fn(|at| at as u8 * 5 + 3);
    let stream: Vec<u8> = (1..=10)
        .flat_map(|counter| block(&key, counter, &nonce))
        .collect();
    for len in 0..=LONGEST {
        let text: Vec<u8> = (0..len).map(|at| (at * 31) as u8).collect();
        let mut sealed = text.clone();
        let tag = aead::seal_in_place(&Key::new(key), &nonce, b"", &mut sealed);
        let expected: Vec<u8> = text.iter().zip(&stream).map(|(byte, key)| byte ^ key).collect();
        assert_eq!(sealed, expected, "{len} bytes");
        let opened = aead::open_in_place(&Key::new(key), &nonce, b"", &mut sealed, &tag);
        assert!(opened.is_ok() && sealed == text, "{len} bytes");
    }
}

/// Compares with native code's tags.
#[cfg_attr(test, test)]
pub(crate) fn every_length_is_authenticated_the_same_everywhere() {
    let key: [u8; 32] = core::array::from_fn(|at| at as u8 * 3 + 5);
    let ad: [u8; LONGEST_AD] = core::array::from_fn(|at| (at * 11) as u8);
    let mut tags = blake3::Hasher::new();
    for len in 0..=LONGEST {
        let (key, ad, text) = (Key::new(key), &ad[..len % LONGEST_AD], vec![len as u8; len]);
        let mut sealed = text.clone();
        let tag = aead::seal_in_place(&key, &[9; 12], ad, &mut sealed);
        tags.update(&tag);
        let mut forged = tag;
        forged[len % tag.len()] ^= 1;
        let mut opened = sealed.clone();
        assert!(aead::open_in_place(&key, &[9; 12], ad, &mut opened, &forged).is_err());
        assert_eq!(opened, vec![0; len], "{len} bytes of nothing");
        assert!(aead::open_in_place(&key, &[9; 12], ad, &mut sealed, &tag).is_ok());
        assert_eq!(sealed, text);
    }
    assert_eq!(digest(&tags), TAGS);
}
