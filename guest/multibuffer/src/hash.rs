//! Keyed BLAKE3 (the BLAKE3 paper, section 2).

use alloc::vec::Vec;
use core::hint::black_box;

use fearless_simd::{Simd, SimdBase as _, dispatch};

use crate::is_many;
use crate::lanes::{
    BLOCK_BYTES, COLUMNS, DIAGONALS, MOST, WORDS, Words as Vectors, level, load, rotate_right, splat,
    together, transpose, untranspose,
};

/// Length of a hash and of a key.
pub const HASH_BYTES: usize = 32;
/// Length of a chunk, the leaf of the tree over an input.
const CHUNK_BYTES: usize = 1024;
const CHUNK_BLOCKS: usize = CHUNK_BYTES / BLOCK_BYTES;

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

/// Under which keys nodes are hashed
enum Keys<'a> {
    /// All under one.
    One(Words),
    /// Each under that of its place.
    Each(&'a [[u8; HASH_BYTES]]),
}

impl Keys<'_> {
    /// What the nodes of these places begin with.
    #[inline(always)]
    fn chain<S: Simd>(&self, simd: S, places: &[usize]) -> [S::u32s; 8] {
        match self {
            Self::One(key) => key.map(|word| splat(simd, word)),
            Self::Each(all) => {
                let mut blocks = [[0; BLOCK_BYTES]; MOST];
                for (block, place) in blocks.iter_mut().zip(places) {
                    block[..HASH_BYTES].copy_from_slice(&all[*place]);
                }
                let words = transpose(simd, &blocks.each_ref());
                core::array::from_fn(|word| words[word])
            }
        }
    }
}

/// A chunk, or a parent of two nodes, that a lane hashes
#[derive(Clone, Copy, Debug)]
struct Node<'a> {
    bytes: &'a [u8],
    /// Which chunk of its input; 0 for parents.
    counter: u32,
    flags: u32,
}

