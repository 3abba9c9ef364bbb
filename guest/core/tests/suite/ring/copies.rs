//! Copies: who may hand them over, for which positions, and what forged ones cost.

use selfsame_codec::{Class, Code};
use selfsame_core::admission::Gate;
use selfsame_core::association::{Association, Leaf, ObjectId, Validity};
use selfsame_core::identity::{Identity, PeerId};

use super::network::{IDLE_MS, Network, Outcome, service};
use super::outsider::{HOUR_MS, ask, association, encoded, leaf, mirror, record_at, store, stranger};

/// An association of a stranger whose object a member is responsible for, with its publisher's record.
fn entry_for(net: &Network, member: usize, publisher: &Identity) -> (Vec<u8>, Vec<u8>) {
    let one = (0..)
        .map(|number| association(publisher, leaf(&format!("name-{number}")), net.now_ms))
        .find(|one| net.responsible(&one.object().0) == member)
        .expect("names are many");
    let record = record_at(publisher, net.now_ms);
    (one.encoded().to_vec(), record.encoded().to_vec())
}

fn hand_over(net: &mut Network, to: usize, from: PeerId, entries: &[(Vec<u8>, Vec<u8>)]) -> Option<Class> {
    let entries: Vec<(&[u8], &[u8])> = entries
        .iter()
        .map(|(association, record)| (association.as_slice(), record.as_slice()))
        .collect();
    ask(net, to, from, &mirror(&entries))
}

/// The member so many places before another.
fn before(net: &Network, member: usize, places: usize) -> usize {
    let members = net.members();
    let at = members
        .iter()
        .position(|other| *other == member)
        .expect("a member");
    members[(at + members.len() - places) % members.len()]
}

/// Lets every member hear from its predecessor which are before that.
fn hear_of_predecessors(net: &mut Network) {
    net.run_for(6 * IDLE_MS);
}

/// Where in an association a changed byte makes its signature wrong and nothing else.
fn signature_at(good: &[u8], now_ms: u64) -> usize {
    let is_signature = |at: &usize| {
        (*at..at + 8).all(|at| {
            let mut changed = good.to_vec();
            changed[at] ^= 1;
            let read = Association::decode_verified(
                &mut Gate::new(Network::network_id(), None),
                &|key| Some(PeerId::of(key, &Network::network_id())),
                &changed,
                now_ms,
            );
            read.err() == Some(Code::BadSignature)
        })
    };
    (0..good.len() - 8).find(is_signature).expect("a signature")
}

/// So many associations with the right statement and wrong signatures.
fn forged(net: &Network, member: usize, count: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (good, record) = entry_for(net, member, &stranger(77));
    let at = signature_at(&good, net.now_ms);
    let forge = |number: u64| {
        let mut forged = good.clone();
        forged[at..at + 8].copy_from_slice(&number.to_le_bytes());
        (forged, record.clone())
    };
    (0..count).map(forge).collect()
}

#[test]
fn stranger_fills_nobody_with_copies() {
    let mut net = Network::ring_of(20, 5);
    let now_ms = net.now_ms;
    for number in 0..8 {
        let publisher = stranger(number);
        let record = record_at(&publisher, now_ms).encoded().to_vec();
        let leaves: Vec<Leaf> = (0..1024).map(|n| leaf(&format!("{n}"))).collect();
        let validity = Validity {
            sequence_ms: now_ms,
            not_before_ms: now_ms,
            expiry_ms: now_ms + HOUR_MS,
        };
        let all = Association::publish(&publisher, &leaves, validity).expect("within limits");
        for chunk in all.chunks(32) {
            let entries: Vec<(Vec<u8>, Vec<u8>)> = chunk
                .iter()
                .map(|one| (one.encoded().to_vec(), record.clone()))
                .collect();
            let answer = hand_over(&mut net, 0, stranger(99).id(), &entries);
            assert_eq!(answer, Some(Class::Misbehaved));
        }
    }
    assert_eq!(net.nodes[0].ring.objects_len(), 0);
    let honest = stranger(200);
    let (one, record) = entry_for(&net, 0, &honest);
    assert_eq!(ask(&mut net, 0, honest.id(), &store(&one, &record)), None);
}

#[test]
fn copies_come_from_three_members_back_to_the_fourth() {
    let mut net = Network::ring_of(21, 12);
    hear_of_predecessors(&mut net);
    let publisher = stranger(1);
    let mut held = 0;
    for places in 1..=3 {
        let from = net.id(before(&net, 0, places));
        // Of those up to the fourth that it may have taken over from.
        for of in 1..=4 {
            let entry = entry_for(&net, before(&net, 0, of), &publisher);
            let refused = (of == 4).then_some(Class::Misbehaved);
            assert_eq!(hand_over(&mut net, 0, from, &[entry]), refused, "{places}, {of}");
        }
        held = net.nodes[0].ring.objects_len();
        assert_eq!(held, 3);
    }
    let fourth = before(&net, 0, 4);
    let from = net.id(fourth);
    let entry = entry_for(&net, before(&net, 0, 1), &publisher);
    assert_eq!(
        hand_over(&mut net, 0, from, &[entry]),
        Some(Class::Misbehaved),
        "the fourth itself"
    );
    assert_eq!(net.nodes[0].ring.objects_len(), held);
}

