//! ChaCha20 with a nonce of zeros, for keys that are used once (RFC 8439, section 2.3).

use alloc::vec::Vec;

use fearless_simd::{Simd, SimdBase as _, dispatch};
use zeroize::Zeroize as _;

use crate::lanes::{
    BLOCK_BYTES, MOST, Transposed, WORDS, level, load, rotate_right, splat, store, untranspose,
};

/// Length of a key.
pub const KEY_BYTES: usize = 32;

const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// What one key encrypts
#[derive(Debug)]
pub struct Message<'a> {
    /// The key, which is used for nothing else.
    pub key: &'a [u8; KEY_BYTES],
    /// What is encrypted or decrypted in place, with the key stream from block 1 on.
    pub bytes: &'a mut [u8],
    /// Becomes the first half of block 0: the key of the message's authenticator (section 2.6).
    pub authenticator: &'a mut [u8; KEY_BYTES],
}

/// Encrypts or decrypts all messages.
pub fn apply(messages: &mut [Message<'_>]) {
    let blocks = messages
        .iter()
        .enumerate()
        .flat_map(|(message, Message { bytes, .. })| {
            let count = bytes.len().div_ceil(BLOCK_BYTES) as u32;
            (0..=count).map(move |block| (message, block))
        });
    let blocks: Vec<(usize, u32)> = blocks.collect();
    dispatch!(level(), simd => apply_all(simd, messages, &blocks));
}

#[inline(always)]
fn apply_all<S: Simd>(simd: S, messages: &mut [Message<'_>], blocks: &[(usize, u32)]) {
    let mut words: Transposed = [[0; MOST]; WORDS];
    let mut stream = [[0; BLOCK_BYTES]; MOST];
    for blocks in blocks.chunks(S::u32s::LEN) {
        for (lane, (message, block)) in blocks.iter().enumerate() {
            let (key, _) = messages[*message].key.as_chunks();
            for (word, bytes) in words[4..12].iter_mut().zip(key) {
                word[lane] = u32::from_le_bytes(*bytes);
            }
            words[12][lane] = *block;
        }
        make_stream(simd, &mut words);
        untranspose(simd, &words, &mut stream);
        for ((message, block), stream) in blocks.iter().zip(&stream) {
            let message = &mut messages[*message];
            match block.checked_sub(1) {
                None => message.authenticator.copy_from_slice(&stream[..KEY_BYTES]),
                Some(before) => mask(&mut message.bytes[before as usize * BLOCK_BYTES..], stream),
            }
        }
    }
    stream.zeroize();
    words.zeroize();
}

/// Turns keys in words 4 to 11 and block numbers in word 12 into blocks of the key stream.
#[inline(always)]
fn make_stream<S: Simd>(simd: S, words: &mut Transposed) {
    let before: [S::u32s; WORDS] = core::array::from_fn(|word| match word {
        0..4 => splat(simd, CONSTANTS[word]),
        4..13 => load(simd, &words[word]),
        _ => splat(simd, 0),
    });
    let mut v = before;
    for _ in 0..10 {
        quarter::<S>(&mut v, [0, 4, 8, 12]);
        quarter::<S>(&mut v, [1, 5, 9, 13]);
        quarter::<S>(&mut v, [2, 6, 10, 14]);
        quarter::<S>(&mut v, [3, 7, 11, 15]);
        quarter::<S>(&mut v, [0, 5, 10, 15]);
        quarter::<S>(&mut v, [1, 6, 11, 12]);
        quarter::<S>(&mut v, [2, 7, 8, 13]);
        quarter::<S>(&mut v, [3, 4, 9, 14]);
    }
    for (word, (v, before)) in words.iter_mut().zip(v.into_iter().zip(before)) {
        store::<S>(v + before, word);
    }
}

#[inline(always)]
fn quarter<S: Simd>(v: &mut [S::u32s; WORDS], [a, b, c, d]: [usize; 4]) {
    v[a] += v[b];
    v[d] = rotate_right::<S, 16>(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_right::<S, 20>(v[b] ^ v[c]);
    v[a] += v[b];
    v[d] = rotate_right::<S, 24>(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_right::<S, 25>(v[b] ^ v[c]);
}

/// Adds a block of the key stream to the first bytes.
#[inline(always)]
fn mask(bytes: &mut [u8], stream: &[u8; BLOCK_BYTES]) {
    match bytes.first_chunk_mut::<BLOCK_BYTES>() {
        Some(block) => {
            for (byte, key) in block.iter_mut().zip(stream) {
                *byte ^= key;
            }
        }
        None => {
            for (byte, key) in bytes.iter_mut().zip(stream) {
                *byte ^= key;
            }
        }
    }
}
