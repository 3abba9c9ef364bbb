//! ChaCha20 with a nonce of zeros, for keys that are used once (RFC 8439, section 2.3).

use alloc::vec::Vec;

use crate::lanes::{BLOCK_BYTES, MOST, WORDS, Words, level, load, rotate_right, splat, untranspose, wipe};
use fearless_simd::{Simd, SimdBase as _, dispatch};

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
    dispatch!(level(), simd => apply_all(simd, messages));
}

#[inline(always)]
fn apply_all<S: Simd>(simd: S, messages: &mut [Message<'_>]) {
    let mut stream = Stream::default();
    let lanes = S::u32s::LEN as u32;
    // Blocks for which their message has no lanes full: they share lanes with those of others.
    let mut others: Vec<(usize, u32)> = Vec::with_capacity(messages.len());
    for (place, message) in messages.iter_mut().enumerate() {
        let count = message.bytes.len().div_ceil(BLOCK_BYTES) as u32 + 1;
        let shared = count - count % lanes;
        for first in (0..shared).step_by(S::u32s::LEN) {
            let key = words_of(message.key).map(|word| splat(simd, word));
            let numbers: [u32; MOST] = core::array::from_fn(|lane| first + lane as u32);
            stream.make(simd, &key, load(simd, &numbers));
            for (block, stream) in (first..first + lanes).zip(&stream.blocks) {
                message.take(block, stream);
            }
        }
        others.extend((shared..count).map(|block| (place, block)));
    }
    for blocks in others.chunks(S::u32s::LEN) {
        let mut numbers = [0; MOST];
        for (lane, (place, block)) in blocks.iter().enumerate() {
            let key = words_of(messages[*place].key);
            for (words, word) in stream.keys.iter_mut().zip(key) {
                words[lane] = word;
            }
            numbers[lane] = *block;
        }
        let key = core::array::from_fn(|word| load(simd, &stream.keys[word]));
        stream.make(simd, &key, load(simd, &numbers));
        for ((place, block), stream) in blocks.iter().zip(&stream.blocks) {
            messages[*place].take(*block, stream);
        }
    }
    wipe(&mut stream.keys, [0; MOST]);
    wipe(&mut stream.blocks, [0; BLOCK_BYTES]);
}

fn words_of(key: &[u8; KEY_BYTES]) -> [u32; 8] {
    let (words, _) = key.as_chunks();
    core::array::from_fn(|word| u32::from_le_bytes(words[word]))
}

impl Message<'_> {
    /// Takes a block of its key stream.
    #[inline(always)]
    fn take(&mut self, block: u32, stream: &[u8; BLOCK_BYTES]) {
        match block.checked_sub(1) {
            None => self.authenticator.copy_from_slice(&stream[..KEY_BYTES]),
            Some(before) => mask(&mut self.bytes[before as usize * BLOCK_BYTES..], stream),
        }
    }
}

/// Blocks of key streams, one in each lane
struct Stream {
    /// The words of each lane's key.
    keys: [[u32; MOST]; 8],
    blocks: [[u8; BLOCK_BYTES]; MOST],
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            keys: [[0; MOST]; 8],
            blocks: [[0; BLOCK_BYTES]; MOST],
        }
    }
}

impl Stream {
    /// Makes the blocks with these numbers of the streams of keys.
    #[inline(always)]
    fn make<S: Simd>(&mut self, simd: S, key: &[S::u32s; 8], numbers: S::u32s) {
        let mut before: Words<S> = [splat(simd, 0); WORDS];
        for (word, constant) in before.iter_mut().zip(CONSTANTS) {
            *word = splat(simd, constant);
        }
        before[4..12].copy_from_slice(key);
        before[12] = numbers;
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
        for (word, before) in v.iter_mut().zip(before) {
            *word += before;
        }
        untranspose(simd, &v, &mut self.blocks);
    }
}

#[inline(always)]
fn quarter<S: Simd>(v: &mut Words<S>, [a, b, c, d]: [usize; 4]) {
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
        Some(block) => add(block, stream),
        None => {
            let (parts, rest) = bytes.as_chunks_mut::<PART_BYTES>();
            let (streams, _) = stream.as_chunks();
            for (part, stream) in parts.iter_mut().zip(streams) {
                add(part, stream);
            }
            let behind = &stream[parts.len() * PART_BYTES..];
            for (byte, key) in rest.iter_mut().zip(behind) {
                *byte ^= key;
            }
        }
    }
}

/// What is masked at a time of less than a block.
const PART_BYTES: usize = 16;

#[inline(always)]
fn add<const N: usize>(bytes: &mut [u8; N], stream: &[u8; N]) {
    for (byte, key) in bytes.iter_mut().zip(stream) {
        *byte ^= key;
    }
}
