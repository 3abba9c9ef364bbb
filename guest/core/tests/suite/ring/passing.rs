//! What groups are good for beside convicting liars: ways of messages, and neighbours that are gone.

use alloc::collections::BTreeSet;

use selfsame_core::Place;
use selfsame_core::identity::PeerId;
use selfsame_core::random::Random;
use selfsame_core::record::NodeRecord;
use selfsame_core::ring::EPOCH_MS;

use super::guard::leased;
use super::network::Network;

/// How many members a message goes to until it arrives.
fn pass_on(net: &mut Network, random: &mut Random, from: usize, to: usize) -> usize {
    let target = Place(net.id(to).0);
    let mut at = from;
    for hops in 0..32 {
        if at == to {
            return hops;
        }
        let next = net.nodes[at].ring.group_hops(random, &target);
        let first = *next.first().expect("somebody nearer");
        let way = |peer: &PeerId| {
            let (high, end) = (
                |id: &[u8; 32]| u128::from_be_bytes(id[..16].try_into().expect("16 bytes")),
                target.0,
            );
            high(&end).wrapping_sub(high(&peer.0))
        };
        let me = net.id(at);
        assert!(
            next.iter().all(|peer| way(peer) < way(&me)),
            "nearer than this one"
        );
        at = (0..net.nodes.len())
            .find(|node| net.id(*node) == first)
            .expect("a member");
    }
    panic!("a message goes in a circle");
}

#[test]
fn message_comes_nearer_with_each_member_and_takes_many_ways() {
    let mut net = leased(15, 60);
    net.run_for(4 * EPOCH_MS);
    let members = net.members();
    let mut random = Random::new(&[15; 32]);
    for place in 0..60 {
        let (from, to) = (members[place], members[(place * 7 + 31) % 60]);
        assert!(pass_on(&mut net, &mut random, from, to) <= 8);
    }
    let (from, target) = (members[0], Place(net.id(members[40]).0));
    let firsts: BTreeSet<PeerId> = (0..100)
        .map(|_| net.nodes[from].ring.group_hops(&mut random, &target)[0])
        .collect();
    assert!(firsts.len() >= 4, "{} ways", firsts.len());
    let to_itself = Place(net.id(from).0);
    assert!(
        net.nodes[from]
            .ring
            .group_hops(&mut random, &to_itself)
            .is_empty()
    );
}

#[test]
fn group_takes_the_place_of_a_predecessor_that_is_gone() {
    let mut net = leased(16, 20);
    let members = net.members();
    let (before, gone, node) = (members[4], members[5], members[6]);
    net.end_session(before, gone);
    net.crash(gone, true);
    net.run_for(250);
    let predecessor = net.nodes[node].ring.predecessor().map(NodeRecord::id);
    assert_eq!(predecessor, Some(net.id(before)));
}
