//! Vectors of 32-bit words, a lane for each input.

use fearless_simd::{Bytes as _, Level, Simd, SimdBase};

/// Most lanes of any processor's vectors.
pub(crate) const MOST: usize = 16;
/// Words of a block.
pub(crate) const WORDS: usize = 16;

/// Length of a block.
pub(crate) const BLOCK_BYTES: usize = 64;
/// Length of a word.
const WORD_BYTES: usize = size_of::<u32>();

/// Which words a round mixes: columns of the state first, diagonals afterwards.
pub(crate) const COLUMNS: [[usize; 4]; 4] = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
pub(crate) const DIAGONALS: [[usize; 4]; 4] = [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];

/// The same word of each lane's block, for all words
pub(crate) type Words<S> = [<S as Simd>::u32s; WORDS];

/// How many times all lanes are filled at once: where there are registers for two, the processor waits less for what it has just
/// computed.
pub(crate) const fn together<S: Simd>() -> usize {
    if S::u32s::LEN == MOST { 2 } else { 1 }
}

/// What this processor's vectors can do.
pub(crate) fn level() -> Level {
    #[cfg(not(target_family = "wasm"))]
    {
        Level::new()
    }
    #[cfg(target_family = "wasm")]
    {
        Level::baseline()
    }
}

/// The same word in all lanes.
#[inline(always)]
pub(crate) fn splat<S: Simd>(simd: S, word: u32) -> S::u32s {
    S::u32s::splat(simd, word)
}

/// A word of each lane.
#[inline(always)]
pub(crate) fn load<S: Simd>(simd: S, words: &[u32; MOST]) -> S::u32s {
    S::u32s::from_slice(simd, &words[..S::u32s::LEN])
}

/// Turns the bits of all lanes to the right.
#[inline(always)]
pub(crate) fn rotate_right<S: Simd, const BITS: u32>(vector: S::u32s) -> S::u32s {
    (vector >> BITS) | (vector << (u32::BITS - BITS))
}

/// Words of the blocks of all lanes, a vector for each.
#[inline(always)]
pub(crate) fn transpose<S: Simd>(simd: S, blocks: &[&[u8; BLOCK_BYTES]; MOST]) -> Words<S> {
    let mut words = [splat(simd, 0); WORDS];
    for square in squares::<S>() {
        let mut rows = words;
        for (row, block) in rows.iter_mut().zip(blocks).take(square.len()) {
            let bytes = &block[square.start * WORD_BYTES..square.end * WORD_BYTES];
            *row = S::u8s::from_slice(simd, bytes).bitcast();
        }
        turn(&mut rows);
        let len = square.len();
        words[square].copy_from_slice(&rows[..len]);
    }
    words
}

/// The blocks of all lanes.
#[inline(always)]
pub(crate) fn untranspose<S: Simd>(simd: S, words: &Words<S>, blocks: &mut [[u8; BLOCK_BYTES]; MOST]) {
    for square in squares::<S>() {
        let mut rows = [splat(simd, 0); WORDS];
        rows[..square.len()].copy_from_slice(&words[square.clone()]);
        turn(&mut rows);
        for (row, block) in rows.into_iter().zip(&mut *blocks).take(square.len()) {
            let bytes: S::u8s = row.bitcast();
            bytes.store_slice(&mut block[square.start * WORD_BYTES..square.end * WORD_BYTES]);
        }
    }
}

/// Which words are transposed at a time: as many as there are lanes.
#[inline(always)]
fn squares<S: Simd>() -> impl Iterator<Item = core::ops::Range<usize>> {
    let lanes = S::u32s::LEN;
    (0..WORDS / lanes).map(move |square| square * lanes..(square + 1) * lanes)
}

/// Makes columns of the first rows, of which there are as many as lanes: what is interleaved moves the highest bit of its row to the
/// end of the number of its column, and the highest bit of that to the end of the row's.
#[inline(always)]
fn turn<S: Simd, V: SimdBase<S>, const ROWS: usize>(rows: &mut [V; ROWS]) {
    let half = V::LEN / 2;
    for _ in 0..V::LEN.ilog2() {
        let before = *rows;
        for pair in 0..half {
            let (low, high) = before[pair].interleave(before[pair + half]);
            (rows[2 * pair], rows[2 * pair + 1]) = (low, high);
        }
    }
}
