//! Strangers that try to crowd others out of a node's sessions, streams and relay paths.

use crate::support::rings::{call, join, publish, ring, ring_over};
use crate::support::strangers::{Outside, Stranger, address, identity, relayed};
use crate::support::{Net, Seen};
use selfsame_codec::reply::Status;
use selfsame_codec::{Class, Code, Input, PathKind};
use selfsame_core::admission::Gate;
use selfsame_core::channel::Frame;
use selfsame_core::handshake::Initiator;
use selfsame_core::identity::PeerId;
use selfsame_core::random::Random;

/// A member that serves a page, and strangers around it.
fn server() -> (Net, Outside) {
    let mut net = ring(2);
    publish(&mut net, 0, "page");
    let outside = Outside::new(&mut net);
    (net, outside)
}

/// Sessions of strangers, each with an open stream if `busy`.
fn crowd(
    net: &mut Net,
    outside: &Outside,
    seeds: impl Iterator<Item = u16>,
    from: impl Fn(u16) -> String,
    busy: bool,
) -> Vec<Stranger> {
    let mut strangers = Vec::new();
    for seed in seeds {
        let mut stranger = outside
            .enter(net, 0, &from(seed), seed)
            .unwrap_or_else(|| panic!("{seed} is refused"));
        if busy {
            outside.open(net, &mut stranger, 0, "page");
        }
        net.hosts[0].seen.clear();
        net.recorded.clear();
        strangers.push(stranger);
    }
    strangers
}

/// Lets time pass in which all strangers answer pings, and those that are active send a byte each 20 s.
fn wait_s(net: &mut Net, outside: &Outside, seconds: u64, silent: &mut [Stranger], active: &mut [Stranger]) {
    for second in 0..seconds {
        net.run_ms(1_000);
        for stranger in silent.iter_mut().chain(active.iter_mut()) {
            outside.pong(net, stranger);
        }
        for stranger in active.iter_mut().filter(|_| second % 20 == 0) {
            outside.send(net, stranger, 0, second / 20, b"x");
        }
        net.recorded.clear();
    }
}

#[test]
fn stalled_sessions_end_when_the_table_is_full() {
    let (mut net, outside) = server();
    let mut crowd = crowd(&mut net, &outside, 0..1020, address, true);
    wait_s(&mut net, &outside, 61, &mut crowd, &mut []);
    assert_eq!(
        outside.connected(&net, &crowd),
        1020,
        "idle event streams survive"
    );
    let newcomers: Vec<Option<Stranger>> = (2000..2040)
        .map(|seed| outside.enter(&mut net, 0, &address(seed), seed))
        .collect();
    assert!(newcomers.iter().all(Option::is_some));
    assert_eq!(outside.connected(&net, newcomers.iter().flatten()), 40);
    let late = net.leaf(60, &[0]);
    join(&mut net, late);
}

#[test]
fn sessions_in_use_survive_a_full_table() {
    let (mut net, outside) = server();
    let mut crowd = crowd(&mut net, &outside, 0..1020, address, true);
    let mut active: Vec<Stranger> = crowd.drain(..10).collect();
    wait_s(&mut net, &outside, 80, &mut crowd, &mut active);
    for seed in 2000..2500 {
        assert!(
            outside.enter(&mut net, 0, &address(seed), seed).is_some(),
            "{seed}"
        );
    }
    assert_eq!(outside.connected(&net, &active), 10);
}

#[test]
fn one_network_has_at_most_half_of_the_sessions() {
    for busy in [false, true] {
        let (mut net, outside) = server();
        let friends = crowd(&mut net, &outside, 0..50, address, busy);
        let network = |seed: u16| format!("192.0.2.{}", seed % 256);
        let mut strangers = crowd(&mut net, &outside, 1000..1700, network, busy);
        if busy {
            // Open streams keep their sessions until the table is full.
            strangers.extend(crowd(&mut net, &outside, 1700..2100, network, busy));
        } else {
            assert!(outside.connected(&net, &strangers) <= 512);
        }
        let late = crowd(&mut net, &outside, 50..150, address, busy);
        assert_eq!(outside.connected(&net, &friends), 50, "busy: {busy}");
        assert_eq!(outside.connected(&net, &late), 100, "busy: {busy}");
    }
}

#[test]
fn one_identity_has_at_most_half_of_the_sessions() {
    let (mut net, outside) = server();
    let friends = crowd(&mut net, &outside, 0..50, address, false);
    let strangers: Vec<Stranger> = (0..700)
        .map(|n| {
            outside
                .enter(&mut net, 0, &address(1000 + n), 999)
                .expect("a session")
        })
        .collect();
    assert!(outside.connected(&net, &strangers) <= 512);
    assert_eq!(outside.connected(&net, &friends), 50);
}

