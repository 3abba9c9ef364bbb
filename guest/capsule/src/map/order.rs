//! The order of a map's records: each comes after those that it follows, whatever its clock says.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::format::Holds;
use super::view::{Found, View};
use crate::hash::RecordName;

/// The clock with which a record counts that follows others of which `before` is the largest: one more. An index may go on from a
/// larger one, so that whoever opens the map there knows its clock without what lies before it. What is no record of a map has that
/// of what it follows.
pub(super) fn counted(found: &Found, before: u64) -> u64 {
    let next = before.saturating_add(1);
    match found.head.as_ref().map(|head| (&head.holds, head.clock)) {
        None => before,
        Some((Holds::Index(_), clock)) => next.max(clock),
        Some(_) => next,
    }
}

/// The clocks with which records count that were found on one way back.
pub(super) fn clocks(found: &BTreeMap<RecordName, Found>, view: &View) -> BTreeMap<RecordName, u64> {
    let mut clocks: BTreeMap<RecordName, u64> = BTreeMap::new();
    for first in found.keys() {
        let mut rest = Vec::from([*first]);
        while let Some(name) = rest.last().copied() {
            let Some(one) = found.get(&name).filter(|_| !clocks.contains_key(&name)) else {
                rest.pop();
                continue;
            };
            let is_open = |name: &&RecordName| found.contains_key(*name) && !clocks.contains_key(*name);
            let open: Vec<RecordName> = one.follows.iter().filter(is_open).copied().collect();
            if open.is_empty() {
                let clock = |name| clocks.get(name).copied().unwrap_or_else(|| view.clock_of(name));
                let before = one.follows.iter().map(clock).max().unwrap_or(0);
                clocks.insert(name, counted(one, before));
                rest.pop();
            } else {
                // No way leads back to where it began: names are hashes.
                rest.extend(open);
            }
        }
    }
    clocks
}
