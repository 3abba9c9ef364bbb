//! Neighbours that answer, and say nothing of use.

use alloc::rc::Rc;
use core::cell::Cell;

use selfsame_codec::cbor::Decoder;
use selfsame_codec::{Class, Code, Role};
use selfsame_core::Place;
use selfsame_core::identity::{Identity, PeerId};
use selfsame_core::ring::Parameters;

use super::network::{Network, Outcome};
use super::outsider::{ask, encoded, record_at, stranger, update};

/// Time in which one member that is gone must have been found out: an update or two, and what was told of it before.
const FOUND_OUT_MS: u64 = 60_000;

/// Whether a response is one to an update; the record in it.
fn updated(body: &[u8]) -> Option<&[u8]> {
    let mut decoder = Decoder::new(body);
    decoder.array_of(2).ok()?;
    let is_result = decoder.uint() == Ok(0) && decoder.array_of(4).is_ok();
    decoder.bytes(4096).ok().filter(|_| is_result)
}

/// A ring in its final shape, and three of its members in a row, with one between the second and the third.
fn ring_with_liar() -> (Network, usize, usize, usize) {
    let mut net = Network::ring_of(77, 12);
    net.run_for(120_000);
    let members = net.members();
    (net, members[3], members[4], members[6])
}

fn lists(net: &Network, node: usize, peer: &PeerId) -> bool {
    let successors = net.nodes[node].ring.successors();
    successors.iter().any(|record| record.id() == *peer)
}

#[test]
fn successor_that_refuses_as_busy_is_replaced() {
    let (mut net, node, liar, gone) = ring_with_liar();
    let refusal = encoded(|encoder| {
        _ = encoder
            .array(2)
            .uint(1)
            .uint(Code::TooManyRequests.class() as u64)
    });
    let refused = Rc::new(Cell::new(0));
    let count = Rc::clone(&refused);
    net.forge = Some(Box::new(move |by, body| {
        updated(body).filter(|_| by == liar).map(|_| {
            count.set(count.get() + 1);
            refusal.clone()
        })
    }));
    let liar = net.id(liar);
    net.run_for(FOUND_OUT_MS);
    assert!(!lists(&net, node, &liar), "it answers no update");
    let gone_id = net.id(gone);
    net.crash(gone, false);
    refused.set(0);
    net.run_for(FOUND_OUT_MS);
    assert!(!lists(&net, node, &gone_id), "others tell that it is gone");
    assert!(refused.get() < 30, "{} updates in a minute", refused.get());
}

#[test]
fn successor_that_calls_a_current_record_stale_is_replaced() {
    let (mut net, node, liar, _) = ring_with_liar();
    let own = net.with(node, |ring, cx| ring.own_record(cx).encoded().to_vec());
    let refusal = encoded(|encoder| _ = encoder.array(2).uint(2).bytes(&own));
    net.forge = Some(Box::new(move |by, body| {
        updated(body).filter(|_| by == liar).map(|_| refusal.clone())
    }));
    let liar = net.id(liar);
    net.run_for(FOUND_OUT_MS);
    assert!(!lists(&net, node, &liar), "it answers no update");
}

#[test]
fn member_that_refuses_by_forged_records_is_disconnected() {
    let (mut net, node, liar, _) = ring_with_liar();
    let mut own = net.with(node, |ring, cx| ring.own_record(cx).encoded().to_vec());
    *own.last_mut().expect("a signature") ^= 1;
    let refusal = encoded(|encoder| _ = encoder.array(2).uint(2).bytes(&own));
    net.forge = Some(Box::new(move |by, _| (by == liar).then(|| refusal.clone())));
    let liar = net.id(liar);
    net.run_for(2 * FOUND_OUT_MS);
    assert!(net.nodes[node].disconnected.contains(&liar));
}

/// Records of that many peers between two places, none of them signed by its peer.
fn forged_between(from: Place, to: Place, now_ms: u64, count: usize) -> Vec<Vec<u8>> {
    let distance = |place: Place| {
        let (mut way, mut borrow) = ([0; 32], 0);
        for (at, (far, near)) in place.0.iter().zip(from.0).enumerate().rev() {
            let left = i16::from(*far) - i16::from(near) - borrow;
            borrow = i16::from(left < 0);
            way[at] = left as u8;
        }
        way
    };
    let identities = (0..=u64::MAX).map(|number| {
        let mut seed = [0xF0; 32];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        Identity::recall(&seed, Network::network_id(), &[])
    });
    let between = identities.filter(|identity| {
        let way = distance(Place(identity.id().0));
        [0; 32] < way && way < distance(to)
    });
    let forged = between.map(|identity| {
        let mut bytes = record_at(&identity, now_ms).encoded().to_vec();
        *bytes.last_mut().expect("a signature") ^= 1;
        bytes
    });
    forged.take(count).collect()
}

#[test]
fn lookup_reads_no_more_of_an_answer_than_honest_ones_hold() {
    let mut net = Network::ring_of(31, 48);
    net.run_for(120_000);
    let members = net.members();
    let (liar, next) = (members[30], members[31]);
    let (liar_place, next_place) = (Place(net.id(liar).0), Place(net.id(next).0));
    let (mut after_liar, mut before_next) = (liar_place, next_place);
    after_liar.0[31] += 1;
    before_next.0[31] -= 1;
    let forged = forged_between(liar_place, next_place, net.now_ms, 16);
    let Parameters {
        named_closer,
        named_successors,
        ..
    } = Parameters::DEFAULT;
    for (target, most) in [(before_next, named_closer), (after_liar, named_successors)] {
        let (closer, successors) = match target == before_next {
            true => (forged.clone(), Vec::new()),
            false => (Vec::new(), forged.clone()),
        };
        net.forge = Some(Box::new(move |by, body| {
            (by == liar && is_hop(body)).then(|| hop(&closer, &successors))
        }));
        let mut verified = 0;
        for asker in members.iter().copied().filter(|asker| *asker != liar) {
            net.nodes[asker].refusals.clear();
            let found = net.outcome(asker, |ring, cx, command| ring.find_node(cx, command, target));
            assert_eq!(found, Outcome::Node(net.id(next)));
            let refusals = net.nodes[asker].refusals.iter();
            verified = verified.max(refusals.filter(|code| **code == Code::BadSignature).count());
        }
        assert_eq!(verified, most, "in vain");
    }
}

