//! A full table on its way into the tree, in a thread of its own.

use alloc::sync::Arc;
use std::thread::{self, JoinHandle};

use super::StoreError;
use super::journal::Journal;
use super::table::Table;
use super::tree::Tree;

/// A table that is full, and stays to be read until the tree has it
#[derive(Debug)]
pub(crate) struct Drain {
    tree: Arc<Tree>,
    table: Arc<Table>,
    /// The number of the last frame in it.
    last: u64,
    journal: Journal,
    is_durable: bool,
    /// None after it has failed.
    thread: Option<JoinHandle<Result<(), StoreError>>>,
}

/// What a drain needs
pub(crate) struct Full {
    pub(crate) table: Table,
    pub(crate) last: u64,
    pub(crate) journal: Journal,
    /// Whether all of the table is in its journal, and that on the disk.
    pub(crate) is_durable: bool,
}

impl Drain {
    /// Begins.
    pub(crate) fn begin(tree: &Arc<Tree>, full: Full) -> Self {
        let mut drain = Self {
            tree: Arc::clone(tree),
            table: Arc::new(full.table),
            last: full.last,
            journal: full.journal,
            is_durable: full.is_durable,
            thread: None,
        };
        // One that does not start is started again when it is waited for.
        _ = drain.start();
        drain
    }

    fn start(&mut self) -> Result<(), StoreError> {
        let (tree, table, last) = (Arc::clone(&self.tree), Arc::clone(&self.table), self.last);
        let started = thread::Builder::new()
            .name("selfsame-drain".into())
            .spawn(move || tree.take(&table, last));
        self.thread = Some(started.map_err(|error| StoreError::io(self.journal.path(), error))?);
        Ok(())
    }

    /// What is on its way.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Whether all of it survives a power loss already.
    pub(crate) fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Whether [`Self::wait`] need not wait long.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Waits until the tree has it; one that has failed before is tried again.
    ///
    /// # Errors
    /// [`StoreError`] when the tree could not be written: then it can be tried again.
    pub(crate) fn wait(&mut self) -> Result<(), StoreError> {
        if self.thread.is_none() {
            self.start()?;
        }
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        match thread.join() {
            Ok(drained) => drained,
            Err(_) => Err(StoreError::io(
                self.journal.path(),
                "what moves it into the tree panicked",
            )),
        }
    }

    /// The journal, to be used again, when the tree has all of it, and the table.
    pub(crate) fn into_parts(mut self) -> (Journal, Option<Table>) {
        self.journal.restart();
        (self.journal, Arc::into_inner(self.table))
    }
}
