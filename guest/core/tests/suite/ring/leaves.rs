//! Leaves: nodes that nobody can dial, behind members that relay to them.

use selfsame_codec::{Code, Role};
use selfsame_core::record::{NodeRecord, relay_of};

use super::network::{Network, Outcome, service};

fn relays(net: &Network, leaf: usize) -> Vec<usize> {
    let relays = net.nodes[leaf].ring.relays();
    let index = |record: &NodeRecord| {
        (0..net.nodes.len())
            .find(|node| net.id(*node) == record.id())
            .expect("a node of this network")
    };
    relays.into_iter().map(index).collect()
}

fn is_found(net: &mut Network, node: usize, name: &str) -> bool {
    let outcome = net.outcome(node, |ring, cx, command| {
        ring.find_up_to(cx, command, None, name, false)
    });
    matches!(outcome, Outcome::Found(_))
}

#[test]
fn a_leaf_attaches_to_two_members_and_its_record_names_them() {
    for count in [1, 2, 10] {
        let mut net = Network::ring_of(count as u64, count);
        let leaf = net.add(Role::Leaf);
        assert_eq!(net.join(leaf, &[0]), Outcome::Done);
        assert!(net.nodes[leaf].ring.is_joined());
        let relays = relays(&net, leaf);
        assert_eq!(relays.len(), count.min(2));
        let id = net.id(leaf);
        for relay in &relays {
            assert!(net.nodes[*relay].ring.relays_for(&id));
        }
        let record = net.with(leaf, |ring, cx| ring.own_record(cx).clone());
        let named: Vec<_> = record
            .addresses()
            .iter()
            .filter_map(|address| relay_of(address))
            .collect();
        let expected: Vec<_> = relays.iter().map(|relay| net.id(*relay)).collect();
        assert_eq!(named, expected);
        assert_eq!(net.fault(16), None, "a leaf has no place on the ring");
    }
}

#[test]
fn a_leaf_publishes_and_finds() {
    let mut net = Network::ring_of(100, 8);
    let leaves = [net.add(Role::Leaf), net.add(Role::Leaf)];
    for leaf in leaves {
        assert_eq!(net.join(leaf, &[0]), Outcome::Done);
    }
    let publish = net.outcome(leaves[0], |ring, cx, command| {
        ring.publish(cx, command, service("page", 1));
    });
    assert_eq!(publish, Outcome::Done);
    let found = net.outcome(leaves[1], |ring, cx, command| {
        ring.find_up_to(cx, command, None, "page", false)
    });
    let Outcome::Found(providers) = found else {
        panic!("it is published, not {found:?}")
    };
    let record = providers[0].record.as_ref().expect("a provider says where it is");
    assert_eq!(record.id(), net.id(leaves[0]));
    assert_eq!(record.addresses().len(), 2);
}

#[test]
fn a_leaf_whose_relay_dies_attaches_elsewhere_and_says_so() {
    for seed in 200..206 {
        let mut net = Network::ring_of(seed, 8);
        let leaf = net.add(Role::Leaf);
        assert_eq!(net.join(leaf, &[0]), Outcome::Done);
        let publish = net.outcome(leaf, |ring, cx, command| {
            ring.publish(cx, command, service("page", 0))
        });
        assert_eq!(publish, Outcome::Done);
        let victim = relays(&net, leaf)[net.dice.below(2)];
        net.crash(victim, true);
        net.settle(60_000);
        net.run_for(10_000);
        let now = relays(&net, leaf);
        assert!(now.len() == 2 && !now.contains(&victim), "seed {seed}");
        let asker = net.members()[0];
        let found = net.outcome(asker, |ring, cx, command| {
            ring.find_up_to(cx, command, None, "page", false)
        });
        let Outcome::Found(providers) = found else {
            panic!("it is still published, not {found:?} (seed {seed})")
        };
        let record = providers[0].record.as_ref().expect("a provider says where it is");
        let named: Vec<_> = record
            .addresses()
            .iter()
            .filter_map(|address| relay_of(address))
            .collect();
        let expected: Vec<_> = now.iter().map(|relay| net.id(*relay)).collect();
        assert_eq!(named, expected, "seed {seed}");
    }
}

#[test]
fn a_leaf_that_lost_all_members_attaches_again_when_they_are_back() {
    let mut net = Network::ring_of(300, 2);
    let leaf = net.add(Role::Leaf);
    assert_eq!(net.join(leaf, &[0]), Outcome::Done);
    net.run_for(120_000);
    for member in 0..2 {
        net.crash(member, true);
    }
    net.run_for(60_000);
    assert!(relays(&net, leaf).is_empty());
    for member in 0..2 {
        net.restart(member, true);
        net.start_join(member, &[]);
    }
    net.run_until(120_000, "the leaf is attached again", |net| {
        relays(net, leaf).len() == 2
    });
}

#[test]
fn a_member_forgets_a_leaf_that_goes() {
    let mut net = Network::ring_of(400, 3);
    let leaf = net.add(Role::Leaf);
    assert_eq!(net.join(leaf, &[0]), Outcome::Done);
    let id = net.id(leaf);
    let at = relays(&net, leaf);
    assert_eq!(
        net.outcome(leaf, |ring, cx, command| ring.leave(cx, command)),
        Outcome::Done
    );
    assert!(at.iter().all(|relay| !net.nodes[*relay].ring.relays_for(&id)));

    assert_eq!(net.join(leaf, &[1]), Outcome::Done);
    let at = relays(&net, leaf);
    net.crash(leaf, true);
    net.run_for(1_000);
    assert!(at.iter().all(|relay| !net.nodes[*relay].ring.relays_for(&id)));
    assert!(at.iter().all(|relay| {
        net.nodes[*relay]
            .store
            .keys()
            .all(|key| !key.starts_with(b"ring/leaf/"))
    }));
}

#[test]
fn a_member_that_slept_still_relays() {
    let mut net = Network::ring_of(500, 1);
    let leaf = net.add(Role::Leaf);
    assert_eq!(net.join(leaf, &[0]), Outcome::Done);
    let id = net.id(leaf);
    net.crash(0, false);
    net.restart(0, true);
    assert!(net.nodes[0].ring.relays_for(&id));
}

#[test]
fn a_leaf_needs_a_member_to_join() {
    let mut net = Network::new(600);
    let leaves = [net.add(Role::Leaf), net.add(Role::Leaf)];
    assert_eq!(net.join(leaves[0], &[]), Outcome::Failed(Code::NoBootstrap));
    assert_eq!(
        net.join(leaves[0], &[leaves[1]]),
        Outcome::Failed(Code::NoBootstrap)
    );
    assert!(!net.nodes[leaves[0]].ring.is_joined());
    assert!(!is_found(&mut net, leaves[0], "page"));
}
