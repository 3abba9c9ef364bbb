//! Keyed BLAKE3 (the BLAKE3 paper, section 2).

use alloc::vec::Vec;

use fearless_simd::{Simd, SimdBase as _, dispatch};
use zeroize::Zeroize as _;

use crate::is_many;
use crate::lanes::{
    BLOCK_BYTES, MOST, Transposed, WORDS, level, load, rotate_right, splat, store, transpose, untranspose,
};

/// Length of a hash and of a key.
pub const HASH_BYTES: usize = 32;
/// Length of a chunk, the leaf of the tree over an input.
const CHUNK_BYTES: usize = 1024;

const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 1 << 1;
const PARENT: u32 = 1 << 2;
const ROOT: u32 = 1 << 3;
const KEYED_HASH: u32 = 1 << 4;

const IV: [u32; 4] = [0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A];
/// In which order the words of a block are taken in each round.
const SCHEDULE: [[usize; WORDS]; 7] = schedule();

const fn schedule() -> [[usize; WORDS]; 7] {
    const PERMUTATION: [usize; WORDS] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
    let mut all = [[0; WORDS]; 7];
    let mut word = 0;
    while word < WORDS {
        all[0][word] = word;
        word += 1;
    }
    let mut round = 1;
    while round < all.len() {
        let mut word = 0;
        while word < WORDS {
            all[round][word] = all[round - 1][PERMUTATION[word]];
            word += 1;
        }
        round += 1;
    }
    all
}

type Words = [u32; 8];

/// A chunk, or a parent of two nodes, that a lane hashes
#[derive(Clone, Copy, Debug)]
struct Node<'a> {
    bytes: &'a [u8],
    /// Which chunk of its input; 0 for parents.
    counter: u32,
    flags: u32,
}

impl<'a> Node<'a> {
    fn whole_block(&self, block: usize) -> Option<&'a [u8; BLOCK_BYTES]> {
        self.bytes.get(block * BLOCK_BYTES..)?.first_chunk()
    }

    fn blocks(&self) -> usize {
        self.bytes.len().div_ceil(BLOCK_BYTES).max(1)
    }

    fn flags_of(&self, block: usize) -> u32 {
        let is_last = block + 1 == self.blocks();
        let (start, end) = match self.flags & PARENT {
            0 => (CHUNK_START, CHUNK_END),
            _ => (0, 0),
        };
        let first = if block == 0 { start } else { 0 };
        let last = if is_last { end | (self.flags & ROOT) } else { 0 };
        (self.flags & !ROOT) | first | last
    }
}

/// The hashes of all inputs under one key, each what `blake3::keyed_hash` gives. Inputs of some chunks gain least, and those of many
/// chunks nothing.
pub fn keyed(key: &[u8; HASH_BYTES], inputs: &[&[u8]]) -> Vec<[u8; HASH_BYTES]> {
    if !is_many(inputs.len()) {
        return inputs
            .iter()
            .map(|input| blake3::keyed_hash(key, input).into())
            .collect();
    }
    let key = words_of(key);
    let mut nodes = Vec::with_capacity(inputs.len());
    let mut chunks = Vec::with_capacity(inputs.len());
    for input in inputs {
        let count = input.len().div_ceil(CHUNK_BYTES).max(1);
        let root = if count == 1 { ROOT } else { 0 };
        chunks.push(count);
        nodes.extend((0..count).map(|chunk| Node {
            bytes: &input[chunk * CHUNK_BYTES..input.len().min((chunk + 1) * CHUNK_BYTES)],
            counter: chunk as u32,
            flags: KEYED_HASH | root,
        }));
    }
    let mut hashes = hash(&key, &nodes);
    while chunks.iter().any(|count| *count > 1) {
        hashes = join(&key, &hashes, &mut chunks);
    }
    hashes
}

/// Joins each input's nodes in pairs; one that is left over waits.
fn join(key: &Words, hashes: &[[u8; HASH_BYTES]], counts: &mut [usize]) -> Vec<[u8; HASH_BYTES]> {
    let mut parents = Vec::new();
    let mut rest = hashes;
    for count in &*counts {
        let (nodes, others) = rest.split_at(*count);
        let root = if *count == 2 { ROOT } else { 0 };
        let pairs = nodes.as_flattened().chunks_exact(2 * HASH_BYTES);
        parents.extend(pairs.map(|bytes| Node {
            bytes,
            counter: 0,
            flags: KEYED_HASH | PARENT | root,
        }));
        rest = others;
    }
    let mut joined = hash(key, &parents).into_iter();
    let mut all = Vec::with_capacity(hashes.len());
    let mut rest = hashes;
    for count in counts {
        let (nodes, others) = rest.split_at(*count);
        all.extend(joined.by_ref().take(*count / 2));
        all.extend(nodes.last().filter(|_| *count % 2 == 1));
        *count = count.div_ceil(2);
        rest = others;
    }
    all
}

