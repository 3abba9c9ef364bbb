//! The ring after members crash, leave, come back, or are cut off.

use selfsame_codec::Role;
use selfsame_core::Place;

use super::network::{Network, Outcome, START_MS, service};

#[test]
fn the_ring_closes_after_any_one_member_crashes() {
    for seed in 0..12 {
        for loud in [true, false] {
            let mut net = Network::ring_of(seed, 8);
            let victim = net.dice.below(8);
            net.crash(victim, loud);
            let took_ms = net.settle(60_000);
            if loud {
                assert!(took_ms < 5_000, "{took_ms} ms, seed {seed}");
            }
            net.converge();
        }
    }
}

#[test]
fn the_ring_closes_after_neighbours_crash_at_once() {
    for seed in 100..112 {
        let mut net = Network::ring_of(seed, 20);
        let members = net.members();
        let start = net.dice.below(20);
        let count = 2 + net.dice.below(8);
        for step in 0..count {
            let loud = net.dice.below(2) == 0;
            net.crash(members[(start + step) % 20], loud);
        }
        net.settle(60_000);
        net.converge();
    }
}

#[test]
fn rings_of_two_and_three_shrink_to_one() {
    for count in [2, 3] {
        for loud in [true, false] {
            let mut net = Network::ring_of(200, count);
            for victim in 1..count {
                net.crash(victim, loud);
            }
            net.settle(60_000);
            assert!(net.nodes[0].ring.successors().is_empty());
            let own = net.id(0);
            let outcome = net.outcome(0, |ring, cx, command| ring.find_node(cx, command, Place([7; 32])));
            assert_eq!(outcome, Outcome::Node(own));
        }
    }
}

#[test]
fn a_member_that_restarts_is_accepted_at_once() {
    for seed in 300..306 {
        for keep_store in [true, false] {
            let mut net = Network::ring_of(seed, 7);
            let victim = 1 + net.dice.below(6);
            net.crash(victim, true);
            if net.dice.below(2) == 0 {
                net.settle(60_000);
            }
            net.run_for(10);
            net.restart(victim, keep_store);
            assert_eq!(net.join(victim, &[0]), Outcome::Done, "seed {seed}");
            let took_ms = net.settle(30_000);
            assert!(took_ms < 10_000, "{took_ms} ms, seed {seed}");
            net.converge();
        }
    }
}

#[test]
fn a_member_that_restarts_finds_the_ring_without_its_bootstrap() {
    let mut net = Network::ring_of(400, 6);
    net.run_for(120_000);
    net.crash(3, true);
    net.settle(30_000);
    net.restart(3, true);
    assert_eq!(net.join(3, &[]), Outcome::Done);
    net.settle(30_000);
}

#[test]
fn a_whole_ring_that_restarts_comes_back_from_its_stores() {
    let mut net = Network::ring_of(450, 6);
    net.run_for(120_000);
    for node in 0..6 {
        net.crash(node, false);
    }
    net.run_for(1_000);
    for node in 0..6 {
        net.restart(node, true);
    }
    for node in 0..6 {
        net.start_join(node, &[]);
    }
    net.settle(60_000);
}

#[test]
fn a_member_that_leaves_is_replaced_without_delay() {
    // Enough for each message to be overtaken by each other one.
    for seed in 500..600 {
        let mut net = Network::ring_of(seed, 9);
        let leaver = net.dice.below(9);
        let outcome = net.outcome(leaver, |ring, cx, command| ring.leave(cx, command));
        assert_eq!(outcome, Outcome::Done);
        assert!(!net.nodes[leaver].ring.is_joined());
        net.nodes[leaver].is_alive = false;
        let took_ms = net.settle(30_000);
        assert!(took_ms < 2_000, "{took_ms} ms, seed {seed}");
        net.converge();
    }
}

#[test]
fn all_members_can_leave_one_after_the_other() {
    let mut net = Network::ring_of(600, 5);
    for leaver in 0..5 {
        let outcome = net.outcome(leaver, |ring, cx, command| ring.leave(cx, command));
        assert_eq!(outcome, Outcome::Done);
        net.nodes[leaver].is_alive = false;
        net.settle(30_000);
    }
}

#[test]
fn a_partition_makes_two_rings_that_merge_again() {
    for seed in 700..704 {
        let mut net = Network::ring_of(seed, 16);
        let (left, right): (Vec<usize>, Vec<usize>) = (0..16).partition(|node| node % 3 == 0);
        net.wall(&left, &right, true);
        net.run_for(200_000);
        for group in [&left, &right] {
            let mut group = group.clone();
            group.sort_by_key(|node| net.id(*node));
            assert_eq!(net.fault_among(&group, 16), None, "seed {seed}");
        }
        net.wall(&left, &right, false);
        net.settle(300_000);
        net.converge();
    }
}

#[test]
fn a_member_that_stood_still_without_noticing_is_asked_whether_it_is_back() {
    for seed in 750..800 {
        let mut net = Network::new(seed);
        let count = 3 + net.dice.below(10);
        for node in 0..count {
            // As in a Durable Object, and in a server.
            let idle_ms = if node == 1 { 75_000 } else { 15_000 };
            net.add_with(Role::Member, |settings| settings.idle_ms = idle_ms);
            let bootstraps: Vec<usize> = if node == 0 { Vec::new() } else { vec![0] };
            assert_eq!(net.join(node, &bootstraps), Outcome::Done);
        }
        net.run_for(300_000);
        let others: Vec<usize> = (0..count).filter(|node| *node != 1).collect();
        net.wall(&[1], &others, true);
        let stood_ms = 5_000 + net.dice.below(15_000) as u64;
        net.run_for(stood_ms);
        net.wall(&[1], &others, false);
        let took_ms = net.settle(90_000);
        assert!(took_ms < 16_000, "{took_ms} ms after {stood_ms}, seed {seed}");
    }
}

