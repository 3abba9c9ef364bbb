//! What nobody has signed: a writer that is known keeps its own at a replica, and strangers fill nothing that others need.

use crate::common::server::{Client, Map, Server, sign, write};
use crate::common::single::WriteOne as _;
use crate::common::world::{World, chain};
use crate::common::{charter_of, fabricated, owner, writer};
use selfsame_capsule::authority::sign_record;
use selfsame_capsule::hash::{CapsuleName, HashKind, RecordName};
use selfsame_capsule::introduction::{Introduction, MAX_AGE_MS, Place};
use selfsame_capsule::keys::{Key, KeyPair, Signature};
use selfsame_capsule::message::{FreshQuery, Operation};
use selfsame_capsule::metadata::{Charter, Readers};
use selfsame_capsule::replica::{Effect, Limits, Replica, Source, SyncOutcome};
use selfsame_capsule::writer::{Backpointers, Writer, Written};
use selfsame_codec::Code;

/// Records of a writer that a replica keeps without a signature.
const MOST: u64 = 1 << 17;
/// Requests that wait for their turn at a replica.
const PLACES: usize = 4096;
/// Operations of one request of these tests.
const AT_ONCE: usize = 4000;
const NOW: u64 = 1_800_000_000_000;

fn alice() -> KeyPair {
    KeyPair::from_seed(&[51; 32])
}

fn shared() -> Charter {
    charter_of(HashKind::Blake3, Readers::Everybody, vec![alice().public()])
}

fn stranger(charter: &Charter, source: u8) -> Client {
    let mut client = Client::of(charter);
    client.writer = None;
    client.source = [source; 32];
    client.session = [source; 16];
    client
}

fn known(charter: &Charter, number: u16, key: KeyPair) -> Client {
    let mut client = Client::of(charter);
    client.writer = Some((number, key));
    client.session = [100 + number as u8; 16];
    client
}

fn created(charter: &Charter) -> Server {
    let mut server = Server::new(Map::new());
    let metadata = charter.encoded();
    assert_eq!(
        Client::of(charter).ask(&mut server, &[Operation::Create { metadata }]),
        [Ok(Vec::new())]
    );
    server
}

fn next(by: &mut Writer) -> (Written, Signature) {
    let made = by
        .write(b"next", &Backpointers::Chain, &[0; 16])
        .expect("it is small");
    let signature = by.sign(&made.name);
    (made, signature)
}

fn stored(server: &Server, record: &RecordName) -> bool {
    server
        .store
        .keys()
        .any(|key| key[32] == b'R' && key[33..] == record.0)
}

/// 131,072 empty records once made a replica refuse its owner, spread to others and kept them from agreeing.
#[test]
fn a_stranger_locks_nobody_out_and_is_not_replicated() {
    let charter = shared();
    let mut world = World::created(2, &charter);
    let mut by_owner = writer(&charter, 0, owner(), None);
    let junk: Vec<Written> = (0..MOST)
        .map(|n| fabricated(&charter, (1, 1000 + n), Vec::new(), b""))
        .collect();
    let mut sender = stranger(&charter, 7);
    let before = world.servers[0].store.clone();
    for some in junk.chunks(AT_ONCE) {
        let operations: Vec<Operation<'_>> = some.iter().map(write).collect();
        let given = sender.ask(&mut world.servers[0], &operations);
        assert!(
            given.iter().all(|given| *given == Err(Code::Unproven)),
            "nothing is acknowledged"
        );
    }
    assert_eq!(world.servers[0].store, before, "nothing is stored");
    for _ in 0..3 {
        let (made, signature) = next(&mut by_owner);
        let mut anybody = stranger(&charter, 8);
        let operations = [write(&made), sign(made.name, signature)];
        assert_eq!(
            anybody.ask(&mut world.servers[0], &operations),
            [Ok(Vec::new()), Ok(Vec::new())]
        );
    }
    world.converge(1, 0, &charter, "after a flood");
    assert!(
        !world.servers[1]
            .store
            .keys()
            .any(|key| junk.iter().take(99).any(|one| key[33..] == one.name.0))
    );
    let (made, signature) = next(&mut by_owner);
    let given = world.ask(1, &charter, &[write(&made), sign(made.name, signature)]);
    assert!(given.iter().all(Result::is_ok));
    let synced = world.sync(1, 0, charter.name());
    assert_eq!((synced.outcome, synced.pushed), (SyncOutcome::Agreed, 2));
}

