//! Nodes that are restored, copied or moved, or whose clock was wrong, find their place in the ring again.

use std::collections::BTreeMap;

use selfsame_codec::reply::{Status, decode_duplicate};
use selfsame_codec::{Code, EventKind, Input};

use crate::support::rings::{join, publish, ring};
use crate::support::{Net, Seen};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS as i64;
/// By then a ring must be right again after the last change.
const SETTLED_MS: u64 = 30_000;

type Store = BTreeMap<Vec<u8>, Vec<u8>>;

fn status(net: &mut Net, index: usize) -> Status {
    net.hosts[index]
        .seen
        .retain(|seen| !matches!(seen, Seen::Reply { tag: 200, .. }));
    net.step(index, &[Input::Status { tag: 200 }]);
    let body = net.reply(index, 200).expect("a status");
    Status::decode(&body).expect("a sound status")
}

/// Asserts that each of these members knows who stands next to it, and where.
fn assert_ring(net: &mut Net, members: &[usize]) {
    let mut order: Vec<usize> = members.to_vec();
    order.sort_by_key(|index| net.hosts[*index].id);
    for (at, index) in order.iter().enumerate() {
        let next = order[(at + 1) % order.len()];
        let status = status(net, *index);
        assert!(status.joined, "node {index} is in the ring");
        let successor = status.successors.first().expect("a successor");
        assert_eq!(successor.id, net.hosts[next].id.0, "after node {index}");
        assert_eq!(successor.addresses, [net.hosts[next].address.clone()]);
        let before = order[(at + order.len() - 1) % order.len()];
        let predecessor = status.predecessor.expect("a predecessor");
        assert_eq!(predecessor.id, net.hosts[before].id.0, "before node {index}");
    }
}

/// Stops a node and starts it with another store, at an address of its own or its old one.
fn start_from(net: &mut Net, index: usize, store: Store, address: Option<&str>) {
    net.kill(index);
    if let Some(address) = address {
        net.hosts[index].config.addresses = vec![address.into()];
        net.hosts[index].address = address.into();
    }
    net.hosts[index].store = store;
    net.restart(index);
    net.step(index, &[Input::Join { tag: 101 }]);
}

fn duplicates(net: &Net, index: usize) -> usize {
    let seen = net.hosts[index].seen.iter();
    let told = seen.filter_map(|seen| match seen {
        Seen::Event {
            event: EventKind::DuplicateIdentity,
            body,
        } => Some(decode_duplicate(body).expect("a sound event")),
        _ => None,
    });
    told.count()
}

fn stopped(net: &Net, index: usize) -> bool {
    net.failed(index, 0) == Some(Code::DuplicateIdentity)
}

#[test]
fn restored_node_signs_above_its_later_record() {
    let mut net = ring(5);
    let copy = net.hosts[2].store.clone();
    start_from(&mut net, 2, copy.clone(), None);
    net.run_ms(10 * MINUTE_MS);
    start_from(&mut net, 2, copy, None);
    net.run_ms(SETTLED_MS);
    assert_ring(&mut net, &[0, 1, 2, 3, 4]);
    assert_eq!(duplicates(&net, 2), 0);
}

#[test]
fn moved_node_restored_to_its_earlier_address_is_found_there() {
    let mut net = ring(5);
    let (copy, earlier) = (net.hosts[2].store.clone(), net.hosts[2].address.clone());
    let current = copy.clone();
    start_from(&mut net, 2, current, Some("ws://127.0.0.1:9002/.mesh"));
    net.run_ms(5 * MINUTE_MS);
    assert_ring(&mut net, &[0, 1, 2, 3, 4]);
    start_from(&mut net, 2, copy, Some(&earlier));
    net.run_ms(SETTLED_MS);
    assert_ring(&mut net, &[0, 1, 2, 3, 4]);
}

#[test]
fn later_of_two_runs_stops_and_the_earlier_stays() {
    let mut net = ring(5);
    let copy = net.hosts[2].store.clone();
    net.run_ms(MINUTE_MS);
    let mut config = net.hosts[2].config.clone();
    config.addresses = vec!["ws://127.0.0.1:9002/.mesh".into()];
    let clone = net.add_with(config, copy);
    net.step(clone, &[Input::Join { tag: 101 }]);
    net.run_ms(SETTLED_MS);
    assert!(stopped(&net, clone) && !stopped(&net, 2));
    assert!(duplicates(&net, clone) > 0 && duplicates(&net, 2) > 0);
    net.kill(clone);
    net.run_ms(SETTLED_MS);
    assert_ring(&mut net, &[0, 1, 2, 3, 4]);
}

#[test]
fn later_run_stays_when_it_takes_over() {
    let mut net = ring(5);
    let copy = net.hosts[2].store.clone();
    net.run_ms(MINUTE_MS);
    let mut config = net.hosts[2].config.clone();
    config.addresses = vec!["ws://127.0.0.1:9002/.mesh".into()];
    config.take_over = true;
    let clone = net.add_with(config, copy);
    net.step(clone, &[Input::Join { tag: 101 }]);
    net.run_ms(SETTLED_MS);
    assert!(stopped(&net, 2) && !stopped(&net, clone));
    net.kill(2);
    net.run_ms(SETTLED_MS);
    assert_ring(&mut net, &[0, 1, clone, 3, 4]);
}

