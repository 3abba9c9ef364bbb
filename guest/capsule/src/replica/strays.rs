//! Records that nothing that is signed leads to, from whoever is not known to be a writer: kept in memory for as long as there is
//! room, as what leads to them may be on its way. They are not stored, not acknowledged and shown to nobody.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::Source;
use super::layout::Key;
use crate::spread::BuildSpread;

/// Memory of all strays: a record on its way has some round trips to be proven.
const MAX_BYTES: usize = 8 << 20;
/// About what a stray takes beside its bytes.
const OVERHEAD: usize = 256;
/// Places of strays that are gone, beyond which a line is tidied up.
const MAX_GONE: usize = 64;

/// A record that strays, header and body
#[derive(Debug)]
struct Stray {
    source: Source,
    number: u64,
    record: Arc<Vec<u8>>,
}

/// What came from one source, the oldest first
#[derive(Debug, Default)]
struct Line {
    keys: VecDeque<(Key, u64)>,
    count: usize,
    bytes: usize,
}

/// Strays by the keys under which they would be stored
#[derive(Debug, Default)]
pub(super) struct Strays {
    all: HashMap<Key, Stray, BuildSpread>,
    lines: BTreeMap<Source, Line>,
    bytes: usize,
    last: u64,
}

impl Strays {
    /// Keeps a record. If there is too much, the oldest goes of the source that has the most: so nobody crowds others out.
    pub(super) fn insert(&mut self, source: Source, key: Key, record: Vec<u8>) {
        if self.all.contains_key(&key) {
            return;
        }
        self.last += 1;
        let bytes = record.len() + OVERHEAD;
        let line = self.lines.entry(source).or_default();
        line.keys.push_back((key, self.last));
        line.count += 1;
        line.bytes += bytes;
        self.bytes += bytes;
        let stray = Stray {
            source,
            number: self.last,
            record: Arc::new(record),
        };
        self.all.insert(key, stray);
        while self.bytes > MAX_BYTES {
            self.evict();
        }
    }

    /// A record, if it strays.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Vec<u8>>> {
        self.all.get(key).map(|stray| Arc::clone(&stray.record))
    }

    /// A record strays no more.
    pub(super) fn remove(&mut self, key: &Key) {
        let Some(Stray { source, record, .. }) = self.all.remove(key) else {
            return;
        };
        let bytes = record.len() + OVERHEAD;
        self.bytes -= bytes;
        let Some(line) = self.lines.get_mut(&source) else {
            return;
        };
        line.bytes -= bytes;
        line.count -= 1;
        if line.count == 0 {
            self.lines.remove(&source);
        } else if line.keys.len() > 2 * line.count + MAX_GONE {
            let all = &self.all;
            line.keys
                .retain(|(key, number)| all.get(key).is_some_and(|stray| stray.number == *number));
        }
    }

    fn evict(&mut self) {
        let largest = self.lines.values_mut().max_by_key(|line| line.bytes);
        let all = &self.all;
        let oldest = largest.and_then(|line| {
            let is_there =
                |(key, number): &(Key, u64)| all.get(key).is_some_and(|stray| stray.number == *number);
            while let Some(first) = line.keys.pop_front() {
                if is_there(&first) {
                    return Some(first.0);
                }
            }
            None
        });
        match oldest {
            Some(key) => self.remove(&key),
            None => *self = Self::default(),
        }
    }
}
