//! Replicas come to hold the same, whatever each of them lacks.

mod common;

use common::server::{sign, write};
use common::world::World;
use common::{Log, charter, owner, writer};
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::keys::KeyPair;
use selfsame_capsule::message::Operation;
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::replica::SyncOutcome;
use selfsame_capsule::writer::{Backpointers, Writer, Written};

/// Gives a replica these records, and their signatures.
fn give(
    world: &mut World,
    index: usize,
    charter: &Charter,
    records: &[&Written],
    signed: &[(&Writer, &Written)],
) {
    let mut operations: Vec<Operation<'_>> = records.iter().map(|record| write(record)).collect();
    operations.extend(
        signed
            .iter()
            .map(|(by, record)| sign(record.name, by.sign(&record.name))),
    );
    assert!(world.ask(index, charter, &operations).iter().all(Result::is_ok));
}

/// Two replicas that converge from what each was given of a log whose last record is signed, from either side.
fn converges(log: &Log, here: &[usize], there: &[usize]) {
    let last = log.records.len() - 1;
    for (one, other) in [(0, 1), (1, 0)] {
        let mut world = World::created(2, &log.charter);
        for (index, own) in [(0, here), (1, there)] {
            let records: Vec<&Written> = own.iter().map(|record| &log.records[*record]).collect();
            let signed: Vec<(&Writer, &Written)> = own
                .contains(&last)
                .then_some((&log.writer, &log.records[last]))
                .into_iter()
                .collect();
            give(&mut world, index, &log.charter, &records, &signed);
        }
        world.converge(one, other, &log.charter, "a log");
        let all: std::collections::BTreeSet<&usize> = here.iter().chain(there).collect();
        let stored = world.servers[0]
            .store
            .keys()
            .filter(|key| key[32] == b'R')
            .count();
        assert_eq!(stored, all.len());
    }
}

fn chain(count: usize) -> Log {
    Log::new(charter(), count, &Backpointers::Chain)
}

#[test]
fn replicas_that_hold_the_same_know_it_after_one_tiny_round_trip() {
    let log = chain(200);
    let mut world = World::created(2, &log.charter);
    let records: Vec<&Written> = log.records.iter().collect();
    for index in 0..2 {
        give(
            &mut world,
            index,
            &log.charter,
            &records,
            &[(&log.writer, &log.records[199])],
        );
    }
    let synced = world.converge(0, 1, &log.charter, "equal replicas");
    assert_eq!((synced.pulled, synced.pushed), (0, 0));
    assert!(
        world.cost.round_trips == 1 && world.cost.bytes <= 200,
        "{:?}",
        world.cost
    );
}

#[test]
fn a_component_of_one_record() {
    let log = chain(6);
    converges(&log, &[0, 1, 5], &[0, 1, 3, 5]);
    converges(&log, &[], &[3]);
    converges(&log, &[1], &[3]);
}

#[test]
fn a_hole_behind_a_prefix_of_one_record() {
    converges(&chain(6), &[0, 3, 4, 5], &[0, 1, 2, 3, 4, 5]);
    converges(&chain(3), &[0, 2], &[0, 1, 2]);
}

#[test]
fn a_responder_that_itself_lacks_records() {
    converges(&chain(8), &[0, 1, 4, 5, 7], &[0, 2, 3, 6, 7]);
    converges(&chain(8), &[0, 2, 4, 6], &[1, 3, 5, 7]);
}
