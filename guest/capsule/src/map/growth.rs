//! Making a new tree out of an old one and what has changed: only nodes on the way to a change are made anew.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;
use selfsame_codec::Code;

use super::command::Place;
use super::format::{MAX_CLOCK, MAX_HEIGHT, Reference, Version, check_claim};
use super::node::{MAX_ENTRIES, Node};
use super::tree::Root;
use crate::hash::RecordName;
use crate::refusal::{Refusal, Result};

/// Bytes of nodes after which a record ends.
const PAGE_BYTES: usize = 768 << 10;
/// How many nodes are asked for at once.
const ASKED: usize = 512;

/// A node that is being made, or one that there is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Old(Place),
    New(usize),
}

type Keyed<T> = (Vec<u8>, T);

/// A node of the new tree whose children may have no place yet
#[derive(Debug)]
enum Made {
    Leaf(Vec<Keyed<Version>>),
    Inner(u8, Vec<Keyed<Child>>),
}

/// A node of the old tree
#[derive(Debug)]
enum Old {
    /// It is to be read: its height, which of the changes are in it, and whether it was asked for.
    Wanted(u8, Range<usize>, bool),
    Read(Node),
}

/// The making of a new tree
#[derive(Debug)]
pub(super) struct Growth {
    root: Option<Root>,
    /// What has changed, sorted.
    changes: Vec<Keyed<Version>>,
    /// Nodes of the old tree that hold changed keys.
    nodes: BTreeMap<Place, Old>,
    /// Records of which the old tree says that an operation counts for more than one that has changed, with what clock, and whether
    /// their heads were asked for.
    claimed: BTreeMap<RecordName, (u64, bool)>,
    /// What records say whose clocks count for more.
    understated: BTreeMap<RecordName, u64>,
    /// How many were asked for and have not come.
    asked: usize,
    made: Vec<Made>,
}

/// A new tree, whose nodes are in an order in which children come first
#[derive(Debug)]
pub(super) struct Grown {
    made: Vec<Made>,
    places: Vec<Place>,
    root: Child,
    height: u8,
    understated: BTreeMap<RecordName, u64>,
}

impl Growth {
    pub(super) fn new(
        root: Option<Root>,
        changes: Vec<Keyed<Version>>,
        understated: BTreeMap<RecordName, u64>,
    ) -> Self {
        let all = 0..changes.len();
        let first = root.map(|root| (root.place, Old::Wanted(root.height, all, false)));
        Self {
            nodes: first.into_iter().collect(),
            claimed: BTreeMap::new(),
            understated,
            root,
            changes,
            asked: 0,
            made: Vec::new(),
        }
    }

    /// Nodes to be read before it can go on, which are asked for now.
    pub(super) fn missing(&mut self) -> Vec<Place> {
        let mut missing = Vec::new();
        for (place, node) in &mut self.nodes {
            if let Old::Wanted(_, _, asked @ false) = node {
                *asked = true;
                missing.push(*place);
            }
            if missing.len() == ASKED {
                break;
            }
        }
        for (record, (_, asked)) in self.claimed.iter_mut().filter(|(_, (_, asked))| !asked) {
            *asked = true;
            missing.push(Place::head_of(*record));
        }
        self.asked += missing.len();
        missing
    }

    /// Takes a node; whether others that were asked for are still to come.
    ///
    /// # Errors
    /// [`Code::BadTree`].
    pub(super) fn take(&mut self, place: Place, bytes: &[u8]) -> Result<bool> {
        let (height, changes) = match self.nodes.get(&place) {
            Some(Old::Wanted(height, changes, _)) => (*height, changes.clone()),
            _ => return self.take_head(place, bytes),
        };
        self.asked = self.asked.saturating_sub(1);
        let node = Node::decode(bytes, height)?;
        node.check_clocks(self.root.map_or(0, |root| root.clock))?;
        if let Node::Leaf(entries) = &node {
            self.claim(entries, changes.clone());
        }
        if let Node::Inner(_, children) = &node {
            let mut start = changes.start;
            for (at, (_, child)) in children.iter().enumerate() {
                let count = within(&self.changes[start..changes.end], children, at);
                if count > 0 {
                    let wanted = Old::Wanted(height - 1, start..start + count, false);
                    self.nodes.insert(child.place(place.record), wanted);
                }
                start += count;
            }
        }
        self.nodes.insert(place, Old::Read(node));
        Ok(self.asked > 0)
    }

