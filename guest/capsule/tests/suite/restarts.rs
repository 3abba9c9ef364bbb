//! Steps that wait for the store come to an end, however little of what they need fits the cache.

use crate::common::server::{Client, Map, Server, created, sign, write};
use crate::common::{charter, fabricated, owner, writer};
use selfsame_capsule::authority::sign_record;
use selfsame_capsule::epoch::{EpochChange, Grant, MAX_GRANTS, ReaderKeys, epoch_key};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::message::Operation;
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::writer::Written;

/// Backpointers of a record at most.
const POINTERS: usize = 32;

/// A record without backpointers that the owner has not signed.
fn root(charter: &Charter, number: u64) -> Written {
    fabricated(charter, (0, number), Vec::new(), b"")
}

/// So many of the longest records that are stored in one value, all with these backpointers.
fn long_records(charter: &Charter, number: u64, count: u64, pointers: &[RecordName]) -> Vec<Written> {
    let body = [7; 4096];
    let record = |place| {
        let sequence = (1 << 20) + number * (1 << 10) + place;
        fabricated(charter, (0, sequence), pointers.to_vec(), &body)
    };
    (0..count).map(record).collect()
}

fn names(records: &[Written]) -> Vec<RecordName> {
    records.iter().map(|record| record.name).collect()
}

fn store(server: &mut Server, client: &mut Client, operations: &[Operation<'_>]) {
    for operations in operations.chunks(500) {
        assert!(client.ask(server, operations).iter().all(Result::is_ok));
    }
}

/// A server that has read nothing of this store yet, and may read so many values.
fn cold(store: &Map, most_reads: usize) -> Server {
    let mut server = Server::new(store.clone());
    server.most_reads = most_reads;
    server
}

#[test]
fn missing_record_that_many_point_to_is_stored() {
    let charter = charter();
    let (mut server, mut client) = created(&charter);
    let missing: Vec<Written> = (0..32).map(|number| root(&charter, number)).collect();
    let pointing = long_records(&charter, 0, 1024, &names(&missing));
    store(
        &mut server,
        &mut client,
        &pointing.iter().map(write).collect::<Vec<_>>(),
    );
    let mut server = cold(&server.store, 10_000);
    let first = &missing[0];
    let operations = [write(first), sign(first.name, sign_record(&owner(), &first.name))];
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert!(client.proves(&mut server, &charter, first.name).is_ok());
}

/// Nothing proves any of them, as is found out of each once.
#[test]
fn missing_records_together_are_each_looked_at_once() {
    let charter = charter();
    let (mut server, mut client) = created(&charter);
    let missing: Vec<Written> = (0..256).map(|number| root(&charter, number)).collect();
    for (number, some) in (0..).zip(missing.chunks(POINTERS)) {
        let pointing = long_records(&charter, number, 64, &names(some));
        store(
            &mut server,
            &mut client,
            &pointing.iter().map(write).collect::<Vec<_>>(),
        );
    }
    let mut server = cold(&server.store, 100_000);
    client.writer = None;
    let given = client.ask(&mut server, &missing.iter().map(write).collect::<Vec<_>>());
    assert!(given.iter().all(Result::is_err));
}

/// A chain of epoch records, the signatures among them.
fn epochs(charter: &Charter, changes: impl Iterator<Item = EpochChange>) -> Vec<Written> {
    let mut by_owner = writer(charter, 0, owner(), None);
    let mut last = None;
    let begin = |change: EpochChange| {
        let pointers = last.into_iter().collect();
        let epoch = by_owner
            .begin_epoch(change.encode(), 0, None, pointers)
            .expect("it is small");
        last = Some(epoch.name);
        epoch
    };
    changes.map(begin).collect()
}

/// The store of a server of a capsule with these epoch records.
fn store_of(charter: &Charter, epochs: &[Written]) -> (Map, Client) {
    let (mut server, mut client) = created(charter);
    let signed = |epoch: &Written| sign(epoch.name, sign_record(&owner(), &epoch.name));
    let each = epochs.iter().flat_map(|epoch| [write(epoch), signed(epoch)]);
    store(&mut server, &mut client, &each.collect::<Vec<_>>());
    (server.store, client)
}

#[test]
fn capsule_opens_whose_epochs_exceed_the_cache() {
    let charter = charter();
    let reader = ReaderKeys::from_seed(&[5; 32]);
    let key = epoch_key(&crate::common::OWNER_SEED, &charter.name(), 0);
    let grant = Grant::seal(&charter.name(), 0, &key, reader.public(), &[8; 64]).expect("the key is one");
    let grants = EpochChange {
        grants: vec![grant; MAX_GRANTS],
        ..EpochChange::default()
    };
    let epochs = epochs(&charter, core::iter::repeat_n(grants, 8));
    let (store, mut client) = store_of(&charter, &epochs);
    let mut server = cold(&store, 1000);
    assert!(client.ask(&mut server, &[Operation::Describe])[0].is_ok());
}

/// An answer holds more epoch records than the cache.
#[test]
fn epochs_that_exceed_the_cache_are_told() {
    let charter = charter();
    let epochs = epochs(&charter, core::iter::repeat_n(EpochChange::default(), 4500));
    let (store, client) = store_of(&charter, &epochs);
    let mut server = cold(&store, 20_000);
    let response = server.respond(client.message(&[Operation::Epochs { from: 0 }]));
    assert!(response.len() > 4500 * 150 && response.len() < 1 << 20);
    assert!(server.gets < 1000, "the store was asked {} times", server.gets);
}

/// What they point to is missing, and more than the cache holds.
#[test]
fn signature_that_brings_many_records_is_stored() {
    let charter = charter();
    let (server, mut client) = created(&charter);
    let mut records: Vec<Written> = Vec::new();
    for number in 0..1500_u64 {
        let missing = |place| fabricated(&charter, (1, number << 5 | place), Vec::new(), b"").name;
        let mut pointers: Vec<RecordName> = records.last().map(|last| last.name).into_iter().collect();
        pointers.extend((1..POINTERS as u64).map(missing));
        records.push(fabricated(&charter, (0, number), pointers, b""));
    }
    let last = records[records.len() - 1].name;
    let mut operations: Vec<Operation<'_>> = records.iter().map(write).collect();
    operations.push(sign(last, sign_record(&owner(), &last)));
    client.writer = None;
    let mut server = cold(&server.store, 1_000_000);
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    assert!(server.gets < 10_000, "the store was asked {} times", server.gets);
}
