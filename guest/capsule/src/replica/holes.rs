//! Which records point to one that is missing, so that something proves it when it comes.
//!
//! Besides the first few records, a hole has a place for one that is proven and one for each writer's own: what a writer stores takes
//! no other writer's place.

use alloc::vec::Vec;

use super::entry::Entry;
use super::index::{Index, Outcome, known};
use super::layout::{self, Key, of_record};
use super::space::{Missing, Space};
use super::stored::Stored;
use crate::authority::MAX_WRITERS;
use crate::hash::{HASH_BYTES, RecordName};
use crate::header::HeaderView;
use crate::refusal::Result;
use crate::witness::Witness;

/// Records that are remembered in the order in which they came. These and two others, of 5 KB each, are read at once when the missing
/// one comes: they fit half of the smallest cache.
const FIRST: usize = 64;
/// The place of one that is proven; those of writers' own follow.
const PROVEN: usize = FIRST;
/// A place that is free.
const FREE: [u8; HASH_BYTES] = [0; HASH_BYTES];

/// The key under which is stored who points to a missing record, and its value
pub(super) type Pointing = (Key, Vec<u8>);

/// A missing record's key, and who is remembered to point there
pub(super) type Hole = (Key, Option<Stored>);

/// The place of a writer's own. Writers are numbered one after the other: no two of a capsule have the same place.
fn place_of(writer: u16) -> usize {
    PROVEN + 1 + usize::from(writer) % MAX_WRITERS
}

/// Those that may prove a missing record of this writer better than others.
fn candidates(pointing: &[u8], writer: u16) -> impl Iterator<Item = RecordName> {
    let (places, _) = pointing.as_chunks();
    let first = places.iter().take(PROVEN + 1);
    let all = first.chain(places.get(place_of(writer)));
    all.filter(|name| **name != FREE).map(|name| RecordName(*name))
}

/// Remembers who points to a record that is missing, if it is among the first.
pub(super) fn note_hole(space: &mut Space, (key, others): Hole, name: &RecordName) {
    let mut pointing = others.map_or_else(Vec::new, |others| others.to_vec());
    if pointing.len() < FIRST * HASH_BYTES {
        pointing.extend_from_slice(&name.0);
        space.put(key, pointing);
    }
}

impl Index {
    /// The missing records that a record points to. All that has to be read is asked for at once.
    pub(super) fn holes_below(
        &self,
        space: &mut Space,
        header: &HeaderView<'_>,
    ) -> core::result::Result<Vec<Hole>, Missing> {
        let (mut holes, mut is_missing) = (Vec::new(), false);
        for pointer in header.backpointers() {
            let key = of_record(&self.capsule, layout::POINTED, &pointer);
            match space.has(&of_record(&self.capsule, layout::RECORD, &pointer)) {
                Ok(true) => {}
                Ok(false) if let Ok(others) = space.get(&key) => holes.push((key, others)),
                _ => is_missing = true,
            }
        }
        if is_missing { Err(Missing) } else { Ok(holes) }
    }

    /// The shortest witness of a record with this header through those that point to it, of those that show that it is its writer's if
    /// there are any.
    pub(super) fn best_witness(
        &self,
        space: &mut Space,
        pointing: &[u8],
        header: &HeaderView<'_>,
    ) -> Result<Outcome<Witness>> {
        let key = |name| of_record(&self.capsule, layout::RECORD, &name);
        let keys: Vec<Key> = candidates(pointing, header.writer()).map(key).collect();
        space.expect(&keys, |_, _| {});
        let (mut best, mut least) = (Witness::Unproven, (true, u32::MAX));
        for name in candidates(pointing, header.writer()) {
            let Some(entry) = known!(self.entry(space, &name))? else {
                continue;
            };
            if let Some(through @ Witness::Through { steps, is_own, .. }) =
                self.through(&name, &entry, header)
                && (!is_own, steps) < least
            {
                least = (!is_own, steps);
                best = through;
            }
        }
        Ok(Outcome::Done(best))
    }

    /// Where a proven record is remembered that points to a missing one and is not among the first: nothing if others serve as well.
    pub(super) fn note_proven(
        &self,
        space: &mut Space,
        missing: &RecordName,
        (name, entry): (&RecordName, &Entry),
    ) -> core::result::Result<Option<Pointing>, Missing> {
        let key = of_record(&self.capsule, layout::POINTED, missing);
        let Some(others) = space.get(&key)? else {
            return Ok(None);
        };
        let (places, _) = others.as_chunks();
        if places.len() < FIRST || places[..FIRST].contains(&name.0) {
            return Ok(None);
        }
        let writer = entry.header().writer();
        let own = self.is_own(entry).then(|| place_of(writer));
        let mut pointing = others.to_vec();
        for place in [Some(PROVEN), own].into_iter().flatten() {
            let held = match places.get(place) {
                Some(held) if *held != FREE => self.entry(space, &RecordName(*held))?.ok().flatten(),
                _ => None,
            };
            let serves = held.is_some_and(|held| match place {
                PROVEN => self.steps(&held) < u32::MAX,
                _ => held.header().writer() == writer && self.is_own(&held),
            });
            if !serves {
                let at = place * HASH_BYTES;
                pointing.resize(pointing.len().max(at + HASH_BYTES), 0);
                pointing[at..at + HASH_BYTES].copy_from_slice(&name.0);
            }
        }
        Ok((pointing[..] != others[..]).then_some((key, pointing)))
    }
}
