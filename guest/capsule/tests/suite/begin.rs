//! Where a writer begins that has lost its store: after all that it has signed, whatever others point to.

use crate::common::authors::{ALICE, alice, content, pointing, put, shared};
use crate::common::maps::{self, Using as _, set};
use crate::common::net::{Fate, START, User, code, config, server_key, servers};
use crate::common::server::{Server, sign, write};
use crate::common::single::WriteOne as _;
use crate::common::{OWNER_SEED, view};
use selfsame_capsule::Result;
use selfsame_capsule::client::{Command, Position, Reply, Start};
use selfsame_capsule::hash::RecordName;
use selfsame_capsule::message::{Fresh, FreshQuery};
use selfsame_capsule::metadata::Charter;
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::{Code, Field, Reader};

/// Bytes of a request before its operations, and of the one that asks for epoch records.
const BEFORE: usize = 53 + 5;

/// The owner's client on a machine whose store is gone.
fn owner_anew(charter: &Charter, count: usize) -> User {
    User::new(config(charter, count, Some(OWNER_SEED), 9))
}

fn resume(user: &mut User, all: &mut [Server]) -> Result<Position> {
    let start = Start::Resume;
    match user.run(all, Command::Init { start })? {
        Reply::Ready(position) => Ok(position),
        other => panic!("{other:?}"),
    }
}

/// Whether two records show that their writer has forked.
fn are_fork(charter: &Charter, all: &mut [Server], records: [RecordName; 2]) -> bool {
    let mut reader = User::new(config(charter, all.len(), None, 77));
    matches!(reader.run(all, Command::Accuse { records }), Ok(Reply::Fork(_)))
}

/// Servers, and two records of the owner that they store.
fn begun(charter: &Charter, count: usize) -> (Vec<Server>, [RecordName; 2]) {
    let mut all = servers(count);
    let mut owner = User::new(config(charter, count, Some(OWNER_SEED), 1));
    assert!(owner.run(&mut all, Command::Create).is_ok());
    owner.begin(&mut all);
    let records = [b"first" as &[u8], b"second"].map(|text| owner.written(&mut all, content(text))[0]);
    (all, records)
}

/// Alice's record over another one is the only head.
fn hide(charter: &Charter, all: &mut [Server], name: RecordName) -> Written {
    let mut hers = alice(charter);
    let made = hers.write(b"mine", &Backpointers::Own(vec![name]), &[0; 16]);
    let made = made.expect("it is small");
    let signature = hers.sign(&made.name);
    put(all, charter, &[write(&made), sign(made.name, signature)]);
    made
}

#[test]
fn owner_begins_after_record_that_another_hides() {
    let charter = shared();
    let (mut all, [first, newest]) = begun(&charter, 3);
    let hers = hide(&charter, &mut all, newest);
    let mut again = owner_anew(&charter, 3);
    assert_eq!(again.heads(&mut all), [hers.name]);
    let position = resume(&mut again, &mut all).expect("a quorum answers");
    assert_eq!((position.sequence, position.parent), (2, Some(newest)));
    let anew = again.written(&mut all, content(b"third"))[0];
    assert!(
        ![first, newest]
            .iter()
            .any(|old| are_fork(&charter, &mut all, [*old, anew]))
    );
}

#[test]
fn newest_signed_record_outlives_restart_of_its_server() {
    let charter = shared();
    let (mut all, [_, newest]) = begun(&charter, 1);
    hide(&charter, &mut all, newest);
    let mut all = [Server::with_key(
        server_key(0),
        core::mem::take(&mut all[0].store),
    )];
    let position = resume(&mut owner_anew(&charter, 1), &mut all);
    assert_eq!(position.map(|position| position.sequence), Ok(2));
}

#[test]
fn map_writer_without_store_forks_nothing() {
    let charter = maps::shared(&[ALICE]);
    let (mut all, mut owner) = maps::begun(&charter, 3);
    owner.put(&mut all, vec![set("a", b"1")]);
    let first = User::new(config(&charter, 3, None, 50)).heads(&mut all)[0];
    owner.put(&mut all, vec![set("b", b"1")]);
    maps::user(&charter, 3, Some(ALICE), 3).put(&mut all, vec![set("c", b"1")]);
    let mut anew = maps::user(&charter, 3, Some(OWNER_SEED), 41);
    anew.put(&mut all, vec![set("d", b"1")]);
    let now = User::new(config(&charter, 3, None, 51)).heads(&mut all)[0];
    assert!(!are_fork(&charter, &mut all, [first, now]));
}

