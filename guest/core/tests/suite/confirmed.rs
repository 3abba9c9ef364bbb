//! Newcomers of closed networks, whom the hosts look up in the DNS.

use selfsame_codec::reply::Status;
use selfsame_codec::{Code, EventKind, Input, PathKind, Role};
use selfsame_core::Node;
use selfsame_core::ring::Parameters;

use crate::support::closed::{add_confirming, certificate, certified, confirming_ring, own_id, terms};
use crate::support::rings::{call, join, publish};
use crate::support::{Net, Seen, config};

const STATUS: u32 = 0x57A7;

fn status(net: &mut Net, index: usize) -> Status {
    net.step(index, &[Input::Status { tag: STATUS }]);
    let body = net.reply(index, STATUS).expect("a status");
    net.hosts[index]
        .seen
        .retain(|seen| !matches!(seen, Seen::Reply { tag: STATUS, .. }));
    Status::decode(&body).expect("a sound status")
}

/// Those who have a node in a table of theirs.
fn neighbours_of(net: &mut Net, index: usize) -> Vec<usize> {
    let id = net.hosts[index].id.0;
    (0..net.hosts.len())
        .filter(|other| {
            *other != index && {
                let status = status(net, *other);
                let named = status.successors.iter().chain(&status.predecessor);
                named
                    .chain(&status.fingers)
                    .chain(&status.relays)
                    .any(|node| node.id == id)
            }
        })
        .collect()
}

/// Adds a member that joins through the first, and lets it try for a while.
fn try_to_join(net: &mut Net, seed: u8, role: Role) -> usize {
    let index = add_confirming(net, seed, role, &[0]);
    net.step(index, &[Input::Join { tag: 100 }]);
    net.run_ms(60_000);
    index
}

fn refuse(net: &mut Net, seed: u8, role: Role, code: Code) {
    let id = own_id(&certified(seed, role, &[], certificate(terms(seed, role))));
    net.dns.refusals.insert(id, code);
}

#[test]
fn confirmed_members_and_leaves_form_a_ring() {
    let mut net = confirming_ring(8);
    let leaf = add_confirming(&mut net, 100, Role::Leaf, &[0, 1]);
    join(&mut net, leaf);
    publish(&mut net, 5, "check");
    let (_, callee, _) = call(&mut net, leaf, "check", 7).expect("an answer");
    assert_eq!(callee, 5);
    for index in 0..8 {
        assert!(status(&mut net, index).successors.len() >= 6, "member {index}");
    }
    net.run_ms(600_000);
    let mut asked: Vec<_> = net
        .dns
        .asked
        .iter()
        .map(|(asker, peer, _)| (*asker, *peer))
        .collect();
    let count = asked.len();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), count, "each is looked up once by each");
}

#[test]
fn newcomer_without_a_record_is_nobodys_neighbour() {
    for role in [Role::Member, Role::Leaf] {
        let mut net = confirming_ring(6);
        refuse(&mut net, 50, role, Code::NoCertificate);
        let stranger = try_to_join(&mut net, 50, role);
        assert_eq!(net.failed(stranger, 100), Some(Code::NoBootstrap));
        assert_eq!(neighbours_of(&mut net, stranger), []);
        let id = net.hosts[stranger].id;
        assert!(net.connected(0, id), "it has a session");
        assert!(net.counted(0, Code::NoCertificate) > 0);
        for member in 0..6 {
            net.step(member, &[Input::FindNode { tag: 9, id: id.0 }]);
            net.run_ms(5_000);
            let found = net.reply(member, 9).expect("a member");
            assert!(!found.windows(32).any(|bytes| *bytes == id.0), "it is named");
        }
    }
}

#[test]
fn newcomer_without_a_record_does_not_join_a_member_that_is_alone() {
    let mut net = confirming_ring(1);
    refuse(&mut net, 50, Role::Member, Code::NoCertificate);
    let stranger = try_to_join(&mut net, 50, Role::Member);
    assert_eq!(net.failed(stranger, 100), Some(Code::NoBootstrap));
    assert_eq!(neighbours_of(&mut net, stranger), []);
    assert_eq!(neighbours_of(&mut net, 0), []);
}

