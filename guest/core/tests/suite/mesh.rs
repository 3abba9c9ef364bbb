//! Whole nodes: rings that form, services that are found and called, leaves, and nodes that fail.

use crate::support::rings::{HEAD, call, join, publish, ring, ring_over};
use crate::support::{Net, Seen};
use selfsame_codec::reply::{Status, decode_providers};
use selfsame_codec::{Code, EventKind, Input, PathKind, Policy};
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, NetworkId, PeerId};

fn status(net: &mut Net, index: usize) -> Status {
    net.step(index, &[Input::Status { tag: 200 }]);
    let body = net.reply(index, 200).expect("a status");
    net.hosts[index]
        .seen
        .retain(|seen| !matches!(seen, Seen::Reply { tag: 200, .. }));
    Status::decode(&body).expect("a sound status")
}

fn assert_one_ring(net: &mut Net, members: &[usize]) {
    let mut ids: Vec<[u8; 32]> = members.iter().map(|index| net.hosts[*index].id.0).collect();
    ids.sort_unstable();
    for index in members {
        let status = status(net, *index);
        let at = ids.iter().position(|id| *id == status.id).expect("a member");
        let next = ids[(at + 1) % ids.len()];
        let previous = ids[(at + ids.len() - 1) % ids.len()];
        if ids.len() > 1 {
            assert_eq!(
                status.successors.first().map(|node| node.id),
                Some(next),
                "successor of node {index}"
            );
            assert_eq!(
                status.predecessor.map(|node| node.id),
                Some(previous),
                "predecessor of node {index}"
            );
        }
    }
}

fn data(net: &Net, index: usize, stream: u32) -> Vec<u8> {
    let of_stream = |seen: &Seen| match seen {
        Seen::StreamData { stream: other, data } if *other == stream => data.clone(),
        _ => vec![],
    };
    net.hosts[index].seen.iter().flat_map(of_stream).collect()
}

#[test]
fn rings_of_every_small_size_close() {
    for size in 1..=8 {
        let mut net = ring(size);
        let members: Vec<usize> = (0..usize::from(size)).collect();
        assert_one_ring(&mut net, &members);
    }
}

#[test]
fn members_that_join_at_once_end_in_one_ring() {
    let mut net = Net::new();
    net.member(1, &[]);
    net.step(0, &[Input::Join { tag: 100 }]);
    for seed in 2..=10 {
        let index = net.member(seed, &[0]);
        net.step(index, &[Input::Join { tag: 100 }]);
    }
    net.run_ms(60_000);
    assert_one_ring(&mut net, &(0..10).collect::<Vec<_>>());
}

/// Ten commands to join, before and after the bootstrap was reached, that end in one way.
fn join_over_and_over(net: &mut Net, index: usize) -> Vec<Option<Code>> {
    for tag in 100..105 {
        net.step(index, &[Input::Join { tag }]);
    }
    net.run_ms(30);
    for tag in 105..110 {
        net.step(index, &[Input::Join { tag }]);
    }
    net.run_ms(20_000);
    let ended = |tag| net.reply(index, tag).is_some() || net.failed(index, tag).is_some();
    (100..110).for_each(|tag| assert!(ended(tag), "command {tag} is never answered"));
    (100..110).map(|tag| net.failed(index, tag)).collect()
}

#[test]
fn commands_to_join_that_meet_are_all_answered() {
    let mut net = ring(4);
    let member = net.member(50, &[0]);
    assert_eq!(join_over_and_over(&mut net, member), [None; 10]);
    let leaf = net.leaf(60, &[0]);
    assert_eq!(join_over_and_over(&mut net, leaf), [None; 10]);
    net.hosts[0].up = false;
    let late = net.member(70, &[0]);
    let failed = join_over_and_over(&mut net, late);
    assert!(failed.iter().all(Option::is_some), "{failed:?}");
}

#[test]
fn commands_to_join_of_a_member_without_sessions_are_all_answered() {
    let mut net = ring(4);
    let member = net.member(50, &[0]);
    join(&mut net, member);
    net.run_ms(5_000);
    net.cut(member);
    assert_eq!(join_over_and_over(&mut net, member), [None; 10]);
}

#[test]
fn two_nodes_that_name_each_other_as_bootstrap_meet() {
    let mut net = Net::new();
    net.member(1, &[]);
    net.member(2, &[0]);
    let pinned = net.pinned(1);
    net.hosts[0].config.bootstraps = vec![pinned];
    net.hosts[0].up = false;
    net.step(1, &[Input::Join { tag: 100 }]);
    net.run_ms(2_000);
    assert_eq!(net.failed(1, 100), Some(Code::DialFailed));
    net.restart(0);
    net.step(0, &[Input::Join { tag: 100 }]);
    net.run_ms(90_000);
    assert_one_ring(&mut net, &[0, 1]);
}