    /// Of operations that count for more than those that have changed since, the heads of their records are to be read.
    fn claim(&mut self, entries: &[Keyed<Version>], changes: Range<usize>) {
        for (key, version) in &self.changes[changes] {
            let Ok(at) = entries.binary_search_by(|(other, _)| other.cmp(key)) else {
                continue;
            };
            let old = &entries[at].1;
            if old.contradicts(version) {
                let claimed = self.claimed.entry(old.place.record).or_insert((0, false));
                if old.clock > claimed.0 {
                    *claimed = (old.clock, false);
                }
            }
        }
    }

    /// Takes the head of a record of which the old tree says with what clock it counts.
    fn take_head(&mut self, place: Place, bytes: &[u8]) -> Result<bool> {
        if let Some((clock, _)) = self.claimed.get(&place.record)
            && place == Place::head_of(place.record)
        {
            check_claim(bytes, *clock)?;
            self.asked = self.asked.saturating_sub(1);
        }
        Ok(self.asked > 0)
    }

    /// Makes the new tree; all nodes were taken.
    ///
    /// # Errors
    /// [`Code::TooLarge`] for a tree that is too high.
    pub(super) fn grow(mut self) -> Result<Grown> {
        let changes = core::mem::take(&mut self.changes);
        let (mut level, mut height) = match self.root {
            Some(root) => (self.update(root.place, &changes)?, root.height),
            None => (self.leaves(&[], &changes), 0),
        };
        while level.len() > 1 {
            height += 1;
            level = self.inner(height, level);
        }
        let root = level.first().map(|(_, child)| *child);
        let root = root.filter(|_| height <= MAX_HEIGHT);
        Ok(Grown {
            root: root.ok_or_else(|| Refusal::new(Code::TooLarge, usize::from(MAX_HEIGHT)))?,
            made: self.made,
            places: Vec::new(),
            height,
            understated: self.understated,
        })
    }

    /// What stands in the place of a node after changes in it.
    fn update(&mut self, place: Place, changes: &[Keyed<Version>]) -> Result<Vec<Keyed<Child>>> {
        match self.nodes.remove(&place) {
            Some(Old::Read(Node::Leaf(entries))) => Ok(self.leaves(&entries, changes)),
            Some(Old::Read(Node::Inner(height, children))) => {
                let mut updated = Vec::with_capacity(children.len() + 1);
                let mut rest = changes;
                for (at, (first, child)) in children.iter().enumerate() {
                    let (inside, beyond) = rest.split_at(within(rest, &children, at));
                    rest = beyond;
                    let child = child.place(place.record);
                    if inside.is_empty() {
                        updated.push((first.clone(), Child::Old(child)));
                    } else {
                        updated.extend(self.update(child, inside)?);
                    }
                }
                Ok(self.inner(height, updated))
            }
            _ => Err(Refusal::new(Code::BadTree, 0)),
        }
    }

    fn leaves(&mut self, entries: &[Keyed<Version>], changes: &[Keyed<Version>]) -> Vec<Keyed<Child>> {
        let mut merged: BTreeMap<Vec<u8>, Version> = entries.iter().cloned().collect();
        for (key, version) in changes {
            let known = merged.entry(key.clone()).or_insert(*version);
            if version.beats(known) {
                *known = *version;
            }
        }
        self.cut(merged.into_iter().collect(), Made::Leaf)
    }

    fn inner(&mut self, height: u8, children: Vec<Keyed<Child>>) -> Vec<Keyed<Child>> {
        self.cut(children, |children| Made::Inner(height, children))
    }