#[test]
fn newcomer_without_a_record_stores_nothing() {
    let mut net = confirming_ring(3);
    refuse(&mut net, 50, Role::Member, Code::NoCertificate);
    let stranger = try_to_join(&mut net, 50, Role::Member);
    net.step(
        stranger,
        &[Input::Publish {
            tag: 300,
            grant: &[],
            name: "check",
            replicas: 2,
            version: "1",
            weight: 10_000,
        }],
    );
    net.run_ms(30_000);
    for index in 0..3 {
        assert_eq!(status(&mut net, index).objects, 0);
    }
}

#[test]
fn record_that_comes_later_lets_the_newcomer_in() {
    let mut net = confirming_ring(4);
    refuse(&mut net, 50, Role::Member, Code::NoCertificate);
    let late = try_to_join(&mut net, 50, Role::Member);
    assert_eq!(neighbours_of(&mut net, late), []);
    net.dns.refusals.clear();
    net.run_ms(120_000);
    assert_eq!(neighbours_of(&mut net, late), [0, 1, 2, 3]);
}

#[test]
fn outage_stops_only_joins() {
    let mut net = confirming_ring(6);
    publish(&mut net, 3, "check");
    net.dns.outage = Some(Code::DnsFailed);
    let newcomer = try_to_join(&mut net, 50, Role::Member);
    assert_eq!(neighbours_of(&mut net, newcomer), []);
    assert!(net.counted(0, Code::DnsFailed) > 0);
    net.run_ms(1_200_000);
    let before = neighbours_of(&mut net, 3);
    assert_eq!(before, [0, 1, 2, 4, 5]);
    assert!(call(&mut net, 0, "check", 7).is_some());
    // Who was known comes back, too, by what the others and its own store remember.
    net.kill(2);
    net.run_ms(10_000);
    net.restart(2);
    join(&mut net, 2);
    net.run_ms(30_000);
    assert_eq!(neighbours_of(&mut net, 2), [0, 1, 3, 4, 5]);
    assert_eq!(neighbours_of(&mut net, newcomer), []);
    net.dns.outage = None;
    net.run_ms(120_000);
    assert_eq!(neighbours_of(&mut net, newcomer), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn host_that_never_answers_stops_only_joins() {
    let mut net = confirming_ring(4);
    net.dns.is_silent = true;
    let newcomer = try_to_join(&mut net, 50, Role::Member);
    assert_eq!(neighbours_of(&mut net, newcomer), []);
    assert!(net.counted(0, Code::TimedOut) > 0);
    net.dns.is_silent = false;
    net.run_ms(120_000);
    assert_eq!(neighbours_of(&mut net, newcomer), [0, 1, 2, 3]);
}

#[test]
fn many_newcomers_of_one_network_leave_the_others_their_queries() {
    let mut net = confirming_ring(1);
    net.dns.is_silent = true;
    net.dns.asked.clear();
    for seed in 10..60 {
        net.seen_at = Some(format!("192.0.2.{seed}:40000"));
        let index = add_confirming(&mut net, seed, Role::Member, &[0]);
        net.step(index, &[Input::Join { tag: 100 }]);
        net.deliver();
    }
    let asked_by_first = |net: &Net, prefix: &str| {
        let by_first = net.dns.asked.iter().filter(|(asker, _, _)| *asker == 0);
        by_first
            .filter(|(_, _, remote)| remote.starts_with(prefix))
            .count()
    };
    let of_one = asked_by_first(&net, "192.0.2.");
    assert!((1..=16).contains(&of_one), "{of_one} at once");
    assert!(net.counted(0, Code::TooManyRequests) > 0);
    net.seen_at = Some("198.51.100.1:40000".into());
    let other = add_confirming(&mut net, 90, Role::Member, &[0]);
    net.step(other, &[Input::Join { tag: 100 }]);
    net.deliver();
    assert_eq!(asked_by_first(&net, "198.51.100."), 1);
}

#[test]
fn answer_of_the_host_is_checked() {
    let mut net = confirming_ring(2);
    net.hosts[0].seen.clear();
    net.step(
        0,
        &[Input::LookedUp {
            peer: [9; 32],
            code: 0,
        }],
    );
    net.step(
        0,
        &[Input::LookedUp {
            peer: [9; 32],
            code: Code::NoCertificate.as_u16(),
        }],
    );
    assert!(
        !net.hosts[0]
            .seen
            .iter()
            .any(|seen| matches!(seen, Seen::Refused { .. })),
        "late ones count for nothing"
    );
    net.step(
        0,
        &[Input::LookedUp {
            peer: [9; 32],
            code: 0xFFFF,
        }],
    );
    assert!(net.hosts[0].seen.contains(&Seen::Refused {
        input: 0,
        code: Code::BadInput
    }));
    let peer = [0; 32];
    net.step(
        0,
        &[Input::LookedUp {
            peer,
            code: Code::DnsRefused.as_u16(),
        }],
    );
    assert_eq!(net.counted(0, Code::DnsRefused), 1, "what it met besides");
    assert_eq!(neighbours_of(&mut net, 0), [1]);
}

#[test]
fn open_network_confirms_nobody() {
    let mut open = config(1, Role::Member, &[]);
    open.confirms = true;
    assert_eq!(
        Node::new(&open.encode(), &Parameters::DEFAULT).err(),
        Some(Code::BadConfig)
    );
}

/// Whether a member of a certified address gets a session when it is seen at another one.
fn is_let_in(kind: PathKind, certified_at: &str, seen_at: &str) -> bool {
    let mut net = confirming_ring(1);
    net.kind = kind;
    let host = certified_at.rsplit_once(':').expect("a port").0;
    let mut terms = terms(50, Role::Member);
    terms.address = Some(certified_at.into());
    let mut member = certified(50, Role::Member, &[], certificate(terms));
    member.addresses = vec![format!("ws://{host}:7050/.mesh")];
    let member = net.add(member);
    net.seen_at = Some(seen_at.into());
    let address = net.hosts[0].address.clone();
    net.step(
        member,
        &[Input::Connect {
            tag: 5,
            peer: [0; 32],
            address: &address,
        }],
    );
    net.run_ms(5_000);
    let id = net.hosts[member].id.0;
    let is_it =
        |seen: &Seen| matches!(seen, Seen::Event { event: EventKind::PeerConnected, body } if body[..] == id);
    let is_in = net.hosts[0].seen.iter().any(is_it);
    assert_eq!(net.counted(0, Code::WrongAddress), u64::from(!is_in));
    assert_eq!(
        net.counted(member, Code::WrongAddress),
        u64::from(!is_in),
        "it is told why"
    );
    is_in
}

#[test]
fn member_is_seen_at_its_certified_address_on_direct_paths() {
    assert!(is_let_in(PathKind::Direct, "192.0.2.1:7050", "192.0.2.1:40000"));
    assert!(!is_let_in(PathKind::Direct, "192.0.2.1:7050", "192.0.2.2:40000"));
    assert!(!is_let_in(
        PathKind::Direct,
        "192.0.2.1:7050",
        "[2001:db8::1]:40000"
    ));
    // A proxy may stand between, the name may lead anywhere, or the two share a translator of addresses.
    assert!(is_let_in(PathKind::Ordered, "192.0.2.1:7050", "192.0.2.2:40000"));
    assert!(is_let_in(PathKind::Exchange, "192.0.2.1:7050", "192.0.2.2:40000"));
    assert!(is_let_in(
        PathKind::Direct,
        "node.example:7050",
        "192.0.2.2:40000"
    ));
    assert!(is_let_in(PathKind::Direct, "192.0.2.1:7050", "10.0.0.1:40000"));
}