#[test]
fn joins_and_crashes_at_random_end_in_one_ring() {
    for seed in 800..812 {
        let mut net = Network::ring_of(seed, 10);
        for _ in 0..30 {
            let members = net.members();
            let pause_ms = net.dice.below(3_000) as u64;
            if members.len() > 5 && net.dice.below(2) == 0 {
                let victim = members[net.dice.below(members.len())];
                let loud = net.dice.below(2) == 0;
                net.crash(victim, loud);
            } else {
                let newcomer = net.add_members(1)[0];
                let bootstrap = members[net.dice.below(members.len())];
                net.start_join(newcomer, &[bootstrap]);
            }
            net.run_for(pause_ms);
        }
        net.run_for(20_000);
        let alive = (0..net.nodes.len()).filter(|node| net.nodes[*node].is_alive);
        let unjoined: Vec<usize> = alive.filter(|node| !net.nodes[*node].ring.is_joined()).collect();
        for node in unjoined {
            let bootstrap = net.members()[0];
            assert_eq!(net.join(node, &[bootstrap]), Outcome::Done, "seed {seed}");
        }
        net.settle(120_000);
        net.converge();
    }
}

#[test]
fn an_idle_member_wakes_once_an_interval_and_writes_nothing() {
    let mut net = Network::new(900);
    for node in 0..3 {
        net.add_with(Role::Member, |settings| settings.idle_ms = 60_000);
        let bootstraps: Vec<usize> = if node == 0 { Vec::new() } else { vec![0] };
        assert_eq!(net.join(node, &bootstraps), Outcome::Done);
    }
    net.run_to(START_MS + 600_000);
    let before: Vec<(usize, usize)> = net.nodes.iter().map(|node| (node.wakes, node.writes)).collect();
    let requests = net.requests;
    net.run_for(600_000);
    for (node, (wakes, writes)) in net.nodes.iter().zip(before) {
        assert!(node.wakes - wakes <= 10, "{} wake-ups", node.wakes - wakes);
        assert_eq!(node.writes, writes);
    }
    assert!(
        net.requests - requests <= 3 * 10 * 2,
        "{} requests",
        net.requests - requests
    );
}

#[test]
fn a_member_that_sleeps_between_rounds_costs_one_round_and_no_writes() {
    let mut net = Network::new(1000);
    for node in 0..3 {
        net.add_with(Role::Member, |settings| settings.idle_ms = 60_000);
        let bootstraps: Vec<usize> = if node == 0 { Vec::new() } else { vec![0] };
        assert_eq!(net.join(node, &bootstraps), Outcome::Done);
    }
    let publish = |net: &mut Network| {
        let outcome = net.outcome(1, |ring, cx, command| {
            ring.publish(cx, command, service("check", 1))
        });
        assert_eq!(outcome, Outcome::Done);
    };
    publish(&mut net);
    net.run_for(200_000);
    let writes = |net: &Network| -> usize { net.nodes.iter().map(|node| node.writes).sum() };
    let before = (writes(&net), net.requests);
    for _ in 0..10 {
        // Its memory is gone, and the application does at each start what it did at the first.
        net.forget(1);
        assert!(net.nodes[1].ring.is_joined());
        assert_eq!(net.join(1, &[0]), Outcome::Done);
        publish(&mut net);
        net.run_for(60_000);
        assert_eq!(net.fault(16), None);
    }
    assert_eq!(writes(&net), before.0);
    let requests = net.requests - before.1;
    assert!(requests <= 3 * 10 * 3, "{requests} requests in ten minutes");
}

#[test]
fn records_are_renewed_before_they_expire() {
    let mut net = Network::new(1100);
    for node in 0..5 {
        net.add_with(Role::Member, |settings| settings.idle_ms = 600_000);
        let bootstraps: Vec<usize> = if node == 0 { Vec::new() } else { vec![0] };
        assert_eq!(net.join(node, &bootstraps), Outcome::Done);
    }
    let leaf = net.add_with(Role::Leaf, |settings| settings.idle_ms = 600_000);
    assert_eq!(net.join(leaf, &[0]), Outcome::Done);
    let id = net.id(leaf);
    net.run_for(3_600_000);
    let changes: Vec<usize> = net.nodes.iter().map(|node| node.changes).collect();
    net.run_for(72 * 3_600_000);
    assert_eq!(net.fault(16), None);
    assert_eq!(
        net.nodes.iter().map(|node| node.changes).collect::<Vec<usize>>(),
        changes
    );
    assert_eq!(net.nodes[leaf].ring.relays().len(), 2);
    let relays = net.members();
    let relays = relays
        .iter()
        .filter(|node| net.nodes[**node].ring.relays_for(&id));
    for relay in relays.copied().collect::<Vec<usize>>() {
        let record = net.nodes[relay].ring.record_of(&id).expect("the leaf's record");
        assert!(record.is_current(net.now_ms));
    }
}