#[test]
fn overlapping_pieces_end_their_session() {
    let (mut net, outside) = server();
    let mut stranger = outside.enter(&mut net, 0, "192.0.2.1", 1).expect("a session");
    outside.open(&mut net, &mut stranger, 0, "page");
    outside.send(&mut net, &mut stranger, 0, 1, &[7; 16 * 1024]);
    assert_eq!(net.logged(0, Code::BadStream), 1);
    assert!(!outside.is_connected(&net, &stranger));
}

/// A node keeps 16 packets that overtook their m3: strangers who never confirm once kept all other peers' from being kept.
#[test]
fn strangers_take_no_place_of_packets_that_overtake() {
    let mut net = ring_over(PathKind::Exchange, 2);
    let outside = Outside::new(&mut net);
    for seed in 0..8 {
        let mut half_open = outside.knock(&mut net, 0, &address(seed), seed).expect("m2");
        for token in 0..4 {
            outside.overtake(&mut net, 0, &mut half_open, &Frame::Pong { token });
        }
    }
    let mut honest = outside.knock(&mut net, 0, "192.0.2.1", 100).expect("m2");
    // It ends the session as soon as m3 has come.
    let close = Frame::Close { class: Class::Usage };
    outside.overtake(&mut net, 0, &mut honest, &close);
    assert!(outside.confirm(&mut net, 0, honest).is_none());
}

#[test]
fn unread_bytes_of_all_sessions_are_bounded() {
    let (mut net, outside) = server();
    let mut friend = outside.enter(&mut net, 0, "198.51.100.1", 1).expect("a session");
    outside.open(&mut net, &mut friend, 0, "page");
    outside.send(&mut net, &mut friend, 0, 0, &[1; 16 * 1024]);
    let bytes = vec![0x55; 16 * 1024];
    let mut strangers = crowd(&mut net, &outside, 10..14, |_| "192.0.2.1".into(), false);
    for stream in 0..128_u32 {
        for stranger in &mut strangers {
            if outside.is_connected(&net, stranger) {
                outside.open(&mut net, stranger, 2 * stream, "page");
            }
            for n in 0..16 {
                if outside.is_connected(&net, stranger) {
                    outside.send(&mut net, stranger, 2 * stream, n * 16 * 1024, &bytes);
                }
            }
            net.recorded.clear();
            net.hosts[0].seen.clear();
        }
    }
    // Four times 32 MiB of which nothing is consumed: two sessions have room for as much.
    assert!(outside.connected(&net, &strangers) <= 2);
    assert!(outside.is_connected(&net, &friend));
}

/// A ring of three with a leaf that serves a page, and one of its relays.
fn leaf() -> (Net, Outside, usize, usize) {
    let mut net = ring(3);
    let leaf = net.leaf(60, &[0]);
    join(&mut net, leaf);
    net.run_ms(5_000);
    publish(&mut net, leaf, "page");
    net.step(leaf, &[Input::Status { tag: 200 }]);
    let status = Status::decode(&net.reply(leaf, 200).expect("a status")).expect("a sound status");
    let first = status.relays.first().expect("a relay").id;
    let relay = net.hosts.iter().position(|host| host.id.0 == first);
    let outside = Outside::new(&mut net);
    (net, outside, leaf, relay.expect("a member"))
}

/// Whether fresh callers reach the leaf, one through each member.
fn callers_reach(net: &mut Net, leaf: usize, seed: u8) -> Vec<bool> {
    (0..3)
        .map(|n| {
            let caller = net.leaf(seed + n, &[usize::from(n)]);
            join(net, caller);
            call(net, caller, "page", 9).is_some_and(|(_, callee, _)| callee == leaf)
        })
        .collect()
}

/// m1 for the leaf, as it travels through a relay.
fn initiation(seed: u16, target: PeerId) -> Vec<u8> {
    initiator(seed, target).initiation().to_vec()
}

fn initiator(seed: u16, target: PeerId) -> Initiator {
    let mut entropy = [0x3C; 32];
    entropy[..2].copy_from_slice(&seed.to_le_bytes());
    Initiator::new(&identity(seed), &mut Random::new(&entropy), Some(target), 77)
}