fn hash(key: &Words, nodes: &[Node<'_>]) -> Vec<[u8; HASH_BYTES]> {
    let mut hashes = alloc::vec![[0; HASH_BYTES]; nodes.len()];
    let is_sorted = nodes.is_sorted_by_key(Node::blocks);
    if is_sorted {
        dispatch!(level(), simd => hash_all(simd, key, nodes, &mut hashes));
        return hashes;
    }
    // Lanes of few blocks would wait for those of many: the last chunks of inputs beside whole ones.
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|place| nodes[*place].blocks());
    let sorted: Vec<Node<'_>> = order.iter().map(|place| nodes[*place]).collect();
    let mut sorted_hashes = hashes.clone();
    dispatch!(level(), simd => hash_all(simd, key, &sorted, &mut sorted_hashes));
    for (place, hash) in order.into_iter().zip(sorted_hashes) {
        hashes[place] = hash;
    }
    hashes
}

#[inline(always)]
fn hash_all<S: Simd>(simd: S, key: &Words, nodes: &[Node<'_>], hashes: &mut [[u8; HASH_BYTES]]) {
    let lanes = S::u32s::LEN;
    for (nodes, hashes) in nodes.chunks(lanes).zip(hashes.chunks_mut(lanes)) {
        hash_some(simd, key, nodes, hashes);
    }
}

/// Hashes as many nodes as there are lanes, or fewer.
#[inline(always)]
fn hash_some<S: Simd>(simd: S, key: &Words, nodes: &[Node<'_>], hashes: &mut [[u8; HASH_BYTES]]) {
    let mut chain = key.map(|word| splat(simd, word));
    let mut counters = [0; MOST];
    for (counter, node) in counters.iter_mut().zip(nodes) {
        *counter = node.counter;
    }
    let counter = load(simd, &counters);
    let most = nodes.iter().map(Node::blocks).max().unwrap_or(0);
    let mut words: Transposed = [[0; MOST]; WORDS];
    for block in 0..most {
        let lengths = take_block(simd, nodes, block, &mut words);
        let mut flags = [0; MOST];
        for (flags, node) in flags.iter_mut().zip(nodes) {
            *flags = node.flags_of(block);
        }
        let out = compress(
            simd,
            &chain,
            &words,
            [counter, load(simd, &lengths), load(simd, &flags)],
        );
        chain = core::array::from_fn(|word| out[word] ^ out[word + 8]);
        if nodes.iter().any(|node| node.blocks() == block + 1) {
            for (words, vector) in words.iter_mut().zip(chain) {
                store::<S>(vector, words);
            }
            let mut blocks = [[0; BLOCK_BYTES]; MOST];
            untranspose(simd, &words, &mut blocks);
            for ((node, hash), block_of) in nodes.iter().zip(&mut *hashes).zip(&blocks) {
                if node.blocks() == block + 1 {
                    hash.copy_from_slice(&block_of[..HASH_BYTES]);
                }
            }
        }
    }
}

/// Takes the same block of each node, filled up with zeros; how long each is without them.
#[inline(always)]
fn take_block<S: Simd>(simd: S, nodes: &[Node<'_>], block: usize, words: &mut Transposed) -> [u32; MOST] {
    let mut lengths = [0; MOST];
    let mut filled = [[0; BLOCK_BYTES]; MOST];
    for ((length, filled), node) in lengths.iter_mut().zip(&mut filled).zip(nodes) {
        *length = BLOCK_BYTES as u32;
        if node.whole_block(block).is_none() {
            let bytes = node.bytes.get(block * BLOCK_BYTES..).unwrap_or_default();
            *length = bytes.len() as u32;
            filled[..bytes.len()].copy_from_slice(bytes);
        }
    }
    let whole = |lane: usize| nodes.get(lane)?.whole_block(block);
    let blocks = core::array::from_fn(|lane| whole(lane).unwrap_or(&filled[lane]));
    transpose(simd, &blocks, words);
    lengths
}

/// The first 64 bytes of the output for each input of one block at most, under one secret key: what `keyed_hash` gives, and as much
/// again.
///
/// # Panics
/// When an input is longer than a block.
pub fn keyed_wide(key: &[u8; HASH_BYTES], inputs: &[&[u8]]) -> Vec<[u8; 2 * HASH_BYTES]> {
    let mut key = words_of(key);
    let outputs = wide(&[key], inputs.iter().copied());
    key.zeroize();
    outputs
}

/// What [`keyed_wide`] gives for each input under its own secret key.
///
/// # Panics
/// When an input is longer than a block.
pub fn keyed_wide_each(inputs: &[(&[u8; HASH_BYTES], &[u8])]) -> Vec<[u8; 2 * HASH_BYTES]> {
    let mut keys: Vec<Words> = inputs.iter().map(|(key, _)| words_of(key)).collect();
    let outputs = wide(&keys, inputs.iter().map(|(_, input)| *input));
    keys.zeroize();
    outputs
}

/// One key for all inputs, or one for each.
fn wide<'a>(keys: &[Words], inputs: impl Iterator<Item = &'a [u8]>) -> Vec<[u8; 2 * HASH_BYTES]> {
    let inputs: Vec<&[u8]> = inputs.collect();
    assert!(
        inputs.iter().all(|input| input.len() <= BLOCK_BYTES),
        "an input is longer than a block"
    );
    let mut outputs = alloc::vec![[0; 2 * HASH_BYTES]; inputs.len()];
    dispatch!(level(), simd => wide_all(simd, keys, &inputs, &mut outputs));
    outputs
}

#[inline(always)]
fn wide_all<S: Simd>(simd: S, keys: &[Words], inputs: &[&[u8]], outputs: &mut [[u8; 2 * HASH_BYTES]]) {
    let lanes = S::u32s::LEN;
    let mut chain = keys
        .first()
        .map_or([0; 8], |key| *key)
        .map(|word| splat(simd, word));
    let flags = splat(simd, KEYED_HASH | CHUNK_START | CHUNK_END | ROOT);
    let mut words: Transposed = [[0; MOST]; WORDS];
    let mut blocks = [[0; BLOCK_BYTES]; MOST];
    for (number, (inputs, outputs)) in inputs.chunks(lanes).zip(outputs.chunks_mut(lanes)).enumerate() {
        if keys.len() > 1 {
            for (lane, key) in keys[number * lanes..].iter().take(lanes).enumerate() {
                for (words, word) in words.iter_mut().zip(key) {
                    words[lane] = *word;
                }
            }
            chain = core::array::from_fn(|word| load(simd, &words[word]));
        }
        let mut lengths = [0; MOST];
        for ((length, block), input) in lengths.iter_mut().zip(&mut blocks).zip(inputs) {
            *length = input.len() as u32;
            *block = [0; BLOCK_BYTES];
            block[..input.len()].copy_from_slice(input);
        }
        transpose(simd, &blocks.each_ref(), &mut words);
        let out = compress(
            simd,
            &chain,
            &words,
            [splat(simd, 0), load(simd, &lengths), flags],
        );
        for (word, words) in words.iter_mut().enumerate() {
            let other = if word < 8 { out[word + 8] } else { chain[word - 8] };
            store::<S>(out[word] ^ other, words);
        }
        untranspose(simd, &words, &mut blocks);
        outputs.copy_from_slice(&blocks[..outputs.len()]);
    }
    words.zeroize();
    blocks.zeroize();
}

/// The compression function before its last step, which joins the halves: counters below 2^32, lengths and flags.
#[inline(always)]
fn compress<S: Simd>(
    simd: S,
    chain: &[S::u32s; 8],
    block: &Transposed,
    [counter, length, flags]: [S::u32s; 3],
) -> [S::u32s; WORDS] {
    let m: [S::u32s; WORDS] = core::array::from_fn(|word| load(simd, &block[word]));
    let iv = IV.map(|word| splat(simd, word));
    let zero = splat(simd, 0);
    let [c0, c1, c2, c3, c4, c5, c6, c7] = *chain;
    let [i0, i1, i2, i3] = iv;
    let mut v = [
        c0, c1, c2, c3, c4, c5, c6, c7, i0, i1, i2, i3, counter, zero, length, flags,
    ];
    round::<S>(&mut v, &m, &SCHEDULE[0]);
    round::<S>(&mut v, &m, &SCHEDULE[1]);
    round::<S>(&mut v, &m, &SCHEDULE[2]);
    round::<S>(&mut v, &m, &SCHEDULE[3]);
    round::<S>(&mut v, &m, &SCHEDULE[4]);
    round::<S>(&mut v, &m, &SCHEDULE[5]);
    round::<S>(&mut v, &m, &SCHEDULE[6]);
    v
}

#[inline(always)]
fn round<S: Simd>(v: &mut [S::u32s; WORDS], m: &[S::u32s; WORDS], order: &[usize; WORDS]) {
    let at = |place: usize| (m[order[place]], m[order[place + 1]]);
    mix::<S>(v, [0, 4, 8, 12], at(0));
    mix::<S>(v, [1, 5, 9, 13], at(2));
    mix::<S>(v, [2, 6, 10, 14], at(4));
    mix::<S>(v, [3, 7, 11, 15], at(6));
    mix::<S>(v, [0, 5, 10, 15], at(8));
    mix::<S>(v, [1, 6, 11, 12], at(10));
    mix::<S>(v, [2, 7, 8, 13], at(12));
    mix::<S>(v, [3, 4, 9, 14], at(14));
}

#[inline(always)]
fn mix<S: Simd>(v: &mut [S::u32s; WORDS], [a, b, c, d]: [usize; 4], (x, y): (S::u32s, S::u32s)) {
    v[a] = v[a] + v[b] + x;
    v[d] = rotate_right::<S, 16>(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_right::<S, 12>(v[b] ^ v[c]);
    v[a] = v[a] + v[b] + y;
    v[d] = rotate_right::<S, 8>(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_right::<S, 7>(v[b] ^ v[c]);
}

fn words_of(key: &[u8; HASH_BYTES]) -> Words {
    let (words, _) = key.as_chunks();
    core::array::from_fn(|word| u32::from_le_bytes(words[word]))
}
