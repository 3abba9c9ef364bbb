use std::collections::{BTreeMap, BTreeSet};

use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::header::HeaderView;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::writer::{Backpointers, Pen, Progress, Writer, Written};

/// Records that both replicas and each alone have, together.
const RECORDS: usize = 100_000;
/// Longest branch that one replica alone has.
const BRANCH: usize = 10;

/// Two replicas' records
pub(crate) struct World {
    pub(crate) charter: Charter,
    records: Vec<Written>,
    /// Which of both has it: bit 0 and bit 1.
    owners: Vec<u8>,
}

/// The graph that one replica holds
pub(crate) struct Graph {
    pub(crate) parents: BTreeMap<[u8; 32], Vec<[u8; 32]>>,
    /// Records that the replica holds and no other one points to.
    pub(crate) heads: Vec<[u8; 32]>,
    /// Records that point to none that the replica holds.
    pub(crate) roots: Vec<[u8; 32]>,
}

impl World {
    /// A world in which so many records differ.
    pub(crate) fn random(seed: u64, differing: usize) -> Self {
        let charter = charter();
        let mut world = Self {
            records: Vec::with_capacity(RECORDS),
            owners: Vec::with_capacity(RECORDS),
            charter: charter.clone(),
        };
        let mut writer = writer(&charter, Progress::default());
        let common = RECORDS - differing;
        for _ in 0..common {
            world.write(&mut writer, 0b11);
        }
        let mut dice = seed;
        let mut left = [differing / 2, differing - differing / 2];
        while let Some(side) = (0..2).find(|side| left[*side] > 0) {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let from = (dice >> 33) as usize % common;
            writer.follow(world.records[from].name);
            let count = left[side].min(1 + (dice >> 20) as usize % BRANCH);
            for _ in 0..count {
                world.write(&mut writer, 1 << side);
            }
            left[side] -= count;
        }
        world
    }

    fn write(&mut self, writer: &mut Writer, owners: u8) {
        let content = self.records.len().to_string();
        let contents = [(content.as_bytes(), [0; 16])];
        let made = writer.write_each(&contents, &Backpointers::Chain, &mut |name, record| {
            self.records.push(Written {
                name: *name,
                header: record.header.encoded().to_vec(),
                body: record.body.to_vec(),
            });
        });
        made.expect("it is small");
        self.owners.push(owners);
    }

    /// What one replica has.
    pub(crate) fn of(&self, side: usize) -> impl Iterator<Item = &Written> {
        let owned = self.records.iter().zip(&self.owners);
        owned
            .filter(move |(_, owners)| *owners & 1 << side != 0)
            .map(|(record, _)| record)
    }

    /// The names of what one replica has.
    pub(crate) fn names(&self, side: usize) -> Vec<[u8; 32]> {
        self.of(side).map(|record| record.name.0).collect()
    }

    /// The names of what only one of them has.
    pub(crate) fn differing(&self) -> BTreeSet<[u8; 32]> {
        let owned = self.records.iter().zip(&self.owners);
        owned
            .filter(|(_, owners)| **owners != 0b11)
            .map(|(record, _)| record.name.0)
            .collect()
    }

    /// The graph of what one replica has.
    pub(crate) fn graph(&self, side: usize) -> Graph {
        let parents: BTreeMap<[u8; 32], Vec<[u8; 32]>> = self
            .of(side)
            .map(|record| {
                let header = HeaderView::decode(&record.header).expect("it was just made");
                let pointers = header.backpointers().map(|RecordName(name)| name);
                (record.name.0, pointers.collect())
            })
            .collect();
        let pointed: BTreeSet<&[u8; 32]> = parents.values().flatten().collect();
        let heads = parents.keys().filter(|name| !pointed.contains(name));
        let is_root = |pointers: &Vec<[u8; 32]>| pointers.iter().all(|name| !parents.contains_key(name));
        let roots = parents.iter().filter(|(_, pointers)| is_root(pointers));
        Graph {
            heads: heads.copied().collect(),
            roots: roots.map(|(name, _)| *name).collect(),
            parents,
        }
    }
}

pub(crate) fn owner() -> KeyPair {
    KeyPair::from_seed(&[1; 32])
}

fn charter() -> Charter {
    let metadata = Metadata {
        hash: HashKind::Blake3,
        readers: Readers::Everybody,
        created_ms: 1_800_000_000_000,
        salt: [2; 16],
        owner: owner().public(),
        writers: Vec::new(),
        description: "compared".into(),
    };
    Charter::sign(metadata, &owner()).expect("the metadata is right")
}

fn writer(charter: &Charter, progress: Progress) -> Writer {
    let pen = Pen {
        number: 0,
        key: owner(),
        epoch: 0,
        seal: None,
    };
    Writer::new(charter.clone(), pen, progress)
}
