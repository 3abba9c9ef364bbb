//! The store under a replica: the one that the host embeds, with the same settings.

use std::path::Path;
use std::rc::Rc;

use bench_pair::Outcome;
use redb::{Builder, Database, Durability, ReadableDatabase, TableDefinition};
use selfsame_capsule::replica::{Change, Value};

/// The table in which the host keeps what the core stores.
const CORE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("core");
/// The memory for pages that the host gives it.
const CACHE: usize = 16 << 20;

/// A store in a file
#[derive(Debug)]
pub(crate) struct Store {
    database: Database,
}

fn said(error: impl core::fmt::Display) -> String {
    format!("redb: {error}")
}

impl Store {
    /// Creates it.
    ///
    /// # Errors
    /// What redb says, here and in all that follows.
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        let database = Builder::new().set_cache_size(CACHE).create(path).map_err(said)?;
        let write = database.begin_write().map_err(said)?;
        write.open_table(CORE).map_err(said)?;
        write.commit().map_err(said)?;
        Ok(Self { database })
    }

    /// Keys with their values.
    pub(crate) fn get(&self, keys: Vec<Vec<u8>>) -> Outcome<Vec<(Vec<u8>, Value)>> {
        let read = self.database.begin_read().map_err(said)?;
        let table = read.open_table(CORE).map_err(said)?;
        keys.into_iter()
            .map(|key| {
                let value = table.get(key.as_slice()).map_err(said)?;
                Ok((key, value.map(|value| Rc::from(value.value()))))
            })
            .collect()
    }

    /// The first `limit` keys from `start` to before `end`.
    pub(crate) fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Outcome<Vec<Vec<u8>>> {
        let read = self.database.begin_read().map_err(said)?;
        let table = read.open_table(CORE).map_err(said)?;
        let range = table.range(start..end).map_err(said)?;
        range
            .take(limit)
            .map(|entry| Ok(entry.map_err(said)?.0.value().to_vec()))
            .collect()
    }

    /// Writes all changes or none.
    pub(crate) fn commit(&self, changes: &[&Change], durability: Durability) -> Outcome<()> {
        let mut write = self.database.begin_write().map_err(said)?;
        write.set_durability(durability).map_err(said)?;
        {
            let mut table = write.open_table(CORE).map_err(said)?;
            for change in changes {
                match change {
                    Change::Put(key, value) => table.insert(key.as_slice(), &value[..]).map(drop),
                    Change::Delete(key) => table.remove(key.as_slice()).map(drop),
                }
                .map_err(said)?;
            }
        }
        write.commit().map_err(said)
    }
}
