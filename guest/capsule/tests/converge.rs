//! Random pairs and triples of replicas, with holes, stale and missing branches, forks and revocations: they converge.
//!
//! Each seed is one world, and a failure names it. `CONVERGE_SEED` says with which to begin, `CONVERGE_PAIRS` how many follow.

mod common;

use common::dice::Dice;
use common::server::{sign, write};
use common::single::WriteOne as _;
use common::world::World;
use common::{charter_of, owner, writer};
use selfsame_capsule::epoch::{Added, EpochChange, Revoked};
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::keys::{KeyPair, Signature};
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::replica::SyncOutcome;
use selfsame_capsule::writer::{Backpointers, Progress, Writer, Written};

fn alice() -> KeyPair {
    KeyPair::from_seed(&[2; 32])
}

fn bob() -> KeyPair {
    KeyPair::from_seed(&[3; 32])
}

/// Records in an order in which none comes before what it points to, and signatures of some.
struct Graph {
    records: Vec<Written>,
    signed: Vec<(RecordName, Signature)>,
    epoch: u32,
}

impl Graph {
    fn random(dice: &mut Dice, charter: &Charter) -> Self {
        let mut graph = Self {
            records: Vec::new(),
            signed: Vec::new(),
            epoch: 0,
        };
        let mut writers = vec![
            writer(charter, 0, owner(), None),
            writer(charter, 1, alice(), None),
        ];
        let count = 1 + dice.index(40);
        while graph.records.len() < count {
            if dice.once_in(25) {
                graph.begin_epoch(dice, charter, &mut writers);
            }
            let which = dice.index(writers.len());
            let backpointers = graph.pointers(dice, &mut writers[which]);
            let before = writers[which].progress().clone();
            graph.write(dice, &mut writers[which], &backpointers);
            // A fork: the same writer uses the sequence number again.
            if dice.once_in(12) {
                let mut again = fork(charter, which, before);
                for _ in 0..1 + dice.index(3) {
                    let backpointers = graph.pointers(dice, &mut again);
                    graph.write(dice, &mut again, &backpointers);
                }
            }
        }
        graph
    }

    fn write(&mut self, dice: &mut Dice, by: &mut Writer, backpointers: &Backpointers) {
        let content = dice.next().to_le_bytes();
        let len = if dice.once_in(40) { 5000 } else { 8 };
        let content: Vec<u8> = content.iter().copied().cycle().take(len).collect();
        let record = by.write(&content, backpointers, &[0; 16]).expect("it is small");
        if dice.once_in(5) {
            self.signed.push((record.name, by.sign(&record.name)));
        }
        self.records.push(record);
    }

    /// A chain, a shortcut, a new branch or a merge.
    fn pointers(&self, dice: &mut Dice, by: &mut Writer) -> Backpointers {
        if self.records.is_empty() {
            return Backpointers::Chain;
        }
        let any = |dice: &mut Dice| self.records[dice.index(self.records.len())].name;
        match dice.index(6) {
            0 => {
                by.follow(any(dice));
                Backpointers::Chain
            }
            1 => {
                let mut own: Vec<RecordName> = (0..1 + dice.index(3)).map(|_| any(dice)).collect();
                own.sort_unstable();
                own.dedup();
                by.follow(own[0]);
                Backpointers::Own(own)
            }
            2 => Backpointers::Shortcuts,
            _ => Backpointers::Chain,
        }
    }

    /// The owner adds a writer or revokes one.
    fn begin_epoch(&mut self, dice: &mut Dice, charter: &Charter, writers: &mut Vec<Writer>) {
        let epoch_records: Vec<&Written> = self
            .records
            .iter()
            .filter(|record| record.header[1] == 3)
            .collect();
        let before = epoch_records.last().map(|record| record.name);
        let mut heads = Vec::new();
        let change = if epoch_records.is_empty() && dice.once_in(2) {
            writers.push(writer(charter, 2, bob(), None));
            EpochChange {
                added: vec![Added {
                    number: 2,
                    key: bob().public(),
                }],
                ..EpochChange::default()
            }
        } else if dice.once_in(3) {
            // Nobody joins or leaves, as when further readers get the key.
            EpochChange::default()
        } else if writers.len() > 1 {
            if !self.records.is_empty() && dice.once_in(2) {
                heads.push(self.records[dice.index(self.records.len())].name);
            }
            let gone = writers.remove(1);
            self.epoch += 1;
            EpochChange {
                revoked: vec![Revoked {
                    number: if gone.sign(&RecordName([0; 32])) == alice_signs() {
                        1
                    } else {
                        2
                    },
                    heads: heads.clone(),
                }],
                ..EpochChange::default()
            }
        } else {
            return;
        };
        let epoch = self.epoch;
        let record = writers[0]
            .begin_epoch(
                change.encode(),
                epoch,
                None,
                before.into_iter().chain(heads).collect(),
            )
            .expect("it is small");
        self.signed.push((record.name, writers[0].sign(&record.name)));
        self.records.push(record);
    }

