//! What others must not be able to do: each test plays it against a real ring.

use selfsame_codec::cbor::Decoder;
use selfsame_codec::{Class, Code, Role};
use selfsame_core::association::{Association, Leaf, ObjectId};
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, PeerId};
use selfsame_core::record::{NodeRecord, RecordTerms};
use selfsame_core::ring::Parameters;
use selfsame_core::{Holder, Place};

use super::network::{Network, Outcome, service};
use super::outsider::{
    HOUR_MS, ask, association, encoded, hint, leaf, mirror, record_at, store, stranger, update,
};

#[test]
fn an_update_must_be_about_its_sender() {
    let mut net = Network::ring_of(1, 3);
    let (honest, other) = (stranger(1), stranger(2));
    let record = record_at(&honest, net.now_ms);
    assert_eq!(
        ask(&mut net, 0, other.id(), &update(record.encoded())),
        Some(Class::Misbehaved)
    );
    assert_eq!(net.fault(16), None);
    assert_eq!(ask(&mut net, 0, honest.id(), &update(record.encoded())), None);
}

#[test]
fn nobody_can_make_another_leave_or_join_in_its_name() {
    let mut net = Network::ring_of(2, 4);
    let members = net.members();
    let victim = net.with(members[1], |ring, cx| ring.own_record(cx).clone());
    let leave = encoded(|encoder| {
        encoder
            .array(5)
            .uint(7)
            .bytes(victim.encoded())
            .null()
            .array(0)
            .array(0);
    });
    let join = encoded(|encoder| _ = encoder.array(2).uint(5).bytes(victim.encoded()));
    for body in [leave, join] {
        assert_eq!(
            ask(&mut net, members[0], stranger(1).id(), &body),
            Some(Class::Misbehaved)
        );
    }
    assert_eq!(net.fault(16), None);
}

#[test]
fn one_newcomer_takes_few_of_the_lookups_for_newcomers() {
    let mut net = Network::ring_of(2, 48);
    let member = net.members()[0];
    let join = |identity: &Identity, net: &Network| {
        let record = record_at(identity, net.now_ms);
        encoded(|encoder| _ = encoder.array(2).uint(5).bytes(record.encoded()))
    };
    let eager = stranger(1);
    let body = join(&eager, &net);
    for token in 0..4 {
        net.with(member, |ring, cx| {
            ring.request(cx, eager.id(), 1_000_000 + token, &body)
        });
    }
    assert_eq!(ask(&mut net, member, eager.id(), &body), Some(Class::Limit));
    let other = stranger(2);
    let body = join(&other, &net);
    // An answer would be a refusal, which the network does not expect.
    net.with(member, |ring, cx| ring.request(cx, other.id(), 2_000_000, &body));
}

#[test]
fn records_that_are_expired_from_the_future_old_or_of_another_network_are_refused() {
    let mut net = Network::ring_of(3, 2);
    let peer = stranger(1);
    let now_ms = net.now_ms;
    let future = record_at(&peer, now_ms + 61_000);
    let expired = record_at(&peer, now_ms - 20 * HOUR_MS);
    let wrong_clock = encoded(|encoder| _ = encoder.array(2).uint(3).uint(now_ms));
    for record in [&future, &expired] {
        let answer = net.request(0, Holder::EXEMPT, peer.id(), &update(record.encoded()));
        assert_eq!(answer, wrong_clock, "it is told what time it is here");
    }
    let newest = record_at(&peer, now_ms);
    assert_eq!(ask(&mut net, 0, peer.id(), &update(newest.encoded())), None);
    let old = record_at(&peer, now_ms - 1);
    let stale = encoded(|encoder| _ = encoder.array(2).uint(2).bytes(newest.encoded()));
    let answer = net.request(0, Holder::EXEMPT, peer.id(), &update(old.encoded()));
    assert_eq!(answer, stale, "it is sent the newer one");

    let elsewhere = Identity::recall(&[1; 32], selfsame_core::identity::NetworkId::open("other"), &[]);
    let foreign = record_at(&elsewhere, now_ms);
    assert_eq!(
        ask(&mut net, 0, elsewhere.id(), &update(foreign.encoded())),
        Some(Class::Incompatible)
    );
}

