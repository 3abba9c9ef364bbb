//! The handshake between two nodes, and the attacks on it that must fail.

use crate::support::rings::HEAD;
use crate::support::strangers::{COOKIE, Outside, address};
use crate::support::{Net, Seen, config, id_of};
use selfsame_codec::{Code, EventKind, Input, PathKind, Role};
use selfsame_core::admission::Gate;
use selfsame_core::handshake::{CookieJar, INITIATION_BYTES, Initiation, Initiator, Responder};
use selfsame_core::identity::{Identity, NetworkId, PeerId};
use selfsame_core::random::Random;

fn gate(identity: &Identity) -> Gate {
    Gate::new(identity.network(), None)
}

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
    let lengths: Vec<usize> = net
        .recorded
        .iter()
        .take(3)
        .map(|(.., frame)| frame.len())
        .collect();
    assert_eq!(
        lengths,
        [1328, 1298, 146],
        "m1, m2 and an empty m3 have these sizes"
    );
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
    net.step(
        0,
        &[Input::Connect {
            tag: 1,
            peer: wrong.0,
            address: &address,
        }],
    );
    net.deliver();
    assert_eq!(net.failed(0, 1), Some(Code::WrongPeer));
    assert!(!net.connected(1, net.hosts[0].id));
}

#[test]
fn an_answer_for_another_initiator_is_refused() {
    // Misbinding: the attacker passes m1 on to a third node, which answers as itself.
    let network = NetworkId::open("twiitr");
    let identities = [1, 2, 3].map(|seed| Identity::recall(&[seed; 32], network, &[]));
    let [alice, bob, mallory] = &identities;
    let mut random = Random::new(&[5; 32]);
    let initiator = Initiator::new(alice, &mut random, Some(mallory.id()), 1);
    let frame: [u8; INITIATION_BYTES] = initiator.initiation().try_into().unwrap();
    let responder = Responder::new(bob, &mut random, &frame, 2).unwrap();
    assert_eq!(
        initiator
            .finish(alice, (&mut gate(alice), 0), responder.response())
            .err(),
        Some(Code::WrongPeer)
    );
}

#[test]
fn a_confirmation_for_another_responder_is_refused() {
    let network = NetworkId::open("twiitr");
    let identities = [1, 2, 3].map(|seed| Identity::recall(&[seed; 32], network, &[]));
    let [alice, bob, carol] = &identities;
    let mut random = Random::new(&[5; 32]);
    let initiator = Initiator::new(alice, &mut random, None, 1);
    let frame: [u8; INITIATION_BYTES] = initiator.initiation().try_into().unwrap();
    let bobs = Responder::new(bob, &mut random, &frame, 2).unwrap();
    let carols = Responder::new(carol, &mut random, &frame, 2).unwrap();
    let (_, confirmation) = initiator
        .finish(alice, (&mut gate(alice), 0), bobs.response())
        .unwrap();
    let confirmation = confirmation.seal(alice, b"hello");
    assert!(
        carols
            .finish(carol, (&mut gate(carol), 0), &confirmation)
            .is_err()
    );
    let confirmed = bobs.finish(bob, (&mut gate(bob), 0), &confirmation).unwrap();
    assert_eq!(
        (confirmed.secrets.peer, &confirmed.payload[..]),
        (alice.id(), &b"hello"[..])
    );
}

