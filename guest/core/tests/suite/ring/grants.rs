//! Withdrawals and revocations: nobody speaks for an owner, and nobody for a publisher.

use selfsame_codec::cbor::Decoder;
use selfsame_codec::{Class, Code};
use selfsame_core::admission::Gate;
use selfsame_core::association::{Association, Leaf, ObjectId};
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, PeerId, PublicKey, Signature};
use selfsame_core::record::NodeRecord;
use selfsame_core::ring::{Parameters, Service};

use super::network::{Network, Outcome, service};
use super::outsider::{HOUR_MS, ask, association, encoded, leaf, record_at, store, stranger};

fn owner() -> Identity {
    Identity::of_owner(&[1; 32], Network::network_id())
}

fn grant(peer: PeerId, issued_ms: u64, revoked: &[PeerId]) -> Vec<u8> {
    let terms = Terms {
        name: "check".into(),
        peer,
        issued_ms,
        expiry_ms: issued_ms + HOUR_MS,
        revoked: revoked.to_vec(),
    };
    Grant::sign(&owner(), terms).expect("a grant").encoded().to_vec()
}

/// What the owner might have signed, with a signature of zeros.
fn forged_grant(peer: PeerId, revoked: &[PeerId]) -> Vec<u8> {
    let statement = encoded(|encoder| {
        let encoder = encoder.array(8).uint(1).bytes(&Network::network_id().0);
        let encoder = encoder.bytes(&owner().public().0).text("check").bytes(&peer.0);
        encoder.uint(1).uint(u64::MAX).array(revoked.len());
        revoked.iter().for_each(|peer| _ = encoder.bytes(&peer.0));
    });
    encoded(|encoder| _ = encoder.array(2).bytes(&statement).bytes(&Signature([0; 64]).0))
}

fn owned(r: u8, grant: Vec<u8>) -> Leaf {
    Leaf {
        owner: Some(owner().public()),
        r,
        grant,
        ..leaf("check")
    }
}

fn withdrawn(leaf: Leaf) -> Leaf {
    Leaf {
        withdrawn: true,
        ..leaf
    }
}

/// One of any number of identities.
fn sybil(number: u16) -> Identity {
    let mut seed = [7; 32];
    seed[..2].copy_from_slice(&number.to_le_bytes());
    Identity::recall(&seed, Network::network_id(), &[])
}

/// Stores a leaf of a publisher at the member that is responsible; the sequence is the time.
fn put(net: &mut Network, publisher: &Identity, leaf: Leaf) -> Option<Class> {
    let one = association(publisher, leaf, net.now_ms);
    let at = net.responsible(&one.object().0);
    let record = record_at(publisher, net.now_ms);
    ask(net, at, publisher.id(), &store(one.encoded(), record.encoded()))
}

fn find(net: &mut Network, by: usize, owner: Option<PublicKey>) -> Result<Vec<PeerId>, Code> {
    match net.outcome(by, |ring, cx, command| {
        ring.find_up_to(cx, command, owner, "check", false)
    }) {
        Outcome::Found(found) => {
            let mut peers: Vec<PeerId> = found.iter().map(|provider| provider.peer).collect();
            peers.sort_unstable();
            Ok(peers)
        }
        Outcome::Failed(code) => Err(code),
        other => panic!("a find does not end with {other:?}"),
    }
}

/// Two members that serve the owner's name at all its objects.
fn served(net: &mut Network) -> Vec<PeerId> {
    for node in [2, 3] {
        let service = Service {
            owner: Some(owner().public()),
            grant: grant(net.id(node), net.now_ms, &[]),
            ..service("check", 3)
        };
        let outcome = net.outcome(node, |ring, cx, command| ring.publish(cx, command, service));
        assert_eq!(outcome, Outcome::Done);
    }
    let mut peers = vec![net.id(2), net.id(3)];
    peers.sort_unstable();
    peers
}

#[test]
fn forged_grant_in_a_withdrawal_revokes_nobody() {
    let mut net = Network::ring_of(260, 9);
    let peers = served(&mut net);
    let attacker = stranger(66);
    net.run_for(10);
    for r in 0..=3 {
        let leaf = withdrawn(owned(r, forged_grant(attacker.id(), &peers)));
        assert_eq!(put(&mut net, &attacker, leaf), Some(Class::Misbehaved));
        // A genuine grant of the owner, but to somebody else.
        let stolen = grant(stranger(67).id(), net.now_ms, &peers);
        assert_eq!(
            put(&mut net, &attacker, withdrawn(owned(r, stolen))),
            Some(Class::Service)
        );
    }
    for by in 0..9 {
        assert_eq!(find(&mut net, by, Some(owner().public())), Ok(peers.clone()));
    }
}

