//! Trees of records whose sub-records were read lately: many are read of one record, and a tree costs as many hashes as it has
//! sub-records.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashMap;
use selfsame_codec::Field;

use super::layout::{Key, RECORD, of_record};
use crate::hash::{CapsuleName, HASH_BYTES, Hasher, RecordName};
use crate::record::TreeBody;
use crate::refusal::Result;
use crate::spread::BuildSpread;
use crate::tree::Tree;

/// Bytes of trees that are remembered: some of the largest.
const MAX_BYTES: usize = 8 << 20;

/// A body with sub-records and its tree
#[derive(Debug)]
pub(super) struct Grown {
    body: Vec<u8>,
    parts: Vec<Range<usize>>,
    tree: Tree,
}

impl Grown {
    /// Grows the tree of a body.
    ///
    /// # Errors
    /// [`selfsame_codec::Code::BadTree`].
    pub(super) fn new(hasher: &Hasher, body: Vec<u8>, sealed: bool) -> Result<Self> {
        let decoded = TreeBody::decode(&body, sealed)?;
        let tree = decoded.hashes(hasher)?;
        let lens = decoded.subrecords.iter().map(|part| part.len());
        let mut end = body.len() - lens.clone().sum::<usize>();
        let parts = lens
            .map(|len| {
                end += len;
                end - len..end
            })
            .collect();
        Ok(Self { body, parts, tree })
    }

    /// Appends a sub-record, and of what proves it so many levels.
    pub(super) fn write(&self, index: usize, levels: u8, out: &mut Vec<u8>) -> Option<()> {
        let part = self.parts.get(index)?;
        (&self.body[part.clone()]).write(out);
        let at = out.len();
        0_u16.write(out);
        self.tree.path(index, levels, out);
        let count = (out.len() - at) / HASH_BYTES;
        out[at..at + size_of::<u16>()].copy_from_slice(&(count as u16).to_le_bytes());
        Some(())
    }

    /// About how many bytes of memory it takes: of the tree a third more than its leaves.
    fn bytes(&self) -> usize {
        self.body.len() + self.parts.len() * (size_of::<Range<usize>>() + HASH_BYTES * 4 / 3)
    }
}

type ByRecord = HashMap<Key, Rc<Grown>, BuildSpread>;

/// Trees by the key under which their record is stored; when there are too many, those are forgotten that were not read since
/// about as many bytes of others were
#[derive(Debug, Default)]
pub(super) struct Trees {
    young: ByRecord,
    old: ByRecord,
    young_bytes: usize,
}

impl Trees {
    /// A tree, if it is remembered.
    pub(super) fn get(&mut self, capsule: &CapsuleName, record: &RecordName) -> Option<Rc<Grown>> {
        let key = of_record(capsule, RECORD, record);
        if let Some(tree) = self.young.get(&key) {
            return Some(tree.clone());
        }
        let tree = self.old.remove(&key)?;
        self.remember(key, tree.clone());
        Some(tree)
    }

    /// Remembers a tree.
    pub(super) fn insert(&mut self, capsule: CapsuleName, record: RecordName, tree: Rc<Grown>) {
        self.remember(of_record(&capsule, RECORD, &record), tree);
    }

    fn remember(&mut self, key: Key, tree: Rc<Grown>) {
        self.young_bytes += tree.bytes();
        self.young.insert(key, tree);
        if self.young_bytes > MAX_BYTES / 2 {
            self.old = core::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}
