//! Sketches of sets: two replicas learn in what their records differ from bytes in proportion to the difference (what DCS,
//! section 3.4, does with a Bloom filter, without what that one overlooks).
//!
//! A sketch is the beginning of a rateless invertible Bloom lookup table (Yang, Gilad, Alizadeh: *Practical Rateless Set
//! Reconciliation*, SIGCOMM 2024). Each element has a short id under a salt that is fresh for each sketch, so that nobody can
//! have made records whose ids collide. Symbol i holds each element with probability 2 / (i + 2); of two sketches subtracted,
//! only the elements that differ are left, and can be taken out one after the other from symbols that hold one alone.
//!
//! ```text
//! symbol = sum u64 | check u32 | zigzag varint of (count - floor(2 * elements / (i + 2)))
//! ```

use alloc::vec::Vec;

use selfsame_codec::{Field, Malformed, Reader};
use selfsame_sodium::hash::{derive_key, hash_with};

use crate::hash::{CapsuleName, HASH_BYTES, RecordName};

/// Most symbols of a sketch: a megabyte of memory, and enough for a difference of about 29,000. What differs by more is
/// compared in parts.
pub const MAX_SYMBOLS: usize = 1 << 16;
/// Symbols of a first sketch: enough for a difference of thirty, and to guess a larger one within a third.
pub const FIRST_SYMBOLS: usize = 64;
/// Most elements of one set: their count is a symbol's.
const MAX_ELEMENTS: u64 = 1 << 30;

const SHORT: &str = "selfsame/1 capsule sketch";
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Random bytes, used for one sketch on either side
pub type Salt = [u8; 16];

/// What about a record two replicas may differ in
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ElementKind {
    /// That it is stored.
    Record = 1,
    /// That a signature of it is stored, and counts.
    Signature = 2,
}

/// An element of the set that two replicas compare
///
/// ```text
/// element = kind u8 | record 32
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    /// What of the record.
    pub kind: ElementKind,
    /// The record.
    pub record: RecordName,
}

impl Element {
    /// That a record is stored.
    #[must_use]
    pub fn record(record: RecordName) -> Self {
        Self {
            kind: ElementKind::Record,
            record,
        }
    }

    /// That a record's signature is stored.
    #[must_use]
    pub fn signature(record: RecordName) -> Self {
        Self {
            kind: ElementKind::Signature,
            record,
        }
    }

    fn encoded(&self) -> [u8; 1 + HASH_BYTES] {
        let mut encoded = [self.kind as u8; 1 + HASH_BYTES];
        encoded[1..].copy_from_slice(&self.record.0);
        encoded
    }
}

impl<'a> Field<'a> for Element {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let kind = match reader.field::<u8>()? {
            1 => ElementKind::Record,
            2 => ElementKind::Signature,
            _ => return Err(Malformed),
        };
        Ok(Self {
            kind,
            record: RecordName(reader.array()?),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encoded());
    }
}

/// Gives elements short ids under one salt
#[derive(Clone, Debug)]
pub struct Shortener {
    key: [u8; HASH_BYTES],
}

impl Shortener {
    /// The ids of one capsule's elements under a salt.
    #[must_use]
    pub fn new(capsule: &CapsuleName, salt: &Salt) -> Self {
        let mut material = [0; HASH_BYTES + 16];
        material[..HASH_BYTES].copy_from_slice(&capsule.0);
        material[HASH_BYTES..].copy_from_slice(salt);
        Self {
            key: derive_key(SHORT, &material),
        }
    }