#[test]
fn member_that_slept_still_knows_whose_mirror_it_is() {
    let mut net = Network::ring_of(22, 12);
    net.run_for(120_000);
    net.forget(0);
    let third = before(&net, 0, 3);
    let (from, entry) = (net.id(third), entry_for(&net, third, &stranger(1)));
    assert_eq!(hand_over(&mut net, 0, from, &[entry]), None);
}

/// An update of a member that names these members before it.
fn update_naming(net: &mut Network, from: usize, before: &[usize]) -> Vec<u8> {
    let mut record = |node: usize| net.with(node, |ring, cx| ring.own_record(cx).encoded().to_vec());
    let (own, before) = (
        record(from),
        before.iter().map(|node| record(*node)).collect::<Vec<_>>(),
    );
    encoded(|encoder| {
        let encoder = encoder
            .array(4)
            .uint(6)
            .bytes(&own)
            .bool(false)
            .array(before.len());
        before.iter().for_each(|record| _ = encoder.bytes(record));
    })
}

/// A stranger whose id lies among the members before a member.
fn stranger_before(net: &Network, member: usize) -> Identity {
    let (from, to) = (net.id(before(net, member, 3)), net.id(member));
    let lies_between = |id: &PeerId| (from < *id) == (*id < to) || (from > to && (*id > from || *id < to));
    (0..=255)
        .map(stranger)
        .find(|stranger| lies_between(&stranger.id()) && net.responsible(&stranger.id().0) != member)
        .expect("strangers are many")
}

#[test]
fn unknown_member_hands_over_once_a_lookup_confirms_it() {
    let mut net = Network::ring_of(23, 16);
    hear_of_predecessors(&mut net);
    // Its predecessor hides who is before that.
    let nearest = before(&net, 0, 1);
    let hidden = before(&net, 0, 2);
    let update = update_naming(&mut net, nearest, &[]);
    let (nearest, from) = (net.id(nearest), net.id(hidden));
    assert_eq!(ask(&mut net, 0, nearest, &update), None);
    let entry = [entry_for(&net, hidden, &stranger(1))];
    assert_eq!(hand_over(&mut net, 0, from, &entry), Some(Class::Misbehaved));
    net.run_for(1_000);
    assert_eq!(hand_over(&mut net, 0, from, &entry), None);
}

#[test]
fn node_outside_the_ring_hands_nothing_over_and_causes_few_lookups() {
    let mut net = Network::ring_of(24, 16);
    hear_of_predecessors(&mut net);
    let outsider = stranger_before(&net, 0);
    let record = record_at(&outsider, net.now_ms);
    net.with(0, |ring, cx| ring.learn(cx, record));
    let entry = entry_for(&net, before(&net, 0, 2), &stranger(1));
    let mut quiet = net.requests;
    net.run_for(20_000);
    quiet = net.requests - quiet;
    let before_flood = net.requests;
    for _ in 0..2_000 {
        let answer = hand_over(&mut net, 0, outsider.id(), core::slice::from_ref(&entry));
        assert_eq!(answer, Some(Class::Misbehaved));
        net.run_for(10);
    }
    let flood = net.requests - before_flood;
    // One lookup in five seconds, of at most a dozen members each.
    assert!(
        flood <= 2 * quiet + 50,
        "{flood} requests, {quiet} without the flood"
    );
    assert_eq!(net.nodes[0].ring.objects_len(), 0);
}

#[test]
fn predecessor_that_lies_widens_nothing_beyond_its_neighbourhood() {
    let mut net = Network::ring_of(25, 80);
    let nearest = before(&net, 0, 1);
    let own = net.with(nearest, |ring, cx| ring.own_record(cx).clone());
    // It names members on the other side of the circle as those before it.
    let far = [40, 41, 42].map(|places| before(&net, 0, places));
    let update = update_naming(&mut net, nearest, &far);
    assert_eq!(ask(&mut net, 0, own.id(), &update), None);
    let near = entry_for(&net, before(&net, 0, 8), &stranger(1));
    assert_eq!(
        hand_over(&mut net, 0, own.id(), &[near]),
        None,
        "the lie was taken as far as it goes"
    );
    for places in [50, 60, 70] {
        let entry = entry_for(&net, before(&net, 0, places), &stranger(1));
        let answer = hand_over(&mut net, 0, own.id(), &[entry]);
        assert_eq!(answer, Some(Class::Misbehaved), "{places} places before");
    }
    assert_eq!(net.nodes[0].ring.objects_len(), 1);
}

