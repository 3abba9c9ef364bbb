//! The fingerprint of all that a replica stores of a capsule: counted once somebody asks after the capsule was opened, and kept
//! from then on.

use alloc::vec::Vec;

use selfsame_codec::Field;
use selfsame_sodium::hash::hash_for;

use super::space::Space;
use super::walk::{LeftOut, Page, Step, Walk};
use crate::hash::CapsuleName;
use crate::message::{Fingerprint, Part};
use crate::refusal::Result;
use crate::sketch::Element;

const ELEMENT: &str = "selfsame/1 capsule element";
const SET: &str = "selfsame/1 capsule set";

/// How many elements there are, and the sum of their hashes modulo 2^256, its least word first
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: u64,
    sum: [u64; 4],
}

impl Total {
    fn add(&mut self, element: &Element) {
        self.count = self.count.wrapping_add(1);
        let mut carry = false;
        for (word, more) in self.sum.iter_mut().zip(words(element)) {
            (*word, carry) = word.carrying_add(more, carry);
        }
    }

    fn subtract(&mut self, element: &Element) {
        self.count = self.count.wrapping_sub(1);
        let mut borrow = false;
        for (word, less) in self.sum.iter_mut().zip(words(element)) {
            (*word, borrow) = word.borrowing_sub(less, borrow);
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        let mut bytes = Vec::with_capacity(40);
        self.count.write(&mut bytes);
        self.sum.iter().for_each(|word| word.write(&mut bytes));
        hash_for(SET, &bytes)
    }
}

/// An element's hash, as a number.
fn words(element: &Element) -> [u64; 4] {
    let mut encoded = Vec::with_capacity(33);
    element.write(&mut encoded);
    let hash = hash_for(ELEMENT, &encoded);
    let (words, _) = hash.as_chunks();
    core::array::from_fn(|place| u64::from_le_bytes(words[place]))
}

/// The elements of a capsule, added up
#[derive(Debug, Default)]
pub(super) struct Census {
    total: Option<Total>,
    /// The walk that counts, until it is at its end.
    walk: Option<Walk>,
}

impl Census {
    /// Counts on.
    ///
    /// # Errors
    /// [`selfsame_codec::Code::StoreCorrupt`].
    pub(super) fn step(
        &mut self,
        space: &mut Space,
        page: &mut Page,
        capsule: CapsuleName,
        left_out: LeftOut<'_>,
    ) -> Result<Step> {
        let total = self.total.get_or_insert_with(|| {
            self.walk = Some(Walk::new(capsule, Part::WHOLE));
            Total::default()
        });
        let Some(walk) = &mut self.walk else {
            return Ok(Step::Done);
        };
        let step = walk.step(space, page, left_out, &mut |element| total.add(element))?;
        if matches!(step, Step::Done) {
            self.walk = None;
        }
        Ok(step)
    }

    /// The fingerprint, when all was counted.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.total.unwrap_or_default().fingerprint()
    }

    /// An element was stored.
    pub(super) fn insert(&mut self, element: &Element) {
        if self.has_met(element)
            && let Some(total) = &mut self.total
        {
            total.add(element);
        }
    }

    /// An element was removed.
    pub(super) fn remove(&mut self, element: &Element) {
        if self.has_met(element)
            && let Some(total) = &mut self.total
        {
            total.subtract(element);
        }
    }

    /// Whether the walk does not come where the element lies any more.
    fn has_met(&self, element: &Element) -> bool {
        self.walk.as_ref().is_none_or(|walk| walk.is_past(element))
    }
}