#[test]
fn finder_ignores_forged_grants_that_a_holder_adds() {
    let mut net = Network::ring_of(261, 8);
    let peers = served(&mut net);
    let attacker = stranger(66);
    let object = ObjectId::of(&Network::network_id(), Some(&owner().public()), "check", 0);
    let liar = net.responsible(&object.0);
    let own = net.with(liar, |ring, cx| ring.own_record(cx).clone());
    let now_ms = net.now_ms;
    let serving: Vec<(Association, NodeRecord)> = [2, 3]
        .map(|node| {
            let identity = &net.nodes[node].identity;
            let leaf = owned(0, grant(identity.id(), now_ms, &[]));
            (association(identity, leaf, now_ms), record_at(identity, now_ms))
        })
        .into();
    let forged = forged_grant(attacker.id(), &peers);
    let withdrawal = association(&attacker, withdrawn(owned(0, forged.clone())), now_ms);
    let record = record_at(&attacker, now_ms);
    net.forge = Some(Box::new(move |node, body| {
        let mut decoder = Decoder::new(body);
        let is_hop = decoder.array_of(2).is_ok() && decoder.uint() == Ok(0) && decoder.array_of(5).is_ok();
        (node == liar && is_hop).then(|| {
            encoded(|encoder| {
                encoder.array(2).uint(0).array(5).bytes(own.encoded());
                encoder.array(0).array(0).null().array(4);
                encoder.array(2).bytes(&forged).bytes(&[0]);
                encoder
                    .array(2)
                    .bytes(withdrawal.encoded())
                    .bytes(record.encoded());
                for (association, record) in &serving {
                    encoder
                        .array(2)
                        .bytes(association.encoded())
                        .bytes(record.encoded());
                }
            })
        })
    }));
    let by = (0..8)
        .find(|node| *node != liar && *node > 3)
        .expect("others are there");
    assert_eq!(find(&mut net, by, Some(owner().public())), Ok(peers));
    assert!(net.nodes[by].refusals.contains(&Code::BadSignature));
}

#[test]
fn ungranted_withdrawals_take_no_room_of_an_owned_name() {
    let mut net = Network::ring_of(262, 9);
    for number in 0..256 {
        let leaf = withdrawn(owned(0, Vec::new()));
        assert_eq!(put(&mut net, &sybil(number), leaf), Some(Class::Service));
    }
    let provider = stranger(1);
    let granted = owned(0, grant(provider.id(), net.now_ms, &[]));
    assert_eq!(put(&mut net, &provider, granted), None);
    assert_eq!(find(&mut net, 5, Some(owner().public())), Ok(vec![provider.id()]));
}

#[test]
fn withdrawals_give_way_to_providers_and_never_the_reverse() {
    let mut net = Network::ring_of(263, 5);
    let limit = Parameters::DEFAULT.max_publishers as u16;
    for number in 0..limit {
        assert_eq!(put(&mut net, &sybil(number), withdrawn(leaf("check"))), None);
    }
    for number in limit..2 * limit {
        assert_eq!(put(&mut net, &sybil(number), leaf("check")), None, "{number}");
    }
    let late = sybil(2 * limit);
    assert_eq!(put(&mut net, &late, withdrawn(leaf("check"))), Some(Class::Limit));
    assert_eq!(put(&mut net, &late, leaf("check")), Some(Class::Limit));
}

#[test]
fn answers_name_providers_before_withdrawals() {
    let mut net = Network::ring_of(264, 9);
    let provider = stranger(1);
    for r in 0..=3 {
        assert_eq!(put(&mut net, &provider, Leaf { r, ..leaf("check") }), None);
        for number in 0..255 {
            let leaf = withdrawn(Leaf { r, ..leaf("check") });
            assert_eq!(put(&mut net, &sybil(number), leaf), None);
        }
    }
    for _ in 0..200 {
        assert_eq!(find(&mut net, 5, None), Ok(vec![provider.id()]));
    }
}

#[test]
fn crowd_brings_no_revoked_peer_back() {
    let mut net = Network::ring_of(265, 9);
    let (granted, revoked) = (stranger(1), stranger(2));
    let now_ms = net.now_ms;
    let newest = grant(granted.id(), now_ms - 5, &[revoked.id()]);
    for r in 0..=3 {
        assert_eq!(put(&mut net, &granted, owned(r, newest.clone())), None);
        let old = grant(revoked.id(), now_ms - 10, &[]);
        assert_eq!(put(&mut net, &revoked, owned(r, old)), None);
        for number in 0..254 {
            // More providers than an answer names, with grants as long as the owner likes.
            let sybil = sybil(number);
            let granted = owned(r, grant(sybil.id(), now_ms - 10, &[]));
            assert_eq!(put(&mut net, &sybil, granted), None);
        }
    }
    for _ in 0..100 {
        let found = find(&mut net, 5, Some(owner().public())).expect("many serve it");
        assert!(!found.contains(&revoked.id()));
    }
}

