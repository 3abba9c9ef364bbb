//! The store of a node, and what serves it.

pub(crate) use selfsame_store::sync_folder_of;
pub use selfsame_store::{DiskStore, Ended, Entry, MemoryStore, SCHEMA, Storage, StoreError, WRITE_BUFFER};

mod worker;
pub(crate) use worker::{Answer, Completion, Operation, Request, Worker};

/// The store of a node, just opened
pub(crate) enum Opened {
    /// In files.
    OnDisk(Box<DiskStore>),
    /// Nowhere.
    InMemory(MemoryStore),
}
