//! Looking for keys in the store: all of one kind, or a page of a range.

use alloc::vec::Vec;

use super::capsule::MAX_SIGNED;
use super::{Effect, PAGE, Replica, Waiting, layout};
use crate::hash::{CapsuleName, RecordName};
use crate::heads::Origin;

impl Replica {
    /// Takes the keys of an [`Effect::Scan`].
    pub fn keys(&mut self, tag: u32, keys: &[Vec<u8>]) {
        let is_expected = |(expected, waiting): &mut (u32, Waiting)| {
            *expected == tag && !matches!(waiting, Waiting::Values)
        };
        let Some((_, waiting)) = self.waiting.take_if(is_expected) else {
            return;
        };
        let Waiting::Keys {
            kind,
            end,
            mut found,
            mut heads,
        } = waiting
        else {
            self.page = Some(keys.to_vec());
            self.carry_on();
            return;
        };
        match kind {
            layout::HEAD => heads.extend(keys.iter().filter_map(|key| layout::head_in(key))),
            _ => found.extend(keys.iter().filter_map(|key| layout::record_in(key))),
        }
        // That there are too many is enough to know.
        let is_enough = kind == layout::SIGNED && found.len() > MAX_SIGNED;
        match keys.last().filter(|_| keys.len() >= PAGE && !is_enough) {
            Some(last) => {
                let start = [last.as_slice(), &[0]].concat();
                self.scan(kind, (start, end), found, heads);
            }
            None if kind == layout::HEAD => {
                self.heads = Some(heads);
                self.carry_on();
            }
            None => {
                let place = match kind {
                    layout::PENDING => &mut self.pending,
                    _ => &mut self.signed,
                };
                *place = Some(found);
                self.carry_on();
            }
        }
    }

    /// Looks for all keys of one kind of a capsule.
    pub(super) fn scan_all(&mut self, name: &CapsuleName, kind: u8) {
        self.scan(kind, layout::range(name, kind), Vec::new(), Vec::new());
    }

    fn scan(
        &mut self,
        kind: u8,
        (start, end): layout::Range,
        found: Vec<RecordName>,
        heads: Vec<(RecordName, Origin)>,
    ) {
        let waiting = Waiting::Keys {
            kind,
            end: end.clone(),
            found,
            heads,
        };
        self.push_scan(waiting, start, end);
    }

    /// Looks for the next keys of a range.
    pub(super) fn push_scan(&mut self, waiting: Waiting, start: Vec<u8>, end: Vec<u8>) {
        let tag = self.tag();
        self.waiting = Some((tag, waiting));
        self.effects.push_back(Effect::Scan {
            tag,
            start,
            end,
            limit: PAGE,
        });
    }
}
