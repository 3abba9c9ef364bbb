//! Records that were seen lately: two of one writer with one sequence number show that it has forked.

use alloc::vec::Vec;

use crate::hash::RecordName;
use crate::header::HeaderView;

/// Records that are remembered, each in the place of its writer and sequence: those of one writer follow one another.
const PLACES: usize = 4096;
/// Most pairs that are reported: one is enough to accuse a writer.
const MAX_FORKS: usize = 64;

/// What was seen lately
#[derive(Debug, Default)]
pub(super) struct Sightings {
    places: Vec<Option<(u16, u64, RecordName)>>,
    forks: Vec<[RecordName; 2]>,
}

impl Sightings {
    /// Takes a record that its writer has signed: one that another vouches for is no evidence against the writer that it names.
    pub(super) fn note(&mut self, name: &RecordName, header: &HeaderView<'_>) {
        let (writer, sequence) = (header.writer(), header.sequence());
        let place = (sequence as usize).wrapping_add(usize::from(writer).wrapping_mul(31)) % PLACES;
        if place >= self.places.len() {
            self.places.resize(place + 1, None);
        }
        let before = self.places[place].replace((writer, sequence, *name));
        if let Some((other_writer, other_sequence, other)) = before
            && (other_writer, other_sequence) == (writer, sequence)
            && other != *name
        {
            let mut pair = [other, *name];
            pair.sort_unstable();
            if self.forks.len() < MAX_FORKS && !self.forks.contains(&pair) {
                self.forks.push(pair);
            }
        }
    }

    /// Pairs of records with one place.
    pub(super) fn forks(&self) -> &[[RecordName; 2]] {
        &self.forks
    }
}