#[test]
fn records_with_private_addresses_are_refused() {
    let mut net = Network::ring_of(4, 2);
    let peer = stranger(1);
    let inside = [String::from("http://169.254.169.254/")];
    let record = NodeRecord::sign(
        &peer,
        &RecordTerms::new(Role::Member, &inside, net.now_ms, net.now_ms + HOUR_MS),
    );
    let record = record.expect("a record");
    assert_eq!(
        ask(&mut net, 0, peer.id(), &update(record.encoded())),
        Some(Class::Misbehaved)
    );
    net.with(0, |ring, cx| ring.learn(cx, record));
    assert!(net.nodes[0].ring.record_of(&peer.id()).is_none());
}

#[test]
fn a_leaf_gets_no_place_on_the_ring() {
    let mut net = Network::ring_of(5, 2);
    let peer = stranger(1);
    let record = NodeRecord::sign(
        &peer,
        &RecordTerms::new(Role::Leaf, &[], net.now_ms, net.now_ms + HOUR_MS),
    );
    let record = record.expect("a record");
    assert_eq!(
        ask(&mut net, 0, peer.id(), &update(record.encoded())),
        Some(Class::Usage)
    );
    assert_eq!(net.fault(16), None);
}

#[test]
fn a_store_must_be_its_publishers_own_current_and_granted() {
    let mut net = Network::ring_of(6, 1);
    let (publisher, thief) = (stranger(1), stranger(2));
    let now_ms = net.now_ms;
    let record = record_at(&publisher, now_ms);
    let good = association(&publisher, leaf("check"), now_ms);
    let body = store(good.encoded(), record.encoded());
    assert_eq!(
        ask(&mut net, 0, thief.id(), &body),
        Some(Class::Misbehaved),
        "stored by another"
    );
    let other_record = record_at(&thief, now_ms);
    let mixed = store(good.encoded(), other_record.encoded());
    assert_eq!(
        ask(&mut net, 0, publisher.id(), &mixed),
        Some(Class::Misbehaved),
        "another's record"
    );

    let expired = association(&publisher, leaf("check"), now_ms - HOUR_MS);
    let future = association(&publisher, leaf("check"), now_ms + 61_000);
    for bad in [expired, future] {
        let body = store(bad.encoded(), record.encoded());
        assert_eq!(ask(&mut net, 0, publisher.id(), &body), Some(Class::Misbehaved));
    }

    let owner = Identity::of_owner(&[9; 32], Network::network_id());
    let forger = Identity::of_owner(&[8; 32], Network::network_id());
    let sign = |owner: &Identity, name: &str, peer: PeerId, expiry_ms: u64| {
        let terms = Terms {
            name: name.into(),
            peer,
            issued_ms: now_ms - HOUR_MS,
            expiry_ms,
            revoked: Vec::new(),
        };
        Grant::sign(owner, terms).expect("a grant")
    };
    let forged = sign(&forger, "check", publisher.id(), now_ms + HOUR_MS);
    let expired = sign(&owner, "check", publisher.id(), now_ms);
    let of_another = sign(&owner, "check", thief.id(), now_ms + HOUR_MS);
    let other_name = sign(&owner, "pay", publisher.id(), now_ms + HOUR_MS);
    for grant in [forged, expired, of_another, other_name] {
        let owned = Leaf {
            owner: Some(owner.public()),
            grant: grant.encoded().to_vec(),
            ..leaf("check")
        };
        let bad = association(&publisher, owned, now_ms);
        let body = store(bad.encoded(), record.encoded());
        assert_eq!(ask(&mut net, 0, publisher.id(), &body), Some(Class::Service));
    }
    assert_eq!(net.nodes[0].ring.objects_len(), 0);
    assert_eq!(
        ask(
            &mut net,
            0,
            publisher.id(),
            &store(good.encoded(), record.encoded())
        ),
        None
    );
    assert_eq!(net.nodes[0].ring.objects_len(), 1);
}

