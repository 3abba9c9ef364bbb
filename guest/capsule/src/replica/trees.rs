//! Where sub-records lie in the bodies of records that were written or read lately, and what proves them: many are read of one
//! record, and a tree costs as many hashes as it has sub-records. The sub-records themselves stay where the store has them.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::ops::Range;

use hashbrown::HashMap;
use selfsame_codec::Field;

use super::entry::Body;
use super::layout::{Key, MAX_INLINE, RECORD, chunk_len, of_record};
use crate::hash::{CapsuleName, HASH_BYTES, RecordName};
use crate::header::RecordKind;
use crate::record::TreeHead;
use crate::spread::BuildSpread;
use crate::tree::Tree;

/// Bytes of trees that are remembered: those of some 200,000 sub-records, or of one of the largest records.
const MAX_BYTES: usize = 8 << 20;
/// What one takes beside what it points to: it, its key, and the room that a table leaves.
const ENTRY_BYTES: usize = 256;

/// Where the sub-records of a record lie in its body, and their tree as soon as a path of it was needed
#[derive(Debug)]
pub(super) struct Grown {
    /// Where each of them begins, and where the last one ends.
    starts: Vec<u32>,
    /// The body if it is short: to find it in the store takes longer.
    body: Option<Box<[u8]>>,
    tree: Option<Tree>,
}

impl Grown {
    /// The sub-records of a body that begins with this head, of which the whole `body` is at hand or nothing.
    pub(super) fn new(head: &TreeHead<'_>, body: Option<&[u8]>, tree: Option<Tree>) -> Self {
        let mut starts = Vec::with_capacity(head.count() + 1);
        let mut end = head.len() as u32;
        starts.push(end);
        starts.extend(head.lengths().map(|len| {
            end = end.saturating_add(len);
            end
        }));
        let body = body.filter(|body| body.len() <= MAX_INLINE).map(Box::from);
        Self { starts, body, tree }
    }

    /// Whether it gives paths of so many levels.
    pub(super) fn gives(&self, levels: u8) -> bool {
        levels == 0 || self.tree.is_some()
    }

    /// Where a sub-record lies in the body.
    pub(super) fn part(&self, index: usize) -> Option<Range<usize>> {
        let (start, end) = (self.starts.get(index)?, self.starts.get(index + 1)?);
        Some(*start as usize..*end as usize)
    }

    /// Where the body is.
    pub(super) fn body(&self) -> Body<'_> {
        match &self.body {
            Some(body) => Body::Whole(body),
            None => Body::Chunks(chunk_len(RecordKind::Tree, self.len())),
        }
    }

    /// How long the body is.
    fn len(&self) -> usize {
        self.starts.last().map_or(0, |end| *end as usize)
    }

    /// Appends of what proves a sub-record so many levels.
    pub(super) fn write_path(&self, index: usize, levels: u8, out: &mut Vec<u8>) {
        let at = out.len();
        0_u16.write(out);
        if let Some(tree) = &self.tree {
            tree.path(index, levels, out);
        }
        let start = at + size_of::<u16>();
        let count = (out.len() - start) / HASH_BYTES;
        out[at..start].copy_from_slice(&(count as u16).to_le_bytes());
    }

    /// About how many bytes of memory it takes: of the tree a third more than its leaves.
    fn bytes(&self) -> usize {
        let of_each = size_of::<u32>() + self.tree.as_ref().map_or(0, |_| HASH_BYTES * 4 / 3);
        ENTRY_BYTES + self.body.as_ref().map_or(0, |body| body.len()) + self.starts.len() * of_each
    }
}

/// A sub-record that is wanted: of a record, its number, and levels of its path
pub(super) type Part = (RecordName, u32, u8);

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
    /// A tree that gives paths of so many levels, if it is remembered.
    pub(super) fn get(
        &mut self,
        capsule: &CapsuleName,
        record: &RecordName,
        levels: u8,
    ) -> Option<Rc<Grown>> {
        let key = of_record(capsule, RECORD, record);
        let young = self.young.get(&key).cloned();
        let tree = match young {
            Some(tree) => tree,
            None => {
                let tree = self.old.remove(&key)?;
                self.remember(key, tree.clone());
                tree
            }
        };
        tree.gives(levels).then_some(tree)
    }

    /// Adds to `records` those whose trees have to be read before their sub-records are given; how many bytes the sub-records of the
    /// others have.
    pub(super) fn expect(
        &self,
        capsule: &CapsuleName,
        parts: &[Part],
        records: &mut Vec<(RecordName, bool)>,
    ) -> usize {
        let mut bytes = 0;
        for (record, index, levels) in parts {
            let tree = self.young.get(&of_record(capsule, RECORD, record));
            match tree.filter(|tree| tree.gives(*levels)) {
                Some(tree) => bytes += tree.part(*index as usize).unwrap_or_default().len(),
                None => records.push((*record, false)),
            }
        }
        bytes
    }

    /// Remembers a tree.
    pub(super) fn insert(&mut self, capsule: &CapsuleName, record: &RecordName, tree: Rc<Grown>) {
        self.remember(of_record(capsule, RECORD, record), tree);
    }

    /// Something that was stored may be gone.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn remember(&mut self, key: Key, tree: Rc<Grown>) {
        self.young_bytes += tree.bytes();
        if let Some(before) = self.young.insert(key, tree) {
            self.young_bytes -= before.bytes();
        }
        if self.young_bytes > MAX_BYTES / 2 {
            self.old = core::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }
}