#[test]
fn a_service_is_found_and_called_and_its_stream_carries_bytes_both_ways() {
    let mut net = ring(4);
    publish(&mut net, 1, "check");
    net.step(
        3,
        &[Input::Find {
            tag: 5,
            owner: &[],
            name: "check",
        }],
    );
    net.run_ms(2_000);
    let providers = decode_providers(&net.reply(3, 5).expect("providers")).expect("sound providers");
    assert_eq!(
        providers.iter().map(|provider| provider.peer).collect::<Vec<_>>(),
        [net.hosts[1].id.0]
    );

    let (mine, callee, theirs) = call(&mut net, 3, "check", 6).expect("the call reaches its provider");
    assert_eq!(callee, 1);
    net.step(
        3,
        &[
            Input::StreamData {
                stream: mine,
                data: b"ping",
            },
            Input::StreamEnd { stream: mine },
        ],
    );
    net.deliver();
    assert_eq!(data(&net, 1, theirs), b"ping");
    assert!(net.hosts[1].seen.contains(&Seen::StreamEnd { stream: theirs }));
    net.step(
        1,
        &[
            Input::StreamData {
                stream: theirs,
                data: b"pong",
            },
            Input::StreamEnd { stream: theirs },
        ],
    );
    net.deliver();
    assert_eq!(data(&net, 3, mine), b"pong");
    assert!(net.hosts[3].seen.contains(&Seen::StreamEnd { stream: mine }));
}

#[test]
fn a_node_calls_the_service_that_it_serves_itself() {
    let mut net = ring(1);
    publish(&mut net, 0, "check");
    let (mine, callee, theirs) = call(&mut net, 0, "check", 6).expect("the call reaches the node itself");
    assert_eq!(callee, 0);
    net.step(
        0,
        &[
            Input::StreamData {
                stream: mine,
                data: b"ping",
            },
            Input::StreamEnd { stream: mine },
        ],
    );
    assert_eq!(data(&net, 0, theirs), b"ping");
    net.step(
        0,
        &[
            Input::StreamData {
                stream: theirs,
                data: b"pong",
            },
            Input::StreamEnd { stream: theirs },
        ],
    );
    assert_eq!(data(&net, 0, mine), b"pong");
}

#[test]
fn a_name_that_nobody_serves_has_no_provider() {
    let mut net = ring(3);
    net.step(
        2,
        &[Input::Call {
            tag: 5,
            owner: &[],
            name: "nobody",
            key: &[],
            tried: &[],
            policy: Policy::PowerOfTwo,
            timeout_ms: 0,
            head: HEAD,
        }],
    );
    net.run_ms(10_000);
    assert_eq!(net.failed(2, 5), Some(Code::NoProvider));
}

#[test]
fn an_owned_name_takes_the_grant_of_its_owner_for_this_peer() {
    let mut net = ring(3);
    let network = NetworkId::open("twiitr");
    let owner = Identity::of_owner(&[50; 32], network);
    let terms = Terms {
        name: "check".into(),
        peer: net.hosts[1].id,
        issued_ms: net.now_ms,
        expiry_ms: net.now_ms + 3_600_000,
        revoked: Vec::new(),
    };
    let grant = Grant::sign(&owner, terms).unwrap();
    let grant = grant.encoded().to_vec();
    for (index, expected) in [(0, Some(Code::BadGrant)), (1, None)] {
        net.step(
            index,
            &[Input::Publish {
                tag: 9,
                grant: &grant,
                name: "check",
                replicas: 2,
                version: "",
                weight: 1,
            }],
        );
        net.run_ms(5_000);
        assert_eq!(net.failed(index, 9), expected);
    }
    publish(&mut net, 2, "check");
    net.step(
        0,
        &[Input::Find {
            tag: 10,
            owner: &owner.public().0,
            name: "check",
        }],
    );
    net.run_ms(2_000);
    let providers = decode_providers(&net.reply(0, 10).expect("providers")).expect("sound providers");
    let peers: Vec<PeerId> = providers.iter().map(|provider| PeerId(provider.peer)).collect();
    assert_eq!(
        peers,
        [net.hosts[1].id],
        "who published the name without a grant does not serve the owned one"
    );
}