impl Node<'_> {
    const NOTHING: Self = Self {
        bytes: &[],
        counter: 0,
        flags: 0,
    };

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
    if !is_many(inputs.len(), inputs.iter().map(|input| input.len()).sum()) {
        return inputs
            .iter()
            .map(|input| blake3::keyed_hash(key, input).into())
            .collect();
    }
    let key = Keys::One(words_of(key));
    let mut chunks: Vec<usize> = inputs
        .iter()
        .map(|input| input.len().div_ceil(CHUNK_BYTES).max(1))
        .collect();
    let mut nodes = Vec::with_capacity(chunks.iter().sum());
    for (input, count) in inputs.iter().zip(&chunks) {
        let root = if *count == 1 { ROOT } else { 0 };
        nodes.extend((0..*count).map(|chunk| Node {
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

/// What [`keyed`] gives for each input under its own key.
///
/// # Panics
/// When an input is longer than a chunk, or there are not as many keys.
pub fn keyed_each(keys: &[[u8; HASH_BYTES]], inputs: &[&[u8]]) -> Vec<[u8; HASH_BYTES]> {
    assert_eq!(keys.len(), inputs.len(), "each input has a key");
    assert!(
        inputs.iter().all(|input| input.len() <= CHUNK_BYTES),
        "an input is longer than a chunk"
    );
    if !is_many(inputs.len(), inputs.iter().map(|input| input.len()).sum()) {
        let hash = |(key, input): (_, &&[u8])| blake3::keyed_hash(key, input).into();
        return keys.iter().zip(inputs).map(hash).collect();
    }
    let nodes = inputs.iter().map(|bytes| Node {
        bytes,
        counter: 0,
        flags: KEYED_HASH | ROOT,
    });
    hash(&Keys::Each(keys), &nodes.collect::<Vec<_>>())
}

/// Joins each input's nodes in pairs; one that is left over waits.
fn join(key: &Keys<'_>, hashes: &[[u8; HASH_BYTES]], counts: &mut [usize]) -> Vec<[u8; HASH_BYTES]> {
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

fn hash(keys: &Keys<'_>, nodes: &[Node<'_>]) -> Vec<[u8; HASH_BYTES]> {
    let mut hashes = alloc::vec![[0; HASH_BYTES]; nodes.len()];
    let order = by_blocks(nodes);
    dispatch!(level(), simd => hash_all(simd, keys, (nodes, &order), &mut hashes));
    hashes
}

/// The places of nodes of many blocks first: the last of their lanes then take along some of few, the last chunks of inputs, where
/// lanes of few would wait for one of many.
fn by_blocks(nodes: &[Node<'_>]) -> Vec<usize> {
    let mut next = [0; CHUNK_BLOCKS + 1];
    for node in nodes {
        next[node.blocks() - 1] += 1;
    }
    for blocks in (1..next.len()).rev() {
        next[blocks - 1] += next[blocks];
    }
    let mut order = alloc::vec![0; nodes.len()];
    for (place, node) in nodes.iter().enumerate() {
        let next = &mut next[node.blocks()];
        order[*next] = place;
        *next += 1;
    }
    order
}

#[inline(always)]
fn hash_all<S: Simd>(
    simd: S,
    keys: &Keys<'_>,
    (nodes, order): (&[Node<'_>], &[usize]),
    hashes: &mut [[u8; HASH_BYTES]],
) {
    let mut rest = order;
    while let Some((places, others)) = split::<S>(rest) {
        let first = some_of(nodes, places);
        let one = Group::begin(simd, keys.chain(simd, places), &first[..places.len()]);
        // Both take as long as the longer one.
        let is_near = |next: &[usize]| together::<S>() > 1 && 2 * nodes[next[0]].blocks() > one.most;
        rest = match split::<S>(others).filter(|(next, _)| is_near(next)) {
            Some((next, others)) => {
                let second = some_of(nodes, next);
                let two = Group::begin(simd, keys.chain(simd, next), &second[..next.len()]);
                hash_two(simd, (one, two), (places, next), hashes);
                others
            }
            None => {
                hash_one(simd, one, places, hashes);
                others
            }
        };
    }
}

#[inline(always)]
fn hash_one<S: Simd>(simd: S, mut one: Group<'_, S>, places: &[usize], hashes: &mut [[u8; HASH_BYTES]]) {
    for block in 0..one.most {
        one.take(simd, block);
        let [out] = compress::<S, 1>([one.start(simd)], [&one.words]);
        one.end(simd, block, &out, |lane, hash| hashes[places[lane]] = hash);
    }
}

/// Hashes two groups, the second of no more blocks, the steps of both by turns.
#[inline(always)]
fn hash_two<S: Simd>(
    simd: S,
    (mut one, mut two): (Group<'_, S>, Group<'_, S>),
    (of_one, of_two): (&[usize], &[usize]),
    hashes: &mut [[u8; HASH_BYTES]],
) {
    for block in 0..one.most {
        one.take(simd, block);
        two.take(simd, block);
        let starts = [one.start(simd), two.start(simd)];
        let [out, other] = compress::<S, 2>(starts, [&one.words, &two.words]);
        one.end(simd, block, &out, |lane, hash| hashes[of_one[lane]] = hash);
        two.end(simd, block, &other, |lane, hash| hashes[of_two[lane]] = hash);
    }
}

/// As many places as there are lanes, or what is left, and those behind.
#[inline(always)]
fn split<S: Simd>(places: &[usize]) -> Option<(&[usize], &[usize])> {
    (!places.is_empty()).then(|| places.split_at(places.len().min(S::u32s::LEN)))
}

#[inline(always)]
fn some_of<'a>(nodes: &[Node<'a>], places: &[usize]) -> [Node<'a>; MOST] {
    let mut some = [Node::NOTHING; MOST];
    for (node, place) in some.iter_mut().zip(places) {
        *node = nodes[*place];
    }
    some
}

/// As many nodes as there are lanes, or fewer, of which the same block is hashed at a time
struct Group<'a, S: Simd> {
    nodes: &'a [Node<'a>],
    /// Blocks of each lane that are whole.
    whole: [&'a [[u8; BLOCK_BYTES]]; MOST],
    least: usize,
    most: usize,
    chain: [S::u32s; 8],
    counter: S::u32s,
    words: Vectors<S>,
    lengths: S::u32s,
    flags: S::u32s,
}

impl<'a, S: Simd> Group<'a, S> {
    #[inline(always)]
    fn begin(simd: S, chain: [S::u32s; 8], nodes: &'a [Node<'a>]) -> Self {
        let zero = splat(simd, 0);
        let mut counters = [0; MOST];
        let mut whole: [&[[u8; BLOCK_BYTES]]; MOST] = [nodes[0].bytes.as_chunks().0; MOST];
        let (mut least, mut most) = (usize::MAX, 0);
        for (lane, node) in nodes.iter().enumerate() {
            counters[lane] = node.counter;
            whole[lane] = node.bytes.as_chunks().0;
            least = least.min(node.blocks());
            most = most.max(node.blocks());
        }
        Self {
            nodes,
            whole,
            least,
            most,
            chain,
            counter: load(simd, &counters),
            words: [zero; WORDS],
            lengths: zero,
            flags: zero,
        }
    }

    /// Takes the block of a number.
    #[inline(always)]
    fn take(&mut self, simd: S, block: usize) {
        // What is not the last block of any of them is whole.
        if block + 1 < self.least {
            let mut blocks = [&self.whole[0][block]; MOST];
            for (taken, whole) in blocks.iter_mut().zip(&self.whole) {
                *taken = &whole[block];
            }
            self.words = transpose(simd, &blocks);
            self.lengths = splat(simd, BLOCK_BYTES as u32);
        } else {
            (self.words, self.lengths) = take_block(simd, self.nodes, block);
        }
        self.flags = if block > 0 && block + 1 < self.least {
            splat(simd, KEYED_HASH)
        } else {
            flags_of(simd, self.nodes, block)
        };
    }

    #[inline(always)]
    fn start(&self, simd: S) -> Vectors<S> {
        start_of::<S>(simd, &self.chain, [self.counter, self.lengths, self.flags])
    }

    /// Ends what the block began; `done` gets the hashes of which it was the last.
    #[inline(always)]
    fn end(
        &mut self,
        simd: S,
        block: usize,
        out: &Vectors<S>,
        mut done: impl FnMut(usize, [u8; HASH_BYTES]),
    ) {
        for word in 0..self.chain.len() {
            self.chain[word] = out[word] ^ out[word + 8];
        }
        if block + 1 >= self.least {
            let hashes = hashes_of(simd, &self.chain);
            for (lane, node) in self.nodes.iter().enumerate() {
                if node.blocks() == block + 1 {
                    done(lane, hashes[lane]);
                }
            }
        }
    }
}

/// The flags of the same block of each node.
#[inline(always)]
fn flags_of<S: Simd>(simd: S, nodes: &[Node<'_>], block: usize) -> S::u32s {
    let mut flags = [0; MOST];
    for (flags, node) in flags.iter_mut().zip(nodes) {
        *flags = node.flags_of(block);
    }
    load(simd, &flags)
}

/// The chaining value of each lane.
#[inline(always)]
fn hashes_of<S: Simd>(simd: S, chain: &[S::u32s; 8]) -> [[u8; HASH_BYTES]; MOST] {
    let mut words = [splat(simd, 0); WORDS];
    words[..chain.len()].copy_from_slice(chain);
    let mut blocks = [[0; BLOCK_BYTES]; MOST];
    untranspose(simd, &words, &mut blocks);
    let mut hashes = [[0; HASH_BYTES]; MOST];
    for (hash, block) in hashes.iter_mut().zip(blocks) {
        hash.copy_from_slice(&block[..HASH_BYTES]);
    }
    hashes
}

/// Takes the same block of each node, filled up with zeros; how long each is without them.
#[inline(always)]
fn take_block<S: Simd>(simd: S, nodes: &[Node<'_>], block: usize) -> (Vectors<S>, S::u32s) {
    let mut lengths = [0; MOST];
    let mut filled = [[0; BLOCK_BYTES]; MOST];
    for ((length, filled), node) in lengths.iter_mut().zip(&mut filled).zip(nodes) {
        let bytes = node.bytes.get(block * BLOCK_BYTES..).unwrap_or_default();
        *length = bytes.len().min(BLOCK_BYTES) as u32;
        fill(filled, bytes);
    }
    (transpose(simd, &filled.each_ref()), load(simd, &lengths))
}

/// Copies what a block has, in pieces of a length that is known where it is half full: those are copied without a call.
#[inline(always)]
fn fill(block: &mut [u8; BLOCK_BYTES], bytes: &[u8]) {
    const HALF: usize = BLOCK_BYTES / 2;
    match (
        bytes.first_chunk(),
        bytes.first_chunk::<HALF>(),
        bytes.last_chunk::<HALF>(),
    ) {
        (Some(whole), ..) => *block = *whole,
        (None, Some(first), Some(last)) => {
            block[..HALF].copy_from_slice(first);
            block[bytes.len() - HALF..bytes.len()].copy_from_slice(last);
        }
        _ => block[..bytes.len()].copy_from_slice(bytes),
    }
}

/// What the compression function begins with: chaining values, counters below 2^32, lengths and flags.
#[inline(always)]
fn start_of<S: Simd>(simd: S, chain: &[S::u32s; 8], [counter, length, flags]: [S::u32s; 3]) -> Vectors<S> {
    let zero = splat(simd, 0);
    let [c0, c1, c2, c3, c4, c5, c6, c7] = *chain;
    let [i0, i1, i2, i3] = IV;
    [
        c0,
        c1,
        c2,
        c3,
        c4,
        c5,
        c6,
        c7,
        splat(simd, i0),
        splat(simd, i1),
        splat(simd, i2),
        splat(simd, i3),
        counter,
        zero,
        length,
        flags,
    ]
}

/// The compression function before its last step, which joins the halves, of each group: their steps by turns.
#[inline(always)]
fn compress<S: Simd, const N: usize>(mut all: [Vectors<S>; N], words: [&Vectors<S>; N]) -> [Vectors<S>; N] {
    round::<S, N>(&mut all, words, &SCHEDULE[0]);
    round::<S, N>(&mut all, words, &SCHEDULE[1]);
    round::<S, N>(&mut all, words, &SCHEDULE[2]);
    round::<S, N>(&mut all, words, &SCHEDULE[3]);
    round::<S, N>(&mut all, words, &SCHEDULE[4]);
    round::<S, N>(&mut all, words, &SCHEDULE[5]);
    round::<S, N>(&mut all, words, &SCHEDULE[6]);
    all
}

#[inline(always)]
fn round<S: Simd, const N: usize>(
    all: &mut [Vectors<S>; N],
    mut words: [&Vectors<S>; N],
    order: &[usize; WORDS],
) {
    if N > 1 {
        // There are registers for what is hashed only: words are read from memory where they are added.
        words = black_box(words);
    }
    half::<S, N, 16, 12>(all, words, (COLUMNS, &order[..8], 0));
    half::<S, N, 8, 7>(all, words, (COLUMNS, &order[..8], 1));
    half::<S, N, 16, 12>(all, words, (DIAGONALS, &order[8..], 0));
    half::<S, N, 8, 7>(all, words, (DIAGONALS, &order[8..], 1));
}

#[inline(always)]
fn half<S: Simd, const N: usize, const FIRST: u32, const SECOND: u32>(
    all: &mut [Vectors<S>; N],
    words: [&Vectors<S>; N],
    (places, order, second): ([[usize; 4]; 4], &[usize], usize),
) {
    for (v, m) in all.iter_mut().zip(words) {
        mix::<S, FIRST, SECOND>(v, places[0], m[order[second]]);
        mix::<S, FIRST, SECOND>(v, places[1], m[order[2 + second]]);
        mix::<S, FIRST, SECOND>(v, places[2], m[order[4 + second]]);
        mix::<S, FIRST, SECOND>(v, places[3], m[order[6 + second]]);
    }
}

#[inline(always)]
fn mix<S: Simd, const FIRST: u32, const SECOND: u32>(
    v: &mut Vectors<S>,
    [a, b, c, d]: [usize; 4],
    word: S::u32s,
) {
    v[a] = v[a] + word + v[b];
    v[d] = rotate_right::<S, FIRST>(v[d] ^ v[a]);
    v[c] += v[d];
    v[b] = rotate_right::<S, SECOND>(v[b] ^ v[c]);
}

fn words_of(key: &[u8; HASH_BYTES]) -> Words {
    let (words, _) = key.as_chunks();
    core::array::from_fn(|word| u32::from_le_bytes(words[word]))
}
