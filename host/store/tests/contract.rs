//! Both stores keep the contract, and stores with one fault each fail with the name of the case.

use std::panic::catch_unwind;
use std::path::Path;

use selfsame_codec::Operation;
use selfsame_store::{DiskStore, Ended, Entry, MemoryStore, Storage, StoreError, contract};
use selfsame_write_batch::WriteBatch;

#[test]
fn memory_store_keeps_the_contract() {
    contract::check(MemoryStore::new);
}

#[test]
fn disk_store_keeps_the_contract() {
    contract::check_persistent(open);
}

/// Merges all the time, and keeps little in memory.
#[test]
fn disk_store_with_little_memory_keeps_the_contract() {
    contract::check_persistent(|folder| DiskStore::open_with_write_buffer(folder, 6000).expect("a store"));
}

#[test]
fn store_that_loses_deletes_fails() {
    let failure = failure(|| contract::check(|| Faulty::new(MemoryStore::new(), Fault::LosesDeletes)));
    assert!(
        failure.starts_with("store contract: deletes_remove_keys failed: "),
        "{failure}"
    );
}

#[test]
fn store_that_scans_backwards_fails() {
    let failure = failure(|| contract::check(|| Faulty::new(MemoryStore::new(), Fault::ScansBackwards)));
    assert!(
        failure.starts_with("store contract: scans_are_ordered_and_half_open failed: "),
        "{failure}"
    );
}

#[test]
fn store_that_panics_fails_with_the_name_of_the_case() {
    let failure = failure(|| contract::check(|| Faulty::new(MemoryStore::new(), Fault::PanicsOnEmptyRange)));
    assert_eq!(
        failure,
        "store contract: scans_are_ordered_and_half_open failed: an empty range"
    );
}

#[test]
fn store_that_is_durable_only_once_closed_fails() {
    let failure = failure(|| contract::check_persistent(|path| Faulty::new(open(path), Fault::NeverWaits)));
    assert!(
        failure.starts_with("store contract: empty_durable_commit_covers_earlier_ones failed: "),
        "{failure}"
    );
}

#[test]
fn store_that_syncs_nothing_fails() {
    let failure = failure(|| contract::check_persistent(|path| Faulty::new(open(path), Fault::SyncsNothing)));
    assert!(
        failure.starts_with("store contract: synced_commits_survive_a_crash failed: "),
        "{failure}"
    );
}

#[test]
fn store_that_ends_a_sync_in_the_callers_thread_fails() {
    let failure = failure(|| contract::check(|| Faulty::new(MemoryStore::new(), Fault::EndsInTheCaller)));
    assert!(
        failure.starts_with("store contract: sync_without_new_commits_ends_at_once failed: "),
        "{failure}"
    );
    assert!(failure.contains("in another thread"), "{failure}");
}

fn open(folder: &Path) -> DiskStore {
    DiskStore::open(folder).expect("a store")
}

/// Returns the message of the panic.
fn failure(check: fn()) -> String {
    let payload = catch_unwind(check).expect_err("the fault is found");
    *payload.downcast::<String>().expect("a message")
}

/// What a store does wrong
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    LosesDeletes,
    ScansBackwards,
    PanicsOnEmptyRange,
    NeverWaits,
    SyncsNothing,
    EndsInTheCaller,
}

/// A store with a fault
struct Faulty<S> {
    store: S,
    fault: Fault,
}

impl<S> Faulty<S> {
    fn new(store: S, fault: Fault) -> Self {
        Self { store, fault }
    }
}

impl<S: Storage> Storage for Faulty<S> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Entry>, StoreError> {
        if self.fault == Fault::PanicsOnEmptyRange {
            assert!(start < end, "an empty range");
        }
        let mut entries = self.store.scan(start, end, limit)?;
        if self.fault == Fault::ScansBackwards {
            entries.reverse();
        }
        Ok(entries)
    }

    fn commit(&mut self, batch: &WriteBatch, durable: bool) -> Result<(), StoreError> {
        match self.fault {
            Fault::LosesDeletes => {
                let puts = batch.rows().filter(|row| row.value.is_some());
                let puts: Vec<Operation<'_>> = puts.map(|row| row.operation()).collect();
                self.store.commit(&WriteBatch::of(&puts), durable)
            }
            Fault::NeverWaits => self.store.commit(batch, false),
            _ => self.store.commit(batch, durable),
        }
    }

    fn begin_sync(&mut self, ended: Ended) -> Result<bool, StoreError> {
        match self.fault {
            Fault::NeverWaits | Fault::SyncsNothing => Ok(false),
            Fault::EndsInTheCaller => {
                ended();
                Ok(true)
            }
            _ => self.store.begin_sync(ended),
        }
    }

    fn end_sync(&mut self) -> Result<(), StoreError> {
        self.store.end_sync()
    }
}
