//! What every store must do.

use super::sync::PendingSync;
use super::{assert_entries, commit, delete, named, put, scan, value};
use crate::Storage;

/// A case and its name
type Case = (&'static str, fn(&mut dyn Storage));

pub(super) const CASES: [Case; 10] = named![
    new_store_is_empty,
    reads_return_the_last_write,
    deletes_remove_keys,
    operations_of_a_commit_apply_in_order,
    batched_reads_keep_the_order_of_keys,
    scans_are_ordered_and_half_open,
    keys_are_arbitrary_bytes,
    commit_of_largest_size_applies_whole,
    commit_of_most_operations_applies_whole,
    sync_without_new_commits_ends_at_once,
];

/// As `docs/specification/boundary.md` has them.
const MAX_KEY_BYTES: usize = 256;
const MAX_VALUE_BYTES: usize = 60 * 1024;
const MAX_OPERATIONS: u32 = 500;

fn new_store_is_empty(store: &mut dyn Storage) {
    assert_entries(store, &[], "before the first commit");
    assert_eq!(value(store, b"a"), None);
}

fn reads_return_the_last_write(store: &mut dyn Storage) {
    commit(store, &[put(b"a", b"1"), put(b"b", b"")], false);
    assert_eq!(value(store, b"a"), Some(b"1".to_vec()));
    assert_eq!(value(store, b"b"), Some(vec![]), "an empty value is a value");
    commit(store, &[put(b"a", b"22")], true);
    assert_eq!(value(store, b"a"), Some(b"22".to_vec()));
    commit(store, &[], false);
    commit(store, &[], true);
    assert_eq!(value(store, b"a"), Some(b"22".to_vec()), "after empty commits");
}

fn deletes_remove_keys(store: &mut dyn Storage) {
    commit(store, &[put(b"a", b"1"), put(b"b", b"2")], true);
    commit(store, &[delete(b"a"), delete(b"never")], false);
    assert_eq!(value(store, b"a"), None);
    assert_entries(store, &[(b"b", b"2")], "after the deletion of `a`");
    commit(store, &[put(b"a", b"3")], false);
    assert_eq!(value(store, b"a"), Some(b"3".to_vec()));
}

fn operations_of_a_commit_apply_in_order(store: &mut dyn Storage) {
    commit(store, &[put(b"a", b"1"), delete(b"a"), put(b"a", b"2")], true);
    assert_eq!(value(store, b"a"), Some(b"2".to_vec()));
    commit(store, &[put(b"a", b"3"), delete(b"a")], true);
    assert_eq!(value(store, b"a"), None);
}

fn batched_reads_keep_the_order_of_keys(store: &mut dyn Storage) {
    commit(store, &[put(b"a", b"1"), put(b"b", b"2")], false);
    let values = store.get_all(&[b"b", b"c", b"a", b"b"]).expect("get_all failed");
    let values: Vec<_> = values.iter().map(Option::as_deref).collect();
    assert_eq!(values, [Some(&b"2"[..]), None, Some(b"1"), Some(b"2")]);
    assert!(store.get_all(&[]).expect("get_all failed").is_empty());
}

fn scans_are_ordered_and_half_open(store: &mut dyn Storage) {
    commit(
        store,
        &[put(b"b", b"3"), put(b"\xff", b"4"), put(b"a", b"1")],
        false,
    );
    commit(store, &[put(b"ab", b"2")], true);
    let keys = |start: &[u8], end: &[u8], limit| -> Vec<Vec<u8>> {
        let entries = scan(store, start, end, limit);
        entries.into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(b"", b"\xff\xff", 10), [&b"a"[..], b"ab", b"b", b"\xff"]);
    assert_eq!(keys(b"a", b"b", 10), [&b"a"[..], b"ab"], "`end` is excluded");
    assert_eq!(
        keys(b"aa", b"c", 10),
        [&b"ab"[..], b"b"],
        "`start` need not exist"
    );
    assert_eq!(keys(b"a", b"b", 1), [b"a"], "`limit` is kept");
    assert_eq!(keys(b"a", b"b", 0), [b""; 0], "`limit` may be 0");
    assert_eq!(keys(b"", b"z", usize::MAX), [&b"a"[..], b"ab", b"b"]);
    assert_eq!(keys(b"b", b"b", 10), [b""; 0], "`start` may equal `end`");
    assert_eq!(keys(b"b", b"a", 10), [b""; 0], "`start` may follow `end`");
}

fn keys_are_arbitrary_bytes(store: &mut dyn Storage) {
    let all: [&[u8]; 7] = [&[0], &[0, 0], &[0, 1], &[1], &[0x7f], &[0x80], &[0xfe, 0xff]];
    let operations: Vec<_> = all.iter().rev().map(|key| put(key, key)).collect();
    commit(store, &operations, false);
    assert_entries(
        store,
        &all.map(|key| (key, key)),
        "in the order of unsigned bytes",
    );
    for key in all {
        assert_eq!(value(store, key), Some(key.to_vec()));
    }
}

fn commit_of_largest_size_applies_whole(store: &mut dyn Storage) {
    let value = vec![7; MAX_VALUE_BYTES];
    let keys: Vec<_> = (0..8).map(|number| [number; MAX_KEY_BYTES]).collect();
    let operations: Vec<_> = keys.iter().map(|key| put(key, &value)).collect();
    commit(store, &operations, true);
    let expected: Vec<_> = keys.iter().map(|key| (&key[..], &value[..])).collect();
    // Not by `assert_entries`, which would print half a megabyte.
    let entries = scan(store, &[], &[0xff], 10);
    let entries: Vec<_> = entries.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert!(
        entries == expected,
        "entries of the commit are missing or changed"
    );
}

fn commit_of_most_operations_applies_whole(store: &mut dyn Storage) {
    let keys: Vec<_> = (0..MAX_OPERATIONS).map(u32::to_be_bytes).collect();
    let value = [9; 1000];
    let operations: Vec<_> = keys.iter().map(|key| put(key, &value)).collect();
    commit(store, &operations, false);
    assert_eq!(scan(store, &[], &[0xff], 1000).len(), keys.len());
}

fn sync_without_new_commits_ends_at_once(store: &mut dyn Storage) {
    store
        .end_sync()
        .expect("end_sync failed though nothing was begun");
    commit(store, &[put(b"a", b"1")], false);
    PendingSync::begin(store).end(store);
    assert_entries(store, &[(b"a", b"1")], "after a sync");
    commit(store, &[put(b"b", b"2")], true);
    let sync = PendingSync::begin(store);
    assert!(
        !sync.has_begun,
        "everything is durable: `begin_sync` must return false"
    );
    sync.end(store);
}
