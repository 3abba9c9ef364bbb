//! Nodes that leave in good order: providers are named no more, several at the same time, and who has left stays out.

use crate::support::rings::{join, publish, ring};
use crate::support::{Net, config, id_of};
use selfsame_codec::reply::{Status, decode_providers};
use selfsame_codec::{Code, Input, Role};

/// Longer than any attempt to reach a bootstrap lasts.
const GIVEN_UP_MS: u64 = 60_000;

/// Who a fresh find names.
fn found(net: &mut Net, index: usize, tag: u32) -> Vec<[u8; 32]> {
    let find = Input::Find {
        tag,
        owner: &[],
        name: "check",
    };
    net.step(index, &[find]);
    net.run_ms(2_000);
    let Some(body) = net.reply(index, tag) else {
        return Vec::new();
    };
    let providers = decode_providers(&body).expect("providers");
    providers.into_iter().map(|provider| provider.peer).collect()
}

/// Lets time pass until all that is under way has arrived; the hosts of nodes that have left close their paths.
fn settle(net: &mut Net, leavers: &[usize], ms: u64) {
    net.run_ms(ms);
    for index in leavers {
        if net.hosts[*index].up && net.reply(*index, 400).is_some() {
            net.kill(*index);
        }
    }
}

/// Three providers leave a ring at the same time; gives how many of them others name two seconds later.
fn named_after_leaving(size: u8, leavers: [usize; 3]) -> usize {
    let mut net = ring(size);
    for index in leavers {
        publish(&mut net, index, "check");
    }
    for index in leavers {
        net.step(index, &[Input::Leave { tag: 400 }]);
    }
    for _ in 0..20 {
        settle(&mut net, &leavers, 100);
    }
    for index in leavers {
        assert!(!net.hosts[index].up, "{index} of {size} leaves in time");
    }
    let others = (0..usize::from(size)).filter(|index| !leavers.contains(index));
    others
        .map(|index| found(&mut net, index, 500).len())
        .max()
        .unwrap_or_default()
}

#[test]
fn providers_that_leave_together_are_named_no_more() {
    let mut named = Vec::new();
    for size in [4, 5, 6, 8, 12] {
        let net = ring(size);
        let mut in_order: Vec<usize> = (0..usize::from(size)).collect();
        in_order.sort_by_key(|index| net.hosts[*index].id);
        for first in 0..usize::from(size) {
            let neighbours = [0, 1, 2].map(|n| in_order[(first + n) % in_order.len()]);
            let apart = [0, 1, 2].map(|n| (first + n * usize::from(size) / 3) % usize::from(size));
            for leavers in [neighbours, apart] {
                let count = named_after_leaving(size, leavers);
                named.extend((count > 0).then_some((size, leavers, count)));
            }
        }
    }
    assert!(named.is_empty(), "ring, who left, how many are named: {named:?}");
}

fn is_joined(net: &mut Net, index: usize) -> bool {
    net.step(index, &[Input::Status { tag: 200 }]);
    let body = net.reply(index, 200).expect("a status");
    Status::decode(&body).expect("a sound status").joined
}

/// The command `Leave`, and the time until nobody tries to reach a bootstrap any more.
fn assert_leaves_for_good(net: &mut Net, index: usize) {
    net.step(index, &[Input::Leave { tag: 400 }]);
    net.run_ms(GIVEN_UP_MS);
    assert!(net.reply(index, 400).is_some(), "it has left");
    assert!(!is_joined(net, index), "it is in the ring again");
}

#[test]
fn who_leaves_while_a_bootstrap_is_dialled_does_not_join() {
    let mut net = ring(4);
    let node = net.member(50, &[0]);
    net.step(node, &[Input::Join { tag: 300 }]);
    assert_leaves_for_good(&mut net, node);
    assert_eq!(net.failed(node, 300), Some(Code::Cancelled));
}

#[test]
fn who_has_left_stays_out_when_a_bootstrap_answers_late() {
    let mut net = ring(4);
    let node = net.member(50, &[0, 1]);
    net.step(node, &[Input::Join { tag: 300 }]);
    let late = net.flights.iter().position(|flight| flight.to == 1);
    let late = late.and_then(|at| net.flights.remove(at));
    net.run_ms(1_000);
    assert!(net.reply(node, 300).is_some(), "it has joined through the other");
    net.step(node, &[Input::Leave { tag: 301 }]);
    net.run_ms(2_000);
    net.flights.extend(late);
    net.run_ms(GIVEN_UP_MS);
    assert!(!is_joined(&mut net, node), "it is in the ring again");
}

#[test]
fn who_has_left_stays_out_when_a_bootstrap_is_given_up() {
    let mut net = ring(4);
    let dead = format!("ws://tarpit.example/.mesh#{}", id_of(99, "twiitr"));
    let node = net.add(config(50, Role::Member, &[net.pinned(0), dead]));
    join(&mut net, node);
    assert_leaves_for_good(&mut net, node);
}
