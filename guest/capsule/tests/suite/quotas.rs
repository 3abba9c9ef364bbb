//! Tables of a replica that all capsules and peers share: one stranger crowds nobody out of them, and all of them are bounded.

use crate::common::metadata;
use crate::common::server::{Client, Map, Server, sign, write};
use crate::common::world::{World, chain, give};
use crate::common::{Log, fabricated, owner, writer};
use bytes::Bytes;
use selfsame_capsule::authority::sign_record;
use selfsame_capsule::hash::{HashKind, RecordName};
use selfsame_capsule::message::{Operation, TO_THE_TOP};
use selfsame_capsule::metadata::{Charter, Metadata, Readers};
use selfsame_capsule::replica::{PeerId, SyncOutcome};
use selfsame_capsule::writer::{Backpointers, Written};
use selfsame_codec::Code;

/// Small capsules that a replica keeps open.
const OPEN: usize = 2048;
/// Heads that it takes of a capsule.
const HEADS: u32 = 1 << 14;
/// Bytes that wait to be pushed or are under way, and of them those under way.
const HELD: usize = 16 << 20;
const UNDER_WAY: usize = HELD / 2;
/// Watermarks that it remembers.
const WATERMARKS: usize = 4096;
/// Sub-records whose tree takes about a megabyte, and the bytes of their body at least: of twenty, more than the store's cache.
const PARTS: u32 = 20_000;
const BODY: usize = PARTS as usize * 24;
const STRANGER: u8 = 7;
const HONEST: u8 = 8;
const NOW: u64 = 1_800_000_000_000;

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