#[test]
fn an_unknown_version_and_an_unknown_suite_are_named() {
    for (at, code) in [(1, Code::WrongVersion), (2, Code::WrongSuite)] {
        let mut net = pair();
        let (peer, address) = (net.hosts[1].id.0, net.hosts[1].address.clone());
        net.step(
            0,
            &[Input::Connect {
                tag: 1,
                peer,
                address: &address,
            }],
        );
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
            net.step(
                0,
                &[Input::Connect {
                    tag: 1,
                    peer,
                    address: &address,
                }],
            );
            for number in 0.. {
                let Some(mut flight) = net.flights.pop_front() else {
                    break;
                };
                if number == message {
                    flight.frame[at] ^= 1;
                }
                net.step(
                    flight.to,
                    &[Input::Received {
                        path: flight.path,
                        frame: &flight.frame,
                    }],
                );
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
    assert!(!net.hosts.iter().any(|host| host.seen.iter().any(|seen| matches!(
        seen,
        Seen::Event {
            event: EventKind::PeerConnected,
            ..
        }
    ))));
}

#[test]
fn a_flood_of_half_open_handshakes_is_bounded_and_met_with_cookies() {
    let mut net = pair();
    let attacker = net.leaf(100, &[]);
    let target = net.hosts[0].id;
    let mut answers = [0; 17];
    for round in 0..300 {
        let (_, path) = net.link(attacker, 0);
        let frame = fresh_initiation(round, target);
        net.step(0, &[Input::Received { path, frame: &frame }]);
        while let Some(flight) = net.flights.pop_front() {
            answers[usize::from(flight.frame[0])] += 1;
        }
    }
    assert_eq!(
        (answers[2], answers[4]),
        (64, 236),
        "64 are answered, the others asked for a cookie"
    );
    net.connect(1, 0);
    assert!(
        net.connected(1, target),
        "an initiator that returns its cookie gets through"
    );
    assert!(
        net.recorded
            .iter()
            .any(|(_, to, _, frame)| *to == 1 && frame[0] == 4)
    );
}

#[test]
fn one_path_holds_few_half_open_handshakes() {
    let mut net = pair();
    let attacker = net.leaf(100, &[]);
    let target = net.hosts[0].id;
    let (_, path) = net.link(attacker, 0);
    for round in 0..10 {
        let frame = fresh_initiation(round, target);
        net.step(0, &[Input::Received { path, frame: &frame }]);
    }
    assert_eq!(net.logged(0, Code::TooManyHandshakes), 6);
}

/// m1 with a key of its own, as an attacker makes it.
fn fresh_initiation(round: u32, target: PeerId) -> Vec<u8> {
    let mut entropy = [7; 32];
    entropy[..4].copy_from_slice(&round.to_le_bytes());
    let mut random = Random::new(&entropy);
    let identity = Identity::recall(&[9; 32], NetworkId::open("twiitr"), &[]);
    Initiator::new(&identity, &mut random, Some(target), round + 1)
        .initiation()
        .to_vec()
}

fn parsed(frame: &[u8]) -> Initiation<'_> {
    Initiation::parse(frame).expect("m1")
}

/// A jar, m1 with its cookie of the time 0 and address, and randomness for more.
fn cookied(address: &str) -> (CookieJar, Vec<u8>, Random) {
    let mut random = Random::new(&[7; 32]);
    let mut jar = CookieJar::new(&mut random, 0);
    let mut frame = fresh_initiation(1, id_of(1, "twiitr"));
    let cookie = jar.cookie(&mut random, 0, address, &parsed(&frame));
    let at = frame.len() - cookie.len();
    frame[at..].copy_from_slice(&cookie);
    (jar, frame, random)
}

#[test]
fn a_cookie_of_another_address_or_message_does_not_help() {
    let (mut jar, one, mut random) = cookied("192.0.2.1:1");
    let mut other = fresh_initiation(2, id_of(1, "twiitr"));
    let at = other.len() - 32;
    other[at..].copy_from_slice(&one[at..]);
    let mut accepts = |address, frame: &[u8]| jar.accepts(&mut random, 0, address, &parsed(frame));
    assert!(accepts("192.0.2.1:1", &one));
    assert!(!accepts("192.0.2.2:1", &one));
    assert!(!accepts("192.0.2.1:1", &other));
}

#[test]
fn a_cookie_expires_within_a_minute() {
    // Whether the jar was asked for cookies meanwhile makes no difference.
    for asked_at_ms in [None, Some(29_999), Some(30_000), Some(59_999)] {
        for (now_ms, is_good) in [(29_999, true), (60_000, false), (36_000_000, false)] {
            let (mut jar, frame, mut random) = cookied("192.0.2.1");
            let initiation = parsed(&frame);
            if let Some(at_ms) = asked_at_ms.filter(|at_ms| *at_ms <= now_ms) {
                jar.cookie(&mut random, at_ms, "192.0.2.2", &initiation);
            }
            let accepted = jar.accepts(&mut random, now_ms, "192.0.2.1", &initiation);
            assert_eq!(
                accepted, is_good,
                "asked at {asked_at_ms:?}, returned at {now_ms}"
            );
        }
    }
}

#[test]
fn an_old_cookie_is_answered_with_another_one() {
    let mut net = pair();
    let outside = Outside::new(&mut net);
    let crowd = |net: &mut Net| {
        for n in 0..64 {
            assert!(outside.knock(net, 0, &address(n), n).is_some());
        }
    };
    crowd(&mut net);
    let (_, path) = outside.link(&mut net, 0, "192.0.2.1");
    let mut frame = fresh_initiation(1, net.hosts[0].id);
    let answer = |net: &mut Net, frame: &[u8]| {
        net.step(0, &[Input::Received { path, frame }]);
        outside.take(net).pop().expect("an answer")
    };
    let cookie = answer(&mut net, &frame);
    assert_eq!(cookie[0], COOKIE);
    let at = frame.len() - 32;
    frame[at..].copy_from_slice(&cookie[16..48]);
    net.now_ms += 60_000;
    // The clock alone is late: the half-open handshakes of before are over, and others take their place.
    crowd(&mut net);
    let (_, path) = outside.link(&mut net, 0, "192.0.2.1");
    net.step(0, &[Input::Received { path, frame: &frame }]);
    let again = outside.take(&mut net).pop().expect("an answer");
    assert_eq!(again[0], COOKIE);
    assert_ne!(again, cookie);
}

#[test]
fn one_network_cannot_hold_all_half_open_handshakes() {
    let mut net = pair();
    let outside = Outside::new(&mut net);
    let slow = outside.knock(&mut net, 0, "198.51.100.1", 9_999).expect("m2");
    for n in 0..1200_u16 {
        let from = format!("192.0.2.{}", n % 256);
        assert!(outside.knock(&mut net, 0, &from, n).is_some(), "{n}");
    }
    assert_eq!(
        net.counted(0, Code::TooManyPaths),
        1200 - 512,
        "what one network holds beyond half of the table is its own loss"
    );
    assert!(outside.confirm(&mut net, 0, slow).is_some());
    assert!(outside.enter(&mut net, 0, "198.51.100.2", 9_998).is_some());
    net.connect(1, 0);
    assert!(net.connected(1, net.hosts[0].id));
}

#[test]
fn many_networks_cannot_refuse_handshakes_to_others() {
    let mut net = pair();
    let outside = Outside::new(&mut net);
    for n in 0..1100_u16 {
        assert!(outside.knock(&mut net, 0, &address(n), n).is_some(), "{n}");
    }
    assert_eq!(net.counted(0, Code::TooManyPaths), 1100 - 1024);
    assert!(outside.enter(&mut net, 0, "198.51.100.2", 9_998).is_some());
}

#[test]
fn a_proxy_on_loopback_is_not_one_network() {
    let mut net = pair();
    let outside = Outside::new(&mut net);
    for n in 0..900_u16 {
        assert!(outside.knock(&mut net, 0, "127.0.0.1", n).is_some(), "{n}");
    }
    assert_eq!(net.counted(0, Code::TooManyPaths), 0);
}

#[test]
fn one_network_cannot_hold_all_idle_paths() {
    let mut net = pair();
    let outside = Outside::new(&mut net);
    let (mine, path) = outside.link(&mut net, 0, "198.51.100.1");
    let links: Vec<u32> = (0..1200)
        .map(|n| outside.link(&mut net, 0, &format!("192.0.2.{}", n % 256)).0)
        .collect();
    let open = links.iter().filter(|path| outside.has_path(&net, **path)).count();
    assert_eq!(open, 512, "half of all that have no session");
    assert!(outside.has_path(&net, mine));
    let half_open = outside.knock_on(&mut net, 0, (mine, path), 1).expect("m2");
    assert!(outside.confirm(&mut net, 0, half_open).is_some());
}

#[test]
fn message_3_with_a_wrong_signature_ends_the_handshake() {
    let mut net = pair();
    let outside = Outside::new(&mut net);
    let elsewhere = Identity::recall(&[9; 32], NetworkId::open("elsewhere"), &[]);
    let half_open = outside.knock(&mut net, 0, "192.0.2.1", 1).expect("m2");
    let path = half_open.path;
    let bad = half_open.confirmation.seal(&elsewhere, &[]);
    for _ in 0..100 {
        net.step(0, &[Input::Received { path, frame: &bad }]);
    }
    assert_eq!(
        net.counted(0, Code::BadSignature),
        1,
        "one verification for one handshake"
    );
}

#[test]
fn message_3_that_does_not_open_is_dropped() {
    let mut net = pair();
    let outside = Outside::new(&mut net);
    let half_open = outside.knock(&mut net, 0, "192.0.2.1", 1).expect("m2");
    let path = half_open.path;
    // By somebody who saw the numbers of the handshake and not its keys.
    let mut junk = fresh_initiation(1, id_of(1, "twiitr"))[..16].to_vec();
    junk[0] = 3;
    junk[8..12].copy_from_slice(&half_open.confirmation.peer_index().to_le_bytes());
    junk.resize(200, 0);
    net.step(0, &[Input::Received { path, frame: &junk }]);
    assert_eq!(net.counted(0, Code::BadHandshake), 1);
    assert!(outside.confirm(&mut net, 0, half_open).is_some());
}

#[test]
fn the_previous_receive_key_is_erased_on_time() {
    let mut net = pair();
    let outside = Outside::new(&mut net);
    let mut stranger = outside.enter(&mut net, 0, "192.0.2.1", 1).expect("a session");
    net.run_ms(3_600_000);
    let before_ms = net.hosts[0].wake_ms;
    outside.pong(&mut net, &mut stranger);
    assert_eq!(net.hosts[0].wake_ms, net.now_ms + 30_000, "it wakes for that");
    net.run_ms(30_000);
    assert_eq!(net.hosts[0].wake_ms, before_ms, "and then has nothing to do");
    assert!(outside.is_connected(&net, &stranger));
}

#[test]
fn a_key_that_leads_to_a_zero_secret_is_refused() {
    let mut net = pair();
    let attacker = net.leaf(100, &[]);
    let mut frame = fresh_initiation(1, net.hosts[0].id);
    let x25519 = 16 + 1184;
    frame[x25519..x25519 + 32].fill(0);
    let (_, path) = net.link(attacker, 0);
    net.step(0, &[Input::Received { path, frame: &frame }]);
    assert_eq!(net.logged(0, Code::BadHandshake), 1);
    assert!(net.flights.is_empty(), "nothing is answered");
}

#[test]
fn a_half_open_handshake_is_forgotten_in_time() {
    let mut net = pair();
    let (peer, address) = (net.hosts[1].id.0, net.hosts[1].address.clone());
    net.step(
        0,
        &[Input::Connect {
            tag: 1,
            peer,
            address: &address,
        }],
    );
    let first = net.flights.pop_front().expect("m1");
    net.step(
        1,
        &[Input::Received {
            path: first.path,
            frame: &first.frame,
        }],
    );
    let second = net.flights.pop_front().expect("m2");
    net.run_ms(20_000);
    net.step(
        0,
        &[Input::Received {
            path: second.path,
            frame: &second.frame,
        }],
    );
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
            net.step(
                1,
                &[Input::Received {
                    path: 2,
                    frame: &frame,
                }],
            );
        }
    }
    net.deliver();
    assert!(net.connected(0, net.hosts[1].id) && net.connected(1, net.hosts[0].id));
    assert!(net.logged(1, Code::BadFrame) > 0);
}

#[test]
fn packets_that_overtake_message_3_are_kept_for_it_on_paths_without_order() {
    for (kind, arrives) in [(PathKind::Exchange, true), (PathKind::Ordered, false)] {
        let mut net = pair();
        net.kind = kind;
        let (peer, address) = (net.hosts[1].id.0, net.hosts[1].address.clone());
        net.step(
            0,
            &[Input::Connect {
                tag: 1,
                peer,
                address: &address,
            }],
        );
        for _ in 0..2 {
            let flight = net.flights.pop_front().expect("m1, then m2");
            net.step(
                flight.to,
                &[Input::Received {
                    path: flight.path,
                    frame: &flight.frame,
                }],
            );
        }
        let call = Input::CallPeer {
            tag: 2,
            peer,
            owner: &[],
            name: "nobody",
            timeout_ms: 0,
            head: HEAD,
        };
        net.step(0, &[call]);
        net.flights.swap(0, 1);
        net.deliver();
        assert!(net.connected(1, net.hosts[0].id));
        assert_eq!(net.logged(1, Code::NoService), usize::from(arrives), "{kind:?}");
    }
}
