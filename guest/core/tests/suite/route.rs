//! Messages that members pass on to one another, and what strangers and members that drop them can do.

use crate::support::rings::ring;
use crate::support::strangers::{Outside, REJECT, Stranger, address, identity};
use crate::support::{Net, Seen, closed};
use selfsame_codec::{Code, Input, Role};
use selfsame_core::channel::{Frame, MAX_MESSAGE, Route};
use selfsame_core::handshake::Initiator;
use selfsame_core::identity::PeerId;
use selfsame_core::random::Random;

const MAX_HOPS: u8 = 32;

/// Sends a message to whoever is responsible.
fn send(net: &mut Net, from: usize, tag: u32, target: [u8; 32], body: &[u8]) {
    route(net, from, tag, target, false, body);
}

fn route(net: &mut Net, from: usize, tag: u32, target: [u8; 32], is_peer: bool, body: &[u8]) {
    net.step(
        from,
        &[Input::Route {
            tag,
            target,
            is_peer,
            timeout_ms: 0,
            body,
        }],
    );
}

/// Answers each message with its body, backwards; gives who was asked, how often.
fn answer(net: &mut Net) -> Vec<usize> {
    let mut asked = Vec::new();
    for index in 0..net.hosts.len() {
        for (message, body) in take_routed(net, index) {
            asked.push(index);
            let body: Vec<u8> = body.into_iter().rev().collect();
            answer_with(net, index, message, &body);
        }
    }
    asked
}

fn answer_with(net: &mut Net, index: usize, message: u32, body: &[u8]) {
    net.step(
        index,
        &[Input::AnswerRouted {
            message,
            ok: true,
            body,
        }],
    );
}

/// The messages that were given to a member's application.
fn take_routed(net: &mut Net, index: usize) -> Vec<(u32, Vec<u8>)> {
    let seen = core::mem::take(&mut net.hosts[index].seen);
    let (routed, rest): (Vec<Seen>, Vec<Seen>) = seen
        .into_iter()
        .partition(|seen| matches!(seen, Seen::Routed(..)));
    net.hosts[index].seen = rest;
    let parts = routed.into_iter().filter_map(|seen| match seen {
        Seen::Routed(message, body) => Some((message, body)),
        _ => None,
    });
    parts.collect()
}

/// Lets time pass in which applications answer; gives who was asked.
fn run_answering(net: &mut Net, ms: u64) -> Vec<usize> {
    let mut asked = Vec::new();
    for _ in 0..ms.div_ceil(50) {
        net.run_ms(50);
        asked.extend(answer(net));
    }
    asked
}

/// The member responsible for a place.
fn owner(net: &Net, place: [u8; 32]) -> usize {
    let members = 0..net.hosts.len();
    let after = |index: &usize| {
        let id = net.hosts[*index].id.0;
        (id < place, id)
    };
    members.min_by_key(after).expect("a member")
}

fn key(seed: u8) -> [u8; 32] {
    let mut key = [seed.wrapping_mul(97); 32];
    key[1] = seed.wrapping_mul(31);
    key
}

/// Members in the order of the circle, from one on.
fn clockwise(net: &Net, from: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..net.hosts.len()).collect();
    order.sort_by_key(|index| {
        let id = net.hosts[*index].id;
        (id < net.hosts[from].id, id)
    });
    order
}

#[test]
fn messages_reach_the_responsible_member_and_their_answers_come_back() {
    let mut net = ring(32);
    for seed in 0..40 {
        let (from, target) = (usize::from(seed % 5), key(seed));
        send(&mut net, from, 1000 + u32::from(seed), target, &[seed, 1, 2]);
        let asked = run_answering(&mut net, 500);
        assert_eq!(asked, [owner(&net, target)], "key {seed}");
        assert_eq!(net.reply(from, 1000 + u32::from(seed)), Some(vec![2, 1, seed]));
    }
}