/// Whose a capsule counts as does not change by a stranger's using it, and changes to who uses it where a stranger had it opened.
#[test]
fn stranger_closes_no_capsule_that_others_use() {
    for stranger_was_first in [false, true] {
        let mut server = Server::new(Map::new());
        let all = charters(OPEN + 100);
        let (used, crowd) = all.split_at(20);
        for charter in used {
            let (first, second) = match stranger_was_first {
                false => (HONEST, STRANGER),
                true => (STRANGER, HONEST),
            };
            create(&mut server, charter, first);
            assert!(is_open(&mut server, charter, second));
        }
        for charter in crowd {
            create(&mut server, charter, STRANGER);
        }
        let open = used
            .iter()
            .filter(|charter| is_open(&mut server, charter, HONEST));
        assert_eq!(open.count(), 20, "the stranger first: {stranger_was_first}");
    }
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
            let key = [&charter.name().0[..], b"H", &name, &[0; 10]].concat();
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

/// A record of so many bytes that the owner brings.
fn bring(server: &mut Server, charter: &Charter, (source, number): (u8, u64), bytes: usize) {
    let body = vec![source; bytes];
    let made = fabricated(charter, (0, number), Vec::new(), &body);
    let given = client(charter, source).ask(server, &[write(&made)]);
    assert_eq!(given, [Ok(Vec::new())]);
}

fn peers(numbers: core::ops::Range<u8>) -> Vec<PeerId> {
    numbers.map(|number| [number; 32]).collect()
}

fn bytes_of(asks: &[(u32, PeerId, Vec<u8>)]) -> usize {
    asks.iter().map(|(_, _, message)| message.len()).sum()
}

/// A server that pushes a stranger's capsule to a hundred peers and another capsule to one.
fn pushing() -> (Server, Charter, Charter) {
    let mut server = Server::new(Map::new());
    let all = charters(2);
    for (charter, source) in all.iter().zip([STRANGER, HONEST]) {
        create(&mut server, charter, source);
    }
    let [of_stranger, honest] = all.try_into().expect("two");
    server.replica.set_replicas(of_stranger.name(), peers(0..100));
    server.replica.set_replicas(honest.name(), peers(200..201));
    (server, of_stranger, honest)
}

fn answer(server: &mut Server, tag: u32, response: Option<&[u8]>) {
    server.replica.answered(NOW, tag, response);
    server.work();
}

#[test]
fn pushes_to_peers_that_stall_leave_room_for_others() {
    let (mut server, of_stranger, honest) = pushing();
    let flood = |server: &mut Server, from: u64| {
        for number in from..from + 12 {
            bring(server, &of_stranger, (STRANGER, number), 511_000);
        }
    };
    flood(&mut server, 0);
    // Sixteen of nearly 512 KiB; one more that is smaller would still have room.
    let under_way = core::mem::take(&mut server.asks);
    assert_eq!(bytes_of(&under_way) / 500_000, 16);
    assert!(bytes_of(&under_way) <= UNDER_WAY);
    for (number, bytes) in [(0, 210_000), (1, 1000), (2, 1000)] {
        bring(&mut server, &honest, (HONEST, number), bytes);
    }
    flood(&mut server, 12);
    assert!(server.asks.is_empty(), "as much is under way as may be");
    // The first that fails makes room for whom the least waits.
    answer(&mut server, under_way[0].0, None);
    let (tag, peer, message) = server.asks.remove(0);
    assert_eq!(peer, [200; 32]);
    assert!(message.len() > 212_000, "all that was stored");
    answer(&mut server, tag, Some(&[]));
    // Whatever is answered from now on: all together was within the bound.
    let mut held = bytes_of(&under_way) + bytes_of(&server.asks);
    for (tag, _, _) in &under_way[1..] {
        answer(&mut server, *tag, Some(&[]));
    }
    while let Some((tag, peer, message)) = server.asks.pop() {
        assert_ne!(peer, under_way[0].1, "what waited for who failed is dropped");
        held += message.len();
        answer(&mut server, tag, Some(&[]));
    }
    assert!((HELD / 2..=HELD).contains(&held), "{held}");
}

/// Two replicas, of which the other one stands for any number of peers.
struct Pair {
    world: World,
    log: Log,
    given: usize,
}

impl Pair {
    fn new() -> Self {
        let log = chain(9);
        let world = World::created(2, &log.charter);
        Self { world, log, given: 0 }
    }

    /// Synchronises with a peer; where the first comparison begins among what has arrived there.
    fn sync(&mut self, number: u16) -> Option<u64> {
        let mut peer = [0; 32];
        peer[..2].copy_from_slice(&number.to_be_bytes());
        let [here, there] = &mut self.world.servers[..] else {
            panic!("two servers");
        };
        here.replica.sync(NOW, peer, self.log.charter.name(), [1; 32]);
        here.work();
        let mut since = None;
        while let Some((tag, _, message)) = here.asks.pop() {
            if message[53] == 11 {
                let begin = message[70..78].try_into().expect("eight bytes");
                since = since.or_else(|| Some(u64::from_le_bytes(begin)));
            }
            let response = there.respond(message);
            answer(here, tag, Some(&response));
        }
        let synced = here.synced.pop().expect("it has ended");
        assert_eq!(synced.outcome, SyncOutcome::Agreed);
        since
    }

    /// Synchronises with a peer that has a new record; whether what arrived before is left out.
    fn remembers(&mut self, number: u16) -> bool {
        let record = &self.log.records[self.given];
        self.given += 1;
        let signed = [(&self.log.writer, record)];
        give(&mut self.world, 1, &self.log.charter, &[record], &signed);
        self.sync(number).expect("they differ") > 0
    }
}

#[test]
fn watermark_used_longest_ago_is_forgotten() {
    let mut pair = Pair::new();
    assert!(!pair.remembers(0));
    for number in 1..WATERMARKS as u16 {
        pair.sync(number);
    }
    assert!(pair.remembers(0), "used again");
    pair.sync(WATERMARKS as u16);
    assert!(pair.remembers(0), "kept, though its id is the lowest");
    assert!(pair.remembers(2));
    assert!(!pair.remembers(1), "forgotten");
}

/// Stores a record with sub-records.
fn commit(server: &mut Server, charter: &Charter, source: u8, tag: u8) -> RecordName {
    let part = [source.wrapping_add(tag); 20];
    let parts = vec![&part[..]; PARTS as usize];
    let made = writer(charter, 0, owner(), None).commit(&parts, &Backpointers::Chain, &[tag; 16]);
    let made = made.expect("it is small");
    let operations = [write(&made), sign(made.name, sign_record(&owner(), &made.name))];
    let given = client(charter, source).ask(server, &operations);
    assert!(given.iter().all(Result::is_ok), "{given:?}");
    made.name
}

/// Reads a sub-record with its whole path; how many bytes of the store that took.
fn part(server: &mut Server, charter: &Charter, source: u8, record: RecordName) -> usize {
    let before = server.read_bytes;
    let read = Operation::ReadPart {
        record,
        index: PARTS - 1,
        levels: TO_THE_TOP,
    };
    let given = client(charter, source).ask(server, &[read]);
    assert!(given[0].is_ok(), "{given:?}");
    server.read_bytes - before
}

#[test]
fn trees_of_a_stranger_evict_none_in_use() {
    let mut server = Server::new(Map::new());
    let all = charters(2);
    let [of_stranger, honest] = &all[..] else {
        panic!("two");
    };
    for charter in [of_stranger, honest] {
        create(&mut server, charter, STRANGER);
    }
    let used = commit(&mut server, honest, HONEST, 0);
    let others: Vec<RecordName> = (0..20)
        .map(|tag| commit(&mut server, of_stranger, STRANGER, tag))
        .collect();
    let mut server = Server::new(server.store);
    assert!(part(&mut server, honest, HONEST, used) > BODY);
    assert!(part(&mut server, of_stranger, STRANGER, others[0]) > BODY);
    for other in &others[1..] {
        assert!(part(&mut server, of_stranger, STRANGER, *other) > BODY);
        assert!(
            part(&mut server, honest, HONEST, used) <= BODY / 2,
            "its tree is known"
        );
    }
    assert!(
        part(&mut server, of_stranger, STRANGER, others[0]) > BODY,
        "forgotten"
    );
}