    /// An element's id: the first eight bytes of a keyed hash, little-endian.
    #[must_use]
    pub fn id(&self, element: &Element) -> u64 {
        let hash = hash_with(&self.key, &element.encoded());
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        u64::from_le_bytes(first)
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood: *Fast Splittable Pseudorandom Number Generators*).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn check(id: u64) -> u32 {
    (mix(id) >> 32) as u32
}

/// The symbols, of so many, that hold an id: 0, and from each i the next one, i + 1 + floor((2 i + 3) (2^32 - s) / 2 s), where s is
/// the whole square root of the next word of SplitMix64 from the id.
fn places(id: u64, len: usize) -> impl Iterator<Item = usize> {
    let (mut state, mut next) = (id, 0_u64);
    core::iter::from_fn(move || {
        let place = usize::try_from(next).ok().filter(|place| *place < len)?;
        state = state.wrapping_add(GAMMA);
        let root = mix(state).isqrt();
        let gap = ((2 * next + 3) * ((1 << 32) - root)).checked_div(2 * root);
        next = gap.map_or(u64::MAX, |gap| next.saturating_add(gap + 1));
        Some(place)
    })
}

/// Elements that were added up
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Symbol {
    sum: u64,
    check: u32,
    count: i32,
}

impl Symbol {
    fn add(&mut self, id: u64, count: i32) {
        self.sum ^= id;
        self.check ^= check(id);
        self.count = self.count.wrapping_add(count);
    }

    /// Whether it most likely holds one element alone.
    fn is_single(&self) -> bool {
        self.count.unsigned_abs() == 1 && self.check == check(self.sum)
    }
}

/// A sketch of a set
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    symbols: Vec<Symbol>,
    elements: u64,
}

impl Sketch {
    /// A sketch of the empty set with so many symbols, at most [`MAX_SYMBOLS`].
    #[must_use]
    pub fn new(symbols: usize) -> Self {
        Self {
            symbols: alloc::vec![Symbol::default(); symbols.min(MAX_SYMBOLS)],
            elements: 0,
        }
    }

    /// Adds an element by its id.
    pub fn insert(&mut self, id: u64) {
        self.elements += 1;
        for place in places(id, self.symbols.len()) {
            self.symbols[place].add(id, 1);
        }
    }

    /// How many elements the set has.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// How many symbols it has.
    #[must_use]
    pub fn symbols(&self) -> usize {
        self.symbols.len()
    }

    /// Appends the symbols.
    pub fn write(&self, out: &mut Vec<u8>) {
        for (symbol, usual) in self.symbols.iter().zip(usual(self.elements)) {
            symbol.sum.write(out);
            symbol.check.write(out);
            write_signed(i64::from(symbol.count) - usual, out);
        }
    }

