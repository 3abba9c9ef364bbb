//! The handshake between two nodes, and the attacks on it that must fail.

mod support;

use selfsame_codec::{Code, EventKind, Input, PathKind, Role};
use support::{Net, Seen, config, id_of};

fn pair() -> Net {
    let mut net = Net::new();
    net.member(1, &[]);
    net.member(2, &[]);
    net
}

#[test]
fn two_nodes_agree_and_know_each_other() {
    let mut net = pair();
    net.connect(0, 1);
    let (a, b) = (net.hosts[0].id, net.hosts[1].id);
    assert_eq!(net.reply(0, 1), Some(b.0.to_vec()));
    assert!(net.connected(0, b));
    assert!(net.connected(1, a));
    let lengths: Vec<usize> = net.recorded.iter().take(3).map(|(.., frame)| frame.len()).collect();
    assert_eq!(lengths, [1328, 1282, 130], "m1, m2 and an empty m3 have these sizes");
}

#[test]
fn another_network_is_named() {
    let mut net = Net::new();
    net.member(1, &[]);
    let mut other = config(2, Role::Member, &[]);
    other.network = "other".into();
    net.add(other);
    net.connect(0, 1);
    assert_eq!(net.failed(0, 1), Some(Code::WrongNetwork));
    assert!(net.logged(1, Code::WrongNetwork) > 0);
}

#[test]
fn a_bootstrap_that_lies_about_its_id_is_refused() {
    let mut net = pair();
    let address = net.hosts[1].address.clone();
    let wrong = id_of(9, "twiitr");
    net.step(0, &[Input::Connect { tag: 1, peer: wrong.0, address: &address }]);
    net.deliver();
    assert_eq!(net.failed(0, 1), Some(Code::WrongPeer));
    assert!(!net.connected(1, net.hosts[0].id));
}

#[test]
fn an_answer_from_another_peer_than_the_target_is_refused_by_the_initiator_itself() {
    let mut net = Net::new();
    net.member(1, &[]);
    net.member(2, &[]);
    net.member(3, &[]);
    let wrong = net.hosts[2].id;
    let (path, peer_path) = net.link(0, 1, None);
    net.step(0, &[Input::Connect { tag: 1, peer: wrong.0, address: "ws://nowhere/" }]);
    let _ = (path, peer_path);
    assert_eq!(net.failed(0, 1), Some(Code::DialFailed));
}

#[test]
fn an_unknown_version_and_an_unknown_suite_are_named() {
    for (at, code) in [(1, Code::WrongVersion), (2, Code::WrongSuite)] {
        let mut net = pair();
        let (peer, address) = (net.hosts[1].id.0, net.hosts[1].address.clone());
        net.step(0, &[Input::Connect { tag: 1, peer, address: &address }]);
        net.flights[0].frame[at] = 9;
        net.deliver();
        assert_eq!(net.failed(0, 1), Some(code));
        assert_eq!(net.logged(1, code), 1);
    }
}

#[test]
fn a_flipped_bit_anywhere_ends_no_handshake_in_a_session() {
    for (message, len) in [(0, 1328), (1, 1282), (2, 130)] {
        for at in (0..len).step_by(41) {
            let mut net = pair();
            let (peer, address) = (net.hosts[1].id.0, net.hosts[1].address.clone());
            net.step(0, &[Input::Connect { tag: 1, peer, address: &address }]);
            for number in 0.. {
                let Some(mut flight) = net.flights.pop_front() else { break };
                if number == message {
                    flight.frame[at] ^= 1;
                }
                net.step(flight.to, &[Input::Received { path: flight.path, frame: &flight.frame }]);
            }
            // Message 3 completes the initiator's side before the responder has seen it.
            assert!(!net.connected(1, net.hosts[0].id), "message {message}, byte {at}");
            if message < 2 {
                assert!(!net.connected(0, net.hosts[1].id), "message {message}, byte {at}");
            }
        }
    }
}

#[test]
fn replayed_messages_make_no_session_and_do_not_end_one() {
    let mut net = pair();
    net.connect(0, 1);
    let recorded = net.recorded.clone();
    for (_, to, path, frame) in recorded.iter().take(3) {
        net.step(*to, &[Input::Received { path: *path, frame }]);
        net.deliver();
    }
    for (index, peer) in [(0, 1), (1, 0)] {
        let peer = net.hosts[peer].id;
        let connects = net.hosts[index].seen.iter().filter(|seen| {
            matches!(seen, Seen::Event { event: EventKind::PeerConnected | EventKind::PeerDisconnected, body } if body[..] == peer.0)
        });
        assert_eq!(connects.count(), 1);
    }
}

