//! Trees of proven records of which sub-records were read, as far as they are verified: whoever reads one again, or one beside it, asks
//! for no proof of what it knows.

use alloc::rc::Rc;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::base::Against;
use crate::hash::{HASH_BYTES, RecordName};
use crate::refusal::Result;
use crate::seal::RecordKey;
use crate::spread::{BuildSpread, first_word};
use crate::tree::{FAN_OUT, way_up};

/// Most trees that are remembered, as many as names are in a verification cache: three megabytes of them.
const TREES: usize = 1 << 14;
/// Most nodes whose children are remembered: five megabytes of them.
const NODES: usize = 1 << 15;

/// A tree whose record is proven and whose topmost node is verified
#[derive(Debug)]
pub(super) struct Tree {
    name: RecordName,
    /// Told from those of all other trees that this client has known, and from all of their nodes: its own follow it.
    number: u64,
    /// How many sub-records it has.
    pub(super) count: u32,
    top: [u8; HASH_BYTES],
    /// With what they are sealed, if they are.
    pub(super) key: Result<Option<RecordKey>>,
}

impl Tree {
    /// The number of one of its nodes among those of all trees.
    fn node(&self, number: u32) -> u64 {
        self.number + 1 + u64::from(number)
    }
}

/// The tree of a sub-record, and how many levels above the sub-record which node of it is verified
pub(super) type Known = (Rc<Tree>, u32, [u8; HASH_BYTES]);

/// The children of a node
type Children = [[u8; HASH_BYTES]; FAN_OUT];

/// A node with its number among those of all trees
type Node = (u64, Children);

/// Trees and nodes, each in its place until another one takes it: that of a tree is a hash, and nodes follow one another, so that no
/// more memory is taken than for those there are
#[derive(Debug, Default)]
pub(super) struct Trees {
    trees: Vec<Option<Rc<Tree>>>,
    nodes: Vec<Node>,
    /// The last number of a tree or a node.
    last: u64,
    /// The last number that counts no more.
    forgotten: u64,
}

impl Trees {
    /// The tree of a record, if it is known.
    fn get(&self, name: &RecordName) -> Option<&Rc<Tree>> {
        let tree = self.trees.get(place(name))?.as_ref();
        tree.filter(|tree| tree.name == *name)
    }

    /// What is known of each sub-record, if the tree of its record is. Each step is done for all of them before the next one, so that
    /// the processor fetches what it needs of many from memory at a time.
    pub(super) fn find(&self, parts: &[(RecordName, u32)]) -> Vec<Option<Known>> {
        let trees: Vec<Option<&Rc<Tree>>> = parts.iter().map(|(name, _)| self.get(name)).collect();
        let known = |((_, index), tree): (&(RecordName, u32), Option<&Rc<Tree>>)| {
            let tree = tree?;
            let (level, hash) = self.known(tree, *index);
            Some((tree.clone(), level, hash))
        };
        parts.iter().zip(trees).map(known).collect()
    }

    /// Whether nothing was forgotten since this tree was verified.
    pub(super) fn holds(&self, tree: &Tree) -> bool {
        tree.number > self.forgotten
    }

    /// The lowest node above a sub-record, or the sub-record itself, that is verified.
    fn known(&self, tree: &Tree, index: u32) -> (u32, [u8; HASH_BYTES]) {
        let mut level = 0;
        for (number, child) in way_up(tree.count as usize, index as usize) {
            let number = tree.node(number);
            if let Some((_, children)) = self.nodes.get(node_place(number)).filter(|node| node.0 == number) {
                return (level, children[child]);
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
        // The topmost node comes last.
        let top = way_up(count as usize, 0).last();
        self.last += top.map_or(0, |(number, _)| u64::from(number) + 1);
        if tree.key.is_ok() {
            if self.trees.is_empty() {
                self.trees.resize_with(TREES, || None);
            }
            self.trees[place(&name)] = Some(tree.clone());
        }
        tree
    }

    /// Takes the children of a node of a tree, which are verified.
    pub(super) fn learn(&mut self, tree: &Tree, number: u32, children: Children) {
        let number = tree.node(number);
        let place = node_place(number);
        if place >= self.nodes.len() {
            self.nodes.resize(place + 1, Node::default());
        }
        self.nodes[place] = (number, children);
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

fn node_place(number: u64) -> usize {
    number as usize % NODES
}

/// What records begin with, as far as a request asks for it
#[derive(Debug, Default)]
pub(super) struct Trunks {
    places: HashMap<u64, u64, BuildSpread>,
    asked: Vec<(RecordName, usize)>,
    count: usize,
}

impl Trunks {
    /// Asks for what a record begins with, if no item before does.
    pub(super) fn find(&mut self, record: &RecordName) -> Against {
        let first = first_word(&record.0);
        let place = self.places.insert(first, self.asked.len() as u64);
        let found = place.and_then(|place| self.asked.get(place as usize));
        let found = found
            .filter(|(name, _)| name == record)
            .map(|(_, number)| *number);
        self.asked.push((*record, found.unwrap_or(self.count)));
        match found {
            Some(number) => Against::Trunk {
                number,
                is_here: false,
            },
            None => self.ask(),
        }
    }

    /// Asks for what a record begins with.
    pub(super) fn ask(&mut self) -> Against {
        self.count += 1;
        Against::Trunk {
            number: self.count - 1,
            is_here: true,
        }
    }
}
