use std::path::Path;
use std::{fs, io};

use tempfile::TempDir;

use super::scan;
use crate::{Entry, Storage};

/// A folder for one store
pub(super) struct Place<'a> {
    folder: TempDir,
    open: &'a dyn Fn(&Path) -> Box<dyn Storage>,
}

impl<'a> Place<'a> {
    pub(super) fn new(open: &'a dyn Fn(&Path) -> Box<dyn Storage>) -> Self {
        let folder = tempfile::tempdir().expect("no temporary folder can be created");
        Self { folder, open }
    }

    pub(super) fn open(&self) -> Box<dyn Storage> {
        (self.open)(self.folder.path())
    }

    /// Returns the entries that a store has which is opened after a crash at this moment.
    pub(super) fn entries_after_crash(&self) -> Vec<Entry> {
        let crashed = Self::new(self.open);
        copy(self.folder.path(), crashed.folder.path()).expect("the store's folder cannot be copied");
        let store = crashed.open();
        scan(&*store, &[], &[0xff; 2], 1000)
    }
}

/// Copies the files of a folder into another one that exists.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
