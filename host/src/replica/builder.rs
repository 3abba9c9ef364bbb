use alloc::sync::Arc;
use std::path::Path;
use std::sync::Mutex;

use selfsame_codec::capsule::{MAX_OWNERS, ReplicaConfig};
use tokio::sync::broadcast;

use super::file::Files;
use super::guest::ReplicaGuest;
use super::room::Room;
use super::{CAPSULES_FOLDER, REPLICA_KEY_FILE, Replica, Shelf, list};
use crate::capsule::engine;
use crate::capsule::peer::Peers;
use crate::capsule::{CapsuleKey, public_key};
use crate::error::Error;
use crate::keys::Seed;
use crate::store::{DiskStore, MemoryStore, Storage, StoreError, WRITE_BUFFER};

/// Memory for what is stored and for mirrors of readers' caches.
const CACHE: u32 = 64 << 20;
const MIRRORS: u32 = 32 << 20;
/// Names of new capsules that a listener may be behind.
const NEWS: usize = 1024;

/// How a replica is opened
#[derive(Clone, Debug, Default)]
pub struct ReplicaBuilder {
    owners: Vec<CapsuleKey>,
    write_buffer: Option<usize>,
}

impl ReplicaBuilder {
    /// Public keys of those whose capsules it takes, at most 32,768, so that nobody else fills its store; everybody's unless
    /// given. Capsules of others that it holds already stay.
    #[must_use]
    pub fn owners(mut self, owners: impl IntoIterator<Item = CapsuleKey>) -> Self {
        self.owners.extend(owners);
        self
    }

    /// Bytes in memory of what was stored lately, until it is written in order; twice as many while it is. [`WRITE_BUFFER`] unless
    /// given: with more, a busy replica takes less of the processor's time, and longer to open after a crash. It concerns
    /// [`Self::open`].
    #[must_use]
    pub fn write_buffer(mut self, bytes: usize) -> Self {
        self.write_buffer = Some(bytes);
        self
    }

    /// Opens the replica in a folder, or makes one there, with a key of its own.
    ///
    /// # Errors
    /// [`Error`] says which file cannot be used, and why; [`Error::Input`] for too many owners.
    pub fn open(self, folder: &Path) -> Result<Replica, Error> {
        std::fs::create_dir_all(folder).map_err(|error| StoreError::io(folder, error))?;
        let seed = Seed::load_or_create(&folder.join(REPLICA_KEY_FILE))?;
        let write_buffer = self.write_buffer.unwrap_or(WRITE_BUFFER);
        let store = DiskStore::open_with_write_buffer(&folder.join(CAPSULES_FOLDER), write_buffer)?;
        self.start(&seed, store)
    }

    /// A replica that forgets everything with the process.
    ///
    /// # Errors
    /// [`Error`] when the module cannot be used; [`Error::Input`] for too many owners.
    pub fn in_memory(self, seed: &Seed) -> Result<Replica, Error> {
        self.start(seed, MemoryStore::new())
    }

    /// A replica over any store, which nothing else uses.
    ///
    /// # Errors
    /// [`Error`] when the store or the module cannot be used; [`Error::Input`] for too many owners.
    pub fn start(self, seed: &Seed, store: impl Storage) -> Result<Replica, Error> {
        if self.owners.len() > MAX_OWNERS {
            return Err(Error::Input(format!(
                "a replica takes the capsules of at most {MAX_OWNERS} owners, or of everybody"
            )));
        }
        let shelf = Arc::new(Shelf {
            held: Mutex::new(list(&store)?),
            news: broadcast::channel(NEWS).0,
        });
        let key = public_key(seed)?;
        let config = ReplicaConfig {
            seed: *seed.bytes(),
            cache: CACHE,
            mirrors: MIRRORS,
            owners: self.owners.iter().map(|owner| owner.0).collect(),
        };
        let peers = Peers::default();
        let guest = ReplicaGuest::new(config, Arc::clone(&shelf));
        let orders = engine::start(guest, Box::new(store), peers.clone())?;
        Ok(Replica {
            key: key.0,
            orders,
            peers,
            room: Room::new(),
            files: Files::new(),
            shelf,
        })
    }
}