/// The question in a request for what is newest that names a writer.
fn question(request: &[u8]) -> Option<FreshQuery> {
    let operations = &request[BEFORE..];
    let (kind, rest) = operations.split_first()?;
    (*kind == 7).then(|| Reader::new(rest).field().expect("a question"))
}

/// A server answers the question with this record for the newest.
fn lie(
    charter: &Charter,
    (server, query): (usize, &FreshQuery),
    newest: Option<RecordName>,
    response: &mut Vec<u8>,
) {
    response.truncate(15);
    0_u16.write(response);
    let heads = Vec::new();
    Fresh::sign(&server_key(server), &charter.name(), query, newest, heads, START).write(response);
    response.push(0);
}

/// Two of three servers store what is written: whoever begins hears of one of them.
#[test]
fn one_server_that_hides_newest_record_changes_nothing() {
    for newest in [None, Some(0)] {
        let charter = shared();
        let (mut all, records) = begun(&charter, 3);
        hide(&charter, &mut all, records[1]);
        let mut again = owner_anew(&charter, 3);
        let named = newest.map(|index: usize| records[index]);
        let lying = charter.clone();
        again.rule = Box::new(move |(server, request), response| {
            if let Some(query) = question(request).filter(|_| server == 0) {
                assert!(query.writer.is_some());
                lie(&lying, (server, &query), named, response);
            }
            Fate::After(5)
        });
        let position = resume(&mut again, &mut all).expect("a quorum answers");
        assert_eq!((position.sequence, position.parent), (2, Some(records[1])));
    }
}

#[test]
fn server_that_proves_no_newest_record_does_not_count() {
    let charter = shared();
    let (mut all, [_, newest]) = begun(&charter, 1);
    let hers = hide(&charter, &mut all, newest);
    for named in [hers.name, RecordName([7; 32])] {
        let mut again = owner_anew(&charter, 1);
        let lying = charter.clone();
        again.rule = Box::new(move |(server, request), response| {
            if let Some(query) = question(request) {
                lie(&lying, (server, &query), Some(named), response);
            }
            Fate::After(5)
        });
        assert_eq!(code(resume(&mut again, &mut all)), Code::Unproven);
    }
}

/// What others make in a writer's name takes none of its numbers, signed over or not.
#[test]
fn invented_record_takes_no_number_of_its_writer() {
    let charter = shared();
    let (mut all, [_, newest]) = begun(&charter, 3);
    let mut invented = crate::common::writer(&charter, 0, crate::common::owner(), None);
    let invented = loop {
        let made = invented.write(b"invented", &Backpointers::Own(Vec::new()), &[0; 16]);
        let made = made.expect("it is small");
        if view(&made).sequence() == 9 {
            break made;
        }
    };
    let (made, signature) = pointing(&mut alice(&charter), &[&invented]);
    put(
        &mut all,
        &charter,
        &[write(&invented), write(&made), sign(made.name, signature)],
    );
    let position = resume(&mut owner_anew(&charter, 3), &mut all).expect("a quorum answers");
    assert_eq!((position.sequence, position.parent), (2, Some(newest)));
}

/// A server whose store has damaged what it knows of a writer says nothing before it has looked through all records.
#[test]
fn damaged_newest_record_is_found_again() {
    let charter = shared();
    let (mut all, [_, newest]) = begun(&charter, 1);
    hide(&charter, &mut all, newest);
    let mut store = core::mem::take(&mut all[0].store);
    let key: Vec<u8> = [&charter.name().0[..], b"L\0\0"].concat();
    let mut value = store.get(&key).expect("the owner's").to_vec();
    value[3] ^= 1;
    store.insert(key.clone(), value.into());
    let mut all = [Server::with_key(server_key(0), store)];
    let sequences: Vec<Result<u64>> = (0..2)
        .map(|_| resume(&mut owner_anew(&charter, 1), &mut all).map(|position| position.sequence))
        .collect();
    assert!(
        matches!(sequences[0], Ok(2)) || code(sequences[0]) == Code::StoreCorrupt,
        "{sequences:?}"
    );
    assert_eq!(sequences[1], Ok(2));
}
