//! ChaCha20, which WebAssembly computes with a function of ours: every length must give what RFC 8439 says.

use selfsame_sodium::aead::{self, Key};

/// Beyond four pairs of blocks, so that every way to end is met more than once.
const LONGEST: usize = 550;

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
