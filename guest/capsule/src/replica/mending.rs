//! What becomes of the graph when something of it is damaged.

use super::entry::Entry;
use super::holes::note_hole;
use super::index::{Index, Outcome};
use super::layout::{self, names, of_record};
use super::space::Space;
use crate::hash::RecordName;
use crate::witness::Witness;

impl Index {
    /// A record is damaged so much that nothing of it is left.
    pub(super) fn drop_record(&mut self, space: &mut Space, name: &RecordName) {
        space.delete(of_record(&self.capsule, layout::RECORD, name));
        space.delete(of_record(&self.capsule, layout::SIGNED, name));
        self.remove_head(space, name);
        self.damage.regain(space, &self.capsule, name);
        self.count_anew();
    }

    /// The body of a record is lost.
    pub(super) fn lose_body(&mut self, space: &mut Space, name: &RecordName) {
        if !self.damage.lose(space, &self.capsule, *name) {
            self.drop_record(space, name);
        }
        self.count_anew();
    }

    /// A signature does not count, though it is stored.
    pub(super) fn forget_signature(&mut self, space: &mut Space, name: &RecordName, entry: Entry) {
        space.delete(of_record(&self.capsule, layout::SIGNED, name));
        self.set_witness(space, name, entry, Witness::Unproven);
        self.spreading.push_back(*name);
        self.count_anew();
    }

    /// Finds out anew what a record points to: what is missing is noted, what is there may get a witness through it.
    pub(super) fn mend_pointers(
        &mut self,
        space: &mut Space,
        name: &RecordName,
        entry: &Entry,
    ) -> Outcome<()> {
        let Ok(holes) = self.holes_below(space, &entry.header()) else {
            return Outcome::Wait;
        };
        self.has_holes |= !holes.is_empty();
        for hole in holes {
            let is_noted = hole
                .1
                .iter()
                .flat_map(|others| names(others))
                .any(|other| other == *name);
            if !is_noted {
                note_hole(space, hole, name);
            }
        }
        if self.steps(entry) < u32::MAX {
            self.spreading.push_back(*name);
        }
        Outcome::Done(())
    }
}
