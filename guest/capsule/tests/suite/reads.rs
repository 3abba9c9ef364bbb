//! What a replica reads of its store, and what it need not.

use crate::common::server::{Client, Map, Server, sign, write};
use crate::common::world::{World, between_replicas, chain};
use crate::common::{Log, charter};
use selfsame_capsule::message::{Operation, Part};
use selfsame_capsule::writer::Backpointers;

#[test]
fn the_first_records_of_a_capsule_that_was_created_are_written_without_reading_the_store() {
    let charter = charter();
    let (mut server, mut client) = (Server::new(Map::new()), Client::of(&charter));
    let metadata = charter.encoded();
    let given = client.ask(&mut server, &[Operation::Create { metadata }]);
    assert_eq!(given, [Ok(Vec::new())]);
    let log = Log::new(charter.clone(), 20, &Backpointers::Shortcuts);
    let mut operations: Vec<Operation<'_>> = log.records.iter().map(write).collect();
    operations.push(sign(log.name(19), log.writer.sign(&log.name(19))));
    let before = server.reads;
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert_eq!(server.reads, before);
    // Who opens it anew looks whether the records are there.
    server = server.lose_power();
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert!(server.reads > log.records.len());
}

/// What arrived since both agreed last is larger than the cache, and is read once for all that.
#[test]
fn a_comparison_reads_each_arrival_once() {
    let log = chain(80_000);
    let mut world = World::of(&log);
    let last = log.name(79_999);
    let signed = world.ask(0, &log.charter, &[sign(last, log.writer.sign(&last))]);
    assert_eq!(signed, [Ok(Vec::new())]);
    let store = world.servers.remove(0).store;
    let arrivals = store.keys().filter(|key| key[32] == b'A').count();
    let bytes = |kind| store.iter().filter(move |(key, _)| key[32] == kind);
    assert!(bytes(b'A').map(|(_, value)| value.len()).sum::<usize>() > 2 << 20);
    for (since, most) in [(1, 2 * arrivals), (0, 0)] {
        let mut server = Server::new(store.clone());
        server.most_reads = most + 100;
        let compare = Operation::Compare {
            salt: [1; 16],
            part: Part { since, ..Part::WHOLE },
            symbols: 64,
            unless: [0; 32],
        };
        let compared = server.respond(between_replicas(log.charter.name(), &[compare]));
        assert!(compared.len() > 64 * 13, "a sketch");
    }
}