#[test]
fn unsigned_records_of_a_known_writer_survive_a_power_loss() {
    let log = chain(30);
    let mut server = created(&log.charter);
    let mut client = Client::of(&log.charter);
    let operations: Vec<Operation<'_>> = log.records.iter().map(write).collect();
    assert!(client.ask(&mut server, &operations).iter().all(Result::is_ok));
    let mut server = server.lose_power();
    // Nobody else's flood evicts them.
    let mut sender = stranger(&log.charter, 7);
    let junk: Vec<Written> = (0..40_000)
        .map(|n| fabricated(&log.charter, (0, n), Vec::new(), &[7; 200]))
        .collect();
    for some in junk.chunks(AT_ONCE) {
        let operations: Vec<Operation<'_>> = some.iter().map(write).collect();
        sender.ask(&mut server, &operations);
    }
    let last = log.name(29);
    let signature = log.writer.sign(&last);
    assert_eq!(
        sender.ask(&mut server, &[sign(last, signature)]),
        [Ok(Vec::new())]
    );
    for index in 0..30 {
        assert!(client.proves(&mut server, &log.charter, log.name(index)).is_ok());
    }
}

/// A writer that does not sign runs into its own limit, and nobody else does; a signed write passes it.
#[test]
fn each_writer_has_its_own_unsigned_quota() {
    let charter = shared();
    let mut server = created(&charter);
    let mut hers = known(&charter, 1, alice());
    let junk: Vec<Written> = (0..=MOST)
        .map(|n| fabricated(&charter, (1, n), Vec::new(), b""))
        .collect();
    for some in junk[..MOST as usize].chunks(AT_ONCE) {
        let operations: Vec<Operation<'_>> = some.iter().map(write).collect();
        assert!(hers.ask(&mut server, &operations).iter().all(Result::is_ok));
    }
    let last = &junk[MOST as usize];
    assert_eq!(
        hers.ask(&mut server, &[write(last)]),
        [Err(Code::TooManyUnsigned)]
    );
    let mut by_alice = writer(&charter, 1, alice(), None);
    let (made, signature) = next(&mut by_alice);
    let given = hers.ask(&mut server, &[write(&made), sign(made.name, signature)]);
    assert!(given.iter().all(Result::is_ok), "a signed write passes the limit");
    let mut by_owner = writer(&charter, 0, owner(), None);
    let (made, _) = next(&mut by_owner);
    assert_eq!(
        known(&charter, 0, owner()).ask(&mut server, &[write(&made)]),
        [Ok(Vec::new())]
    );
    // What is signed counts no more, also after the replica begins anew.
    let mut server = server.lose_power();
    let head = &junk[0];
    let signature = sign_record(&alice(), &head.name);
    assert_eq!(
        hers.ask(&mut server, &[sign(head.name, signature), write(last)]),
        [Ok(Vec::new()), Ok(Vec::new())]
    );
    assert_eq!(
        hers.ask(
            &mut server,
            &[write(&fabricated(&charter, (1, 1 << 20), Vec::new(), b""))]
        ),
        [Err(Code::TooManyUnsigned)]
    );
}

/// However much one source sends, what came from another is there when the signature comes.
#[test]
fn one_stranger_crowds_no_other_out() {
    let charter = shared();
    let mut server = created(&charter);
    let mut by_owner = writer(&charter, 0, owner(), None);
    let (made, signature) = next(&mut by_owner);
    let flood = |server: &mut Server, from: u64| {
        let mut sender = stranger(&charter, 7);
        let junk: Vec<Written> = (from..from + 12_000)
            .map(|n| fabricated(&charter, (1, n), Vec::new(), &[7; 1000]))
            .collect();
        for some in junk.chunks(AT_ONCE) {
            let operations: Vec<Operation<'_>> = some.iter().map(write).collect();
            sender.ask(server, &operations);
        }
    };
    flood(&mut server, 0);
    let mut another = stranger(&charter, 8);
    assert_eq!(another.ask(&mut server, &[write(&made)]), [Err(Code::Unproven)]);
    flood(&mut server, 12_000);
    assert_eq!(
        another.ask(&mut server, &[sign(made.name, signature)]),
        [Ok(Vec::new())]
    );
    assert!(stored(&server, &made.name));
}

/// 4096 requests of one source once kept everybody else from asking for as long as the store was busy.
#[test]
fn one_source_leaves_places_for_requests_of_others() {
    let charter = shared();
    let mut replica = Replica::new(owner(), Limits::default());
    let mut last = 0;
    let mut refused = |source: u8, requests: usize| {
        let asking = stranger(&charter, source);
        for _ in 0..requests {
            last += 1;
            replica.request(NOW, last, asking.source, asking.message(&[]));
        }
        // The store does not answer, so those that are taken wait.
        let effects = core::iter::from_fn(|| replica.next_effect());
        effects
            .filter(|effect| matches!(effect, Effect::Respond { .. }))
            .count()
    };
    assert_eq!(refused(7, 5000), 5000 - PLACES / 2);
    for source in 8..12 {
        assert_eq!(refused(source, 600), 600 - PLACES / 8, "{source}");
    }
    assert_eq!(refused(12, 1), 1, "all places are taken");
}