/// Has one stranger after another send the leaf a frame through the relay and leave; gives how many the relay turned away.
fn relay_crowd(
    net: &mut Net,
    outside: &Outside,
    (relay, leaf): (usize, usize),
    seeds: core::ops::Range<u16>,
    from: impl Fn(u16) -> String,
    frame: impl Fn(u16) -> Vec<u8>,
) -> usize {
    let peer = net.hosts[leaf].id;
    let mut turned_away = 0;
    for seed in seeds {
        let mut stranger = outside.enter(net, relay, &from(seed), seed).expect("a session");
        let frame = frame(seed);
        let packets = outside.say(net, &mut stranger, &Frame::Relay { peer, frame: &frame });
        let answers = relayed(&mut stranger, net.now_ms, &packets);
        turned_away += answers.iter().filter(|(_, frame)| frame.is_empty()).count();
        outside.leave(net, &stranger);
        net.recorded.clear();
    }
    turned_away
}

#[test]
fn frames_of_no_handshake_open_no_path_at_a_leaf() {
    let (mut net, outside, leaf, relay) = leaf();
    relay_crowd(&mut net, &outside, (relay, leaf), 0..1100, address, |_| {
        vec![2; 20]
    });
    assert_eq!(callers_reach(&mut net, leaf, 100), [true; 3]);
    assert_eq!(net.counted(leaf, Code::TooManyPaths), 0);
    assert_eq!(net.counted(leaf, Code::NoRoute), 1100);
}

#[test]
fn one_network_cannot_cut_off_a_leaf() {
    let (mut net, outside, leaf, relay) = leaf();
    let target = net.hosts[leaf].id;
    let network = |seed: u16| format!("192.0.2.{}", seed % 256);
    let turned_away = relay_crowd(&mut net, &outside, (relay, leaf), 0..1100, network, |seed| {
        initiation(seed, target)
    });
    assert_eq!(turned_away, 1100 - 13, "a fifth of what a relay introduces");
    let through = relay_crowd(&mut net, &outside, (relay, leaf), 2000..2010, address, |seed| {
        initiation(seed, target)
    });
    assert_eq!(through, 0, "others are introduced meanwhile");
    assert_eq!(callers_reach(&mut net, leaf, 100), [true; 3]);
    net.run_ms(2_000);
    let later = relay_crowd(&mut net, &outside, (relay, leaf), 3000..3013, network, |seed| {
        initiation(seed, target)
    });
    assert_eq!(later, 0, "introductions are over after a while");
}

#[test]
fn networks_by_turns_push_no_caller_out_at_a_leaf() {
    let (mut net, outside, leaf, relay) = leaf();
    let peer = net.hosts[leaf].id;
    let mut honest = outside
        .enter(&mut net, relay, &address(1), 100)
        .expect("a session");
    let handshake = initiator(100, peer);
    let m1 = handshake.initiation();
    let packets = outside.say(&mut net, &mut honest, &Frame::Relay { peer, frame: m1 });
    let m2 = relayed(&mut honest, net.now_ms, &packets).remove(0).1;
    let networks = |seed: u16| ["192.0.2.1", "198.51.100.1"][usize::from(seed % 2)].to_string();
    let turned_away = relay_crowd(&mut net, &outside, (relay, leaf), 3000..3160, networks, |seed| {
        initiation(seed, peer)
    });
    assert_eq!(
        turned_away,
        160 - 22,
        "less than a fifth of what a relay introduces, each"
    );
    let (_, confirmation) = handshake
        .finish(
            &identity(100),
            (&mut Gate::new(identity(100).network(), None), 0),
            &m2,
        )
        .expect("m2");
    let m3 = confirmation.seal(&identity(100), &[]);
    outside.say(&mut net, &mut honest, &Frame::Relay { peer, frame: &m3 });
    assert!(net.connected(leaf, identity(100).id()));
}

#[test]
fn many_networks_cannot_cut_off_a_leaf() {
    let (mut net, outside, leaf, relay) = leaf();
    let caller = net.leaf(90, &[relay]);
    join(&mut net, caller);
    let (mine, callee, theirs) = call(&mut net, caller, "page", 7).expect("a call");
    assert_eq!(callee, leaf);
    let target = net.hosts[leaf].id;
    relay_crowd(&mut net, &outside, (relay, leaf), 0..1100, address, |seed| {
        initiation(seed, target)
    });
    let data = b"still there";
    net.step(caller, &[Input::StreamData { stream: mine, data }]);
    net.deliver();
    assert!(
        net.hosts[leaf]
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::StreamData { stream, data } if *stream == theirs && data == b"still there")),
        "a path with a session is not evicted"
    );
    assert_eq!(callers_reach(&mut net, leaf, 100), [true; 3]);
    assert_eq!(net.counted(leaf, Code::TooManyPaths), 0, "no path is refused");
}
