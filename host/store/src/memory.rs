use alloc::collections::BTreeMap;

use selfsame_write_batch::WriteBatch;

use super::{Entry, Storage, StoreError};

/// A store that forgets everything with the process: for nodes that live as long as one command
#[derive(Debug, Default)]
pub struct MemoryStore {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Storage for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.entries.get(key).cloned())
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Entry>, StoreError> {
        if start >= end {
            return Ok(Vec::new());
        }
        let range = self.entries.range(start.to_vec()..end.to_vec());
        Ok(range
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn commit(&mut self, batch: &WriteBatch, _durable: bool) -> Result<(), StoreError> {
        for row in batch.rows() {
            match row.value {
                Some(value) => _ = self.entries.insert(row.key.to_vec(), value.to_vec()),
                None => _ = self.entries.remove(row.key),
            }
        }
        Ok(())
    }
}
