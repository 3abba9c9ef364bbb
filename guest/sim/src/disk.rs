//! A host's disk: what was written and not synced is lost when the machine dies.

use std::collections::BTreeMap;

use selfsame_codec::{EntryWriter, Operation, Operations};

/// A key that was written since the last sync, with its value before, if it had one
type Before = (Vec<u8>, Option<Vec<u8>>);

/// A store of keys and values
#[derive(Debug, Default)]
pub struct Disk {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    unsynced: Vec<Before>,
}

impl Disk {
    /// Applies the operations of a commit, all in their order; a durable one syncs all that was written so far.
    ///
    /// # Panics
    /// When the core encoded them wrongly.
    pub fn commit(&mut self, operations: &[u8], durable: bool) {
        for operation in Operations::new(operations) {
            let (key, old) = match operation.expect("a core encodes its operations") {
                Operation::Put { key, value } => (key, self.entries.insert(key.to_vec(), value.to_vec())),
                Operation::Delete { key } => (key, self.entries.remove(key)),
            };
            if !durable {
                self.unsynced.push((key.to_vec(), old));
            }
        }
        if durable {
            self.unsynced.clear();
        }
    }

    /// A copy of all that was written, as a backup of a running node takes it.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            unsynced: Vec::new(),
        }
    }

    /// Loses what was not synced.
    pub fn lose_power(&mut self) {
        while let Some((key, old)) = self.unsynced.pop() {
            match old {
                Some(value) => _ = self.entries.insert(key, value),
                None => _ = self.entries.remove(&key),
            }
        }
    }

    /// The entry with this key, encoded as a store answers.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Vec<u8> {
        let mut found = EntryWriter::new();
        if let Some(value) = self.entries.get(key) {
            found.push(key, value);
        }
        found.as_bytes().to_vec()
    }

    /// The entries from `start` up to `end`, encoded as a store answers.
    #[must_use]
    pub fn scan(&self, start: &[u8], end: &[u8], limit: u32) -> Vec<u8> {
        let mut found = EntryWriter::new();
        let range = self.entries.range(start.to_vec()..end.to_vec());
        range
            .take(limit as usize)
            .for_each(|(key, value)| found.push(key, value));
        found.as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use selfsame_codec::OperationWriter;

    use super::*;

    fn put(disk: &mut Disk, key: &[u8], value: &[u8], durable: bool) {
        let mut operations = OperationWriter::default();
        operations.push(Operation::Put { key, value });
        disk.commit(operations.as_bytes(), durable);
    }

    #[test]
    fn what_was_not_synced_is_lost_with_the_power() {
        let mut disk = Disk::default();
        put(&mut disk, b"a", b"1", false);
        put(&mut disk, b"b", b"1", true);
        put(&mut disk, b"a", b"2", false);
        put(&mut disk, b"a", b"3", false);
        put(&mut disk, b"c", b"1", false);
        let mut operations = OperationWriter::default();
        operations.push(Operation::Delete { key: b"b" });
        disk.commit(operations.as_bytes(), false);
        disk.lose_power();
        let mut expected = EntryWriter::new();
        expected.push(b"a", b"1");
        expected.push(b"b", b"1");
        assert_eq!(disk.scan(b"a", b"z", 9), expected.as_bytes());
    }
}