/// A member publishes with a grant that revokes another peer, which has stored itself, and withdraws.
fn revoked_by_one_who_left(seed: u64) -> (Network, PublicKey) {
    let mut net = Network::ring_of(seed, 6);
    let revoked = stranger(2);
    let now_ms = net.now_ms;
    let old = grant(revoked.id(), now_ms - 10, &[]);
    assert_eq!(put(&mut net, &revoked, owned(0, old)), None);
    let granted = stranger(1);
    let newest = grant(granted.id(), now_ms - 5, &[revoked.id()]);
    assert_eq!(put(&mut net, &granted, owned(0, newest)), None);
    net.run_for(10);
    let withdrawal = withdrawn(owned(0, Vec::new()));
    assert_eq!(
        put(&mut net, &granted, withdrawal),
        None,
        "it takes the place of what is stored"
    );
    net.run_for(1_000);
    (net, owner().public())
}

#[test]
fn newest_grant_outlives_the_association_that_brought_it() {
    let (mut net, key) = revoked_by_one_who_left(266);
    for by in 0..6 {
        assert_eq!(find(&mut net, by, Some(key)), Err(Code::NoProvider));
    }
    // The holder starts again from its store.
    let holder = net.responsible(&ObjectId::of(&Network::network_id(), Some(&key), "check", 0).0);
    net.forget(holder);
    net.run_for(1_000);
    for by in 0..6 {
        assert_eq!(find(&mut net, by, Some(key)), Err(Code::NoProvider));
    }
}

#[test]
fn newest_grant_is_copied_and_handed_over() {
    for seed in 267..271 {
        let (mut net, key) = revoked_by_one_who_left(seed);
        let object = ObjectId::of(&Network::network_id(), Some(&key), "check", 0);
        for _ in 0..2 {
            let holder = net.responsible(&object.0);
            net.crash(holder, true);
            net.settle(60_000);
            // New mirrors get it from one that has no association with it.
            net.run_for(30_000);
            let by = net.members()[0];
            assert_eq!(
                find(&mut net, by, Some(key)),
                Err(Code::NoProvider),
                "seed {seed}"
            );
        }
        let newcomer = net.add_members(1)[0];
        let bootstrap = net.members()[0];
        assert_eq!(net.join(newcomer, &[bootstrap]), Outcome::Done);
        net.settle(60_000);
        assert_eq!(find(&mut net, newcomer, Some(key)), Err(Code::NoProvider));
    }
}

#[test]
fn granted_withdrawal_is_kept_where_nothing_was_stored() {
    let mut net = Network::ring_of(272, 5);
    let publisher = stranger(1);
    let granted = owned(0, grant(publisher.id(), net.now_ms, &[]));
    assert_eq!(put(&mut net, &publisher, withdrawn(granted.clone())), None);
    // What it withdrew, handed over late, does not come back.
    let old = association(&publisher, granted, net.now_ms - 1);
    let record = record_at(&publisher, net.now_ms);
    let at = net.responsible(&old.object().0);
    let body = store(old.encoded(), record.encoded());
    assert_eq!(ask(&mut net, at, publisher.id(), &body), Some(Class::Misbehaved));
}

#[test]
fn publisher_withdraws_with_its_grant() {
    let mut net = Network::ring_of(273, 5);
    served(&mut net);
    net.run_for(1_000);
    let key = owner().public();
    let outcome = net.outcome(2, |ring, cx, command| {
        ring.withdraw(cx, command, Some(key), "check")
    });
    assert_eq!(outcome, Outcome::Done);
    let object = ObjectId::of(&Network::network_id(), Some(&key), "check", 0);
    let holder = net.responsible(&object.0);
    let stored_at = [b"ring/object/", &object.0[..], &net.id(2).0].concat();
    let stored = net.nodes[holder].store.get(&stored_at).expect("a withdrawal");
    // Where it came from stands before it.
    let mut decoder = Decoder::new(&stored[8..]);
    let association = decoder.array_of(2).and_then(|()| decoder.bytes(4096));
    let association = association.expect("an association and a record");
    let read = Association::decode_verified(
        &mut Gate::new(Network::network_id(), None),
        &|key| Some(PeerId::of(key, &Network::network_id())),
        association,
        net.now_ms,
    );
    let read = read.expect("it is current");
    assert!(read.leaf().withdrawn && read.terms().is_some());
}
