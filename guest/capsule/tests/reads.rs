//! What a replica reads of its store, and what it need not.

mod common;

use common::server::{Client, Map, Server, sign, write};
use common::{Log, charter};
use selfsame_capsule::message::Operation;
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