#[test]
fn of_a_thousand_replicas_of_a_name_the_first_are_kept_and_the_others_told() {
    let mut net = Network::ring_of(9, 1);
    let now_ms = net.now_ms;
    let limit = Parameters::DEFAULT.max_publishers;
    for number in 0..1000_usize {
        let mut seed = [7; 32];
        seed[..2].copy_from_slice(&(number as u16).to_le_bytes());
        let replica = Identity::recall(&seed, Network::network_id(), &[]);
        let one = association(&replica, leaf("check"), now_ms);
        let body = store(one.encoded(), record_at(&replica, now_ms).encoded());
        let refusal = (number >= limit).then_some(Class::Limit);
        assert_eq!(ask(&mut net, 0, replica.id(), &body), refusal, "replica {number}");
    }
    assert_eq!(net.nodes[0].ring.objects_len(), limit);
    let found = net.outcome(0, |ring, cx, command| {
        ring.find_up_to(cx, command, None, "check", false)
    });
    assert!(matches!(found, Outcome::Found(providers) if !providers.is_empty()));
}

#[test]
fn an_old_association_does_not_take_the_place_of_a_newer_one() {
    let mut net = Network::ring_of(7, 1);
    let publisher = stranger(1);
    let now_ms = net.now_ms;
    let record = record_at(&publisher, now_ms);
    let serving = association(&publisher, leaf("check"), now_ms - 1);
    let withdrawal = Leaf {
        withdrawn: true,
        ..leaf("check")
    };
    let withdrawn = association(&publisher, withdrawal, now_ms);
    let put = |net: &mut Network, one: &Association| {
        let body = store(one.encoded(), record.encoded());
        ask(net, 0, publisher.id(), &body)
    };
    assert_eq!(put(&mut net, &serving), None);
    assert_eq!(put(&mut net, &withdrawn), None);
    assert_eq!(put(&mut net, &withdrawn), None, "a retry is no offence");
    assert_eq!(put(&mut net, &serving), Some(Class::Misbehaved));
    let found = net.outcome(0, |ring, cx, command| {
        ring.find_up_to(cx, command, None, "check", false)
    });
    assert_eq!(found, Outcome::Failed(Code::NoProvider));
}

#[test]
fn a_store_at_a_member_that_is_not_responsible_is_refused() {
    let mut net = Network::ring_of(8, 5);
    let publisher = stranger(1);
    let record = record_at(&publisher, net.now_ms);
    let association = association(&publisher, leaf("check"), net.now_ms);
    let responsible = net.responsible(&association.object().0);
    for node in 0..5 {
        let answer = ask(
            &mut net,
            node,
            publisher.id(),
            &store(association.encoded(), record.encoded()),
        );
        let expected = (node != responsible).then_some(Class::Misbehaved);
        assert_eq!(answer, expected);
    }
}

#[test]
fn whoever_hands_entries_over_each_proves_itself() {
    let mut net = Network::ring_of(9, 2);
    let publisher = stranger(1);
    let record = record_at(&publisher, net.now_ms);
    let association = association(&publisher, leaf("check"), net.now_ms);
    let mut forged = association.encoded().to_vec();
    *forged.last_mut().expect("it is not empty") ^= 1;
    let member = net.id(1);
    for (from, entry, held) in [(member, &forged[..], 0), (member, association.encoded(), 1)] {
        assert_eq!(
            ask(&mut net, 0, from, &mirror(&[(entry, record.encoded())])),
            None
        );
        assert_eq!(net.nodes[0].ring.objects_len(), held);
    }
}

#[test]
fn oversized_truncated_and_random_requests_are_refused() {
    let mut net = Network::ring_of(10, 2);
    let peer = stranger(1).id();
    let record = record_at(&stranger(1), net.now_ms);
    let good = update(record.encoded());
    for len in 0..good.len() {
        assert_eq!(ask(&mut net, 0, peer, &good[..len]), Some(Class::Malformed));
    }
    let nodes = encoded(|encoder| {
        encoder.array(2).uint(0).array(17);
        (0..17).for_each(|_| _ = encoder.bytes(record.encoded()));
    });
    assert_eq!(
        ask(&mut net, 0, peer, &nodes),
        Some(Class::Malformed),
        "a list that is too long"
    );
    let huge = vec![0; selfsame_core::ring::MAX_MESSAGE_BYTES + 1];
    assert_eq!(ask(&mut net, 0, peer, &huge), Some(Class::Malformed));
    for _ in 0..5_000 {
        let len = net.dice.below(200);
        let body: Vec<u8> = (0..len).map(|_| net.dice.below(256) as u8).collect();
        ask(&mut net, 0, peer, &body);
    }
    assert_eq!(net.fault(16), None);
    net.run_for(30_000);
    assert_eq!(net.fault(16), None);
}

