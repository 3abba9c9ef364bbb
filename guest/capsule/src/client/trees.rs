//! Trees of proven records of which sub-records were read, as far as they are verified: whoever reads one again, or one beside it, asks
//! for no proof of what it knows.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::hash::{HASH_BYTES, RecordName};
use crate::refusal::Result;
use crate::seal::RecordKey;
use crate::spread::BuildSpread;
use crate::tree::{FAN_OUT, way_up};

/// Most trees that are remembered, as many as names are in a verification cache: three megabytes of them.
const TREES: usize = 1 << 14;
/// Most nodes whose children are remembered: five megabytes of them.
const NODES: usize = 1 << 15;

/// A tree whose record is proven and whose topmost node is verified
#[derive(Debug)]
pub(super) struct Tree {
    name: RecordName,
    /// Told from those of all other trees that this client has known.
    number: u64,
    /// How many sub-records it has.
    pub(super) count: u32,
    top: [u8; HASH_BYTES],
    /// With what they are sealed, if they are.
    pub(super) key: Result<Option<RecordKey>>,
}

/// The tree of a sub-record, and how many levels above the sub-record which node of it is verified
type Known = (Rc<Tree>, u32, [u8; HASH_BYTES]);

/// The children of a node
#[derive(Debug)]
struct Node {
    tree: u64,
    number: u32,
    children: [[u8; HASH_BYTES]; FAN_OUT],
}

/// Trees and nodes, each in the place that it hashes to until another one takes it
#[derive(Debug, Default)]
pub(super) struct Trees {
    trees: Vec<Option<Rc<Tree>>>,
    nodes: Vec<Option<Box<Node>>>,
    last: u64,
    /// The last tree that counts no more.
    forgotten: u64,
}

impl Trees {
    /// The tree of a record, if it is known.
    fn get(&self, name: &RecordName) -> Option<&Rc<Tree>> {
        let tree = self.trees.get(place(name))?.as_ref();
        tree.filter(|tree| tree.name == *name)
    }

    /// What is known of a sub-record, if the tree of its record is.
    pub(super) fn find(&self, name: &RecordName, index: u32) -> Option<Known> {
        let tree = self.get(name)?;
        let (level, hash) = self.known(tree, index);
        Some((tree.clone(), level, hash))
    }

    /// Brings near what [`Self::find`] is to say of many sub-records, so that the processor fetches it of several at a time. Not in
    /// WebAssembly, where it is code of a download.
    pub(super) fn fetch(&self, parts: impl Iterator<Item = (RecordName, u32)>) {
        if cfg!(target_family = "wasm") {
            return;
        }
        let trees: Vec<_> = parts.map(|(name, index)| (self.get(&name), index)).collect();
        for (tree, index) in trees {
            core::hint::black_box(tree.map(|tree| self.known(tree, index).1[0]));
        }
    }

    /// Whether nothing was forgotten since this tree was verified.
    pub(super) fn holds(&self, tree: &Tree) -> bool {
        tree.number > self.forgotten
    }

    /// The lowest node above a sub-record, or the sub-record itself, that is verified.
    fn known(&self, tree: &Tree, index: u32) -> (u32, [u8; HASH_BYTES]) {
        let mut level = 0;
        for (number, child) in way_up(tree.count as usize, index as usize) {
            if let Some(Some(node)) = self.nodes.get(node_place(tree, number))
                && (node.tree, node.number) == (tree.number, number)
            {
                return (level, node.children[child]);
            }
            level += 1;
        }
        (level, tree.top)
    }

    /// Takes a tree that is verified. One whose key is not known is not remembered: the key may be granted later.
    pub(super) fn insert(
        &mut self,
        name: RecordName,
        (count, top): (u32, [u8; HASH_BYTES]),
        key: Result<Option<RecordKey>>,
    ) -> Rc<Tree> {
        if let Some(tree) = self.get(&name) {
            return tree.clone();
        }
        self.last += 1;
        let tree = Rc::new(Tree {
            name,
            number: self.last,
            count,
            top,
            key,
        });
        if tree.key.is_ok() {
            if self.trees.is_empty() {
                self.trees.resize_with(TREES, || None);
                self.nodes.resize_with(NODES, || None);
            }
            self.trees[place(&name)] = Some(tree.clone());
        }
        tree
    }

    /// Takes the children of a node of a tree, which are verified.
    pub(super) fn learn(&mut self, tree: &Tree, number: u32, children: [[u8; HASH_BYTES]; FAN_OUT]) {
        let Some(place) = self.nodes.get_mut(node_place(tree, number)) else {
            return;
        };
        let node = Node {
            tree: tree.number,
            number,
            children,
        };
        match place {
            Some(before) => **before = node,
            None => *place = Some(Box::new(node)),
        }
    }

    /// What was verified counts no more.
    pub(super) fn forget(&mut self) {
        self.trees.clear();
        self.nodes.clear();
        self.forgotten = self.last;
    }
}

fn place(name: &RecordName) -> usize {
    usize::from(u16::from_le_bytes([name.0[0], name.0[1]])) % TREES
}

/// Nodes of one tree lie beside one another, trees apart.
fn node_place(tree: &Tree, number: u32) -> usize {
    (tree.number.wrapping_mul(APART) as usize).wrapping_add(number as usize) % NODES
}

/// A number that has no common factor with that of the nodes, and is near it divided by the golden ratio.
const APART: u64 = 10_127;

/// Which items of a request ask for what their record begins with
#[derive(Debug, Default)]
pub(super) struct Trunks {
    numbers: HashMap<u64, u64, BuildSpread>,
    asked: Vec<(RecordName, usize)>,
}

impl Trunks {
    /// The place of the item that asks for what a record begins with; if there is none, it is to be this one.
    pub(super) fn find(&mut self, record: &RecordName, place: usize) -> Option<usize> {
        let (first, _) = record.0.split_first_chunk()?;
        let number = self
            .numbers
            .insert(u64::from_le_bytes(*first), self.asked.len() as u64);
        let found = number.and_then(|number| self.asked.get(number as usize));
        let found = found.filter(|(name, _)| name == record).map(|(_, place)| *place);
        self.asked.push((*record, found.unwrap_or(place)));
        found
    }
}
