//! Neighbours that are known but cannot be reached: told to those who still name them, or asked whether they live.

use selfsame_core::identity::PeerId;

use super::network::{IDLE_MS, Network};
use super::outsider::{ask, hint, record_at, stranger, update};

/// Time in which a member that does not answer is found out.
const ANSWER_MS: u64 = 4_000;

fn knows(net: &Network, node: usize, peer: &PeerId) -> bool {
    let ring = &net.nodes[node].ring;
    let neighbours = ring.predecessor().into_iter().chain(ring.successors());
    neighbours.into_iter().any(|known| known.id() == *peer)
}

#[test]
fn record_of_a_copy_that_is_gone_is_outdone() {
    let mut net = Network::ring_of(1200, 12);
    let members = net.members();
    let (before, original, after) = (members[3], members[4], members[5]);
    // It leads nowhere, and whoever comes before the original knows no other way to it.
    net.wall(&[before], &[original], true);
    net.run_for(2 * IDLE_MS);
    let copy = record_at(&net.nodes[original].identity, net.now_ms + 1_000);
    let newer = copy.clone();
    net.with(before, |ring, cx| ring.learn(cx, newer));
    net.run_for(6 * IDLE_MS);
    let own = net.with(original, |ring, cx| ring.own_record(cx).clone());
    assert!(own.sequence() > copy.sequence());
    let known = net.nodes[after].ring.record_of(&own.id()).expect("a neighbour");
    assert_eq!(known.sequence(), own.sequence());
}

#[test]
fn anybody_may_show_a_newer_record_of_a_neighbour() {
    let mut net = Network::ring_of(1201, 12);
    let members = net.members();
    let (node, next) = (members[3], members[4]);
    for about in [next, node] {
        let newer = record_at(&net.nodes[about].identity, net.now_ms + 1_000);
        assert_eq!(ask(&mut net, node, stranger(1).id(), &hint(&newer)), None);
        let known = net.with(node, |ring, cx| match about == node {
            true => ring.own_record(cx).sequence(),
            false => ring.record_of(&newer.id()).expect("a neighbour").sequence(),
        });
        assert!(known >= newer.sequence());
    }
}

#[test]
fn predecessor_of_an_earlier_start_is_asked_at_the_next_round() {
    let mut net = Network::ring_of(1202, 12);
    net.run_for(120_000);
    let members = net.members();
    let (gone, node) = (members[3], members[4]);
    // Nobody else tells it.
    let others: Vec<usize> = members.into_iter().filter(|other| *other != node).collect();
    net.wall(&[node], &others, true);
    net.crash(gone, false);
    net.crash(node, false);
    net.restart(node, true);
    let gone = net.id(gone);
    assert_eq!(
        net.nodes[node].ring.predecessor().map(|record| record.id()),
        Some(gone)
    );
    net.run_for(IDLE_MS + ANSWER_MS);
    assert_ne!(
        net.nodes[node].ring.predecessor().map(|record| record.id()),
        Some(gone)
    );
}

#[test]
fn member_named_in_vain_is_asked_whether_it_lives() {
    let mut net = Network::ring_of(1203, 6);
    net.run_for(60_000);
    let members = net.members();
    let (asker, gone, named) = (members[0], members[1], members[3]);
    assert!(knows(&net, named, &net.id(gone)));
    net.crash(gone, false);
    let (asker_id, gone) = (net.id(asker), net.id(gone));
    let record = net.with(asker, |ring, cx| ring.own_record(cx).encoded().to_vec());
    assert_eq!(ask(&mut net, named, asker_id, &update(&record)), None);
    net.run_for(ANSWER_MS);
    assert!(!knows(&net, named, &gone));
}

#[test]
fn neighbours_are_kept_while_no_attempt_to_reach_them_is_free() {
    let mut net = Network::ring_of(1204, 12);
    let node = net.members()[3];
    let ids = |net: &Network| {
        let ring = &net.nodes[node].ring;
        let neighbours = ring.predecessor().into_iter().chain(ring.successors());
        neighbours.map(|record| record.id()).collect::<Vec<_>>()
    };
    let known = ids(&net);
    let members = net.members();
    for one in &members {
        members.iter().for_each(|other| net.end_session(*one, *other));
    }
    net.busy.extend(members);
    net.run_for(6 * IDLE_MS);
    assert_eq!(ids(&net), known);
    net.busy.clear();
    net.run_for(2 * IDLE_MS);
    assert_eq!(net.fault(16), None);
}