#[test]
fn messages_sent_back_to_their_sender_are_refused() {
    let mut net = pair();
    net.connect(0, 1);
    net.hosts.iter_mut().for_each(|host| host.seen.clear());
    let reflected: Vec<(usize, usize, u32, Vec<u8>)> = net.recorded.clone();
    for (from, _, _, frame) in reflected {
        let path = 2;
        net.step(from, &[Input::Received { path, frame: &frame }]);
    }
    net.deliver();
    assert!(!net.hosts.iter().any(|host| host.seen.iter().any(|seen| matches!(seen, Seen::Event { event: EventKind::PeerConnected, .. }))));
}

#[test]
fn a_flood_of_half_open_handshakes_is_bounded_and_met_with_cookies() {
    let mut net = Net::new();
    net.member(1, &[]);
    let target = net.hosts[0].id;
    let mut cookies = 0;
    let attackers: Vec<usize> = (0..40).map(|seed| net.leaf(100 + seed, &[])).collect();
    for attacker in &attackers {
        let address = net.hosts[0].address.clone();
        for tag in 0..4 {
            net.step(*attacker, &[Input::Connect { tag, peer: target.0, address: &address }]);
        }
    }
    // Only first messages arrive; what the victim answers is looked at and dropped.
    while let Some(flight) = net.flights.pop_front() {
        if flight.to == 0 {
            net.step(0, &[Input::Received { path: flight.path, frame: &flight.frame }]);
        } else if flight.frame[0] == 4 {
            cookies += 1;
        }
    }
    assert_eq!(cookies, 0, "forty attackers with one path each stay below the threshold");
    for round in 0_u32..200 {
        let (path, frame) = (10_000 + round, fresh_initiation(round, target));
        net.step(0, &[Input::PathOpened { path, dial: 0, kind: PathKind::Ordered, remote: "192.0.2.1:1" }]);
        net.step(0, &[Input::Received { path, frame: &frame }]);
    }
    let honest = net.member(2, &[]);
    net.connect(honest, 0);
    assert!(net.connected(honest, target), "an initiator that returns its cookie gets through");
}

/// m1 with a key of its own, as an attacker makes it.
fn fresh_initiation(round: u32, target: selfsame_core::identity::PeerId) -> Vec<u8> {
    let mut net = Net::new();
    net.leaf(200, &[]);
    net.hosts[0].config.entropy = [0; 32];
    let mut entropy = [7; 32];
    entropy[..4].copy_from_slice(&round.to_le_bytes());
    net.step(0, &[Input::Entropy { bytes: entropy }]);
    net.step(0, &[Input::Connect { tag: 1, peer: target.0, address: "ws://x/" }]);
    net.step(0, &[Input::PathOpened { path: 5, dial: 1, kind: PathKind::Ordered, remote: "x" }]);
    let _ = &net;
    net.recorded.first().map(|(.., frame)| frame.clone()).unwrap_or_default()
}

#[test]
fn a_half_open_handshake_is_forgotten_in_time() {
    let mut net = pair();
    let (peer, address) = (net.hosts[1].id.0, net.hosts[1].address.clone());
    net.step(0, &[Input::Connect { tag: 1, peer, address: &address }]);
    let first = net.flights.pop_front().expect("m1");
    net.step(1, &[Input::Received { path: first.path, frame: &first.frame }]);
    let second = net.flights.pop_front().expect("m2");
    net.run_ms(20_000);
    net.step(0, &[Input::Received { path: second.path, frame: &second.frame }]);
    net.deliver();
    assert!(!net.connected(1, net.hosts[0].id));
    assert_eq!(net.failed(0, 1), Some(Code::TimedOut));
}

#[test]
fn random_truncated_and_oversized_frames_disturb_nobody() {
    let mut net = pair();
    net.connect(0, 1);
    let mut state = 1_u32;
    for len in [0, 1, 15, 16, 31, 32, 33, 1327, 1328, 1329, 70_000] {
        for kind in 0..=17 {
            let mut frame: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            if let Some(first) = frame.first_mut() {
                *first = kind;
            }
            net.step(1, &[Input::Received { path: 2, frame: &frame }]);
        }
    }
    net.deliver();
    assert!(net.connected(0, net.hosts[1].id) && net.connected(1, net.hosts[0].id));
    assert!(net.logged(1, Code::BadFrame) > 0);
}
