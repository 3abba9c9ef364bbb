//! Tables of a replica that all capsules and peers share: one stranger crowds nobody out of them, and all of them are bounded.

mod common;

use bytes::Bytes;
use common::metadata;
use common::server::{Client, Map, Server, write};
use common::{fabricated, owner};
use selfsame_capsule::hash::HashKind;
use selfsame_capsule::message::Operation;
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::writer::Written;
use selfsame_codec::Code;

/// Small capsules that a replica keeps open.
const OPEN: usize = 2048;
/// Heads that it takes of a capsule.
const HEADS: u32 = 1 << 14;
const STRANGER: u8 = 7;
const HONEST: u8 = 8;

/// Different capsules of one owner.
fn charters(count: usize) -> Vec<Charter> {
    let salted = |number: u64| {
        let mut salt = [3; 16];
        salt[..8].copy_from_slice(&number.to_le_bytes());
        let metadata = Metadata {
            salt,
            ..metadata(HashKind::Blake3, Readers::Everybody, Vec::new())
        };
        Charter::sign(metadata, &owner()).expect("metadata is right")
    };
    (0..count as u64).map(salted).collect()
}

/// The same, and the one with the lowest name apart.
fn lowest_and_others(count: usize) -> (Charter, Vec<Charter>) {
    let mut all = charters(count);
    all.sort_by_key(Charter::name);
    (all.remove(0), all)
}

fn client(charter: &Charter, source: u8) -> Client {
    let mut client = Client::of(charter);
    client.source = [source; 32];
    client
}

fn create(server: &mut Server, charter: &Charter, source: u8) {
    let metadata = charter.encoded();
    let given = client(charter, source).ask(server, &[Operation::Create { metadata }]);
    assert_eq!(given, [Ok(Vec::new())]);
}

/// Uses a capsule; whether it was open.
fn is_open(server: &mut Server, charter: &Charter, source: u8) -> bool {
    let before = server.scans;
    let given = client(charter, source).ask(server, &[Operation::Describe]);
    assert!(given[0].is_ok());
    server.scans == before
}

#[test]
fn one_stranger_closes_no_capsule_of_others() {
    let mut server = Server::new(Map::new());
    let (honest, others) = lowest_and_others(OPEN + 100);
    create(&mut server, &honest, HONEST);
    for charter in &others {
        create(&mut server, charter, STRANGER);
    }
    assert!(is_open(&mut server, &honest, HONEST));
    assert!(!is_open(&mut server, &others[0], STRANGER), "not all are kept");
}

#[test]
fn capsule_used_longest_ago_is_closed_first() {
    let mut server = Server::new(Map::new());
    let (used, others) = lowest_and_others(OPEN + 100);
    create(&mut server, &used, HONEST);
    for some in others.chunks(500) {
        for charter in some {
            create(&mut server, charter, HONEST);
        }
        assert!(is_open(&mut server, &used, HONEST));
    }
    for charter in &others[..20] {
        assert!(!is_open(&mut server, charter, HONEST));
    }
    assert!(is_open(&mut server, &others[OPEN], HONEST));
}

#[test]
fn large_capsules_close_before_those_of_others() {
    let mut server = Server::new(Map::new());
    let (honest, large) = lowest_and_others(21);
    create(&mut server, &honest, HONEST);
    for charter in &large {
        create(&mut server, charter, STRANGER);
    }
    // What the stranger has signed by and by, as the store has it.
    let mut server = Server::new(server.store);
    for charter in &large {
        for number in 0..HEADS {
            let mut name = [0; 32];
            name[..4].copy_from_slice(&number.to_be_bytes());
            let key = [&charter.name().0[..], b"H", &name].concat();
            server.store.insert(key, Bytes::new());
        }
    }
    assert!(!is_open(&mut server, &honest, HONEST), "after a start");
    for charter in &large {
        assert!(!is_open(&mut server, charter, STRANGER));
    }
    assert!(is_open(&mut server, &honest, HONEST));
    let open = large
        .iter()
        .rev()
        .take_while(|charter| is_open(&mut server, charter, STRANGER));
    assert!((8..=17).contains(&open.count()), "about 16 MiB");
}

/// Headers that name writers who have stored nothing once took memory for each.
#[test]
fn invented_writers_make_no_capsule_larger() {
    let mut server = Server::new(Map::new());
    let all = charters(6);
    for charter in &all {
        create(&mut server, charter, STRANGER);
        let mut sender = client(charter, STRANGER);
        sender.writer = None;
        let made: Vec<Written> = (1..=u16::MAX)
            .map(|number| fabricated(charter, (number, 0), Vec::new(), b""))
            .collect();
        for some in made.chunks(4000) {
            let operations: Vec<Operation<'_>> = some.iter().map(write).collect();
            let given = sender.ask(&mut server, &operations);
            assert!(given.iter().all(|given| *given == Err(Code::Unproven)));
        }
    }
    for charter in &all {
        assert!(is_open(&mut server, charter, STRANGER));
    }
}