#[test]
fn a_named_successor_counts_only_when_it_answers_itself() {
    let mut net = Network::ring_of(11, 4);
    // A member names others that do not exist, in every gap of the ring.
    for seed in 10..40 {
        let ghost = record_at(&stranger(seed), net.now_ms);
        let hint = hint(&ghost);
        for node in 0..4 {
            let member = net.id((node + 1) % 4);
            assert_eq!(ask(&mut net, node, member, &hint), None);
        }
    }
    assert_eq!(net.fault(16), None);
    net.run_for(60_000);
    assert_eq!(net.fault(16), None);
}

#[test]
fn nobody_but_a_neighbour_makes_a_member_dial() {
    let mut net = Network::ring_of(16, 4);
    let ghost = record_at(&stranger(1), net.now_ms);
    let hint = hint(&ghost);
    assert_eq!(ask(&mut net, 0, stranger(2).id(), &hint), None);
    assert!(net.nodes[0].ring.record_of(&ghost.id()).is_none());
    let member = net.id(1);
    assert_eq!(ask(&mut net, 0, member, &hint), None);
    assert!(net.nodes[0].ring.record_of(&ghost.id()).is_some());
}

/// A response to a lookup: not responsible, these members closer and these after.
fn hop(closer: &[&NodeRecord], successors: &[&NodeRecord]) -> Vec<u8> {
    encoded(|encoder| {
        encoder.array(2).uint(0).array(5).null();
        for list in [closer, successors] {
            encoder.array(list.len());
            list.iter().for_each(|record| _ = encoder.bytes(record.encoded()));
        }
        encoder.null().array(0);
    })
}

/// Whether a response is one to a lookup.
fn is_hop(body: &[u8]) -> bool {
    let mut decoder = Decoder::new(body);
    decoder.array_of(2).is_ok() && decoder.uint() == Ok(0) && decoder.array_of(5).is_ok()
}

#[test]
fn answers_without_progress_end_and_others_are_asked() {
    let mut net = Network::ring_of(12, 40);
    net.run_for(60_000);
    let own: Vec<NodeRecord> = (0..40)
        .map(|node| net.with(node, |ring, cx| ring.own_record(cx).clone()))
        .collect();
    // A quarter of the members answers every lookup with itself as the closer one.
    net.forge = Some(Box::new(move |node, body| {
        (node % 4 == 1 && is_hop(body)).then(|| hop(&[&own[node]], &[]))
    }));
    let (mut honest, mut found) = (0, 0);
    for n in 0..40 {
        let mut id: [u8; 32] = [n * 6; 32];
        id[0] = id[0].wrapping_add(3);
        let responsible = net.responsible(&id);
        let start_ms = net.now_ms;
        let outcome = net.outcome(0, |ring, cx, command| ring.find_node(cx, command, Place(id)));
        assert!(
            net.now_ms - start_ms < 2_000,
            "a liar costs one answer, not a time-out"
        );
        // A liar is not found, since it does not say that it is responsible.
        if responsible % 4 != 1 {
            honest += 1;
            found += usize::from(outcome == Outcome::Node(net.id(responsible)));
        }
    }
    assert_eq!(found, honest);
    assert!(honest > 20);
    assert!(net.nodes[0].refusals.contains(&Code::NoProgress));
}

