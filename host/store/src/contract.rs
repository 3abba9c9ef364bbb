//! The contract of [`Storage`] as test cases, for the authors of other engines.
//!
//! Each case runs on a fresh store. The first case that fails panics with its name.
//!
//! ```
//! use selfsame_store::{DiskStore, MemoryStore, contract};
//!
//! // A store that forgets everything when it is dropped.
//! contract::check(MemoryStore::new);
//! // A store that keeps its state in a folder.
//! contract::check_persistent(|folder| DiskStore::open(folder).expect("a store"));
//! ```

use core::panic::AssertUnwindSafe;
use std::panic;
use std::path::Path;

use selfsame_codec::Operation;
use selfsame_write_batch::WriteBatch;

use super::{Entry, Storage};

mod cases;
mod durability;
mod place;
mod sync;

use place::Place;

/// Checks what every store must do; `new` returns an empty store.
///
/// # Panics
/// With the name of the first case that fails.
pub fn check<S: Storage>(new: impl Fn() -> S) {
    for (name, case) in cases::CASES {
        run(name, || case(&mut new()));
    }
}

/// Checks what [`check`] does, and what must survive when a store is opened again; `open` opens the store in a folder, which is
/// empty at first.
///
/// A crash is simulated by a copy of the folder, which is made while the store is open and none of its methods is running. The
/// copy does not show what a power loss would take out of the system's cache.
///
/// # Panics
/// With the name of the first case that fails.
pub fn check_persistent<S: Storage>(open: impl Fn(&Path) -> S) {
    let open = |folder: &Path| -> Box<dyn Storage> { Box::new(open(folder)) };
    for (name, case) in cases::CASES {
        run(name, || {
            let place = Place::new(&open);
            case(&mut *place.open());
        });
    }
    for (name, case) in durability::CASES {
        run(name, || case(&Place::new(&open)));
    }
}

/// Runs a case; a panic of the store counts as a failure of the case, so that it has the case's name, too.
fn run(name: &str, case: impl FnOnce()) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(case)) {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        panic!(
            "store contract: {name} failed: {}",
            text.unwrap_or("the store panicked")
        );
    }
}

/// Names the functions of an array of cases.
macro_rules! named {
    ($($case:ident),* $(,)?) => {
        [$((stringify!($case), $case)),*]
    };
}
use named;

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
    Operation::Put { key, value }
}

fn delete(key: &[u8]) -> Operation<'_> {
    Operation::Delete { key }
}

fn commit(store: &mut dyn Storage, operations: &[Operation<'_>], durable: bool) {
    let committed = store.commit(&WriteBatch::of(operations), durable);
    committed.expect("commit failed");
}

fn value(store: &dyn Storage, key: &[u8]) -> Option<Vec<u8>> {
    store.get(key).expect("get failed")
}

/// Scans a range; `keys` must agree with `scan`.
fn scan(store: &dyn Storage, start: &[u8], end: &[u8], limit: usize) -> Vec<Entry> {
    let entries = store.scan(start, end, limit).expect("scan failed");
    let keys = store.keys(start, end, limit).expect("keys failed");
    assert!(
        entries.iter().map(|(key, _)| key).eq(&keys),
        "`keys` must return the keys of `scan`"
    );
    entries
}

/// Asserts that a store has these entries and no other.
fn assert_entries(store: &dyn Storage, expected: &[(&[u8], &[u8])], when: &str) {
    let entries = scan(store, &[], &[0xff; 2], 1000);
    let entries: Vec<_> = entries.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(entries, expected, "{when}");
}
