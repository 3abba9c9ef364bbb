//! Records that are stored for the writers that have not signed them yet: nothing proves them, so they are not in the set that replicas
//! compare.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use selfsame_codec::{Field, Reader};

use super::entry::Entry;
use super::index::{Index, Outcome};
use super::layout::{self, of_record};
use super::space::{Missing, Space};
use super::stored::Stored;
use crate::hash::RecordName;
use crate::sketch::Element;
use crate::witness::Witness;

/// How many records of a writer nothing proves yet, and their bytes
pub(super) type Unsigned = (u64, u64);

impl Index {
    /// What is stored and not proven yet, by the writers for which it is.
    pub(super) fn unsigned(&self) -> &BTreeMap<u16, Unsigned> {
        &self.unsigned
    }

    /// The same, as the store says.
    pub(super) fn recall_unsigned(&mut self, unsigned: BTreeMap<u16, Unsigned>) {
        self.unsigned = unsigned;
    }

    /// What says that a record is not in the set, as nothing proves it.
    pub(super) fn mark(&self, space: &mut Space, name: &RecordName) -> Result<Option<Stored>, Missing> {
        match self.unsigned.is_empty() {
            true => Ok(None),
            false => space.get(&of_record(&self.capsule, layout::UNSIGNED, name)),
        }
    }

    pub(super) fn put_mark(&mut self, space: &mut Space, name: &RecordName, writer: u16, bytes: usize) {
        let (records, all) = self.unsigned.entry(writer).or_default();
        *records += 1;
        self.has_changed = true;
        *all += bytes as u64;
        let mut value = Vec::new();
        writer.write(&mut value);
        (bytes as u32).write(&mut value);
        space.put(of_record(&self.capsule, layout::UNSIGNED, name), value);
    }

    /// A record is proven that was not: it comes into the set, unless its body is lost.
    pub(super) fn unmark(&mut self, space: &mut Space, name: &RecordName, mark: &Stored) {
        self.drop_mark(space, name, mark);
        if !self.damage.is_void(name) {
            self.census.insert(&Element::record(*name));
        }
        self.joined.push(*name);
    }

    pub(super) fn drop_mark(&mut self, space: &mut Space, name: &RecordName, mark: &Stored) {
        space.delete(of_record(&self.capsule, layout::UNSIGNED, name));
        let mut reader = Reader::new(mark);
        if let (Ok(writer), Ok(bytes)) = (reader.field::<u16>(), reader.field::<u32>())
            && let Some((records, all)) = self.unsigned.get_mut(&writer)
        {
            *records = records.saturating_sub(1);
            *all = all.saturating_sub(bytes.into());
            if *records == 0 {
                self.unsigned.remove(&writer);
            }
        }
        self.has_changed = true;
    }

    /// A record that nothing proves any more leaves the set: others, which never held it, could not store it either. One that is
    /// proven again, as the revocation that it fell to is lost, comes back.
    pub(super) fn sort_out(&mut self, space: &mut Space, name: &RecordName, entry: &Entry) -> Outcome<()> {
        let is_proven = self.steps(entry) < u32::MAX;
        let Ok(mark) = self.mark(space, name) else {
            return Outcome::Wait;
        };
        match (&mark, entry.witness()) {
            (Some(mark), _) if is_proven => self.unmark(space, name, mark),
            // A way of before must not count by itself once as many writers are revoked again as when it was found.
            (_, Witness::Through { .. }) if !is_proven => {
                self.set_witness(space, name, entry.clone(), Witness::Unproven);
            }
            _ => {}
        }
        if is_proven || mark.is_some() {
            return Outcome::Done(());
        }
        let header = entry.header();
        let bytes = header.encoded().len() + header.body_len() as usize;
        self.put_mark(space, name, header.writer(), bytes);
        if !self.damage.is_void(name) {
            self.census.remove(&Element::record(*name));
        }
        Outcome::Done(())
    }

    /// Whether what is counted here is to be stored, once.
    pub(super) fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.has_changed)
    }

    /// Records that came into the set since.
    pub(super) fn take_joined(&mut self) -> Vec<RecordName> {
        core::mem::take(&mut self.joined)
    }
}