#[test]
fn ghosts_in_answers_cost_time_but_not_the_result() {
    let mut net = Network::ring_of(13, 12);
    let publish = net.outcome(3, |ring, cx, command| {
        ring.publish(cx, command, service("check", 2))
    });
    assert_eq!(publish, Outcome::Done);
    let now_ms = net.now_ms;
    let ghosts: Vec<NodeRecord> = (50..60).map(|seed| record_at(&stranger(seed), now_ms)).collect();
    // One member names only nodes that do not exist.
    net.forge = Some(Box::new(move |node, body| {
        let ghosts: Vec<&NodeRecord> = ghosts.iter().collect();
        (node == 5 && is_hop(body)).then(|| hop(&[], &ghosts))
    }));
    for node in (0..12).filter(|node| *node != 5) {
        let outcome = net.outcome(node, |ring, cx, command| {
            ring.find_up_to(cx, command, None, "check", false)
        });
        assert!(matches!(outcome, Outcome::Found(_)), "{outcome:?}");
    }
}

#[test]
fn a_responsible_member_can_drop_a_provider_but_not_invent_one() {
    let mut net = Network::ring_of(14, 8);
    let publish = net.outcome(3, |ring, cx, command| {
        ring.publish(cx, command, service("check", 0))
    });
    assert_eq!(publish, Outcome::Done);
    let liar = net.responsible(&ObjectId::of(&Network::network_id(), None, "check", 0).0);
    let own = net.with(liar, |ring, cx| ring.own_record(cx).clone());
    let thief = stranger(7);
    let expired = association(&thief, leaf("check"), net.now_ms - HOUR_MS);
    let other_name = association(&thief, leaf("other"), net.now_ms);
    let mut broken = association(&thief, leaf("check"), net.now_ms).encoded().to_vec();
    let last = broken.len() - 60;
    broken[last] ^= 1;
    let record = record_at(&thief, net.now_ms);
    let victim_record = net.with(0, |ring, cx| ring.own_record(cx).clone());
    let good = association(&thief, leaf("check"), net.now_ms);
    net.forge = Some(Box::new(move |node, body| {
        let entries: [(&[u8], &NodeRecord); 4] = [
            (expired.encoded(), &record),
            (other_name.encoded(), &record),
            (&broken, &record),
            (good.encoded(), &victim_record),
        ];
        (node == liar && is_hop(body)).then(|| {
            encoded(|encoder| {
                encoder.array(2).uint(0).array(5).bytes(own.encoded());
                encoder.array(0).array(0).null().array(entries.len());
                for (association, record) in entries {
                    encoder.array(2).bytes(association).bytes(record.encoded());
                }
            })
        })
    }));
    let asker = (0..8).find(|node| *node != liar).expect("others are there");
    let outcome = net.outcome(asker, |ring, cx, command| {
        ring.find_up_to(cx, command, None, "check", false)
    });
    assert_eq!(outcome, Outcome::Failed(Code::NoProvider));
    let refusals = &net.nodes[asker].refusals;
    for code in [Code::StaleRecord, Code::BadSignature] {
        assert!(refusals.contains(&code), "{code:?} in {refusals:?}");
    }
}

#[test]
fn a_dead_publisher_is_named_until_its_association_expires() {
    let mut net = Network::ring_of(15, 6);
    let publish = net.outcome(3, |ring, cx, command| {
        ring.publish(cx, command, service("check", 1))
    });
    assert_eq!(publish, Outcome::Done);
    net.run_for(1_000);
    net.crash(3, true);
    net.settle(60_000);
    let outcome = net.outcome(0, |ring, cx, command| {
        ring.find_up_to(cx, command, None, "check", false)
    });
    let Outcome::Found(providers) = outcome else {
        panic!("the association counts for an hour, not {outcome:?}")
    };
    assert_eq!(providers[0].peer, net.id(3));
    net.run_for(HOUR_MS);
    let outcome = net.outcome(0, |ring, cx, command| {
        ring.find_up_to(cx, command, None, "check", false)
    });
    assert_eq!(outcome, Outcome::Failed(Code::NoProvider));
}

#[test]
fn a_member_that_refuses_everything_is_not_asked_without_end() {
    for size in [2, 3, 5] {
        let mut net = Network::ring_of(900, size);
        net.forge = Some(Box::new(|node, _| (node == 1).then(|| vec![0x82, 1, 1])));
        net.run_for(5_000);
        let before = net.requests;
        net.run_for(60_000);
        let asked = net.requests - before;
        assert!(
            asked < 60 * size,
            "{asked} requests among {size} members in a minute"
        );
    }
}
