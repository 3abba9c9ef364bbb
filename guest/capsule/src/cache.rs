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
use crate::places::Places;
use crate::spread::BuildSpread;

/// Fewest slots, as a power of two.
pub const MIN_SLOTS_LOG2: u8 = 4;
/// Most slots, as a power of two: 1 MiB for a server. A reader has 55 to 110 bytes for each name that it holds, at most 8 MiB.
pub const MAX_SLOTS_LOG2: u8 = 17;
/// Slots of a reader that does not choose, as a power of two: 128 KiB for a server.
pub const DEFAULT_SLOTS_LOG2: u8 = 14;

/// What a server knows that a reader has verified, as many names as there are slots at most
///
/// Of each it keeps eight bytes: enough for a server, whose mistakes the reader sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    slots: Vec<u64>,
}

/// What an empty slot holds.
const EMPTY: u64 = 0;

impl Mirror {
    /// An empty mirror; the number of slots is brought within the bounds.
    #[must_use]
    pub fn new(slots_log2: u8) -> Self {
        let slots_log2 = slots_log2.clamp(MIN_SLOTS_LOG2, MAX_SLOTS_LOG2);
        Self {
            slots: vec![EMPTY; 1 << slots_log2],
        }
    }

    /// Whether it holds a name.
    #[must_use]
    pub fn contains(&self, name: &[u8; HASH_BYTES]) -> bool {
        let kept = kept_of(name);
        // Both in any case: nothing has to wait for what comes from memory to know how it goes on.
        (kept != EMPTY) & (self.slots[self.place(name)] == kept)
    }

    /// Adds a name, in the place of another if need be.
    pub fn insert(&mut self, name: &[u8; HASH_BYTES]) {
        let place = self.place(name);
        self.slots[place] = kept_of(name);
    }

    /// How many bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u64>()
    }

    fn place(&self, name: &[u8; HASH_BYTES]) -> usize {
        let first = u32::from_le_bytes([name[0], name[1], name[2], name[3]]);
        first as usize & (self.slots.len() - 1)
    }
}

/// What a mirror keeps of a name.
fn kept_of(name: &[u8; HASH_BYTES]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&name[4..12]);
    u64::from_le_bytes(bytes)
}

/// What a reader has verified: names, and of each who answers for it
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    names: Places<Attribution>,
}

impl Verified {
    /// An empty cache; the number of slots is brought within the bounds.
    #[must_use]
    pub fn new(slots_log2: u8) -> Self {
        Self {
            names: Places::new(slots_log2.clamp(MIN_SLOTS_LOG2, MAX_SLOTS_LOG2)),
        }
    }

    /// Whether it holds a name.
    #[must_use]
    pub fn contains(&self, name: &[u8; HASH_BYTES]) -> bool {
        self.names.get(name).is_some()
    }

    /// Who answers for a name that it holds.
    #[must_use]
    pub fn attribution(&self, name: &[u8; HASH_BYTES]) -> Option<Attribution> {
        self.names.get(name).copied()
    }

    /// Adds a name, in the place of another if need be. What it knows of the same name stays if it says more.
    pub fn learn(&mut self, name: &[u8; HASH_BYTES], attribution: Attribution) {
        self.names.learn(name, |known| {
            known.map_or(attribution, |known| known.or_better(attribution))
        });
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
            Some(slot) => *slot == kept_of(name),
            None => mirror.contains(name),
        }
    }

    pub(crate) fn insert(&mut self, mirror: &Mirror, name: &[u8; HASH_BYTES]) {
        if self.changed.is_empty() {
            self.changed.reserve(AHEAD);
        }
        self.changed.insert(mirror.place(name) as u64, kept_of(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::tests::name;

    #[test]
    fn a_mirror_holds_what_the_reader_holds() {
        let mut verified = Verified::new(6);
        let mut mirror = Mirror::new(6);
        let mut state = 1_u32;
        let names: Vec<_> = (0..500_u32)
            .map(|index| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                name(state >> 8, index as u8)
            })
            .collect();
        for name in &names {
            verified.learn(name, Attribution::default());
            mirror.insert(name);
        }
        for name in &names {
            assert_eq!(verified.contains(name), mirror.contains(name));
        }
    }

    #[test]
    fn the_number_of_slots_is_bounded_and_nothing_is_held_at_first() {
        assert_eq!(Mirror::new(0).bytes(), 16 * 8);
        assert_eq!(Mirror::new(255).bytes(), (1 << 17) * 8);
        assert!(!Verified::new(4).contains(&[0; 32]) && !Mirror::new(4).contains(&[0; 32]));
    }
}
