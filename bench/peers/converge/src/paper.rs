//! What the paper compares (DCS, sections 2.3 and 3.4), counted in names: whoever learns a name can fetch the record.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::Cost;
use crate::world::{Graph, World};

/// Bytes of a name.
const NAME: usize = 32;
/// Bits for each record and hash functions of a filter that takes one record in a hundred for another.
const BITS: usize = 10;
const FUNCTIONS: u64 = 7;

type Names = BTreeSet<[u8; 32]>;

/// Each replica sends all its names.
pub(crate) fn naive(world: &World) -> Cost {
    let (here, there) = (world.names(0), world.names(1));
    let begin = Instant::now();
    let [ours, theirs] = [&here, &there].map(|names| names.iter().copied().collect::<Names>());
    let found: Vec<[u8; 32]> = ours.symmetric_difference(&theirs).copied().collect();
    let mut cost = Cost {
        bytes: NAME * (here.len() + there.len()),
        round_trips: 1,
        nanoseconds: begin.elapsed().as_nanos(),
        ..Cost::default()
    };
    cost.judge(world, found.into_iter());
    cost
}

/// Replicas exchange heads and roots, and each names what the other lacks as far as it can tell from its own graph.
pub(crate) fn lu(world: &World) -> Cost {
    let (here, there) = (world.graph(0), world.graph(1));
    let begin = Instant::now();
    let (from_there, from_here) = (lacking(&there, &here), lacking(&here, &there));
    let ends = [&here, &there].map(|graph| graph.heads.len() + graph.roots.len());
    let mut cost = Cost {
        bytes: NAME * (ends[0] + ends[1] + from_there.len() + from_here.len()),
        round_trips: 2,
        nanoseconds: begin.elapsed().as_nanos(),
        ..Cost::default()
    };
    cost.judge(world, from_here.into_iter().chain(from_there));
    cost
}

/// What `theirs` lacks of `ours`, given only its heads and roots: all but what lies between them.
fn lacking(ours: &Graph, theirs: &Graph) -> Names {
    let roots: BTreeSet<&[u8; 32]> = theirs.roots.iter().collect();
    let mut known = Names::new();
    let mut open: Vec<[u8; 32]> = theirs.heads.iter().chain(&theirs.roots).copied().collect();
    while let Some(name) = open.pop() {
        if let Some(parents) = ours.parents.get(&name)
            && known.insert(name)
            && !roots.contains(&name)
        {
            open.extend(parents);
        }
    }
    ours.parents
        .keys()
        .filter(|name| !known.contains(*name))
        .copied()
        .collect()
}

/// Each replica sends a Bloom filter of what it has, then the names that are in none, and Lu's algorithm finds more.
pub(crate) fn bloom_then_lu(world: &World) -> Cost {
    let (here, there) = (world.names(0), world.names(1));
    let begin = Instant::now();
    let filters = [Filter::of(&here), Filter::of(&there)];
    let outside = |names: &[[u8; 32]], filter: &Filter| -> Names {
        names
            .iter()
            .filter(|name| !filter.contains(name))
            .copied()
            .collect()
    };
    let (mut from_here, mut from_there) = (outside(&here, &filters[1]), outside(&there, &filters[0]));
    let took = begin.elapsed();
    let bytes: usize = filters.iter().map(|filter| filter.bits.len() / 8).sum();
    let mut cost = Cost {
        bytes: bytes + NAME * (from_here.len() + from_there.len()),
        round_trips: 2,
        ..Cost::default()
    };
    // Both take what they have got before Lu's algorithm begins.
    let (mut ours, mut theirs) = (world.graph(0), world.graph(1));
    let begin = Instant::now();
    take(&mut ours, &theirs, &from_there);
    take(&mut theirs, &ours, &from_here);
    let rest = [lacking(&ours, &theirs), lacking(&theirs, &ours)];
    let ends = ours.heads.len() + ours.roots.len() + theirs.heads.len() + theirs.roots.len();
    cost.bytes += NAME * (ends + rest[0].len() + rest[1].len());
    cost.round_trips += 2;
    cost.nanoseconds = (took + begin.elapsed()).as_nanos();
    from_here.extend(&rest[0]);
    from_there.extend(&rest[1]);
    cost.judge(world, from_here.into_iter().chain(from_there));
    cost
}

/// Adds records of another graph.
fn take(to: &mut Graph, from: &Graph, names: &Names) {
    for name in names {
        to.parents.insert(*name, from.parents[name].clone());
    }
    let pointed: Names = to.parents.values().flatten().copied().collect();
    to.heads = to
        .parents
        .keys()
        .filter(|name| !pointed.contains(*name))
        .copied()
        .collect();
    to.roots = to
        .parents
        .iter()
        .filter(|(_, parents)| parents.iter().all(|parent| !to.parents.contains_key(parent)))
        .map(|(name, _)| *name)
        .collect();
}

/// A Bloom filter; names are hashes, so that parts of them are as good as further hashes
struct Filter {
    bits: Vec<bool>,
}

impl Filter {
    fn of(names: &[[u8; 32]]) -> Self {
        let mut filter = Self {
            bits: vec![false; names.len() * BITS],
        };
        for name in names {
            for place in filter.places(name) {
                filter.bits[place] = true;
            }
        }
        filter
    }

    fn contains(&self, name: &[u8; 32]) -> bool {
        self.places(name).into_iter().all(|place| self.bits[place])
    }

    fn places(&self, name: &[u8; 32]) -> Vec<usize> {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&name[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        (0..FUNCTIONS)
            .map(|index| {
                (word(8).wrapping_add(index.wrapping_mul(word(16))) % self.bits.len() as u64) as usize
            })
            .collect()
    }
}