    /// Reads so many symbols of a set of so many elements.
    ///
    /// # Errors
    /// [`Malformed`] when there are too many of either, or when they do not decode.
    pub fn read(reader: &mut Reader<'_>, symbols: usize, elements: u64) -> Result<Self, Malformed> {
        if symbols > MAX_SYMBOLS || elements > MAX_ELEMENTS {
            return Err(Malformed);
        }
        let symbols = usual(elements)
            .take(symbols)
            .map(|usual| {
                Ok(Symbol {
                    sum: reader.field()?,
                    check: reader.field()?,
                    count: i32::try_from(usual + read_signed(reader)?).map_err(|_| Malformed)?,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { symbols, elements })
    }

    /// What is in one of two sets and not in the other; both have the same number of symbols.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Difference {
        let pairs = self.symbols.iter().zip(&other.symbols);
        let symbols = pairs.map(|(ours, theirs)| Symbol {
            sum: ours.sum ^ theirs.sum,
            check: ours.check ^ theirs.check,
            count: ours.count.wrapping_sub(theirs.count),
        });
        Difference {
            symbols: symbols.collect(),
        }
    }
}

/// How many elements each symbol holds of so many, on average.
fn usual(elements: u64) -> impl Iterator<Item = i64> {
    (2..).map(move |below| (2 * elements / below) as i64)
}

/// Two sketches subtracted
#[derive(Clone, Debug)]
pub struct Difference {
    symbols: Vec<Symbol>,
}

/// Ids of elements that only one of two sets has
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differing {
    /// Those of the set from which the other was subtracted.
    pub ours: Vec<u64>,
    /// Those of the other.
    pub theirs: Vec<u64>,
}

impl Difference {
    /// Takes the elements out; nothing when there are too many for so few symbols, or when a symbol is wrong.
    #[must_use]
    pub fn decode(mut self) -> Option<Differing> {
        let symbols = &mut self.symbols;
        let mut single: Vec<usize> = (0..symbols.len())
            .filter(|place| symbols[*place].is_single())
            .collect();
        let mut differing = Differing::default();
        while let Some(place) = single.pop() {
            let Symbol { sum: id, count, .. } = symbols[place];
            if !symbols[place].is_single() {
                continue;
            }
            let side = if count > 0 {
                &mut differing.ours
            } else {
                &mut differing.theirs
            };
            side.push(id);
            // No sketch yields more elements than it has symbols, unless somebody made it up.
            if differing.ours.len() + differing.theirs.len() > symbols.len() {
                return None;
            }
            for place in places(id, symbols.len()) {
                symbols[place].add(id, -count);
                if symbols[place].is_single() {
                    single.push(place);
                }
            }
        }
        let is_empty = symbols.iter().all(|symbol| *symbol == Symbol::default());
        is_empty.then_some(differing)
    }

    /// About how many elements differ.
    ///
    /// Of d that differ symbol i holds each with probability p = 2 / (i + 2), so the variance of its count, whose mean the
    /// count of symbol 0 tells, is d p (1 - p).
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let Some((first, rest)) = self.symbols.split_first() else {
            return 0;
        };
        let surplus = i128::from(first.count);
        let squares = (1_i128..).zip(rest).map(|(place, symbol)| {
            let off = i128::from(symbol.count) * (place + 2) - 2 * surplus;
            off * off / (2 * place)
        });
        let variance = squares.sum::<i128>() / (rest.len() as i128).max(1);
        u64::try_from(variance.max(surplus.abs())).unwrap_or(u64::MAX)
    }
}

/// How many symbols most likely suffice for a difference that was guessed: 1.35 for each element that differs, and two thirds more,
/// because a guess from [`FIRST_SYMBOLS`] is too low by more only once in some hundred times.
#[must_use]
pub fn symbols_for(differing: u64) -> u64 {
    differing.saturating_mul(9) / 4 + 48
}

fn write_signed(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Reads at most five bytes: a count has 32 bits.
fn read_signed(reader: &mut Reader<'_>) -> Result<i64, Malformed> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let byte: u8 = reader.field()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(seed: u64, count: usize) -> Vec<u64> {
        (1..=count as u64)
            .map(|index| mix(mix(seed).wrapping_add(index)))
            .collect()
    }

    /// Sketches of two sets that share `both` elements, as they come over the wire.
    fn sketches(symbols: usize, both: usize, ours: &[u64], theirs: &[u64]) -> (Sketch, Sketch) {
        let common = ids(0, both);
        let [ours, theirs] = [ours, theirs].map(|own| {
            let mut sketch = Sketch::new(symbols);
            common.iter().chain(own).for_each(|id| sketch.insert(*id));
            let mut encoded = Vec::new();
            sketch.write(&mut encoded);
            let mut reader = Reader::new(&encoded);
            assert_eq!(
                Sketch::read(&mut reader, symbols, sketch.elements()),
                Ok(sketch.clone())
            );
            assert!(reader.is_empty());
            sketch
        });
        (ours, theirs)
    }

    fn sorted(mut all: Vec<u64>) -> Vec<u64> {
        all.sort_unstable();
        all
    }

    #[test]
    fn what_differs_comes_out_again() {
        for (count, seed) in [(0, 1), (1, 2), (7, 3), (30, 4), (500, 5)] {
            let (ours, theirs) = (ids(seed, count), ids(seed + 100, count / 2));
            let symbols = symbols_for(ours.len() as u64 + theirs.len() as u64) as usize;
            let (a, b) = sketches(symbols, 3000, &ours, &theirs);
            let differing = a.difference(&b).decode().expect("there are symbols enough");
            assert_eq!(sorted(differing.ours), sorted(ours));
            assert_eq!(sorted(differing.theirs), sorted(theirs));
        }
    }

    #[test]
    fn too_few_symbols_say_so_and_tell_about_how_many_are_needed() {
        for seed in 0..200 {
            let count = 100 + 17 * seed as usize;
            let (a, b) = sketches(
                FIRST_SYMBOLS,
                1000,
                &ids(seed + 7, count),
                &ids(seed + 900, count / 3),
            );
            let difference = a.difference(&b);
            let differing = (count + count / 3) as u64;
            let guess = difference.estimate();
            assert!(
                (differing * 2 / 5..differing * 5 / 2).contains(&guess),
                "seed {seed}: {guess} for {differing}"
            );
            assert!(difference.decode().is_none(), "seed {seed}");
        }
    }

    /// What the first guess asks for suffices, but for a few times in a thousand.
    #[test]
    fn the_second_sketch_nearly_always_suffices() {
        let mut failures = 0;
        for seed in 0..300 {
            let (ours, theirs) = (
                ids(seed + 7, 40 + seed as usize * 3),
                ids(seed + 900, 20 + seed as usize),
            );
            let (a, b) = sketches(FIRST_SYMBOLS, 500, &ours, &theirs);
            let symbols = symbols_for(a.difference(&b).estimate()) as usize;
            let (a, b) = sketches(symbols, 500, &ours, &theirs);
            failures += usize::from(a.difference(&b).decode().is_none());
        }
        assert!(failures <= 3, "{failures} of 300");
    }

    #[test]
    fn a_sketch_that_was_made_up_ends_and_yields_no_more_than_it_has_symbols() {
        for seed in 0..500 {
            let words = ids(seed, 64);
            let symbols = words.iter().map(|word| Symbol {
                sum: *word,
                check: check(*word),
                count: if word & 1 == 0 { 1 } else { -1 },
            });
            let difference = Difference {
                symbols: symbols.collect(),
            };
            let _ = difference.estimate();
            assert!(
                difference
                    .decode()
                    .is_none_or(|all| all.ours.len() + all.theirs.len() <= 64)
            );
        }
        let extreme = Symbol {
            count: i32::MIN,
            ..Symbol::default()
        };
        let difference = Difference {
            symbols: alloc::vec![extreme; MAX_SYMBOLS],
        };
        let _ = difference.estimate();
        assert!(difference.decode().is_none());
    }

    #[test]
    fn what_does_not_decode_or_is_too_much_is_refused() {
        let mut sketch = Sketch::new(8);
        ids(3, 100).iter().for_each(|id| sketch.insert(*id));
        let mut encoded = Vec::new();
        sketch.write(&mut encoded);
        for len in 0..encoded.len() {
            assert!(Sketch::read(&mut Reader::new(&encoded[..len]), 8, 100).is_err());
        }
        let zeros = alloc::vec![0; 13 * (MAX_SYMBOLS + 1)];
        assert!(Sketch::read(&mut Reader::new(&zeros), MAX_SYMBOLS, 0).is_ok());
        assert!(Sketch::read(&mut Reader::new(&zeros), MAX_SYMBOLS + 1, 0).is_err());
        assert!(Sketch::read(&mut Reader::new(&zeros), 8, MAX_ELEMENTS + 1).is_err());
        let mut long = alloc::vec![0; 12];
        long.extend_from_slice(&[0xff; 8]);
        assert!(Sketch::read(&mut Reader::new(&long), 1, 0).is_err());
    }

    #[test]
    fn ids_are_of_a_capsule_a_salt_and_a_kind() {
        let of = |capsule: u8, salt: u8| Shortener::new(&CapsuleName([capsule; 32]), &[salt; 16]);
        let record = RecordName([7; 32]);
        let ids = [
            of(1, 1).id(&Element::record(record)),
            of(1, 1).id(&Element::signature(record)),
            of(1, 2).id(&Element::record(record)),
            of(2, 1).id(&Element::record(record)),
        ];
        assert_eq!(alloc::collections::BTreeSet::from(ids).len(), 4);
    }
}