#[test]
fn messages_reach_each_member_by_its_id_over_several_hops() {
    let mut net = ring(32);
    let direct = net.hosts.iter().map(|host| host.dials).sum::<u64>();
    for to in 0..32 {
        let target = net.hosts[to].id.0;
        route(&mut net, 3, 500, target, true, &vec![7; MAX_MESSAGE]);
        assert_eq!(run_answering(&mut net, 500), [to]);
        assert_eq!(net.reply(3, 500), Some(vec![7; MAX_MESSAGE]));
        net.hosts[3].seen.clear();
    }
    let dialled = net.hosts.iter().map(|host| host.dials).sum::<u64>() - direct;
    assert!(dialled < 100, "sessions are with fingers alone: {dialled}");
}

#[test]
fn closed_networks_pass_messages_on_until_a_member_is_revoked() {
    let mut net = closed::ring(12);
    let target = net.hosts[7].id.0;
    route(&mut net, 2, 500, target, true, b"abc");
    assert_eq!(run_answering(&mut net, 500), [7]);
    assert_eq!(net.reply(2, 500), Some(b"cba".to_vec()));
    let list = closed::revocations(&net, 1, &[3]);
    net.step(
        5,
        &[Input::Revoke {
            tag: 400,
            list: &list,
        }],
    );
    net.run_ms(5_000);
    route(&mut net, 2, 501, target, true, b"abc");
    assert_eq!(run_answering(&mut net, 15_000), []);
    assert!(net.failed(2, 501).is_some());
}

#[test]
fn commands_that_cannot_be_carried_out_fail_at_once() {
    let mut net = ring(3);
    let leaf = net.leaf(60, &[0]);
    let member = net.member(61, &[0]);
    for (from, len, code) in [
        (leaf, 0, Code::NotMember),
        (member, 0, Code::NotJoined),
        (1, MAX_MESSAGE + 1, Code::TooLarge),
    ] {
        send(&mut net, from, 600, key(1), &vec![0; len]);
        assert_eq!(net.failed(from, 600), Some(code));
    }
    for tag in 0..1025 {
        send(&mut net, 1, tag, key(1), b"");
    }
    assert_eq!(net.failed(1, 1024), Some(Code::TooManyRequests));
    net.step(1, &[Input::Cancel { tag: 3 }]);
    assert_eq!(net.failed(1, 3), Some(Code::Cancelled));
}

#[test]
fn messages_arrive_whose_owner_is_found_after_later_ones_are_sent() {
    let mut net = ring(32);
    let target = key(5);
    let to = owner(&net, target);
    let from = clockwise(&net, to)[9];
    let peer = net.hosts[to].id.0;
    route(&mut net, from, 1, peer, true, b"session");
    assert_eq!(run_answering(&mut net, 500), [to]);
    send(&mut net, from, 2, target, b"abc");
    route(&mut net, from, 3, peer, true, b"abc");
    assert_eq!(run_answering(&mut net, 1_000), [to, to]);
    assert_eq!(net.reply(from, 2), Some(b"cba".to_vec()));
}

#[test]
fn refused_messages_and_absent_members_have_their_codes() {
    let mut net = ring(8);
    let target = net.hosts[6].id.0;
    route(&mut net, 1, 500, target, true, b"abc");
    net.run_ms(500);
    let (message, _) = take_routed(&mut net, 6)[0];
    let refusal = Input::AnswerRouted {
        message,
        ok: false,
        body: &[],
    };
    net.step(6, &[refusal]);
    net.run_ms(500);
    assert_eq!(net.failed(1, 500), Some(Code::StreamRefused));
    route(&mut net, 1, 501, key(77), true, b"abc");
    assert_eq!(run_answering(&mut net, 11_000), []);
    assert_eq!(net.failed(1, 501), Some(Code::Deadline));
}

/// The member through which a message to that one goes first, if it is not that one: the last to which the sender sent anything.
fn first_hop(net: &mut Net, from: usize, to: usize) -> usize {
    let target = net.hosts[to].id.0;
    route(net, from, 900, target, true, b"probe");
    assert_eq!(run_answering(net, 1_000), [to]);
    net.recorded.clear();
    route(net, from, 901, target, true, b"probe");
    let sent = net.recorded.iter().find(|(sender, ..)| *sender == from);
    let hop = sent.expect("a frame").1;
    run_answering(net, 1_000);
    hop
}

