//! The folder of a store: what says that it is one, of which schema, and whether somebody has it open.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::file::sync_folder_of;
use super::journal::Journal;
use super::tree::Tree;
use super::{SCHEMA, StoreError};

/// The file with the schema number, which is locked while the store is open.
const SCHEMA_FILE: &str = "schema";
/// What stands before the number.
const SCHEMA_TEXT: &str = "selfsame store ";
/// Most bytes of that file that are read: more than any version writes.
const MAX_SCHEMA: u64 = 64;
const JOURNALS: [&str; 2] = ["journal-0", "journal-1"];
/// The folder of the runs.
const RUNS: &str = "runs";
/// The folder of the files of long values.
const VALUES: &str = "values";
/// What a file of redb begins with.
const REDB: &[u8] = b"redb";
/// What followed the names of stores when they were files of redb.
const REDB_END: &str = ".redb";
/// What follows the name of a store that is not whole yet.
const DRAFT_END: &str = ".new";

/// The paths of a store's journals.
pub(crate) fn journals_of(path: &Path) -> [PathBuf; 2] {
    JOURNALS.map(|name| path.join(name))
}

/// The path of a store's runs.
pub(crate) fn runs_of(path: &Path) -> PathBuf {
    path.join(RUNS)
}

/// The path of a store's long values.
pub(crate) fn values_of(path: &Path) -> PathBuf {
    path.join(VALUES)
}

/// Whose store it is as long as this lives
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// A program that is just being started holds a copy of the file until it runs: without this the lock would last as long.
    fn drop(&mut self) {
        // A lock that cannot be given back ends with the file.
        _ = self.file.unlock();
    }
}

/// Takes the store in a folder, or creates it where there is nothing.
///
/// # Errors
/// [`StoreError`]; what is there is left as it is.
pub(crate) fn open(path: &Path) -> Result<Lock, StoreError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            if is_empty(path).map_err(|error| StoreError::io(path, error))? {
                // Not everywhere does a folder move to where one is.
                fs::remove_dir(path).map_err(|error| StoreError::io(path, error))?;
                create(path)?;
            }
        }
        Ok(_) => return Err(not_a_folder(path)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let older = with_end(path, REDB_END);
            if older.exists() {
                return Err(StoreError::TooOld { path: older });
            }
            create(path)?;
        }
        Err(error) => return Err(StoreError::io(path, error)),
    }
    lock(path)
}

fn is_empty(path: &Path) -> std::io::Result<bool> {
    Ok(fs::read_dir(path)?.next().transpose()?.is_none())
}

fn not_a_folder(path: &Path) -> StoreError {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(REDB.len() as u64).read_to_end(&mut begin));
    match read {
        Err(error) => StoreError::io(path, error),
        Ok(_) if begin == REDB => StoreError::TooOld { path: path.into() },
        Ok(_) => StoreError::corrupt(path, "it is not a folder"),
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    // Without a slash at its end.
    let mut name = path.components().as_path().as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn lock(path: &Path) -> Result<Lock, StoreError> {
    let schema = path.join(SCHEMA_FILE);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&schema)
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => StoreError::corrupt(&schema, "it is missing"),
            _ => StoreError::io(&schema, error),
        })?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { path: path.into() }),
        Err(TryLockError::Error(error)) => return Err(StoreError::io(&schema, error)),
    }
    let mut text = Vec::new();
    (&file)
        .take(MAX_SCHEMA)
        .read_to_end(&mut text)
        .map_err(|error| StoreError::io(&schema, error))?;
    match number_in(&text) {
        Some(SCHEMA) => Ok(Lock { file }),
        Some(found) if found > SCHEMA => Err(StoreError::TooNew {
            path: path.into(),
            found,
        }),
        Some(_) => Err(StoreError::TooOld { path: path.into() }),
        None => Err(StoreError::corrupt(&schema, "another program wrote it")),
    }
}

/// The line with a schema number and the checksum of what stands before that.
pub(crate) fn schema_line(number: u64) -> String {
    let text = format!("{SCHEMA_TEXT}{number} ");
    let sum = crc32fast::hash(text.as_bytes());
    format!("{text}{sum:08x}\n")
}

fn number_in(line: &[u8]) -> Option<u64> {
    let line = str::from_utf8(line).ok()?;
    let number = line.strip_prefix(SCHEMA_TEXT)?.split(' ').next()?.parse().ok()?;
    (line == schema_line(number)).then_some(number)
}

/// Makes an empty store beside its place and moves it there, so that a crash leaves a whole one or none.
fn create(path: &Path) -> Result<(), StoreError> {
    let draft = with_end(path, DRAFT_END);
    match fs::remove_dir_all(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(StoreError::io(&draft, error)),
        _ => {}
    }
    fs::create_dir(&draft).map_err(|error| StoreError::io(&draft, error))?;
    let schema = draft.join(SCHEMA_FILE);
    File::create_new(&schema)
        .and_then(|mut file| {
            file.write_all(schema_line(SCHEMA).as_bytes())?;
            file.sync_all()
        })
        .map_err(|error| StoreError::io(&schema, error))?;
    journals_of(&draft)
        .iter()
        .try_for_each(|path| Journal::create(path))?;
    Tree::create(&runs_of(&draft), &values_of(&draft))?;
    let moved = sync_folder_of(&schema)
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| sync_folder_of(path));
    moved.map_err(|error| StoreError::io(path, error))
}
