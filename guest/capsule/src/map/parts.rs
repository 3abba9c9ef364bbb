//! Sub-records that were read lately, verified and opened: nodes of trees, heads of records, small values.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;

use super::command::Place;

/// Bytes of sub-records that are remembered: the inner nodes of a tree of millions of keys, and some thousand leaves.
const MAX_BYTES: usize = 8 << 20;
/// What an entry takes beside its bytes, about.
const ENTRY_BYTES: usize = 160;

/// Sub-records, of which those used longest ago are forgotten
#[derive(Debug, Default)]
pub(super) struct Parts {
    all: BTreeMap<Place, (u64, Rc<[u8]>)>,
    by_use: BTreeMap<u64, Place>,
    uses: u64,
    bytes: usize,
}

impl Parts {
    /// A sub-record, if it is remembered.
    pub(super) fn get(&mut self, place: &Place) -> Option<Rc<[u8]>> {
        let (used, bytes) = self.all.get_mut(place)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, *place);
        Some(bytes.clone())
    }

    /// Remembers a sub-record.
    pub(super) fn insert(&mut self, place: Place, bytes: Rc<[u8]>) {
        self.remove(&place);
        // What was just read is used next, however long it is.
        while self.bytes + bytes.len() + ENTRY_BYTES > MAX_BYTES {
            let Some((_, oldest)) = self.by_use.first_key_value() else {
                break;
            };
            let oldest = *oldest;
            self.remove(&oldest);
        }
        self.uses += 1;
        self.bytes += bytes.len() + ENTRY_BYTES;
        self.by_use.insert(self.uses, place);
        self.all.insert(place, (self.uses, bytes));
    }

    fn remove(&mut self, place: &Place) {
        if let Some((used, bytes)) = self.all.remove(place) {
            self.by_use.remove(&used);
            self.bytes -= bytes.len() + ENTRY_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::hash::RecordName;

    fn place(index: u32) -> Place {
        let record = RecordName([1; 32]);
        Place { record, index }
    }

    #[test]
    fn what_was_used_longest_ago_is_forgotten_first_and_what_is_long_is_kept_till_the_next() {
        let mut parts = Parts::default();
        for index in 0..20 {
            parts.insert(place(index), vec![0; 400_000].into());
        }
        assert!(parts.get(&place(0)).is_some());
        parts.insert(place(20), vec![0; 400_000].into());
        assert!(parts.get(&place(0)).is_some());
        assert!(parts.get(&place(1)).is_none());
        parts.insert(place(21), vec![0; 2 * MAX_BYTES].into());
        assert_eq!((parts.all.len(), parts.by_use.len()), (1, 1));
        parts.insert(place(22), vec![0; 1].into());
        assert_eq!(parts.bytes, 1 + ENTRY_BYTES);
    }
}
