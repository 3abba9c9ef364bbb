use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use redb::{
    Builder, CommitError, Database, DatabaseError, Durability, ReadableDatabase, StorageError,
    TableDefinition, TableError, TransactionError,
};
use selfsame_codec::Operation;

use super::{Entry, SCHEMA, Storage, StoreError};

/// Entries of the core.
const CORE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("core");
/// Entries of the host.
const HOST: TableDefinition<'_, &str, u64> = TableDefinition::new("host");
/// Key of the schema number among the host's entries.
const SCHEMA_KEY: &str = "schema";
/// Memory for pages: a node's state is a few megabytes.
const CACHE: usize = 16 * 1024 * 1024;

/// A store in one file that survives a crash at any moment
///
/// It is a B-tree that is only ever written beside its old pages ([`redb`]). Every page is checked when the file is
/// opened, so that a damaged one is refused instead of being trusted.
#[derive(Debug)]
pub struct DiskStore {
    database: Database,
    path: PathBuf,
}

impl DiskStore {
    /// Opens the store in `path`, or creates it when there is no such file.
    ///
    /// # Errors
    /// [`StoreError`] says which file cannot be used, why, and what to do; the file is left as it is.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => create(path)?,
            Err(error) => return Err(StoreError::io(path, error)),
            Ok(file) if !file.is_file() => return Err(StoreError::io(path, "it is not a file")),
            Ok(file) if file.len() == 0 => return Err(StoreError::corrupt(path, "it is empty")),
            Ok(_) => {}
        }
        let database = Builder::new()
            .set_cache_size(CACHE)
            .set_check_integrity_on_open(true)
            .open(path)
            .map_err(|error| database_error(path, error))?;
        let store = Self {
            database,
            path: path.into(),
        };
        store.check_schema()?;
        Ok(store)
    }

    fn check_schema(&self) -> Result<(), StoreError> {
        let corrupt = |why: &str| StoreError::corrupt(&self.path, why);
        let read = self
            .database
            .begin_read()
            .map_err(|error| self.transaction_error(error))?;
        let table = match read.open_table(HOST) {
            Ok(table) => table,
            Err(TableError::Storage(error)) => return Err(self.storage_error(error)),
            Err(_) => return Err(corrupt("another program wrote it")),
        };
        let schema = table.get(SCHEMA_KEY).map_err(|error| self.storage_error(error))?;
        match schema.map(|guard| guard.value()) {
            Some(SCHEMA) => Ok(()),
            Some(found) if found > SCHEMA => Err(StoreError::TooNew {
                path: self.path.clone(),
                found,
            }),
            Some(_) | None => Err(corrupt("it has no schema number")),
        }
    }

    fn storage_error(&self, error: StorageError) -> StoreError {
        storage_error(&self.path, error)
    }

    fn table_error(&self, error: TableError) -> StoreError {
        match error {
            TableError::Storage(error) => self.storage_error(error),
            error => StoreError::corrupt(&self.path, error),
        }
    }

    fn transaction_error(&self, error: TransactionError) -> StoreError {
        match error {
            TransactionError::Storage(error) => self.storage_error(error),
            error => StoreError::io(&self.path, error),
        }
    }
}

/// Writes an empty store beside its place and moves it there, so that a crash leaves a whole file or none.
fn create(path: &Path) -> Result<(), StoreError> {
    let draft = path.with_extension("new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(StoreError::io(&draft, error)),
        _ => {}
    }
    let database = Builder::new()
        .create(&draft)
        .map_err(|error| database_error(&draft, error))?;
    initialise(&database).map_err(|why| StoreError::Io {
        path: draft.clone(),
        why,
    })?;
    drop(database);
    fs::rename(&draft, path).map_err(|error| StoreError::io(path, error))?;
    crate::file::sync_folder_of(path).map_err(|error| StoreError::io(path, error))
}

fn initialise(database: &Database) -> Result<(), String> {
    let write = database.begin_write().map_err(|error| error.to_string())?;
    write.open_table(CORE).map_err(|error| error.to_string())?;
    write
        .open_table(HOST)
        .map_err(|error| error.to_string())?
        .insert(SCHEMA_KEY, SCHEMA)
        .map_err(|error| error.to_string())?;
    write.commit().map_err(|error| error.to_string())
}

fn database_error(path: &Path, error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse { path: path.into() },
        DatabaseError::Storage(error) => storage_error(path, error),
        DatabaseError::RepairAborted | DatabaseError::UpgradeRequired(_) => StoreError::corrupt(path, error),
        error => StoreError::io(path, error),
    }
}

fn storage_error(path: &Path, error: StorageError) -> StoreError {
    match error {
        StorageError::Corrupted(why) => StoreError::corrupt(path, why),
        StorageError::Io(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::InvalidInput
            ) =>
        {
            StoreError::corrupt(path, error)
        }
        error => StoreError::io(path, error),
    }
}

impl Storage for DiskStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self
            .database
            .begin_read()
            .map_err(|error| self.transaction_error(error))?;
        let table = read.open_table(CORE).map_err(|error| self.table_error(error))?;
        let value = table.get(key).map_err(|error| self.storage_error(error))?;
        Ok(value.map(|guard| guard.value().to_vec()))
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Entry>, StoreError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let read = self
            .database
            .begin_read()
            .map_err(|error| self.transaction_error(error))?;
        let table = read.open_table(CORE).map_err(|error| self.table_error(error))?;
        let range = table
            .range(start..end)
            .map_err(|error| self.storage_error(error))?;
        range
            .take(limit)
            .map(|entry| {
                let (key, value) = entry.map_err(|error| self.storage_error(error))?;
                Ok((key.value().to_vec(), value.value().to_vec()))
            })
            .collect()
    }

    fn commit(&mut self, operations: &[Operation<'_>], durable: bool) -> Result<(), StoreError> {
        let mut write = self
            .database
            .begin_write()
            .map_err(|error| self.transaction_error(error))?;
        let durability = if durable {
            Durability::Immediate
        } else {
            Durability::None
        };
        write
            .set_durability(durability)
            .map_err(|error| StoreError::io(&self.path, error))?;
        {
            let mut table = write.open_table(CORE).map_err(|error| self.table_error(error))?;
            for operation in operations {
                match operation {
                    Operation::Put { key, value } => table.insert(key, value).map(drop),
                    Operation::Delete { key } => table.remove(key).map(drop),
                }
                .map_err(|error| self.storage_error(error))?;
            }
        }
        write.commit().map_err(|error| match error {
            CommitError::Storage(error) => self.storage_error(error),
            error => StoreError::io(&self.path, error),
        })
    }
}