#[test]
fn messages_take_another_way_when_the_first_hop_drops_them() {
    let mut net = ring(32);
    let to = clockwise(&net, 4)[24];
    let hop = first_hop(&mut net, 4, to);
    assert_ne!(hop, to);
    net.hosts[hop].stopped = true;
    let target = net.hosts[to].id.0;
    route(&mut net, 4, 700, target, true, b"abc");
    assert_eq!(run_answering(&mut net, 10_000), [to], "once");
    assert_eq!(net.reply(4, 700), Some(b"cba".to_vec()));
}

#[test]
fn messages_are_given_once_when_their_answers_are_lost() {
    let mut net = ring(8);
    let to = clockwise(&net, 1)[5];
    let target = net.hosts[to].id.0;
    route(&mut net, 1, 700, target, true, b"abc");
    net.deliver();
    let given = take_routed(&mut net, to);
    assert_eq!(given.len(), 1);
    answer_with(&mut net, to, given[0].0, b"late");
    assert!(!net.flights.is_empty());
    net.flights.clear();
    assert_eq!(run_answering(&mut net, 5_000), [], "once");
    assert_eq!(net.reply(1, 700), Some(b"late".to_vec()));
}

#[test]
fn sessions_that_a_member_lost_are_made_anew() {
    let mut net = ring(8);
    let to = clockwise(&net, 1)[5];
    let target = net.hosts[to].id.0;
    route(&mut net, 1, 700, target, true, b"abc");
    assert_eq!(run_answering(&mut net, 500), [to]);
    net.kill(to);
    net.restart(to);
    net.step(to, &[Input::Join { tag: 100 }]);
    net.run_ms(20_000);
    route(&mut net, 1, 701, target, true, b"abd");
    assert_eq!(run_answering(&mut net, 10_000), [to]);
    assert_eq!(net.reply(1, 701), Some(b"dba".to_vec()));
}

#[test]
fn newcomers_take_over_what_others_are_remembered_for() {
    let mut net = ring(8);
    let later = net.member(40, &[0]);
    let target = net.hosts[later].id.0;
    let before = {
        let mut ids: Vec<usize> = (0..8).collect();
        ids.sort_by_key(|index| (net.hosts[*index].id.0 < target, net.hosts[*index].id.0));
        ids[0]
    };
    let from = (before + 3) % 8;
    send(&mut net, from, 700, target, b"abc");
    assert_eq!(run_answering(&mut net, 1_000), [before]);
    net.step(later, &[Input::Join { tag: 100 }]);
    net.run_ms(20_000);
    send(&mut net, from, 701, target, b"abc");
    assert_eq!(run_answering(&mut net, 5_000), [later]);
    assert_eq!(net.reply(from, 701), Some(b"cba".to_vec()));
}

#[test]
fn one_sender_leaves_room_for_others() {
    let mut net = ring(8);
    let order = clockwise(&net, 0);
    let (greedy, other, to) = (order[0], order[2], order[6]);
    let target = net.hosts[to].id.0;
    for tag in 0..400 {
        route(&mut net, greedy, tag, target, true, b"more");
    }
    net.run_ms(1_000);
    let taken = take_routed(&mut net, to).len();
    assert!((100..=205).contains(&taken), "{taken}");
    assert_eq!(net.failed(greedy, 399), Some(Code::TooManyRequests));
    assert!(net.counted(to, Code::TooManyRequests) > 0);
    route(&mut net, other, 900, target, true, b"abc");
    net.run_ms(500);
    assert_eq!(take_routed(&mut net, to).len(), 1);
}

#[test]
fn one_message_that_waits_holds_up_none_behind_it() {
    let mut net = ring(8);
    let order = clockwise(&net, 0);
    let (from, to) = (order[1], order[6]);
    let target = net.hosts[to].id.0;
    route(&mut net, from, 1, target, true, b"slow");
    net.run_ms(500);
    let slow = take_routed(&mut net, to)[0].0;
    for tag in 2..800 {
        route(&mut net, from, tag, target, true, b"abc");
        net.deliver();
        assert_eq!(answer(&mut net), [to]);
        net.deliver();
        assert!(net.reply(from, tag).is_some(), "{tag}");
    }
    answer_with(&mut net, to, slow, b"late");
    net.deliver();
    assert_eq!(net.reply(from, 1), Some(b"late".to_vec()));
}

