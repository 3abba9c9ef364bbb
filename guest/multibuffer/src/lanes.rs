//! Vectors of 32-bit words, a lane for each input.

use fearless_simd::{Level, Simd, SimdBase as _, u32x4};

/// Most lanes of any processor's vectors.
pub(crate) const MOST: usize = 16;
/// Words of a block, in BLAKE3 and in ChaCha20.
pub(crate) const WORDS: usize = 16;

/// Length of a block, in BLAKE3 and in ChaCha20.
pub const BLOCK_BYTES: usize = 64;
/// Words and lanes that are transposed at a time.
const QUAD: usize = 4;

/// The same word of each lane's block, for all words: what vectors are loaded from and stored to
pub(crate) type Transposed = [[u32; MOST]; WORDS];

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

/// Keeps a word of each lane.
#[inline(always)]
pub(crate) fn store<S: Simd>(vector: S::u32s, words: &mut [u32; MOST]) {
    vector.store_slice(&mut words[..S::u32s::LEN]);
}

/// Turns the bits of all lanes to the right.
#[inline(always)]
pub(crate) fn rotate_right<S: Simd, const BITS: u32>(vector: S::u32s) -> S::u32s {
    (vector >> BITS) | (vector << (u32::BITS - BITS))
}

/// Words of the blocks of all lanes, a vector for each.
#[inline(always)]
pub(crate) fn transpose<S: Simd>(simd: S, blocks: &[&[u8; BLOCK_BYTES]; MOST], words: &mut Transposed) {
    for lane in (0..S::u32s::LEN).step_by(QUAD) {
        for word in (0..WORDS).step_by(QUAD) {
            let rows = core::array::from_fn(|row| quad(simd, blocks[lane + row], word));
            for (row, vector) in turn(simd, rows).into_iter().enumerate() {
                vector.store_slice(&mut words[word + row][lane..lane + QUAD]);
            }
        }
    }
}

/// The blocks of all lanes.
#[inline(always)]
pub(crate) fn untranspose<S: Simd>(simd: S, words: &Transposed, blocks: &mut [[u8; BLOCK_BYTES]; MOST]) {
    for lane in (0..S::u32s::LEN).step_by(QUAD) {
        for word in (0..WORDS).step_by(QUAD) {
            let rows =
                core::array::from_fn(|row| u32x4::from_slice(simd, &words[word + row][lane..lane + QUAD]));
            for (row, vector) in turn(simd, rows).into_iter().enumerate() {
                let (bytes, _) = blocks[lane + row].as_chunks_mut::<{ size_of::<u32>() }>();
                for (column, bytes) in bytes[word..word + QUAD].iter_mut().enumerate() {
                    *bytes = vector[column].to_le_bytes();
                }
            }
        }
    }
}

#[inline(always)]
fn quad<S: Simd>(simd: S, block: &[u8; BLOCK_BYTES], word: usize) -> u32x4<S> {
    let (bytes, _) = block.as_chunks();
    let words: [u32; QUAD] = core::array::from_fn(|column| u32::from_le_bytes(bytes[word + column]));
    u32x4::from_slice(simd, &words)
}

/// Rows become columns.
#[inline(always)]
fn turn<S: Simd>(simd: S, [a, b, c, d]: [u32x4<S>; QUAD]) -> [u32x4<S>; QUAD] {
    let (ac_low, ac_high) = simd.interleave_u32x4(a, c);
    let (bd_low, bd_high) = simd.interleave_u32x4(b, d);
    let (first, second) = simd.interleave_u32x4(ac_low, bd_low);
    let (third, fourth) = simd.interleave_u32x4(ac_high, bd_high);
    [first, second, third, fourth]
}
