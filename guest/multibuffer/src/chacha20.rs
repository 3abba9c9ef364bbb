//! ChaCha20 with a nonce of zeros, for keys that are used once (RFC 8439, section 2.3).

use alloc::vec::Vec;

use crate::lanes::{
    BLOCK_BYTES, COLUMNS, DIAGONALS, MOST, WORDS, Words, level, load, rotate_right, splat, together,
    untranspose, wipe,
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
    let (mut runs, mut others) = (Vec::new(), Vec::with_capacity(messages.len()));
    for (message, of) in messages.iter().enumerate() {
        let count = of.bytes.len().div_ceil(BLOCK_BYTES) as u32 + 1;
        let whole = count - count % lanes;
        runs.extend(
            (0..whole)
                .step_by(S::u32s::LEN)
                .map(|block| Block { message, block }),
        );
        others.extend((whole..count).map(|block| Block { message, block }));
    }
    let runs = runs.iter().map(|first| Lanes::Run(*first));
    let groups: Vec<Lanes<'_>> = runs
        .chain(others.chunks(S::u32s::LEN).map(Lanes::Shared))
        .collect();
    for groups in groups.chunks(together::<S>()) {
        let start = groups[0].start(simd, messages, &mut stream.keys);
        if let Some(group) = groups.get(1) {
            let other = group.start(simd, messages, &mut second.keys);
            make_two(simd, [start, other], [&mut stream.blocks, &mut second.blocks]);
            group.take(messages, &second.blocks[..S::u32s::LEN]);
        } else {
            make(simd, start, &mut stream.blocks);
        }
        groups[0].take(messages, &stream.blocks[..S::u32s::LEN]);
    }
    stream.wipe();
    second.wipe();
}

/// A block of the key stream of a message
#[derive(Clone, Copy)]
struct Block {
    message: usize,
    block: u32,
}

/// What the lanes make
enum Lanes<'a> {
    /// As many blocks of one message as there are lanes, from this one on.
    Run(Block),
    /// One block each.
    Shared(&'a [Block]),
}

impl Lanes<'_> {
    /// What the blocks are made from.
    #[inline(always)]
    fn start<S: Simd>(&self, simd: S, messages: &[Message<'_>], keys: &mut [[u32; MOST]; 8]) -> Words<S> {
        let mut numbers = [0; MOST];
        let mut key = [splat(simd, 0); 8];
        match *self {
            Self::Run(Block { message, block }) => {
                for (key, word) in key.iter_mut().zip(words_of(messages[message].key)) {
                    *key = splat(simd, word);
                }
                for (number, block) in numbers.iter_mut().zip(block..) {
                    *number = block;
                }
            }
            Self::Shared(blocks) => {
                for (lane, Block { message, block }) in blocks.iter().enumerate() {
                    for (words, word) in keys.iter_mut().zip(words_of(messages[*message].key)) {
                        words[lane] = word;
                    }
                    numbers[lane] = *block;
                }
                for (key, words) in key.iter_mut().zip(keys) {
                    *key = load(simd, words);
                }
            }
        }
        begin(simd, &key, load(simd, &numbers))
    }

    /// Gives the messages what was made.
    #[inline(always)]
    fn take(&self, messages: &mut [Message<'_>], streams: &[[u8; BLOCK_BYTES]]) {
        match *self {
            Self::Run(Block { message, block }) => messages[message].take_all(block, streams),
            Self::Shared(blocks) => {
                for (Block { message, block }, stream) in blocks.iter().zip(streams) {
                    messages[*message].take(*block, stream);
                }
            }
        }
    }
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
            add(block, stream);
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

impl Stream {
    fn wipe(&mut self) {
        wipe(&mut self.keys, [0; MOST]);
        wipe(&mut self.blocks, [0; BLOCK_BYTES]);
    }
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
    half::<S, N, 16, 20>(&mut each, COLUMNS);
    half::<S, N, 24, 25>(&mut each, COLUMNS);
    half::<S, N, 16, 20>(&mut each, DIAGONALS);
    half::<S, N, 24, 25>(&mut each, DIAGONALS);
}

#[inline(always)]
fn half<S: Simd, const N: usize, const FIRST: u32, const SECOND: u32>(
    each: &mut [&mut Words<S>; N],
    words: [[usize; 4]; 4],
) {
    for v in each {
        quarter::<S, FIRST, SECOND>(v, words[0]);
        quarter::<S, FIRST, SECOND>(v, words[1]);
        quarter::<S, FIRST, SECOND>(v, words[2]);
        quarter::<S, FIRST, SECOND>(v, words[3]);
    }
}

#[inline(always)]
fn quarter<S: Simd, const FIRST: u32, const SECOND: u32>(v: &mut Words<S>, [a, b, c, d]: [usize; 4]) {
    v[a] += v[b];
    v[d] = rotate_right::<S, FIRST>(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_right::<S, SECOND>(v[b] ^ v[c]);
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
                *part = (u128::from_le_bytes(*part) ^ u128::from_le_bytes(*stream)).to_le_bytes();
            }
            let behind = &stream[parts.len() * PART_BYTES..];
            for (byte, key) in rest.iter_mut().zip(behind) {
                *byte ^= key;
            }
        }
    }
}

/// What is masked at a time of less than a block.
const PART_BYTES: usize = size_of::<u128>();

#[inline(always)]
fn add(bytes: &mut [u8; BLOCK_BYTES], stream: &[u8; BLOCK_BYTES]) {
    for (byte, key) in bytes.iter_mut().zip(stream) {
        *byte ^= key;
    }
}