#[test]
fn peer_whose_signatures_fail_is_disconnected() {
    let mut net = Network::ring_of(26, 8);
    hear_of_predecessors(&mut net);
    let neighbour = before(&net, 0, 1);
    let entries = forged(&net, neighbour, 60);
    let from = net.id(neighbour);
    net.nodes[0].refusals.clear();
    assert_eq!(hand_over(&mut net, 0, from, &entries), Some(Class::Misbehaved));
    assert_eq!(net.nodes[0].disconnected, [from]);
    let refusals = &net.nodes[0].refusals;
    let verified = refusals.iter().filter(|code| **code == Code::BadSignature);
    assert!(verified.count() <= 5, "of 60, so few were verified");
}

#[test]
fn forged_stores_and_grants_end_the_session() {
    let mut net = Network::ring_of(27, 4);
    let publisher = stranger(77);
    for (entry, record) in forged(&net, 0, 4) {
        let answer = ask(&mut net, 0, publisher.id(), &store(&entry, &record));
        assert_eq!(answer, Some(Class::Misbehaved));
    }
    assert_eq!(net.nodes[0].disconnected, [publisher.id()]);
}

#[test]
fn forged_records_of_members_end_the_session() {
    let mut net = Network::ring_of(31, 12);
    let members = net.members();
    let (node, next) = (members[3], members[4]);
    let good = record_at(&net.nodes[next].identity, net.now_ms + 1_000);
    let forged = |number: u8| {
        let mut bytes = good.encoded().to_vec();
        *bytes.last_mut().expect("a signature") ^= number;
        bytes
    };
    let hint = encoded(|encoder| {
        encoder.array(2).uint(0).array(4);
        (1..=4).for_each(|number| _ = encoder.bytes(&forged(number)));
    });
    net.nodes[node].refusals.clear();
    assert_eq!(ask(&mut net, node, stranger(1).id(), &hint), None);
    assert_eq!(net.nodes[node].disconnected, [stranger(1).id()]);
    // The same beside an update.
    let before = members[2];
    let own = net.with(before, |ring, cx| ring.own_record(cx).encoded().to_vec());
    let update = encoded(|encoder| {
        encoder.array(4).uint(6).bytes(&own).bool(false).array(3);
        (1..=3).for_each(|number| _ = encoder.bytes(&forged(number)));
    });
    let from = net.id(before);
    for _ in 0..2 {
        assert_eq!(ask(&mut net, node, from, &update), None);
    }
    assert!(net.nodes[node].disconnected.contains(&from));
}

#[test]
fn one_forged_copy_among_many_ends_no_session() {
    let mut net = Network::ring_of(28, 8);
    hear_of_predecessors(&mut net);
    let neighbour = before(&net, 0, 1);
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = (1..20)
        .map(|seed| entry_for(&net, neighbour, &stranger(seed)))
        .collect();
    entries.extend(forged(&net, neighbour, 3));
    let from = net.id(neighbour);
    assert_eq!(hand_over(&mut net, 0, from, &entries), None);
    assert!(net.nodes[0].disconnected.is_empty());
    assert_eq!(net.nodes[0].ring.objects_len(), 19);
}

#[test]
fn finder_parts_with_a_holder_that_forges() {
    let mut net = Network::ring_of(29, 8);
    let object = ObjectId::of(&Network::network_id(), None, "check", 0);
    let liar = net.responsible(&object.0);
    let (own, from) = (
        net.with(liar, |ring, cx| ring.own_record(cx).clone()),
        net.id(liar),
    );
    let entries = forged(&net, liar, 60);
    net.forge = Some(Box::new(move |node, body| {
        (node == liar && body.len() > 100).then(|| {
            encoded(|encoder| {
                encoder.array(2).uint(0).array(5).bytes(own.encoded());
                encoder.array(0).array(0).null().array(entries.len());
                for (association, record) in &entries {
                    encoder.array(2).bytes(association).bytes(record);
                }
            })
        })
    }));
    let by = (0..8).find(|node| *node != liar).expect("others are there");
    let outcome = net.outcome(by, |ring, cx, command| {
        ring.find_up_to(cx, command, None, "check", false)
    });
    assert_eq!(outcome, Outcome::Failed(Code::NoProvider));
    assert!(net.nodes[by].disconnected.contains(&from));
}

#[test]
fn member_that_leaves_hands_over_more_than_a_message() {
    let mut net = Network::ring_of(30, 5);
    let names = 300;
    for number in 0..names {
        let service = service(&format!("name-{number}"), 0);
        net.command(0, |ring, cx, command| ring.publish(cx, command, service));
    }
    net.run_for(30_000);
    let leaver = (1..5)
        .max_by_key(|node| net.nodes[*node].ring.objects_len())
        .expect("members");
    let outcome = net.outcome(leaver, |ring, cx, command| ring.leave(cx, command));
    assert_eq!(outcome, Outcome::Done);
    net.nodes[leaver].is_alive = false;
    for number in 0..names {
        let name = format!("name-{number}");
        let object = ObjectId::of(&Network::network_id(), None, &name, 0);
        let holder = net.responsible(&object.0);
        let outcome = net.outcome(holder, |ring, cx, command| {
            ring.find_up_to(cx, command, None, &name, false)
        });
        assert!(matches!(outcome, Outcome::Found(_)), "{name}: {outcome:?}");
    }
}