/// A ring, a member of it that is closer to another one than a stranger who has a session with it, and that other one.
struct Attack {
    net: Net,
    outside: Outside,
    strangers: Vec<Stranger>,
    at: usize,
    to: PeerId,
}

fn attack(strangers: usize) -> Attack {
    let mut net = ring(8);
    let outside = Outside::new(&mut net);
    let order: Vec<usize> = clockwise(&net, 0)
        .into_iter()
        .filter(|index| *index < 8)
        .collect();
    let (at, to) = (order[3], net.hosts[order[6]].id);
    let is_before = |seed: &u16| {
        let id = identity(*seed).id();
        net.hosts[order[0]].id < id && id < net.hosts[at].id
    };
    let seeds: Vec<u16> = (0..10_000).filter(is_before).take(strangers).collect();
    let strangers = seeds.into_iter().map(|seed| {
        outside
            .enter(&mut net, at, &address(seed), seed)
            .expect("a session")
    });
    let strangers = strangers.collect();
    Attack {
        net,
        outside,
        strangers,
        at,
        to,
    }
}

impl Attack {
    fn say(&mut self, stranger: usize, route: Route<'_>) {
        let stranger = &mut self.strangers[stranger];
        self.outside.say(&mut self.net, stranger, &Frame::Route(route));
    }

    fn counted(&mut self, code: Code) -> u64 {
        self.net.counted(self.at, code)
    }
}

#[test]
fn bad_frames_are_dropped_and_counted_by_their_faults() {
    let mut attack = attack(1);
    let (from, to, me) = (attack.strangers[0].id, attack.to, attack.net.hosts[attack.at].id);
    let good = Route {
        to,
        from,
        hops: MAX_HOPS,
        frame: &[16; 40],
    };
    let long = vec![16; 60_000];
    let faults = [
        (Code::RouteTooLong, Route { hops: 255, ..good }),
        (Code::RouteExpired, Route { hops: 0, ..good }),
        (Code::RouteCircle, Route { to: from, ..good }),
        (Code::RouteCircle, Route { from: to, ..good }),
        (Code::RouteCircle, Route { from: me, ..good }),
        (
            Code::RouteCircle,
            Route {
                to: me,
                from: me,
                ..good
            },
        ),
        (Code::FrameTooLarge, Route { frame: &long, ..good }),
        (Code::UnknownSession, Route { to: me, ..good }),
    ];
    for (code, route) in faults {
        let before = attack.counted(code);
        attack.say(0, route);
        assert_eq!(attack.counted(code), before + 1, "{code:?}");
    }
    assert!(attack.outside.is_connected(&attack.net, &attack.strangers[0]));
    let sent = attack.net.recorded.len();
    attack.say(0, good);
    assert!(attack.net.recorded.len() > sent, "what is sound is passed on");
}

#[test]
fn what_only_routed_sessions_carry_ends_any_other_one() {
    let mut attack = attack(1);
    let answer = Frame::Answer {
        id: 1,
        class: None,
        body: &[],
    };
    attack
        .outside
        .say(&mut attack.net, &mut attack.strangers[0], &answer);
    assert!(!attack.outside.is_connected(&attack.net, &attack.strangers[0]));
}

#[test]
fn one_previous_hop_takes_a_fifth_of_what_is_passed_on() {
    let mut attack = attack(2);
    let to = attack.to;
    let frame = vec![16; 16_000];
    let flood = |attack: &mut Attack, stranger: usize, count: usize| {
        let from = attack.strangers[stranger].id;
        let before = attack.counted(Code::RouteOverload);
        for _ in 0..count {
            let hops = MAX_HOPS;
            attack.say(
                stranger,
                Route {
                    to,
                    from,
                    hops,
                    frame: &frame,
                },
            );
            attack.net.recorded.clear();
        }
        attack.counted(Code::RouteOverload) - before
    };
    let refused = flood(&mut attack, 0, 1_000);
    assert!((150..250).contains(&refused), "{refused}");
    assert_eq!(flood(&mut attack, 1, 300), 0);
    attack.net.run_ms(1_000);
    assert_eq!(flood(&mut attack, 0, 300), 0);
}

