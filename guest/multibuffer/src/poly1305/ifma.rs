//! A ciphertext in each of 16 lanes of 64 bits.
//!
//! A number below 2^130 is three limbs, of 44, 44 and 42 bits. A step leaves the second at most a little longer, and what it
//! multiplies has at most 46 bits, so that one instruction gives the lower 52 bits of a product and another one the rest. What is
//! done does not depend on keys or bytes, only on lengths.

use alloc::vec::Vec;
use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpgt_epu64_mask, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_mask_mov_epi64, _mm512_or_si512, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_slli_epi64, _mm512_srli_epi64,
};

use fearless_simd::{Avx512, Bytes as _, Simd as _, SimdBase as _, kernel, u8x64, u64x8};
use zeroize::Zeroize as _;

use super::{Sealed, TAG_BYTES};
use crate::KEY_BYTES;
use crate::lanes::{BLOCK_BYTES, MOST, turn};

/// Lanes of a vector; two vectors go side by side.
const LANES: usize = 8;
/// Words of a block.
const BLOCK_WORDS: usize = BLOCK_BYTES / size_of::<u64>();
/// Words of what is multiplied at a time.
const STEP_WORDS: usize = TAG_BYTES / size_of::<u64>();
/// Such steps in a block.
const STEPS: usize = BLOCK_BYTES / TAG_BYTES;

const LIMBS: usize = 3;
const BITS: [u32; LIMBS] = [44, 44, 42];
const MASKS: [u64; LIMBS] = [(1 << 44) - 1, (1 << 44) - 1, (1 << 42) - 1];
/// What is set above each step, in its last limb.
const ABOVE: u64 = 1 << (128 - 88);
/// Which bits of the first half of a key count (section 2.5).
const CLAMP: [u64; STEP_WORDS] = [0x0fff_fffc_0fff_ffff, 0x0fff_fffc_0fff_fffc];

type Number = [__m512i; LIMBS];
/// What all lanes are multiplied by, and the second and third limb 20 times: 2^132 is 20.
type Factors = [__m512i; LIMBS + 2];
/// The same word of each lane's block, for all words
type Words = [u64x8<Avx512>; BLOCK_WORDS];

/// The ciphertexts of the lanes of one vector; lanes without one are never done, and nobody looks at them
struct Half<'a> {
    sealed: [Option<Sealed<'a>>; LANES],
    /// Steps of each.
    counts: [u64; LANES],
    factors: Factors,
    sum: Number,
}

