//! ChaCha20 with a nonce of zeros, for keys that are used once (RFC 8439, section 2.3).

use alloc::vec::Vec;

use crate::lanes::{
    BLOCK_BYTES, MOST, WORDS, Words, level, load, rotate_right, splat, together, untranspose, wipe,
};
use fearless_simd::{Simd, SimdBase as _, dispatch};

/// Pairs of rounds: one of columns, one of diagonals.
const DOUBLE_ROUNDS: usize = 10;

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
    let (mut stream, mut second) = (Stream::default(), Stream::default());
    let lanes = S::u32s::LEN as u32;
    // Which blocks of a message have the lanes for themselves, from the first one on, and which share them with those of others.
    let (mut alone, mut others) = (Vec::new(), Vec::with_capacity(messages.len()));
    for (place, message) in messages.iter().enumerate() {
        let count = message.bytes.len().div_ceil(BLOCK_BYTES) as u32 + 1;
        let shared = count - count % lanes;
        alone.extend((0..shared).step_by(S::u32s::LEN).map(|first| (place, first)));
        others.extend((shared..count).map(|block| (place, block)));
    }
    for blocks in alone.chunks(together::<S>()) {
        let start = |(place, first): (usize, u32)| {
            let key = words_of(messages[place].key).map(|word| splat(simd, word));
            let numbers: [u32; MOST] = core::array::from_fn(|lane| first + lane as u32);
            begin(simd, &key, load(simd, &numbers))
        };
        if let [one, two] = *blocks {
            make_two(
                simd,
                [start(one), start(two)],
                [&mut stream.blocks, &mut second.blocks],
            );
            messages[two.0].take_all(two.1, &second.blocks[..S::u32s::LEN]);
        } else {
            make(simd, start(blocks[0]), &mut stream.blocks);
        }
        let (place, first) = blocks[0];
        messages[place].take_all(first, &stream.blocks[..S::u32s::LEN]);
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
        make(simd, begin(simd, &key, load(simd, &numbers)), &mut stream.blocks);
        for ((place, block), stream) in blocks.iter().zip(&stream.blocks) {
            messages[*place].take(*block, stream);
        }
    }
    wipe(&mut second.blocks, [0; BLOCK_BYTES]);
    wipe(&mut stream.keys, [0; MOST]);
    wipe(&mut stream.blocks, [0; BLOCK_BYTES]);
}

fn words_of(key: &[u8; KEY_BYTES]) -> [u32; 8] {
    let (words, _) = key.as_chunks();
    core::array::from_fn(|word| u32::from_le_bytes(words[word]))
}

impl Message<'_> {
    /// Takes blocks of its key stream, from one on.
    #[inline(always)]
    fn take_all(&mut self, first: u32, streams: &[[u8; BLOCK_BYTES]]) {
        let mut streams = streams.iter();
        if first == 0
            && let Some(stream) = streams.next()
        {
            self.take(0, stream);
        }
        let (blocks, rest) = self.bytes[first.saturating_sub(1) as usize * BLOCK_BYTES..].as_chunks_mut();
        for (block, stream) in blocks.iter_mut().zip(&mut streams) {
            add::<BLOCK_BYTES>(block, stream);
        }
        if let Some(stream) = streams.next() {
            mask(rest, stream);
        }
    }

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

/// What the blocks with these numbers of the streams of keys are made from.
#[inline(always)]
fn begin<S: Simd>(simd: S, key: &[S::u32s; 8], numbers: S::u32s) -> Words<S> {
    let mut words = [splat(simd, 0); WORDS];
    for (word, constant) in words.iter_mut().zip(CONSTANTS) {
        *word = splat(simd, constant);
    }
    words[4..12].copy_from_slice(key);
    words[12] = numbers;
    words
}

/// Makes a block in each lane.
#[inline(always)]
fn make<S: Simd>(simd: S, before: Words<S>, blocks: &mut [[u8; BLOCK_BYTES]; MOST]) {
    let mut v = before;
    for _ in 0..DOUBLE_ROUNDS {
        quarters::<S, _>([&mut v]);
    }
    end(simd, v, before, blocks);
}

/// Makes two blocks in each lane, the steps of both by turns.
#[inline(always)]
fn make_two<S: Simd>(simd: S, before: [Words<S>; 2], blocks: [&mut [[u8; BLOCK_BYTES]; MOST]; 2]) {
    let [mut v, mut w] = before;
    for _ in 0..DOUBLE_ROUNDS {
        quarters::<S, _>([&mut v, &mut w]);
    }
    let [of_v, of_w] = blocks;
    end(simd, v, before[0], of_v);
    end(simd, w, before[1], of_w);
}

#[inline(always)]
fn end<S: Simd>(simd: S, mut v: Words<S>, before: Words<S>, blocks: &mut [[u8; BLOCK_BYTES]; MOST]) {
    for (word, before) in v.iter_mut().zip(before) {
        *word += before;
    }
    untranspose(simd, &v, blocks);
}

/// Two rounds of each.
#[inline(always)]
fn quarters<S: Simd, const N: usize>(mut each: [&mut Words<S>; N]) {
    quarter_of_each::<S, N>(&mut each, [0, 4, 8, 12]);
    quarter_of_each::<S, N>(&mut each, [1, 5, 9, 13]);
    quarter_of_each::<S, N>(&mut each, [2, 6, 10, 14]);
    quarter_of_each::<S, N>(&mut each, [3, 7, 11, 15]);
    quarter_of_each::<S, N>(&mut each, [0, 5, 10, 15]);
    quarter_of_each::<S, N>(&mut each, [1, 6, 11, 12]);
    quarter_of_each::<S, N>(&mut each, [2, 7, 8, 13]);
    quarter_of_each::<S, N>(&mut each, [3, 4, 9, 14]);
}

#[inline(always)]
fn quarter_of_each<S: Simd, const N: usize>(each: &mut [&mut Words<S>; N], words: [usize; 4]) {
    for v in each {
        quarter::<S>(v, words);
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
