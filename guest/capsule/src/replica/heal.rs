//! Heeding what is damaged: nothing of it is served, what is whole of it is kept, and the rest is missing until another replica
//! brings it.

use super::capsule::Capsule;
use super::entry::Entry;
use super::layout::{self, Key, MAX_INLINE, of_record};
use super::newest;
use super::space::Space;
use super::stored::Stored;
use crate::hash::RecordName;
use crate::proof::Writers as _;
use crate::record::Record;
use crate::witness::Witness;

/// Whether what points where, or who may write, has to be found out anew. What arrived when is but a hint.
fn tears(key: &Key) -> bool {
    !matches!(
        key.kind(),
        Some(layout::CHUNKS | layout::METADATA | layout::ARRIVAL)
    )
}

impl Capsule {
    /// Heeds what was found damaged since. Whether the capsule has to be opened anew: what it knows may have come from there.
    pub(super) fn heal(&mut self, space: &mut Space) -> bool {
        let name = self.charter().name();
        let mut damaged = space.take_damaged();
        damaged.retain(|(key, _)| key.is_of(&name));
        let is_torn = damaged.iter().any(|(key, _)| tears(key));
        if is_torn {
            // Before all that follows from it: an end in between leaves no damage that nobody looks for.
            self.index_mut().damage_mut().tear(space, &name);
        }
        for (key, value) in damaged {
            space.mark();
            match (key.kind(), key.record()) {
                (Some(layout::CHUNKS), Some(record)) => self.index_mut().lose_body(space, &record),
                (Some(layout::RECORD), Some(record)) => {
                    let entry = value.and_then(|value| Entry::decode(Stored::unchecked(value)).ok());
                    self.heal_record(space, &record, entry);
                }
                // Metadata come again when the capsule is created again; the damage is written anew.
                (Some(layout::METADATA | layout::DAMAGE), _) => {}
                (Some(layout::NEWEST), _) => newest::lose(space, key),
                _ => space.delete(key),
            }
        }
        if is_torn {
            self.finish(space);
        }
        is_torn
    }

    /// Keeps of a damaged record what is proven to be its own: a header by its hash, a body by the header's, a signature by
    /// itself. Ways to a signature are found again.
    fn heal_record(&mut self, space: &mut Space, name: &RecordName, entry: Option<Entry>) {
        let hasher = self.charter().hasher();
        let Some(entry) = entry.filter(|entry| entry.header().name(hasher) == *name) else {
            return self.index_mut().drop_record(space, name);
        };
        let header = entry.header();
        let is_whole = |body: &&[u8]| Record { header, body }.check(hasher, self.is_sealed()).is_ok();
        let body = entry.inline_body().filter(is_whole);
        let is_signed = matches!(entry.witness(), Witness::Signed(signature)
            if self.authority().check(&header, name, signature).is_ok());
        let witness = if is_signed {
            *entry.witness()
        } else {
            space.delete(of_record(&self.charter().name(), layout::SIGNED, name));
            Witness::Unproven
        };
        let (has_body, is_short) = (body.is_some(), header.body_len() as usize <= MAX_INLINE);
        let healed = entry.with_witness(witness);
        let healed = if has_body { healed } else { healed.without_body() };
        space.put_record(of_record(&self.charter().name(), layout::RECORD, name), healed);
        if !has_body && is_short {
            self.index_mut().lose_body(space, name);
        }
        self.index_mut().count_anew();
    }
}
