//! Members that come in any order end in one correct ring.

use selfsame_codec::Code;
use selfsame_core::Place;

use super::network::{Network, Outcome};

#[test]
fn a_ring_of_one_answers_for_everything() {
    let mut net = Network::ring_of(1, 1);
    let own = net.id(0);
    for id in [[0; 32], [0xff; 32], own.0] {
        let outcome = net.outcome(0, |ring, cx, command| ring.find_node(cx, command, Place(id)));
        assert_eq!(outcome, Outcome::Node(own));
    }
}

#[test]
fn members_that_join_one_after_the_other_form_one_ring() {
    for seed in 0..2 {
        let mut net = Network::new(seed);
        for size in 1..=50 {
            let node = net.add_members(1)[0];
            let bootstraps: Vec<usize> = (0..node.min(1)).map(|_| net.dice.below(node)).collect();
            assert_eq!(
                net.join(node, &bootstraps),
                Outcome::Done,
                "size {size} seed {seed}"
            );
            net.settle(15_000);
        }
        net.converge();
    }
}

#[test]
fn members_that_join_all_at_once_form_one_ring() {
    for seed in 100..116 {
        let mut net = Network::new(seed);
        let count = 2 + net.dice.below(49);
        let members = net.add_members(count);
        net.start_join(0, &[]);
        for node in &members[1..] {
            let bootstrap = net.dice.below(*node);
            net.start_join(*node, &[bootstrap]);
        }
        net.settle(120_000);
        net.converge();
    }
}

#[test]
fn members_that_start_through_each_other_form_one_ring() {
    for seed in 200..220 {
        let mut net = Network::new(seed);
        let count = 2 + net.dice.below(9);
        let members = net.add_members(count);
        for node in &members {
            net.start_join(*node, &[(*node + 1) % count]);
        }
        net.settle(120_000);
        net.converge();
    }
}

#[test]
fn two_rings_of_one_merge_when_one_learns_of_the_other() {
    let mut net = Network::new(300);
    net.add_members(2);
    net.join(0, &[]);
    net.join(1, &[]);
    let record = net.with(1, |ring, cx| ring.own_record(cx).clone());
    net.with(0, |ring, cx| ring.learn(cx, record));
    net.settle(5_000);
}

#[test]
fn two_rings_merge_when_one_member_learns_of_one_other() {
    for seed in 400..410 {
        let mut net = Network::new(seed);
        let members = net.add_members(24);
        let (left, right) = members.split_at(10);
        for group in [left, right] {
            net.start_join(group[0], &[]);
            for node in &group[1..] {
                net.start_join(*node, &[group[0]]);
            }
        }
        net.run_for(20_000);
        let record = net.with(left[3], |ring, cx| ring.own_record(cx).clone());
        net.with(right[5], |ring, cx| ring.learn(cx, record));
        net.settle(60_000);
        net.converge();
    }
}

#[test]
fn lookups_find_the_responsible_member_from_everywhere() {
    let mut net = Network::ring_of(500, 50);
    net.run_for(30_000);
    let mut hops = 0;
    for from in 0..50 {
        let mut id = [0; 32];
        id.iter_mut().for_each(|byte| *byte = net.dice.below(256) as u8);
        let before = net.requests;
        let outcome = net.outcome(from, |ring, cx, command| ring.find_node(cx, command, Place(id)));
        hops += net.requests - before;
        let responsible = net.responsible(&id);
        assert_eq!(outcome, Outcome::Node(net.id(responsible)));
    }
    assert!(hops < 50 * 8, "{hops} requests for 50 lookups");
}

#[test]
fn losses_delay_the_ring_but_do_not_break_it() {
    for seed in 600..606 {
        let mut net = Network::new(seed);
        net.loss = 50;
        let members = net.add_members(12);
        net.start_join(0, &[]);
        net.run_for(100);
        for node in &members[1..] {
            net.start_join(*node, &[0]);
        }
        net.run_for(60_000);
        net.loss = 0;
        let unjoined: Vec<usize> = members
            .iter()
            .copied()
            .filter(|node| !net.nodes[*node].ring.is_joined())
            .collect();
        for node in unjoined {
            assert_eq!(net.join(node, &[0]), Outcome::Done);
        }
        net.settle(120_000);
        net.converge();
    }
}

#[test]
fn a_join_without_anybody_there_fails() {
    let mut net = Network::new(700);
    net.add_members(2);
    net.crash(1, true);
    assert_eq!(net.join(0, &[1]), Outcome::Failed(Code::NoBootstrap));
    let outcome = net.outcome(0, |ring, cx, command| ring.find_node(cx, command, Place([0; 32])));
    assert_eq!(outcome, Outcome::Failed(Code::NotJoined));
}
