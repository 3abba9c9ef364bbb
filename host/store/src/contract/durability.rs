//! What a store must do that keeps its state in a folder.

use super::place::Place;
use super::sync::PendingSync;
use super::{assert_entries, commit, delete, named, put};
use crate::Entry;

/// A case and its name
type Case = (&'static str, fn(&Place<'_>));

pub(super) const CASES: [Case; 5] = named![
    durable_commits_survive_reopening,
    empty_durable_commit_covers_earlier_ones,
    durable_commits_survive_a_crash,
    synced_commits_survive_a_crash,
    later_sync_waits_for_an_earlier_one,
];

/// Crashes in one case, each after more commits.
const ROUNDS: u8 = 4;

fn durable_commits_survive_reopening(place: &Place<'_>) {
    let mut store = place.open();
    commit(&mut *store, &[put(b"a", b"1"), put(b"b", b"2")], false);
    commit(&mut *store, &[put(b"c", b""), delete(b"a")], true);
    drop(store);
    let mut store = place.open();
    assert_entries(&*store, &[(b"b", b"2"), (b"c", b"")], "when opened again");
    commit(&mut *store, &[delete(b"c"), put(b"b", b"3")], true);
    drop(store);
    assert_entries(&*place.open(), &[(b"b", b"3")], "when opened a third time");
}

fn empty_durable_commit_covers_earlier_ones(place: &Place<'_>) {
    let mut store = place.open();
    commit(&mut *store, &[], true);
    commit(&mut *store, &[put(b"a", b"1")], false);
    commit(&mut *store, &[], true);
    assert_eq!(place.entries_after_crash(), entries(b"a"));
    drop(store);
    assert_entries(&*place.open(), &[(b"a", b"1")], "when opened again");
}

fn durable_commits_survive_a_crash(place: &Place<'_>) {
    let mut store = place.open();
    let mut keys = Vec::new();
    for round in 1..=ROUNDS {
        commit(&mut *store, &[put(&[2 * round], b"1"), put(b"\xf0", b"2")], false);
        commit(&mut *store, &[put(&[2 * round + 1], b"1"), delete(b"\xf0")], true);
        keys.extend([2 * round, 2 * round + 1]);
        assert_eq!(place.entries_after_crash(), entries(&keys), "in round {round}");
    }
}

fn synced_commits_survive_a_crash(place: &Place<'_>) {
    let mut store = place.open();
    let mut keys = Vec::new();
    for round in 1..=ROUNDS {
        let [before, meanwhile, beside] = [0, 1, 2].map(|number| 3 * round + number);
        commit(&mut *store, &[put(&[before], b"1")], false);
        keys.push(before);
        let sync = PendingSync::begin(&mut *store);
        commit(
            &mut *store,
            &[put(&[meanwhile], b"1"), put(&[beside], b"1")],
            false,
        );
        sync.end(&mut *store);
        let found = place.entries_after_crash();
        // What was committed meanwhile is there whole, or nothing of it is.
        let durable = entries(&keys);
        keys.extend([meanwhile, beside]);
        let either = found == durable || found == entries(&keys);
        assert!(either, "in round {round}: {found:?} in place of {durable:?}");
    }
}

fn later_sync_waits_for_an_earlier_one(place: &Place<'_>) {
    let mut store = place.open();
    let mut keys = Vec::new();
    for round in 1..=ROUNDS {
        commit(&mut *store, &[put(&[2 * round], b"1")], false);
        let first = PendingSync::begin(&mut *store);
        commit(&mut *store, &[put(&[2 * round + 1], b"1")], false);
        let second = PendingSync::begin(&mut *store);
        first.wait();
        second.end(&mut *store);
        keys.extend([2 * round, 2 * round + 1]);
        assert_eq!(place.entries_after_crash(), entries(&keys), "in round {round}");
    }
}

/// Returns the entries of keys of one byte, all with the value `1`.
fn entries(keys: &[u8]) -> Vec<Entry> {
    keys.iter().map(|key| (vec![*key], b"1".to_vec())).collect()
}