#[test]
fn a_leaf_is_reached_through_members_of_whom_the_caller_never_heard() {
    const MEMBERS: u8 = 60;
    let mut net = ring(MEMBERS);
    let leaf = net.leaf(100, &[0]);
    join(&mut net, leaf);
    publish(&mut net, leaf, "page");
    for (tag, bootstrap) in (500..).zip((0..usize::from(MEMBERS)).step_by(6)) {
        let caller = net.leaf(101 + bootstrap as u8, &[bootstrap]);
        join(&mut net, caller);
        let (_, callee, _) = call(&mut net, caller, "page", tag).expect("the leaf is reached");
        assert_eq!(callee, leaf);
    }
}

#[test]
fn a_leaf_serves_and_calls_through_its_members() {
    let mut net = ring(3);
    let leaf = net.leaf(60, &[0]);
    join(&mut net, leaf);
    let other = net.leaf(61, &[1]);
    join(&mut net, other);
    net.run_ms(5_000);
    assert_eq!(status(&mut net, leaf).relays.len(), 2);
    publish(&mut net, leaf, "page");
    for (caller, tag) in [(2, 7), (other, 8)] {
        let (mine, callee, theirs) = call(&mut net, caller, "page", tag).expect("the leaf is reached");
        assert_eq!(callee, leaf);
        net.step(
            leaf,
            &[Input::StreamData {
                stream: theirs,
                data: b"hello",
            }],
        );
        net.deliver();
        assert_eq!(data(&net, caller, mine), b"hello");
    }
}

#[test]
fn the_ring_heals_after_a_crash_and_takes_the_node_back() {
    let mut net = ring(4);
    publish(&mut net, 1, "check");
    publish(&mut net, 2, "check");
    net.kill(1);
    net.run_ms(8_000);
    assert_one_ring(&mut net, &[0, 2, 3]);
    let (_, callee, _) = call(&mut net, 3, "check", 6).expect("the other provider answers");
    assert_eq!(callee, 2);
    net.restart(1);
    join(&mut net, 1);
    net.run_ms(8_000);
    assert_one_ring(&mut net, &[0, 1, 2, 3]);
}

#[test]
fn what_a_service_streams_waits_for_its_reader() {
    let mut net = ring(2);
    publish(&mut net, 0, "big");
    let (mine, callee, theirs) = call(&mut net, 1, "big", 6).expect("the provider answers");
    let chunk = vec![1; 16 * 1024];
    for _ in 0..16 {
        net.step(
            callee,
            &[Input::StreamData {
                stream: theirs,
                data: &chunk,
            }],
        );
    }
    net.deliver();
    assert_eq!(data(&net, 1, mine).len(), 256 * 1024);
    net.step(
        callee,
        &[Input::StreamData {
            stream: theirs,
            data: &chunk,
        }],
    );
    assert!(net.hosts[callee].seen.contains(&Seen::Refused {
        input: 0,
        code: Code::OverCredit
    }));
    net.step(
        1,
        &[Input::StreamCredit {
            stream: mine,
            bytes: 128 * 1024,
        }],
    );
    net.deliver();
    assert!(net.hosts[callee].seen.contains(&Seen::StreamCredit {
        stream: theirs,
        bytes: 128 * 1024
    }));
}

#[test]
fn an_idle_ring_wakes_rarely_and_writes_nothing() {
    let mut net = ring(3);
    net.run_ms(300_000);
    let before: Vec<(u64, u64)> = net.hosts.iter().map(|host| (host.steps, host.commits)).collect();
    net.run_ms(600_000);
    for (host, (steps, commits)) in net.hosts.iter().zip(before) {
        println!("{} steps, {} commits", host.steps - steps, host.commits - commits);
        assert_eq!(host.commits, commits);
    }
}

#[test]
fn a_node_that_wakes_talks_on_where_it_was_and_dials_nobody() {
    let mut net = ring_over(PathKind::Hibernating, 3);
    net.run_ms(120_000);
    net.now_ms += 60_000;
    net.wake(0);
    net.run_ms(2_000);
    assert_eq!(net.hosts[0].dials, 0);
    let lost = |seen: &Seen| {
        matches!(
            seen,
            Seen::Event {
                event: EventKind::PeerDisconnected,
                ..
            }
        )
    };
    assert!(net.hosts.iter().all(|host| !host.seen.iter().any(lost)));
    assert_one_ring(&mut net, &[0, 1, 2]);
}

#[test]
fn a_request_that_was_under_way_when_its_session_ended_is_sent_once_more() {
    let mut net = ring(2);
    let id = net.hosts[1].id.0;
    net.step(0, &[Input::FindNode { tag: 300, id }]);
    assert!(!net.flights.is_empty(), "the other member is asked");
    net.cut(1);
    net.run_ms(1_000);
    assert!(net.reply(0, 300).is_some(), "{:?}", net.failed(0, 300));
}