/// The tag of each ciphertext.
pub(super) fn tags(simd: Avx512, sealed: &[Sealed<'_>]) -> Vec<[u8; TAG_BYTES]> {
    let mut tags = alloc::vec![[0; TAG_BYTES]; sealed.len()];
    // Lanes of short ones would wait for those of long ones.
    let mut order: Vec<usize> = (0..sealed.len()).collect();
    order.sort_by_key(|place| steps(sealed[*place].1));
    simd.vectorize(
        #[inline(always)]
        || {
            for places in order.chunks(MOST) {
                let some = core::array::from_fn(|lane| places.get(lane).map(|place| sealed[*place]));
                let mut sums = sum_up(simd, &some);
                for (place, limbs) in places.iter().zip(&sums) {
                    tags[*place] = finish(*limbs, sealed[*place].0);
                }
                sums.zeroize();
            }
        },
    );
    tags
}

/// Steps of a ciphertext: what it has, filled up with zeros, and one with its length.
fn steps(cipher: &[u8]) -> usize {
    cipher.len().div_ceil(TAG_BYTES) + 1
}

/// What all steps of each lane come to, modulo 2^130 - 5, or a little more.
#[inline(always)]
fn sum_up(simd: Avx512, sealed: &[Option<Sealed<'_>>; MOST]) -> [[u64; LIMBS]; MOST] {
    let (halves, _) = sealed.as_chunks();
    let mut halves = [Half::new(simd, &halves[0]), Half::new(simd, &halves[1])];
    let counts = || sealed.iter().flatten().map(|(_, cipher)| steps(cipher));
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    for block in 0..most.div_ceil(STEPS) {
        let [first, second] = &halves;
        let words = [first.words(simd, block), second.words(simd, block)];
        for step in 0..STEPS.min(most - block * STEPS) {
            let number = block * STEPS + step;
            for (half, words) in halves.iter_mut().zip(&words) {
                half.take(
                    simd,
                    [words[STEP_WORDS * step], words[STEP_WORDS * step + 1]],
                    number,
                    least,
                );
            }
        }
    }
    let mut sums = [[0; LIMBS]; MOST];
    for (half, sums) in halves.iter().zip(sums.chunks_mut(LANES)) {
        half.store(simd, sums);
    }
    sums
}

impl<'a> Half<'a> {
    #[inline(always)]
    fn new(simd: Avx512, sealed: &[Option<Sealed<'a>>; LANES]) -> Self {
        let mut words = [[0; LANES]; STEP_WORDS];
        for (lane, sealed) in sealed.iter().enumerate() {
            let (key, _) = sealed.map_or(&[0; KEY_BYTES], |(key, _)| key).as_chunks();
            for (word, words) in words.iter_mut().enumerate() {
                words[lane] = u64::from_le_bytes(key[word]) & CLAMP[word];
            }
        }
        let low = u64x8::from_slice(simd, &words[0]);
        let high = u64x8::from_slice(simd, &words[1]);
        words.zeroize();
        Self {
            sealed: *sealed,
            counts: sealed.map(|sealed| sealed.map_or(u64::MAX, |(_, cipher)| steps(cipher) as u64)),
            factors: factors(simd, low.into(), high.into()),
            sum: [u64x8::splat(simd, 0).into(); LIMBS],
        }
    }

    /// The words of the same block of each ciphertext.
    #[inline(always)]
    fn words(&self, simd: Avx512, block: usize) -> Words {
        let mut filled = [[0; BLOCK_BYTES]; LANES];
        let mut rows = [u64x8::splat(simd, 0); BLOCK_WORDS];
        for ((row, filled), sealed) in rows.iter_mut().zip(&mut filled).zip(&self.sealed) {
            let Some((_, cipher)) = sealed else { continue };
            let bytes = cipher.as_chunks().0.get(block).unwrap_or_else(
                #[inline(always)]
                || {
                    fill(filled, cipher, block * BLOCK_BYTES);
                    filled
                },
            );
            *row = u8x64::from_slice(simd, bytes).bitcast();
        }
        turn(&mut rows);
        rows
    }

    /// Adds a step of each lane, and multiplies; lanes that were done before stay as they were.
    #[inline(always)]
    fn take(&mut self, simd: Avx512, [low, high]: [u64x8<Avx512>; STEP_WORDS], number: usize, least: usize) {
        let sum = step(simd, self.sum, self.factors, low.into(), high.into());
        self.sum = if number < least {
            sum
        } else {
            let counts = u64x8::from_slice(simd, &self.counts);
            let number = u64x8::splat(simd, number as u64);
            keep(simd, self.sum, sum, counts.into(), number.into())
        };
    }

    #[inline(always)]
    fn store(&self, simd: Avx512, sums: &mut [[u64; LIMBS]]) {
        for (limb, vector) in self.sum.into_iter().enumerate() {
            let vector: u64x8<Avx512> = fearless_simd::SimdFrom::simd_from(simd, vector);
            let mut lanes = [0; LANES];
            vector.store_slice(&mut lanes);
            for (sum, lane) in sums.iter_mut().zip(lanes) {
                sum[limb] = lane;
            }
            lanes.zeroize();
        }
    }
}

/// A block of a ciphertext from a place on, filled up with zeros and the step with its length.
#[inline(always)]
fn fill(filled: &mut [u8; BLOCK_BYTES], cipher: &[u8], at: usize) {
    let rest = cipher.get(at..).unwrap_or_default();
    let rest = &rest[..rest.len().min(BLOCK_BYTES)];
    filled[..rest.len()].copy_from_slice(rest);
    // The first half of the step is the length of associated data, of which there is none.
    let length = (cipher.len().next_multiple_of(TAG_BYTES) + TAG_BYTES / 2).checked_sub(at);
    if let Some(place) = length.and_then(|place| filled.get_mut(place..place + size_of::<u64>())) {
        place.copy_from_slice(&(cipher.len() as u64).to_le_bytes());
    }
}

kernel!(
    /// The limbs of two words of each lane, with `above` in the last one.
    #[inline]
    fn limbs(_simd: Avx512, low: __m512i, high: __m512i, above: __m512i) -> Number {
        let mask = _mm512_set1_epi64(MASKS[0].cast_signed());
        let middle = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
        [
            _mm512_and_si512(low, mask),
            _mm512_and_si512(middle, mask),
            _mm512_or_si512(_mm512_srli_epi64::<24>(high), above),
        ]
    }
);

kernel!(
    /// What to multiply by, from the first half of each lane's key.
    #[inline]
    fn factors(simd: Avx512, low: __m512i, high: __m512i) -> Factors {
        let [first, second, third] = limbs(simd, low, high, _mm512_setzero_si512());
        let twenty = |limb| _mm512_add_epi64(_mm512_slli_epi64::<4>(limb), _mm512_slli_epi64::<2>(limb));
        [first, second, third, twenty(second), twenty(third)]
    }
);

kernel!(
    /// Adds two words of each lane to its sum and multiplies that.
    #[inline]
    fn step(simd: Avx512, sum: Number, factors: Factors, low: __m512i, high: __m512i) -> Number {
        let more = limbs(simd, low, high, _mm512_set1_epi64(ABOVE.cast_signed()));
        let [h0, h1, h2] = [0, 1, 2].map(|limb: usize| _mm512_add_epi64(sum[limb], more[limb]));
        let [r0, r1, r2, s1, s2] = factors;
        let zero = _mm512_setzero_si512();
        let dot = |a, b, c| {
            let low = _mm512_madd52lo_epu64(zero, h0, a);
            let high = _mm512_madd52hi_epu64(zero, h0, a);
            let (low, high) = (
                _mm512_madd52lo_epu64(low, h1, b),
                _mm512_madd52hi_epu64(high, h1, b),
            );
            (
                _mm512_madd52lo_epu64(low, h2, c),
                _mm512_madd52hi_epu64(high, h2, c),
            )
        };
        let ((d0, e0), (d1, e1), (d2, e2)) = (dot(r0, s2, s1), dot(r1, r0, s2), dot(r2, r1, r0));
        let [mask, _, last] = MASKS.map(|mask| _mm512_set1_epi64(mask.cast_signed()));
        // The upper parts count 2^52 times a limb, which is 2^8 times the next one.
        let above = _mm512_add_epi64(_mm512_srli_epi64::<44>(d0), _mm512_slli_epi64::<8>(e0));
        let d1 = _mm512_add_epi64(d1, above);
        let above = _mm512_add_epi64(_mm512_srli_epi64::<44>(d1), _mm512_slli_epi64::<8>(e1));
        let d2 = _mm512_add_epi64(d2, above);
        // And the last one 2^10 times 2^130, which is 5.
        let above = _mm512_add_epi64(_mm512_srli_epi64::<42>(d2), _mm512_slli_epi64::<10>(e2));
        let above = _mm512_add_epi64(above, _mm512_slli_epi64::<2>(above));
        let d0 = _mm512_add_epi64(_mm512_and_si512(d0, mask), above);
        let d1 = _mm512_add_epi64(_mm512_and_si512(d1, mask), _mm512_srli_epi64::<44>(d0));
        [_mm512_and_si512(d0, mask), d1, _mm512_and_si512(d2, last)]
    }
);

kernel!(
    /// The new sum in lanes that have more steps than this number, the old one in others.
    #[inline]
    fn keep(_simd: Avx512, old: Number, new: Number, counts: __m512i, number: __m512i) -> Number {
        let goes_on = _mm512_cmpgt_epu64_mask(counts, number);
        [0, 1, 2].map(|limb: usize| _mm512_mask_mov_epi64(old[limb], goes_on, new[limb]))
    }
);

/// The tag from what all steps came to, reduced, and the second half of the key.
fn finish(mut limbs: [u64; LIMBS], key: &[u8; KEY_BYTES]) -> [u8; TAG_BYTES] {
    for _ in 0..2 {
        let mut carry = 0;
        for (limb, (bits, mask)) in limbs.iter_mut().zip(BITS.into_iter().zip(MASKS)) {
            *limb += carry;
            carry = *limb >> bits;
            *limb &= mask;
        }
        limbs[0] += 5 * carry;
    }
    // What it is less 2^130 - 5, if that is not below zero.
    let mut less = limbs;
    less[0] += 5;
    for place in 0..LIMBS - 1 {
        less[place + 1] += less[place] >> BITS[place];
        less[place] &= MASKS[place];
    }
    let is_less = (less[LIMBS - 1] >> BITS[LIMBS - 1]).wrapping_neg();
    less[LIMBS - 1] &= MASKS[LIMBS - 1];
    let chosen = |place: usize| u128::from((limbs[place] & !is_less) | (less[place] & is_less));
    let number = chosen(0) | chosen(1) << BITS[0] | chosen(2) << (BITS[0] + BITS[1]);
    let (halves, _) = key.as_chunks();
    let tag = number.wrapping_add(u128::from_le_bytes(halves[1]));
    limbs.zeroize();
    less.zeroize();
    tag.to_le_bytes()
}
