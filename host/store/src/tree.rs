//! The tree that holds the bulk: a file of redb.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use redb::{
    Builder, CommitError, Database, DatabaseError, ReadOnlyTable, ReadableDatabase, StorageError,
    TableDefinition, TableError, TransactionError, Value,
};

use super::merge::Found;
use super::table::Table;
use super::{SCHEMA, StoreError};

/// Entries of the core.
const CORE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("core");
/// Entries of the host.
const HOST: TableDefinition<'_, &str, u64> = TableDefinition::new("host");
/// Key of the schema number among the host's entries.
const SCHEMA_KEY: &str = "schema";
/// Key of the salt of the journals' frames.
const SALT_KEY: &str = "journal";
/// Key of the number of the last frame whose rows are here.
const APPLIED_KEY: &str = "applied";
/// The schema of stores that have no journals.
const WITHOUT_JOURNALS: u64 = 1;
/// Memory for pages.
const CACHE: usize = 16 * 1024 * 1024;

/// An open tree
#[derive(Debug)]
pub(crate) struct Tree {
    database: Database,
    path: PathBuf,
}

/// What a tree says of its journals
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journaled {
    /// What its frames begin with.
    pub(crate) salt: u64,
    /// The number of the last frame whose rows are here.
    pub(crate) applied: u64,
}

impl Tree {
    /// Opens the tree in `path`, every page of it checked; what its journals are, if it has some.
    ///
    /// # Errors
    /// [`StoreError`]; the file is left as it is.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<Journaled>), StoreError> {
        let database = Builder::new()
            .set_cache_size(CACHE)
            .set_check_integrity_on_open(true)
            .open(path)
            .map_err(|error| database_error(path, error))?;
        let tree = Self {
            database,
            path: path.into(),
        };
        let journaled = tree.check_schema()?;
        Ok((tree, journaled))
    }

    fn check_schema(&self) -> Result<Option<Journaled>, StoreError> {
        let corrupt = |why: &str| StoreError::corrupt(&self.path, why);
        let host = match self.read(HOST) {
            Err(TableError::Storage(error)) => return Err(self.storage_error(error)),
            table => table.map_err(|_| corrupt("another program wrote it"))?,
        };
        let number = |key| {
            let number = host.get(key).map_err(|error| self.storage_error(error))?;
            Ok::<_, StoreError>(number.map(|guard| guard.value()))
        };
        match number(SCHEMA_KEY)? {
            Some(SCHEMA) => {}
            Some(WITHOUT_JOURNALS) => return Ok(None),
            Some(found) if found > SCHEMA => {
                return Err(StoreError::TooNew {
                    path: self.path.clone(),
                    found,
                });
            }
            _ => return Err(corrupt("it has no schema number")),
        }
        match (number(SALT_KEY)?, number(APPLIED_KEY)?) {
            (Some(salt), Some(applied)) => Ok(Some(Journaled { salt, applied })),
            _ => Err(corrupt("it does not say what its journals are")),
        }
    }

    /// Gives it empty journals, whose salt is drawn.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be written, or there is no randomness.
    pub(crate) fn begin_journals(&self) -> Result<Journaled, StoreError> {
        let journaled = Journaled {
            salt: draw_salt(&self.path)?,
            applied: 0,
        };
        self.write(|write| {
            let mut host = write.open_table(HOST)?;
            host.insert(SCHEMA_KEY, SCHEMA)?;
            host.insert(SALT_KEY, journaled.salt)?;
            host.insert(APPLIED_KEY, journaled.applied)?;
            Ok(())
        })?;
        Ok(journaled)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`StoreError`], here and in all that follows.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let table = self.read(CORE).map_err(|error| self.table_error(error))?;
        let value = table.get(key).map_err(|error| self.storage_error(error))?;
        Ok(value.map(|guard| guard.value().to_vec()))
    }

    /// The entries with `start <= key < end`, in the order of their keys.
    pub(crate) fn range(&self, start: &[u8], end: &[u8]) -> Result<impl Iterator<Item = Found>, StoreError> {
        let table = self.read(CORE).map_err(|error| self.table_error(error))?;
        let range = table
            .range(start..end)
            .map_err(|error| self.storage_error(error))?;
        Ok(range.map(|entry| {
            let (key, value) = entry.map_err(|error| self.storage_error(error))?;
            Ok((key.value().to_vec(), Some(value.value().to_vec())))
        }))
    }

    /// Takes the rows of a table and the number of the last frame in it, all or nothing, and waits for the disk.
    pub(crate) fn take(&self, table: &Table, applied: u64) -> Result<(), StoreError> {
        self.write(|write| {
            let mut core = write.open_table(CORE)?;
            for row in table.rows() {
                match row.value {
                    Some(value) => drop(core.insert(row.key, value)?),
                    None => drop(core.remove(row.key)?),
                }
            }
            write.open_table(HOST)?.insert(APPLIED_KEY, applied)?;
            Ok(())
        })
    }

    fn read<K: redb::Key + 'static, V: Value + 'static>(
        &self,
        table: TableDefinition<'_, K, V>,
    ) -> Result<ReadOnlyTable<K, V>, TableError> {
        let read = self.database.begin_read().map_err(|error| match error {
            TransactionError::Storage(error) => error,
            error => StorageError::Io(std::io::Error::other(error)),
        })?;
        read.open_table(table)
    }

    fn write(
        &self,
        change: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let write = self.database.begin_write().map_err(|error| match error {
            TransactionError::Storage(error) => self.storage_error(error),
            error => StoreError::io(&self.path, error),
        })?;
        change(&write).map_err(|error| match error {
            redb::Error::Corrupted(why) => self.storage_error(StorageError::Corrupted(why)),
            redb::Error::Io(error) => self.storage_error(StorageError::Io(error)),
            error => StoreError::io(&self.path, error),
        })?;
        write.commit().map_err(|error| match error {
            CommitError::Storage(error) => self.storage_error(error),
            error => StoreError::io(&self.path, error),
        })
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
}

fn draw_salt(path: &Path) -> Result<u64, StoreError> {
    let salt = getrandom::u64().map_err(|error| StoreError::io(path, error))?;
    // Zeros are what a journal has where nothing was written yet.
    Ok(salt | 1)
}

/// Writes an empty tree beside its place and moves it there, so that a crash leaves a whole file or none.
///
/// # Errors
/// [`StoreError`].
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    let draft = path.with_extension("new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(StoreError::io(&draft, error)),
        _ => {}
    }
    let database = Builder::new()
        .create(&draft)
        .map_err(|error| database_error(&draft, error))?;
    let tree = Tree {
        database,
        path: draft,
    };
    tree.write(|write| {
        write.open_table(CORE)?;
        Ok(())
    })?;
    tree.begin_journals()?;
    let Tree {
        database,
        path: draft,
    } = tree;
    drop(database);
    fs::rename(&draft, path).map_err(|error| StoreError::io(path, error))?;
    crate::file::sync_folder_of(path).map_err(|error| StoreError::io(path, error))
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
