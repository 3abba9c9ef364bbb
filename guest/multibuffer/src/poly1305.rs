//! Poly1305 of ciphertexts, as ChaCha20-Poly1305 without associated data takes it (RFC 8439, sections 2.5 and 2.8).
//!
//! A number below 2^130 is five limbs of 26 bits in 64-bit lanes. A carry leaves a limb at most a little longer than that, so that
//! products and their sums stay below 2^60. What is done does not depend on keys or bytes, only on lengths.

use alloc::vec::Vec;

use fearless_simd::{Simd, SimdBase as _, SimdWiden as _, dispatch};
use zeroize::Zeroize as _;

use crate::KEY_BYTES;
use crate::lanes::{BLOCK_BYTES, MOST, Words, level, load, transpose};

/// Length of a tag.
pub const TAG_BYTES: usize = 16;

/// Words of what is multiplied at a time.
const STEP_WORDS: usize = TAG_BYTES / size_of::<u32>();
/// Such steps in a block.
const STEPS: usize = BLOCK_BYTES / TAG_BYTES;
const LIMBS: usize = 5;
const LIMB_BITS: u32 = 26;
const LIMB: u32 = (1 << LIMB_BITS) - 1;
/// What is set above each step, in its last limb.
const ABOVE: u32 = 1 << 24;
/// Which bits of the first half of a key count (section 2.5).
const CLAMP: [u32; STEP_WORDS] = [0x0fff_ffff, 0x0fff_fffc, 0x0fff_fffc, 0x0fff_fffc];

/// A key that is used for nothing else, and a ciphertext
pub type Sealed<'a> = (&'a [u8; KEY_BYTES], &'a [u8]);

/// Numbers, one in each of the lower and of the upper lanes
type Numbers<S> = [[<S as Simd>::u64s; LIMBS]; 2];

/// Whether the tags of so many ciphertexts are faster at once than one after the other: if at least half of 16 lanes have one.
#[must_use]
pub fn is_faster_at_once(count: usize) -> bool {
    !cfg!(target_family = "wasm") && count >= MOST / 2 && dispatch!(level(), simd => lanes(simd)) == MOST
}

#[inline(always)]
fn lanes<S: Simd>(_: S) -> usize {
    S::u32s::LEN
}