    /// Cuts entries into nodes of about the same number.
    fn cut<T>(
        &mut self,
        mut entries: Vec<Keyed<T>>,
        make: impl Fn(Vec<Keyed<T>>) -> Made,
    ) -> Vec<Keyed<Child>> {
        let mut nodes = Vec::new();
        let mut left = entries.len().div_ceil(MAX_ENTRIES);
        while left > 0 {
            let rest = entries.split_off(entries.len().div_ceil(left));
            let first = entries[0].0.clone();
            nodes.push((first, Child::New(self.made.len())));
            self.made.push(make(entries));
            (entries, left) = (rest, left - 1);
        }
        nodes
    }
}

/// How many of these changes, none of which comes before a child, are in it.
fn within<T>(changes: &[Keyed<Version>], children: &[Keyed<T>], at: usize) -> usize {
    let after = children.get(at + 1).map(|(key, _)| key);
    changes.partition_point(|(key, _)| after.is_none_or(|after| key < after))
}

/// The nodes of one record
#[derive(Debug)]
pub(super) struct Page {
    /// The sub-records after the head.
    pub(super) nodes: Vec<Bytes>,
    /// Of the last record of a tree the root and its height.
    pub(super) root: Option<(Reference, u8)>,
}

impl Grown {
    /// The nodes of the next record; those before have their places.
    pub(super) fn next_page(&self) -> Page {
        let first = self.places.len();
        let (mut nodes, mut bytes) = (Vec::new(), 0);
        for made in &self.made[first..] {
            let node = self.encode(made, first);
            bytes += node.len();
            if bytes > PAGE_BYTES && !nodes.is_empty() {
                break;
            }
            nodes.push(node.into());
        }
        let is_last = first + nodes.len() == self.made.len();
        let root = is_last.then(|| (self.reference(self.root, first), self.height));
        Page { nodes, root }
    }

    /// A record with so many nodes was written.
    pub(super) fn written(&mut self, record: RecordName, nodes: usize) {
        let places = (1..).take(nodes).map(|index| Place { record, index });
        self.places.extend(places);
    }

    fn encode(&self, made: &Made, first: usize) -> Vec<u8> {
        match made {
            Made::Leaf(entries) => {
                let entry = |(key, version): &Keyed<Version>| (key.clone(), self.written_as(*version));
                Node::Leaf(entries.iter().map(entry).collect()).encode()
            }
            Made::Inner(height, children) => {
                let child = |(key, child): &Keyed<Child>| (key.clone(), self.reference(*child, first));
                Node::Inner(*height, children.iter().map(child).collect()).encode()
            }
        }
    }

    /// An operation as a leaf holds it: with no larger clock than its record says, so that whoever reads it can check that.
    fn written_as(&self, version: Version) -> Version {
        let said = self.understated.get(&version.place.record);
        Version {
            clock: said
                .map_or(version.clock, |said| version.clock.min(*said))
                .min(MAX_CLOCK),
            ..version
        }
    }

