//! The core workloads A to D of YCSB: which keys are read and written, in the distributions of its generators.

use bench_pair::Outcome;

/// YCSB's exponent of its zipfian distributions.
const THETA: f64 = 0.99;
/// YCSB draws from so many items and hashes what it draws, so that the popular ones are spread over all keys.
const SCRAMBLED_ITEMS: f64 = 1e10;
/// The sum of `1 / i^THETA` over them, as YCSB has it.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;
/// Digits of a key.
pub(crate) const KEY_BYTES: usize = 16;

/// One operation on the item of a number
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Reads it.
    Read(u32),
    /// Writes it, for the first time or again.
    Write(u32),
}

/// Which items are asked for
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// Some more often than others.
    Zipfian,
    /// The latest most often.
    Latest,
}

/// A workload: which part of its operations are writes, whether those are of new items, and which items are asked for
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Workload {
    writes: f64,
    inserts: bool,
    choice: Choice,
}

impl Workload {
    /// The workload of a letter.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn named(letter: &str) -> Outcome<Self> {
        let (writes, inserts, choice) = match letter {
            "a" => (0.5, false, Choice::Zipfian),
            "b" => (0.05, false, Choice::Zipfian),
            "c" => (0.0, false, Choice::Zipfian),
            "d" => (0.05, true, Choice::Latest),
            _ => return Err(format!("no workload {letter}")),
        };
        Ok(Self {
            writes,
            inserts,
            choice,
        })
    }

    /// So many operations on a store that holds `items` items.
    pub(crate) fn operations(&self, random: &mut Random, items: u32, count: u64) -> Vec<Operation> {
        let mut items = items;
        let scrambled = Zipfian::new(SCRAMBLED_ITEMS, SCRAMBLED_ZETA);
        let mut latest = Latest::new(items);
        (0..count)
            .map(|_| {
                let is_write = random.fraction() < self.writes;
                if is_write && self.inserts {
                    items += 1;
                    latest.add();
                    return Operation::Write(items - 1);
                }
                let item = match self.choice {
                    Choice::Zipfian => fnv(scrambled.draw(random)) % u64::from(items),
                    Choice::Latest => u64::from(items - 1) - latest.draw(random),
                };
                if is_write {
                    Operation::Write(item as u32)
                } else {
                    Operation::Read(item as u32)
                }
            })
            .collect()
    }
}

/// The key of an item: the digits of a hash of its number, so that keys that follow each other lie apart.
pub(crate) fn key(item: u32) -> [u8; KEY_BYTES] {
    let mut number = fnv(u64::from(item));
    let mut key = [b'0'; KEY_BYTES];
    for digit in key.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    key
}

/// FNV-1a of the bytes of a number, its sign dropped, as YCSB has it.
fn fnv(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    hash & (u64::MAX >> 1)
}

/// Numbers from 0, small ones more often (Gray and others, *Quickly generating billion-record synthetic databases*)
#[derive(Clone, Copy, Debug)]
struct Zipfian {
    items: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    fn new(items: f64, zeta: f64) -> Self {
        let zeta_of_two = 1.0 + 0.5_f64.powf(THETA);
        let eta = (1.0 - (2.0 / items).powf(1.0 - THETA)) / (1.0 - zeta_of_two / zeta);
        Self { items, zeta, eta }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let drawn = random.fraction();
        let scaled = drawn * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        let share = (self.eta * drawn - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        ((self.items * share) as u64).min(self.items as u64 - 1)
    }
}

/// How far back from the latest of items that become more
#[derive(Clone, Copy, Debug)]
struct Latest {
    items: u32,
    zeta: f64,
}

impl Latest {
    fn new(items: u32) -> Self {
        let mut latest = Self { items: 0, zeta: 0.0 };
        (0..items).for_each(|_| latest.add());
        latest
    }

    fn add(&mut self) {
        self.items += 1;
        self.zeta += f64::from(self.items).powf(THETA).recip();
    }

    fn draw(&self, random: &mut Random) -> u64 {
        Zipfian::new(f64::from(self.items), self.zeta).draw(random)
    }
}

/// Random numbers that a seed repeats (SplitMix64)
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Those of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below 1.
    fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Random bytes from which values are cut, so that drawing them costs next to nothing
#[derive(Debug)]
pub(crate) struct Values {
    bytes: Vec<u8>,
    len: usize,
}

/// Where values begin in the random bytes: more places than a store compresses at a time.
const PLACES: usize = 1 << 20;

impl Values {
    /// Values of a length.
    pub(crate) fn new(random: &mut Random, len: usize) -> Self {
        let mut bytes: Vec<u8> = (0..(PLACES + len).div_ceil(8))
            .flat_map(|_| random.bits().to_le_bytes())
            .collect();
        bytes.truncate(PLACES + len);
        Self { bytes, len }
    }

    /// The value of a number.
    pub(crate) fn of(&self, number: u64) -> &[u8] {
        let place = (number as usize).wrapping_mul(0x9e37_79b1) % PLACES;
        &self.bytes[place..place + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(letter: &str, wanted: impl Fn(&Operation) -> bool) -> f64 {
        let workload = Workload::named(letter).expect("a workload");
        let drawn = workload.operations(&mut Random::new(7), 2000, 100_000);
        drawn.iter().filter(|operation| wanted(operation)).count() as f64 / drawn.len() as f64
    }

    #[test]
    fn as_many_are_written_as_the_workload_says() {
        for (letter, writes) in [("a", 0.5), ("b", 0.05), ("c", 0.0), ("d", 0.05)] {
            let written = share(letter, |operation| matches!(operation, Operation::Write(_)));
            assert!((written - writes).abs() < 0.01, "{letter}: {written}");
        }
    }

    #[test]
    fn the_most_popular_item_is_drawn_as_often_as_the_distribution_says() {
        let most = u32::try_from(fnv(0) % 2000).expect("one of 2000");
        let drawn = share("c", |operation| *operation == Operation::Read(most));
        assert!((drawn - 1.0 / SCRAMBLED_ZETA).abs() < 0.01, "{drawn}");
    }

    #[test]
    fn the_latest_items_are_read_most_often() {
        let workload = Workload::named("d").expect("a workload");
        let mut items = 2000;
        let (mut late, mut reads) = (0, 0);
        for operation in workload.operations(&mut Random::new(7), items, 100_000) {
            match operation {
                Operation::Write(item) => {
                    assert_eq!(item, items);
                    items += 1;
                }
                Operation::Read(item) => {
                    assert!(item < items);
                    reads += 1;
                    late += u32::from(items - item <= 100);
                }
            }
        }
        assert!(late * 2 > reads, "{late} of {reads}");
    }

    #[test]
    fn keys_are_digits_and_differ() {
        let mut keys: Vec<_> = (0..20_000).map(key).collect();
        assert!(keys.iter().flatten().all(u8::is_ascii_digit));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 20_000);
    }
}
