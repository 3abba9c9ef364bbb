//! The verification cache: what a reader has verified, and a server's mirror of it (DCS, section 3.3).
//!
//! The policy is part of the protocol, so that both sides hold the same after the same insertions. A cache has a power of
//! two of slots, as its reader says when a session begins. The slot of a name is its first four bytes, little-endian, modulo
//! the number of slots, and a name that is inserted takes the place of what its slot held. Names are hashes, so they spread
//! by themselves; a writer who makes them collide costs his readers longer proofs and nothing else.

use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::authorship::Attribution;
use crate::hash::HASH_BYTES;
use crate::spread::BuildSpread;

/// Fewest slots, as a power of two.
pub const MIN_SLOTS_LOG2: u8 = 4;
/// Most slots, as a power of two: 4 MiB for a reader, 1 MiB for a server.
pub const MAX_SLOTS_LOG2: u8 = 17;
/// Slots of a reader that does not choose, as a power of two: half a megabyte for the reader, 128 KiB for a server.
pub const DEFAULT_SLOTS_LOG2: u8 = 14;

/// What a slot holds of a name
pub trait Slot: Copy + PartialEq {
    /// What an empty slot holds.
    const EMPTY: Self;

    /// What is kept of a name.
    fn of(name: &[u8; HASH_BYTES]) -> Self;
}

/// All of a name: what a reader must keep, as it believes what it holds.
impl Slot for [u8; HASH_BYTES] {
    const EMPTY: Self = [0; HASH_BYTES];

    fn of(name: &[u8; HASH_BYTES]) -> Self {
        *name
    }
}

/// Eight bytes of a name: enough for a server, whose mistakes the reader sees.
impl Slot for u64 {
    const EMPTY: Self = 0;

    fn of(name: &[u8; HASH_BYTES]) -> Self {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&name[4..12]);
        Self::from_le_bytes(bytes)
    }
}

/// Names that were verified, as many as there are slots at most
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache<S> {
    slots: Vec<S>,
}

/// Whole names
pub type Names = Cache<[u8; HASH_BYTES]>;
/// What a server knows that a reader has verified
pub type Mirror = Cache<u64>;

impl<S: Slot> Cache<S> {
    /// An empty cache; the number of slots is brought within the bounds.
    #[must_use]
    pub fn new(slots_log2: u8) -> Self {
        let slots_log2 = slots_log2.clamp(MIN_SLOTS_LOG2, MAX_SLOTS_LOG2);
        Self {
            slots: vec![S::EMPTY; 1 << slots_log2],
        }
    }

    /// Whether it holds a name.
    #[must_use]
    pub fn contains(&self, name: &[u8; HASH_BYTES]) -> bool {
        let slot = S::of(name);
        // Both in any case: nothing has to wait for what comes from memory to know how it goes on.
        (slot != S::EMPTY) & (self.slots[self.place(name)] == slot)
    }

    /// Adds a name, in the place of another if need be.
    pub fn insert(&mut self, name: &[u8; HASH_BYTES]) {
        let place = self.place(name);
        self.slots[place] = S::of(name);
    }

    /// Forgets all names.
    pub fn clear(&mut self) {
        self.slots.fill(S::EMPTY);
    }

    /// How many bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.len() * size_of::<S>()
    }

    fn place(&self, name: &[u8; HASH_BYTES]) -> usize {
        let first = u32::from_le_bytes([name[0], name[1], name[2], name[3]]);
        first as usize & (self.slots.len() - 1)
    }
}

/// What a reader has verified: names, and of each who answers for it
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    names: Names,
    attributions: Vec<Attribution>,
}

impl Verified {
    /// An empty cache; the number of slots is brought within the bounds.
    #[must_use]
    pub fn new(slots_log2: u8) -> Self {
        let names = Names::new(slots_log2);
        Self {
            attributions: vec![Attribution::default(); names.slots.len()],
            names,
        }
    }

    /// Whether it holds a name.
    #[must_use]
    pub fn contains(&self, name: &[u8; HASH_BYTES]) -> bool {
        self.names.contains(name)
    }

    /// Who answers for a name that it holds.
    #[must_use]
    pub fn attribution(&self, name: &[u8; HASH_BYTES]) -> Option<Attribution> {
        let holds = self.contains(name);
        holds.then(|| self.attributions[self.names.place(name)])
    }

    /// Adds a name, in the place of another if need be. What it knows of the same name stays if it says more.
    pub fn learn(&mut self, name: &[u8; HASH_BYTES], attribution: Attribution) {
        let known = self.attribution(name);
        self.names.insert(name);
        let place = self.names.place(name);
        self.attributions[place] = known.map_or(attribution, |known| known.or_better(attribution));
    }

    /// Forgets all names.
    pub fn clear(&mut self) {
        self.names.clear();
    }
}

/// What a mirror will hold beside what it holds, when the reader has verified some proofs more: those before in the same response
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    changed: HashMap<u64, u64, BuildSpread>,
}

/// About how many names a hundred proofs verify that build on one another.
const AHEAD: usize = 400;

impl Ahead {
    pub(crate) fn contains(&self, mirror: &Mirror, name: &[u8; HASH_BYTES]) -> bool {
        match self.changed.get(&(mirror.place(name) as u64)) {
            Some(slot) => *slot == u64::of(name),
            None => mirror.contains(name),
        }
    }

    pub(crate) fn insert(&mut self, mirror: &Mirror, name: &[u8; HASH_BYTES]) {
        if self.changed.is_empty() {
            self.changed.reserve(AHEAD);
        }
        self.changed.insert(mirror.place(name) as u64, u64::of(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(first: u32, rest: u8) -> [u8; HASH_BYTES] {
        let mut name = [rest; HASH_BYTES];
        name[..4].copy_from_slice(&first.to_le_bytes());
        name
    }

    #[test]
    fn a_name_takes_the_place_of_another_in_its_slot() {
        let mut cache = Names::new(MIN_SLOTS_LOG2);
        cache.insert(&name(3, 1));
        cache.insert(&name(4, 1));
        assert!(cache.contains(&name(3, 1)) && cache.contains(&name(4, 1)));
        cache.insert(&name(3 + 16, 2));
        assert!(!cache.contains(&name(3, 1)) && cache.contains(&name(19, 2)));
        let held = cache.slots.iter().filter(|slot| **slot != [0; HASH_BYTES]);
        assert_eq!(held.count(), 2);
    }

    #[test]
    fn a_mirror_holds_what_the_reader_holds() {
        let mut verified = Names::new(6);
        let mut mirror = Mirror::new(6);
        let mut state = 1_u32;
        let names: Vec<_> = (0..500_u32)
            .map(|index| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                name(state >> 8, index as u8)
            })
            .collect();
        for name in &names {
            verified.insert(name);
            mirror.insert(name);
        }
        for name in &names {
            assert_eq!(verified.contains(name), mirror.contains(name));
        }
    }

    #[test]
    fn the_number_of_slots_is_bounded_and_nothing_is_held_at_first() {
        let verified = Verified::new(0);
        assert_eq!(verified.names.bytes(), 16 * 32);
        assert_eq!(verified.attributions.len(), 16);
        assert_eq!(Mirror::new(255).bytes(), (1 << 17) * 8);
        assert!(!Verified::new(4).contains(&[0; 32]) && !Mirror::new(4).contains(&[0; 32]));
    }
}
