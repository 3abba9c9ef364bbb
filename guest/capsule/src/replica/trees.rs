//! Trees of records whose sub-records were read lately: many are read of one record, and a tree costs as many hashes as it has
//! sub-records.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::hash::{CapsuleName, HASH_BYTES, Hasher, RecordName};
use crate::record::TreeBody;
use crate::refusal::Result;
use crate::tree::Tree;

/// Bytes of trees that are remembered: some of the largest.
const MAX_BYTES: usize = 8 << 20;
/// Trees that are remembered: what is searched faster than a tree grows.
const MAX_TREES: usize = 256;

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

    /// A sub-record, and what proves it.
    pub(super) fn part(&self, index: usize) -> Option<(&[u8], Vec<[u8; HASH_BYTES]>)> {
        let part = self.parts.get(index)?;
        Some((&self.body[part.clone()], self.tree.path(index, |_| false)))
    }

    /// About how many bytes of memory it takes: of the tree a third more than its leaves.
    fn bytes(&self) -> usize {
        self.body.len() + self.parts.len() * (size_of::<Range<usize>>() + HASH_BYTES * 4 / 3)
    }
}

/// Trees, the one read longest ago first
#[derive(Debug, Default)]
pub(super) struct Trees {
    all: VecDeque<(CapsuleName, RecordName, Rc<Grown>)>,
    bytes: usize,
}

impl Trees {
    /// A tree, if it is remembered.
    pub(super) fn get(&mut self, capsule: &CapsuleName, record: &RecordName) -> Option<Rc<Grown>> {
        let place = self
            .all
            .iter()
            .rposition(|(of, name, _)| name == record && of == capsule)?;
        let found = self.all.remove(place)?;
        let tree = found.2.clone();
        self.all.push_back(found);
        Some(tree)
    }

    /// Remembers a tree, and forgets those read longest ago if they are too many.
    pub(super) fn insert(&mut self, capsule: CapsuleName, record: RecordName, tree: Rc<Grown>) {
        self.bytes += tree.bytes();
        self.all.push_back((capsule, record, tree));
        while (self.bytes > MAX_BYTES || self.all.len() > MAX_TREES)
            && let Some((_, _, oldest)) = self.all.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
    }
}