    /// A node as one names it in the record whose first node is `first`.
    fn reference(&self, child: Child, first: usize) -> Reference {
        match child {
            Child::Old(place) => Reference::There(place),
            Child::New(number) => match self.places.get(number) {
                Some(place) => Reference::There(*place),
                None => Reference::Here((number - first + 1) as u32),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::rc::Rc;

    use super::super::format::{Head, Holds, Kind};
    use super::super::parts::Parts;
    use super::super::tree::{Look, find, leaf_of};
    use super::*;

    fn record(number: u64) -> RecordName {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&number.to_le_bytes());
        RecordName(name)
    }

    fn version(clock: u64) -> Version {
        let place = Place {
            record: record(clock),
            index: 1,
        };
        Version {
            kind: Kind::Set,
            clock,
            place,
        }
    }

    /// The head of the record of a version.
    fn head(record: RecordName) -> Vec<u8> {
        let clock = record
            .0
            .first_chunk()
            .map_or(0, |clock| u64::from_le_bytes(*clock));
        let holds = Holds::Pages;
        Head {
            follows: 0,
            clock,
            holds,
        }
        .encode()
    }

    /// Grows a tree and puts its nodes where they are read.
    fn grown(
        parts: &mut Parts,
        root: Option<Root>,
        changes: &BTreeMap<Vec<u8>, Version>,
        first: u64,
    ) -> (Root, usize) {
        let changes = changes
            .iter()
            .map(|(key, version)| (key.clone(), *version))
            .collect();
        let mut growth = Growth::new(root, changes, BTreeMap::new());
        loop {
            let missing = growth.missing();
            if missing.is_empty() {
                break;
            }
            for place in missing {
                let bytes = match place.index {
                    0 => head(place.record).into(),
                    _ => parts.get(&place).expect("it was written"),
                };
                growth.take(place, &bytes).expect("it is a node or a head");
            }
        }
        let (mut grown, mut written) = (growth.grow().expect("it is not too high"), 0);
        for number in first.. {
            let Page { nodes, root } = grown.next_page();
            grown.written(record(number), nodes.len());
            written += nodes.len();
            for (index, node) in (1..).zip(nodes) {
                let record = record(number);
                parts.insert(Place { record, index }, Rc::from(&*node));
            }
            if let Some((place, height)) = root {
                let (place, clock) = (place.place(record(number)), MAX_CLOCK);
                return (Root { place, height, clock }, written);
            }
        }
        unreachable!("each page has a node")
    }

    #[test]
    fn a_tree_holds_what_a_sorted_map_would_and_changes_only_what_it_must() {
        for seed in 1..=8_u64 {
            let mut state = seed * 0x9e37_79b9;
            let mut below = |bound: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
            };
            let (mut parts, mut root, mut model) = (Parts::default(), None, BTreeMap::new());
            for round in 0..12 {
                let mut changes = BTreeMap::new();
                for _ in 0..=below(150) {
                    let key = format!("{}", below(2000)).into_bytes();
                    // Some are older than what there is.
                    changes.insert(key, version(1 + below(1000 * (round + 1))));
                }
                let (next, written) = grown(&mut parts, root, &changes, 1_000_000 * (round + 1));
                assert!(
                    written <= changes.len() * 4 + 4,
                    "{written} nodes for {} changes",
                    changes.len()
                );
                root = Some(next);
                for (key, version) in changes {
                    let known = model.entry(key).or_insert(version);
                    if version.beats(known) {
                        *known = version;
                    }
                }
            }
            let root = root.expect("it has grown");
            assert!(root.height > 0);
            for number in 0..2000 {
                let key = format!("{number}").into_bytes();
                match find(&mut parts, root, &key).expect("it is a tree") {
                    Look::Found(found) => assert_eq!(found, model.get(&key).copied(), "seed {seed}"),
                    Look::Missing(missing) => panic!("{missing:?}"),
                }
            }
            let (mut all, mut from) = (Vec::new(), Vec::new());
            while let Look::Found(leaf) = leaf_of(&mut parts, root, &from, false).expect("a tree") {
                all.extend(leaf.entries);
                match leaf.next {
                    Some(next) => from = next,
                    None => break,
                }
            }
            assert!(all.into_iter().eq(model), "seed {seed}");
        }
    }

    #[test]
    fn a_node_that_is_none_ends_the_growth() {
        let root = Root {
            place: version(1).place,
            height: 1,
            clock: 2,
        };
        let changes = Vec::from([(b"k".to_vec(), version(2))]);
        let mut growth = Growth::new(Some(root), changes, BTreeMap::new());
        assert_eq!(growth.missing(), [root.place]);
        assert_eq!(growth.missing(), []);
        let leaf = Node::Leaf(Vec::from([(b"k".to_vec(), version(1))])).encode();
        let refusal = growth.take(root.place, &leaf).expect_err("it is not that high");
        assert_eq!(refusal.code, Code::BadTree);
    }
}