/// The tag of each ciphertext.
pub fn tags(sealed: &[Sealed<'_>]) -> Vec<[u8; TAG_BYTES]> {
    let mut tags = alloc::vec![[0; TAG_BYTES]; sealed.len()];
    // Lanes of short ones would wait for those of long ones.
    let mut order: Vec<usize> = (0..sealed.len()).collect();
    order.sort_by_key(|place| steps(sealed[*place].1));
    dispatch!(level(), simd => tag_all(simd, sealed, &order, &mut tags));
    tags
}

/// Steps of a ciphertext: what it has, filled up with zeros, and one with its length.
fn steps(cipher: &[u8]) -> usize {
    cipher.len().div_ceil(TAG_BYTES) + 1
}

#[inline(always)]
fn tag_all<S: Simd>(simd: S, sealed: &[Sealed<'_>], order: &[usize], tags: &mut [[u8; TAG_BYTES]]) {
    for places in order.chunks(S::u32s::LEN) {
        let some: [Option<Sealed<'_>>; MOST] =
            core::array::from_fn(|lane| places.get(lane).map(|place| sealed[*place]));
        let mut limbs = sum_up(simd, &some);
        for (lane, place) in places.iter().enumerate() {
            tags[*place] = finish(core::array::from_fn(|limb| limbs[limb][lane]), sealed[*place].0);
        }
        limbs.zeroize();
    }
}

/// What all steps of each lane come to, modulo 2^130 - 5, or a little more.
#[inline(always)]
fn sum_up<S: Simd>(simd: S, sealed: &[Option<Sealed<'_>>; MOST]) -> [[u64; MOST]; LIMBS] {
    let count = |sealed: &Option<Sealed<'_>>| sealed.map(|(_, cipher)| steps(cipher));
    let most = sealed.iter().filter_map(count).max().unwrap_or(0);
    // Lanes without a ciphertext are never done: nobody looks at them.
    let counts: [usize; MOST] = core::array::from_fn(|lane| count(&sealed[lane]).unwrap_or(usize::MAX));
    let least = counts.into_iter().min().unwrap_or(0);
    let factors = factors(simd, sealed);
    let zero = S::u64s::splat(simd, 0);
    let mut sum: Numbers<S> = [[zero; LIMBS]; 2];
    // Of these blocks all lanes have the whole.
    let whole: [&[[u8; BLOCK_BYTES]]; MOST] =
        core::array::from_fn(|lane| sealed[lane].map_or(&[][..], |(_, cipher)| cipher.as_chunks().0));
    let shared = whole.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    for block in 0..most.div_ceil(STEPS) {
        let words = if block < shared {
            transpose(simd, &whole.map(|blocks| &blocks[block]))
        } else {
            take_block(simd, sealed, block)
        };
        for step in 0..STEPS.min(most - block * STEPS) {
            let number = block * STEPS + step;
            let before = sum;
            add(simd, &words, step, &mut sum);
            multiply(simd, &factors, &mut sum);
            if number >= least {
                keep(simd, &before, &counts, number, &mut sum);
            }
        }
    }
    let mut limbs = [[0; MOST]; LIMBS];
    for (limb, (lower, upper)) in limbs.iter_mut().zip(sum[0].into_iter().zip(sum[1])) {
        lower.store_slice(&mut limb[..S::u64s::LEN]);
        upper.store_slice(&mut limb[S::u64s::LEN..2 * S::u64s::LEN]);
    }
    limbs
}

/// The same block of each ciphertext, filled up with zeros and the step with its length.
#[inline(always)]
fn take_block<S: Simd>(simd: S, sealed: &[Option<Sealed<'_>>; MOST], block: usize) -> Words<S> {
    let at = block * BLOCK_BYTES;
    let mut filled = [[0; BLOCK_BYTES]; MOST];
    for (filled, sealed) in filled.iter_mut().zip(sealed) {
        let Some((_, cipher)) = sealed else { continue };
        let rest = cipher.get(at..).unwrap_or_default();
        let rest = &rest[..rest.len().min(BLOCK_BYTES)];
        filled[..rest.len()].copy_from_slice(rest);
        // The first half of the step is the length of associated data, of which there is none.
        let length = (cipher.len().next_multiple_of(TAG_BYTES) + TAG_BYTES / 2).checked_sub(at);
        if let Some(place) = length.and_then(|place| filled.get_mut(place..place + size_of::<u64>())) {
            place.copy_from_slice(&(cipher.len() as u64).to_le_bytes());
        }
    }
    transpose(simd, &filled.each_ref())
}

/// Limbs of four words of each lane, and what is above them.
#[inline(always)]
fn limbs_of<S: Simd>(
    simd: S,
    [first, second, third, fourth]: [S::u32s; STEP_WORDS],
    above: u32,
) -> Numbers<S> {
    let limbs = [
        first & LIMB,
        ((first >> 26) | (second << 6)) & LIMB,
        ((second >> 20) | (third << 12)) & LIMB,
        ((third >> 14) | (fourth << 18)) & LIMB,
        (fourth >> 8) | S::u32s::splat(simd, above),
    ];
    let [a, b, c, d, e] = limbs;
    let ((a0, a1), (b0, b1), (c0, c1)) = (a.widen(), b.widen(), c.widen());
    let ((d0, d1), (e0, e1)) = (d.widen(), e.widen());
    [[a0, b0, c0, d0, e0], [a1, b1, c1, d1, e1]]
}

/// The limbs by which all lanes are multiplied, and these five times.
#[inline(always)]
fn factors<S: Simd>(simd: S, sealed: &[Option<Sealed<'_>>; MOST]) -> [Numbers<S>; 2] {
    let mut words = [[0; MOST]; STEP_WORDS];
    for (lane, sealed) in sealed.iter().enumerate() {
        let (key, _) = sealed.map_or(&[0; KEY_BYTES], |(key, _)| key).as_chunks();
        for (word, words) in words.iter_mut().enumerate() {
            words[lane] = u32::from_le_bytes(key[word]) & CLAMP[word];
        }
    }
    let once = limbs_of(simd, core::array::from_fn(|word| load(simd, &words[word])), 0);
    words.zeroize();
    [once, once.map(|half| half.map(|limb| limb + (limb << 2)))]
}

/// Adds a step of each lane.
#[inline(always)]
fn add<S: Simd>(simd: S, words: &Words<S>, step: usize, sum: &mut Numbers<S>) {
    let words = core::array::from_fn(|word| words[step * STEP_WORDS + word]);
    // All limbs are shorter: that tells the compiler that what is added stays so short that one instruction multiplies two.
    let short = S::u64s::splat(simd, u64::from(u32::MAX >> 2));
    for (sum, more) in sum.iter_mut().zip(limbs_of(simd, words, ABOVE)) {
        for (sum, more) in sum.iter_mut().zip(more) {
            *sum = (*sum & short) + more;
        }
    }
}

#[inline(always)]
fn multiply<S: Simd>(simd: S, [once, five_times]: &[Numbers<S>; 2], sum: &mut Numbers<S>) {
    sum[0] = product(simd, &once[0], &five_times[0], &sum[0]);
    sum[1] = product(simd, &once[1], &five_times[1], &sum[1]);
}

#[inline(always)]
fn product<S: Simd>(
    simd: S,
    once: &[S::u64s; LIMBS],
    five_times: &[S::u64s; LIMBS],
    number: &[S::u64s; LIMBS],
) -> [S::u64s; LIMBS] {
    // All limbs are shorter: that tells the compiler that one instruction multiplies two of them.
    let short = S::u64s::splat(simd, u64::from(u32::MAX));
    let [r0, r1, r2, r3, r4] = short_of::<S>(once, short);
    // What would be above 2^130 counts five times.
    let [_, s1, s2, s3, s4] = short_of::<S>(five_times, short);
    let h = *number;
    let mut d0 = dot::<S>(&h, [r0, s4, s3, s2, s1]);
    let mut d1 = dot::<S>(&h, [r1, r0, s4, s3, s2]);
    let mut d2 = dot::<S>(&h, [r2, r1, r0, s4, s3]);
    let mut d3 = dot::<S>(&h, [r3, r2, r1, r0, s4]);
    let mut d4 = dot::<S>(&h, [r4, r3, r2, r1, r0]);
    let limb = S::u64s::splat(simd, u64::from(LIMB));
    d1 += d0 >> LIMB_BITS;
    d0 &= limb;
    d2 += d1 >> LIMB_BITS;
    d1 &= limb;
    d3 += d2 >> LIMB_BITS;
    d2 &= limb;
    d4 += d3 >> LIMB_BITS;
    d3 &= limb;
    let carry = d4 >> LIMB_BITS;
    d4 &= limb;
    d0 += carry + (carry << 2);
    d1 += d0 >> LIMB_BITS;
    d0 &= limb;
    [d0, d1, d2, d3, d4]
}

#[inline(always)]
fn short_of<S: Simd>([a, b, c, d, e]: &[S::u64s; LIMBS], short: S::u64s) -> [S::u64s; LIMBS] {
    [*a & short, *b & short, *c & short, *d & short, *e & short]
}

#[inline(always)]
fn dot<S: Simd>(number: &[S::u64s; LIMBS], factors: [S::u64s; LIMBS]) -> S::u64s {
    let [h0, h1, h2, h3, h4] = *number;
    let [f0, f1, f2, f3, f4] = factors;
    (h0 * f0 + h1 * f1) + (h2 * f2 + h3 * f3) + h4 * f4
}

/// Lanes that were done before this step stay as they were.
#[inline(always)]
fn keep<S: Simd>(simd: S, before: &Numbers<S>, counts: &[usize; MOST], number: usize, sum: &mut Numbers<S>) {
    let masks: [u64; MOST] = core::array::from_fn(|lane| if number < counts[lane] { u64::MAX } else { 0 });
    for (half, (sum, before)) in sum.iter_mut().zip(before).enumerate() {
        let mask = S::u64s::from_slice(simd, &masks[half * S::u64s::LEN..(half + 1) * S::u64s::LEN]);
        for (sum, before) in sum.iter_mut().zip(before) {
            *sum = (*sum & mask) | (*before & !mask);
        }
    }
}

/// The tag from what all steps came to, reduced, and the second half of the key.
fn finish(mut limbs: [u64; LIMBS], key: &[u8; KEY_BYTES]) -> [u8; TAG_BYTES] {
    let limb = u64::from(LIMB);
    for _ in 0..2 {
        let mut carry = 0;
        for limb_of in &mut limbs {
            *limb_of += carry;
            carry = *limb_of >> LIMB_BITS;
            *limb_of &= limb;
        }
        limbs[0] += 5 * carry;
    }
    // What it is less 2^130 - 5, if that is not below zero.
    let mut less = limbs;
    less[0] += 5;
    for place in 0..LIMBS - 1 {
        less[place + 1] += less[place] >> LIMB_BITS;
        less[place] &= limb;
    }
    let is_less = (less[LIMBS - 1] >> LIMB_BITS).wrapping_neg();
    less[LIMBS - 1] &= limb;
    let number = limbs.iter().zip(less).rev().fold(0_u128, |number, (limb, less)| {
        (number << LIMB_BITS) | u128::from((limb & !is_less) | (less & is_less))
    });
    let (halves, _) = key.as_chunks();
    let tag = number.wrapping_add(u128::from_le_bytes(halves[1]));
    limbs.zeroize();
    less.zeroize();
    tag.to_le_bytes()
}