    /// Gives a replica some of it, in a random order: all but some, a beginning, or a branch.
    fn give(&self, dice: &mut Dice, world: &mut World, index: usize, charter: &Charter) {
        let beginning = dice.index(self.records.len() + 1);
        let rarely = 2 + dice.index(8);
        let way = dice.index(5);
        let mut operations = Vec::new();
        for (place, record) in self.records.iter().enumerate() {
            let is_given = match way {
                0 => true,
                1 => place < beginning,
                2 => place >= beginning,
                3 => !dice.once_in(rarely),
                _ => dice.once_in(rarely),
            };
            if is_given {
                operations.push(write(record));
            }
        }
        let (in_order, knows_all) = (dice.once_in(2), dice.once_in(2));
        if !in_order {
            dice.shuffle(&mut operations);
        }
        // Signatures in any order, so that some are of records that are not there, or of writers who do not count yet.
        for (name, signature) in &self.signed {
            if knows_all || !dice.once_in(3) {
                let place = if in_order {
                    operations.len()
                } else {
                    dice.index(operations.len() + 1)
                };
                operations.insert(place, sign(*name, *signature));
            }
        }
        world.ask(index, charter, &operations);
    }
}

fn alice_signs() -> Signature {
    selfsame_capsule::authority::sign_record(&alice(), &RecordName([0; 32]))
}

fn fork(charter: &Charter, which: usize, before: Progress) -> Writer {
    let key = [owner(), alice(), bob()]
        .into_iter()
        .nth(which)
        .expect("one of three");
    let pen = selfsame_capsule::writer::Pen {
        number: which as u16,
        key,
        epoch: 0,
        seal: None,
    };
    Writer::new(charter.clone(), pen, before)
}

fn converges(seed: u64) {
    let mut dice = Dice(seed);
    let hash = if dice.once_in(4) {
        HashKind::Sha256
    } else {
        HashKind::Blake3
    };
    let charter = charter_of(hash, Readers::Everybody, vec![alice().public()]);
    let graph = Graph::random(&mut dice, &charter);
    let count = if dice.once_in(4) { 3 } else { 2 };
    let mut world = World::created(count, &charter);
    for index in 0..count {
        graph.give(&mut dice, &mut world, index, &charter);
    }
    let what = format!("seed {seed}");
    if count == 2 {
        world.converge(0, 1, &charter, &what);
    } else {
        // One hears of the third through the second, and that one of what is proven by it.
        for (one, other) in [(0, 1), (1, 2), (0, 1), (1, 2), (0, 1)] {
            world.converge(one, other, &charter, &what);
        }
        world.assert_same(0, 2, &charter, &what);
    }
    // A second time nothing is exchanged, and something new on either side is.
    let synced = world.sync(1, 0, charter.name());
    assert_eq!(
        (synced.outcome, synced.pulled + synced.pushed),
        (SyncOutcome::Agreed, 0),
        "{what}"
    );
    let later = Graph::random(&mut dice, &charter);
    for index in 0..2 {
        later.give(&mut dice, &mut world, index, &charter);
    }
    if dice.once_in(2) {
        let store = world.servers[1].store.clone();
        world.servers[1] = common::server::Server::new(store);
    }
    let epochs = |graph: &Graph| graph.records.iter().any(|record| record.header[1] == 3);
    // Two graphs with epochs are an owner who contradicts himself.
    if !(epochs(&graph) && epochs(&later)) {
        world.converge(1, 0, &charter, &what);
    }
}

/// What takes a second without being optimised.
const USUAL_PAIRS: u64 = 300;

/// Lets as many worlds converge as `CONVERGE_PAIRS` says; `npm run test:converge` says ten thousand.
fn all_converge() {
    let number = |name: &str| {
        let value = std::env::var(name).ok();
        value.and_then(|value| value.parse::<u64>().ok())
    };
    let first = number("CONVERGE_SEED").unwrap_or(1);
    let count = number("CONVERGE_PAIRS").unwrap_or(USUAL_PAIRS);
    for seed in first..first + count {
        let world = std::panic::catch_unwind(|| converges(seed));
        if let Err(panic) = world {
            eprintln!("repeat with CONVERGE_SEED={seed} CONVERGE_PAIRS=1");
            std::panic::resume_unwind(panic);
        }
    }
    println!("{count} worlds converged, seeds from {first}");
}

#[test]
fn random_replicas_converge() {
    all_converge();
}