/// m1 of nobody in particular.
fn initiation(to: PeerId, seed: u16) -> Vec<u8> {
    let mut entropy = [0; 32];
    entropy[..2].copy_from_slice(&seed.to_le_bytes());
    let identity = identity(seed);
    let initiator = Initiator::new(&identity, &mut Random::new(&entropy), Some(to), 9);
    initiator.initiation().to_vec()
}

#[test]
fn invented_senders_do_not_keep_others_out() {
    let mut attack = attack(1);
    let me = attack.net.hosts[attack.at].id;
    let victim = clockwise(&attack.net, attack.at)[7];
    let invented = |seed: u16| {
        let mut id = attack.strangers[0].id;
        id.0[16..18].copy_from_slice(&seed.to_be_bytes());
        id
    };
    let mut senders: Vec<PeerId> = (0..400).map(invented).collect();
    senders.extend([attack.net.hosts[victim].id; 6]);
    attack.net.recorded.clear();
    for (seed, from) in senders.into_iter().enumerate() {
        let frame = initiation(me, seed as u16);
        let route = Route {
            to: me,
            from,
            hops: 1,
            frame: &frame,
        };
        attack.say(0, route);
    }
    // m2 is longer than a thousand bytes, a cookie is not.
    let (at, sent) = (attack.at, attack.net.recorded.iter());
    let answers = sent.filter(|(from, .., frame)| *from == at && frame.len() > 1_000);
    assert!((60..70).contains(&answers.count()));
    let mut net = attack.net;
    route(&mut net, victim, 700, me.0, true, b"abc");
    assert_eq!(run_answering(&mut net, 10_000), [attack.at]);
    assert_eq!(net.reply(victim, 700), Some(b"cba".to_vec()));
}

#[test]
fn invented_handshakes_take_no_place_of_the_member_that_they_name() {
    let mut attack = attack(1);
    let me = attack.net.hosts[attack.at].id;
    let victim = clockwise(&attack.net, attack.at)[7];
    let from = attack.net.hosts[victim].id;
    for seed in 0..6 {
        let frame = initiation(me, seed);
        let route = Route {
            to: me,
            from,
            hops: 1,
            frame: &frame,
        };
        attack.say(0, route);
    }
    let mut net = attack.net;
    route(&mut net, victim, 700, me.0, true, b"abc");
    assert_eq!(run_answering(&mut net, 1_000), [attack.at], "at the first try");
}

#[test]
fn rejects_that_a_stranger_invents_end_no_handshake() {
    let mut attack = attack(1);
    let (at, me) = (attack.at, attack.net.hosts[attack.at].id);
    let to = clockwise(&attack.net, at)[4];
    let target = attack.net.hosts[to].id;
    let other = attack.outside.knock(&mut attack.net, at, &address(9), 9);
    let last = other.expect("m2").confirmation.peer_index();
    route(&mut attack.net, at, 700, target.0, true, b"abc");
    // Numbers of sessions rise by one.
    for index in last + 1..last + 16 {
        let mut frame = vec![REJECT, 2, 1, 0, 0, 0, 0, 0];
        frame.extend_from_slice(&index.to_le_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(&Code::TooManySessions.as_u16().to_le_bytes());
        attack.say(
            0,
            Route {
                to: me,
                from: target,
                hops: 1,
                frame: &frame,
            },
        );
    }
    let mut net = attack.net;
    assert_eq!(run_answering(&mut net, 1_000), [to], "at the first try");
}

#[test]
fn frames_that_come_again_are_dropped() {
    let mut net = closed::ring(8);
    assert!(net.hosts.iter().all(|host| host.config.role == Role::Member));
    let to = clockwise(&net, 1)[5];
    let target = net.hosts[to].id.0;
    net.recorded.clear();
    route(&mut net, 1, 700, target, true, b"abc");
    assert_eq!(run_answering(&mut net, 500), [to]);
    let recorded = core::mem::take(&mut net.recorded);
    for (_, host, path, frame) in recorded {
        let frame = &frame;
        net.step(host, &[Input::Received { path, frame }]);
    }
    assert_eq!(run_answering(&mut net, 500), []);
}