/// A response to a lookup: not responsible, these members closer and these after.
fn hop(closer: &[Vec<u8>], successors: &[Vec<u8>]) -> Vec<u8> {
    encoded(|encoder| {
        encoder.array(2).uint(0).array(5).null();
        for list in [closer, successors] {
            encoder.array(list.len());
            list.iter().for_each(|record| _ = encoder.bytes(record));
        }
        encoder.null().array(0);
    })
}

/// Whether a response is one to a lookup.
fn is_hop(body: &[u8]) -> bool {
    let mut decoder = Decoder::new(body);
    decoder.array_of(2).is_ok() && decoder.uint() == Ok(0) && decoder.array_of(5).is_ok()
}

/// Records of one peer, none of them signed by it.
fn forged_of(net: &Network, peer: usize, count: u8) -> Vec<Vec<u8>> {
    let good = record_at(&net.nodes[peer].identity, net.now_ms + 1_000);
    let forged = |number: u8| {
        let mut bytes = good.encoded().to_vec();
        *bytes.last_mut().expect("a signature") ^= number;
        bytes
    };
    (1..=count).map(forged).collect()
}

fn ping(hint: &[Vec<u8>]) -> Vec<u8> {
    encoded(|encoder| {
        encoder.array(2).uint(0).array(hint.len());
        hint.iter().for_each(|record| _ = encoder.bytes(record));
    })
}

#[test]
fn ping_tells_of_four_members_at_most() {
    let mut net = Network::ring_of(31, 12);
    let members = net.members();
    let (node, next) = (members[3], members[4]);
    let forged = forged_of(&net, next, 5);
    net.nodes[node].refusals.clear();
    let answer = ask(&mut net, node, stranger(1).id(), &ping(&forged));
    assert_eq!(answer, Some(Class::Malformed));
    assert_eq!(net.nodes[node].refusals, [Code::BadMessage], "none was verified");
    assert_eq!(ask(&mut net, node, stranger(1).id(), &ping(&forged[..3])), None);
    assert_eq!(net.nodes[node].disconnected, []);
}

#[test]
fn list_is_read_no_further_than_the_fourth_forged_record() {
    let mut net = Network::ring_of(31, 12);
    let members = net.members();
    let (before, node, next) = (members[2], members[3], members[4]);
    let forged = forged_of(&net, next, 16);
    let own = net.with(before, |ring, cx| ring.own_record(cx).encoded().to_vec());
    let leave = encoded(|encoder| {
        encoder.array(5).uint(7).bytes(&own).null().array(forged.len());
        forged.iter().for_each(|record| _ = encoder.bytes(record));
        encoder.array(0);
    });
    net.nodes[node].refusals.clear();
    let before = net.id(before);
    assert_eq!(ask(&mut net, node, before, &leave), None);
    let refusals = net.nodes[node].refusals.iter();
    assert_eq!(refusals.filter(|code| **code == Code::BadSignature).count(), 4);
    assert_eq!(net.nodes[node].disconnected, [before]);
}

#[test]
fn ring_of_one_after_a_leave_outlives_its_first_guest() {
    let mut net = Network::ring_of(1202, 12);
    net.run_for(120_000);
    let members = net.members();
    members.iter().for_each(|node| net.crash(*node, false));
    let node = members[4];
    net.restart(node, true);
    // It has heard nobody since its start, and leaves.
    let left = net.outcome(node, |ring, cx, command| ring.leave(cx, command));
    assert_eq!(left, Outcome::Done);
    assert_eq!(net.join(node, &[]), Outcome::Done);
    let guest = record_at(&stranger(1), net.now_ms);
    assert_eq!(ask(&mut net, node, guest.id(), &update(guest.encoded())), None);
    assert!(net.nodes[node].ring.predecessor().is_some());
    net.run_for(FOUND_OUT_MS);
    assert!(
        net.nodes[node].ring.predecessor().is_none(),
        "it cannot be reached"
    );
    assert!(net.nodes[node].ring.is_joined());
}

#[test]
fn join_under_way_outlives_predecessors_that_refuse() {
    for seed in 700..705 {
        let mut net = Network::ring_of(seed, 24);
        net.run_for(60_000);
        let node = net.add(Role::Member);
        let liars = [net.add(Role::Member), net.add(Role::Member)];
        let refusal = encoded(|encoder| _ = encoder.array(2).uint(1).uint(Class::Malformed as u64));
        net.forge = Some(Box::new(move |by, _| {
            liars.contains(&by).then(|| refusal.clone())
        }));
        // Its record is known from an earlier day.
        liars.iter().for_each(|liar| net.connect(*liar, node));
        let records = liars.map(|liar| net.with(liar, |ring, cx| ring.own_record(cx).encoded().to_vec()));
        let command = net.start_join(node, &[0]);
        for _ in 0..500 {
            for (liar, record) in liars.iter().zip(&records) {
                let liar = net.id(*liar);
                _ = ask(&mut net, node, liar, &update(record));
            }
            net.run_for(20);
        }
        let ended = net.nodes[node].outcomes.get(&command);
        assert_eq!(ended, Some(&Outcome::Done), "with seed {seed}");
    }
}