#[test]
fn clone_that_ran_for_minutes_leaves_a_ring_that_forms_again() {
    let mut net = ring(5);
    let copy = net.hosts[2].store.clone();
    net.run_ms(MINUTE_MS);
    let mut config = net.hosts[2].config.clone();
    config.addresses = vec!["ws://127.0.0.1:9002/.mesh".into()];
    let clone = net.add_with(config, copy);
    net.step(clone, &[Input::Join { tag: 101 }]);
    net.run_ms(1_000);
    net.kill(clone);
    net.run_ms(SETTLED_MS);
    assert_ring(&mut net, &[0, 1, 2, 3, 4]);
}

#[test]
fn names_of_a_node_that_moved_and_was_restored_lead_to_it() {
    let mut net = ring(5);
    publish(&mut net, 2, "check");
    let (copy, earlier) = (net.hosts[2].store.clone(), net.hosts[2].address.clone());
    start_from(&mut net, 2, copy.clone(), Some("ws://127.0.0.1:9002/.mesh"));
    net.run_ms(1_000);
    publish(&mut net, 2, "check");
    net.run_ms(5 * MINUTE_MS);
    start_from(&mut net, 2, copy, Some(&earlier));
    net.run_ms(1_000);
    publish(&mut net, 2, "check");
    net.run_ms(SETTLED_MS);
    let called = crate::support::rings::call(&mut net, 4, "check", 400);
    assert_eq!(called.map(|(_, callee, _)| callee), Some(2));
}

#[test]
fn names_are_found_after_a_leave_and_an_older_copy() {
    let mut net = ring(5);
    publish(&mut net, 2, "check");
    let copy = net.hosts[2].store.clone();
    net.run_ms(MINUTE_MS);
    net.step(2, &[Input::Leave { tag: 102 }]);
    net.run_ms(5_000);
    start_from(&mut net, 2, copy, None);
    net.run_ms(1_000);
    publish(&mut net, 2, "check");
    net.run_ms(SETTLED_MS);
    assert_ring(&mut net, &[0, 1, 2, 3, 4]);
    let called = crate::support::rings::call(&mut net, 4, "check", 400);
    assert_eq!(called.map(|(_, callee, _)| callee), Some(2));
}

#[test]
fn clocks_that_were_all_wrong_leave_no_trace_once_corrected() {
    for (error_ms, lasts_ms) in [(HOUR_MS, 5 * MINUTE_MS), (48 * HOUR_MS, 30_000)] {
        let mut net = ring(5);
        for index in 0..5 {
            net.hosts[index].clock_error_ms = error_ms;
            net.step(index, &[]);
        }
        publish(&mut net, 2, "check");
        net.run_ms(lasts_ms);
        for index in 0..5 {
            net.hosts[index].clock_error_ms = 0;
            net.step(index, &[]);
        }
        net.run_ms(SETTLED_MS);
        assert_ring(&mut net, &[0, 1, 2, 3, 4]);
        let called = crate::support::rings::call(&mut net, 4, "check", 400);
        assert_eq!(called.map(|(_, callee, _)| callee), Some(2), "{error_ms} ms");
    }
}

#[test]
fn clock_that_was_wrong_leaves_no_trace_once_corrected() {
    for (error_ms, lasts_ms) in [
        (HOUR_MS, 5 * MINUTE_MS),
        (48 * HOUR_MS, 30_000),
        (-48 * HOUR_MS, 30_000),
    ] {
        let mut net = ring(5);
        publish(&mut net, 2, "check");
        net.hosts[2].clock_error_ms = error_ms;
        net.step(2, &[]);
        net.run_ms(lasts_ms);
        net.hosts[2].clock_error_ms = 0;
        net.step(2, &[]);
        net.run_ms(SETTLED_MS);
        assert_ring(&mut net, &[0, 1, 2, 3, 4]);
        let called = crate::support::rings::call(&mut net, 4, "check", 400);
        assert_eq!(called.map(|(_, callee, _)| callee), Some(2), "{error_ms} ms");
    }
}

#[test]
fn node_with_a_wrong_clock_is_told_so_when_it_joins() {
    for error_ms in [48 * HOUR_MS, -48 * HOUR_MS, 5 * MINUTE_MS as i64] {
        let mut net = ring(3);
        let late = net.member(9, &[0]);
        net.hosts[late].clock_error_ms = error_ms;
        net.restart(late);
        net.step(late, &[Input::Join { tag: 101 }]);
        net.run_ms(20_000);
        assert_eq!(net.failed(late, 101), Some(Code::WrongClock), "{error_ms} ms");
        assert!(!status(&mut net, late).joined);
        net.hosts[late].clock_error_ms = 0;
        net.step(late, &[]);
        net.run_ms(90_000);
        assert_ring(&mut net, &[0, 1, 2, late]);
    }
}

#[test]
fn replayed_own_records_do_not_make_a_node_sign_without_end() {
    let mut net = ring(3);
    let copy = net.hosts[1].store.clone();
    for _ in 0..5 {
        start_from(&mut net, 1, copy.clone(), None);
        net.run_ms(SETTLED_MS);
        let commits = net.hosts[1].commits;
        assert!(commits < 20, "{commits} commits in half a minute");
    }
    assert_ring(&mut net, &[0, 1, 2]);
    join(&mut net, 1);
}