fn introduction_of_alice(server: &Key, capsule: &CapsuleName, session: u8, time_ms: u64) -> Introduction {
    let session = [session; 16];
    let place = Place {
        server,
        capsule,
        session: &session,
    };
    Introduction::sign(&alice(), 1, &place, time_ms)
}

#[test]
fn an_introduction_counts_in_its_session_and_for_its_source() {
    let charter = shared();
    let mut server = created(&charter);
    let mut by_alice = writer(&charter, 1, alice(), None);
    let mut ask = |server: &mut Server, source: Source, session: u8, introduction: Introduction| {
        let (made, _) = next(&mut by_alice);
        let mut client = stranger(&charter, 0);
        (client.source, client.session) = (source, [session; 16]);
        let given = client.ask(server, &[Operation::Introduce(introduction), write(&made)]);
        (given[0].clone().map(|_| ()), given[1].clone().map(|_| ()))
    };
    let public = server.public;
    let capsule = charter.name();
    let made = introduction_of_alice;
    let refused = |code| (Err(code), Err(Code::Unproven));
    let honest = made(&public, &capsule, 1, NOW);
    assert_eq!(ask(&mut server, [1; 32], 1, honest), (Ok(()), Ok(())));
    assert_eq!(ask(&mut server, [1; 32], 1, honest), (Ok(()), Ok(())), "again");
    assert_eq!(
        ask(&mut server, [2; 32], 1, honest),
        refused(Code::Replayed),
        "from another source"
    );
    assert_eq!(
        ask(&mut server, [1; 32], 2, honest),
        refused(Code::BadSignature),
        "another session"
    );
    let stranger_server = owner().public();
    let elsewhere = made(&stranger_server, &capsule, 3, NOW);
    assert_eq!(
        ask(&mut server, [1; 32], 3, elsewhere),
        refused(Code::BadSignature),
        "another server"
    );
    let other = crate::common::charter().name();
    let other = made(&public, &other, 3, NOW);
    assert_eq!(
        ask(&mut server, [1; 32], 3, other),
        refused(Code::BadSignature),
        "another capsule"
    );
    for time_ms in [NOW - MAX_AGE_MS - 1, NOW + MAX_AGE_MS + 1, 0, u64::MAX] {
        let stale = made(&public, &capsule, 4, time_ms);
        assert_eq!(
            ask(&mut server, [1; 32], 4, stale),
            refused(Code::Replayed),
            "{time_ms}"
        );
    }
    let mut claimed = made(&public, &capsule, 5, NOW);
    claimed.writer = 0;
    assert_eq!(
        ask(&mut server, [1; 32], 5, claimed),
        refused(Code::BadSignature),
        "as somebody else"
    );
    claimed.writer = 9;
    assert_eq!(
        ask(&mut server, [1; 32], 5, claimed),
        refused(Code::NotAWriter),
        "as nobody"
    );
    // Whoever opens many sessions loses the oldest, which is introduced again.
    for session in 10..60 {
        let one = made(&public, &capsule, session, NOW);
        assert_eq!(ask(&mut server, [1; 32], session, one), (Ok(()), Ok(())));
    }
    assert_eq!(ask(&mut server, [1; 32], 1, honest), (Ok(()), Ok(())));
}

/// Costly operations and false signatures of one request are few.
#[test]
fn costly_operations_of_one_request_are_bounded() {
    let charter = shared();
    let mut server = created(&charter);
    let client = stranger(&charter, 7);
    let fresh = |n: u32| {
        let mut nonce = [0; 32];
        nonce[..4].copy_from_slice(&n.to_le_bytes());
        Operation::QueryFresh(FreshQuery::heads(nonce))
    };
    let introduction = client_introduction(&charter, &server);
    let metadata = charter.encoded();
    let floods: [Vec<Operation<'_>>; 3] = [
        (0..4096).map(fresh).collect(),
        vec![Operation::Create { metadata }; 2],
        vec![introduction; 2],
    ];
    for operations in floods {
        let response = server.respond(client.message(&operations));
        let code = u16::from_le_bytes([response[1], response[2]]);
        assert_eq!(code, Code::TooLarge.as_u16());
    }
    let mut by_owner = writer(&charter, 0, owner(), None);
    let (made, signature) = next(&mut by_owner);
    let mut operations = vec![write(&made)];
    operations.extend((0..16).map(|n| sign(made.name, Signature([n; 64]))));
    operations.push(sign(made.name, signature));
    let mut client = client;
    let given = client.ask(&mut server, &operations);
    assert!(given[1..].iter().all(|given| *given == Err(Code::BadSignature)));
    assert_eq!(
        client.ask(&mut server, &[sign(made.name, signature)]),
        [Ok(Vec::new())]
    );
}

fn client_introduction(charter: &Charter, server: &Server) -> Operation<'static> {
    known(charter, 1, alice())
        .introduction(&server.public)
        .expect("she is a writer")
}
