//! Strangers that try to crowd others out of a member's tables.

use selfsame_codec::{Class, Role};
use selfsame_core::identity::Identity;
use selfsame_core::record::{NodeRecord, RecordTerms};
use selfsame_core::{Holder, Place};

use super::network::{Network, Outcome};
use super::outsider::{
    HOUR_MS, ask, ask_from, association, encoded, leaf, record_at, store, stranger, update,
};

/// Members that somebody has invented.
fn ghosts(count: u32, now_ms: u64) -> Vec<NodeRecord> {
    (0..count).map(|n| record_at(&numbered(n), now_ms)).collect()
}

fn numbered(n: u32) -> Identity {
    let mut seed = [0xE0; 32];
    seed[..4].copy_from_slice(&n.to_le_bytes());
    Identity::recall(&seed, Network::network_id(), &[])
}

fn leave(own: &NodeRecord, successors: &[NodeRecord]) -> Vec<u8> {
    encoded(|encoder| {
        encoder
            .array(5)
            .uint(7)
            .bytes(own.encoded())
            .bytes(successors[0].encoded())
            .array(successors.len());
        for record in successors {
            encoder.bytes(record.encoded());
        }
        encoder.array(0);
    })
}

/// How many of these records a node holds.
fn held<'a>(net: &Network, node: usize, records: impl IntoIterator<Item = &'a NodeRecord>) -> usize {
    let ring = &net.nodes[node].ring;
    let records = records.into_iter();
    records
        .filter(|record| ring.record_of(&record.id()) == Some(record))
        .count()
}

fn honest(net: &Network, node: usize) -> Vec<NodeRecord> {
    let ring = &net.nodes[node].ring;
    let peers = (0..net.nodes.len()).map(|other| net.id(other));
    peers.filter_map(|peer| ring.record_of(&peer).cloned()).collect()
}

#[test]
fn stranger_that_leaves_teaches_no_members() {
    let mut net = Network::ring_of(5, 32);
    let victim = net.members()[3];
    let known = honest(&net, victim);
    let ghosts = ghosts(1040, net.now_ms);
    let attacker = stranger(99);
    let own = record_at(&attacker, net.now_ms);
    for chunk in ghosts.chunks(16) {
        assert_eq!(ask(&mut net, victim, attacker.id(), &leave(&own, chunk)), None);
    }
    assert_eq!(held(&net, victim, &ghosts), 0);
    assert_eq!(held(&net, victim, &known), known.len());
    for n in 0..20 {
        let place = numbered(5_000 + n).id().0;
        let right = net.id(net.responsible(&place));
        let found = net.outcome(victim, |ring, cx, command| {
            ring.find_node(cx, command, Place(place))
        });
        assert_eq!(found, Outcome::Node(right));
    }
}

#[test]
fn neighbour_that_leaves_drives_out_nobody_who_has_spoken() {
    let mut net = Network::ring_of(5, 32);
    let victim = net.members()[3];
    let known = honest(&net, victim);
    let ping = encoded(|encoder| _ = encoder.array(2).uint(0).array(0));
    for record in &known {
        assert_eq!(ask(&mut net, victim, record.id(), &ping), None);
    }
    let ghosts = ghosts(2080, net.now_ms);
    // Ids can be ground: this one comes right before the victim.
    let neighbour = (10_000..)
        .map(numbered)
        .find(|identity| net.responsible(&identity.id().0) == victim)
        .expect("an id next to the victim's");
    let own = record_at(&neighbour, net.now_ms);
    assert_eq!(
        ask(&mut net, victim, neighbour.id(), &update(own.encoded())),
        None
    );
    for chunk in ghosts.chunks(16) {
        assert_eq!(ask(&mut net, victim, neighbour.id(), &leave(&own, chunk)), None);
    }
    assert!(held(&net, victim, &ghosts) > 0, "its neighbours are read");
    assert_eq!(held(&net, victim, &known), known.len());
    let remembered = net.nodes[victim].ring.remembered();
    assert!(!remembered.is_empty());
    assert!(ghosts.iter().all(|ghost| !remembered.contains(&ghost.id())));
}

/// A request with a record of a member, or of a leaf.
fn introduction(kind: u64, identity: &Identity, role: Role, now_ms: u64) -> Vec<u8> {
    let terms = RecordTerms::new(role, &[], now_ms, now_ms + HOUR_MS);
    let record = NodeRecord::sign(identity, &terms).expect("a record");
    encoded(|encoder| _ = encoder.array(2).uint(kind).bytes(record.encoded()))
}

#[test]
fn newcomers_of_one_network_leave_lookups_to_others() {
    let mut net = Network::ring_of(2, 48);
    let member = net.members()[0];
    let crowd = Holder::network("192.0.2.1");
    let join = |identity: &Identity| introduction(5, identity, Role::Member, net.now_ms);
    // One whose place is its own a member need not look up.
    let far = (0..)
        .map(numbered)
        .filter(|one| net.responsible(&one.id().0) != member);
    let mut far = far.map(|one| (one.id(), join(&one)));
    let crowded: Vec<_> = far.by_ref().take(4).collect();
    let others: Vec<_> = far.take(2).collect();
    for n in 0..13 {
        let (peer, body) = &crowded[n / 4];
        // An answer would be a refusal, which the network does not expect.
        net.with(member, |ring, cx| {
            cx.source = crowd;
            ring.request(cx, *peer, 1_000_000 + n as u64, body);
        });
    }
    let (peer, body) = &crowded[3];
    assert_eq!(ask_from(&mut net, member, crowd, *peer, body), Some(Class::Limit));
    for (n, (peer, body)) in others.iter().enumerate() {
        net.with(member, |ring, cx| {
            cx.source = Holder::network("198.51.100.1");
            ring.request(cx, *peer, 2_000_000 + n as u64, body);
        });
    }
}

#[test]
fn leaves_of_one_network_leave_places_to_others() {
    let mut net = Network::ring_of(2, 4);
    let member = net.members()[0];
    let crowd = Holder::network("192.0.2.1");
    let attach = |identity: &Identity| introduction(8, identity, Role::Leaf, net.now_ms);
    let leaves: Vec<_> = (0..600)
        .map(numbered)
        .map(|leaf| (leaf.id(), attach(&leaf)))
        .collect();
    let mut ask = |at: usize, source| ask_from(&mut net, member, source, leaves[at].0, &leaves[at].1);
    let refused = (0..520)
        .filter(|at| ask(*at, crowd) == Some(Class::Limit))
        .count();
    assert_eq!(refused, 520 - 103, "a fifth of the places");
    assert_eq!(ask(0, crowd), None, "one that is attached renews its record");
    for at in 520..600 {
        assert_eq!(ask(at, Holder::network("198.51.100.1")), None);
    }
}

#[test]
fn leaves_count_for_their_network_after_a_sleep() {
    let mut net = Network::ring_of(2, 4);
    net.run_for(70_000);
    let crowd = Holder::network("192.0.2.1");
    let attach = |identity: &Identity| introduction(8, identity, Role::Leaf, net.now_ms);
    let leaves: Vec<_> = (0..520)
        .map(numbered)
        .map(|leaf| (leaf.id(), attach(&leaf)))
        .collect();
    for (peer, body) in &leaves[..103] {
        assert_eq!(ask_from(&mut net, 0, crowd, *peer, body), None);
    }
    for (n, (peer, body)) in leaves[103..512].iter().enumerate() {
        let elsewhere = Holder::network(&format!("11.{}.{}.1", n / 256, n % 256));
        assert_eq!(ask_from(&mut net, 0, elsewhere, *peer, body), None);
    }
    let relayed = |net: &Network| {
        leaves
            .iter()
            .filter(|leaf| net.nodes[0].ring.relays_for(&leaf.0))
            .count()
    };
    assert_eq!(relayed(&net), 512);
    net.forget(0);
    assert_eq!(relayed(&net), 512, "all are taken back, in whatever order");
    for leaf in &leaves[300..512] {
        let detach = encoded(|encoder| _ = encoder.array(1).uint(9));
        assert_eq!(ask(&mut net, 0, leaf.0, &detach), None);
    }
    let (peer, body) = &leaves[513];
    assert_eq!(ask_from(&mut net, 0, crowd, *peer, body), Some(Class::Limit));
}

#[test]
fn leaf_that_comes_from_elsewhere_stays_in_its_first_networks_share() {
    let mut net = Network::ring_of(2, 4);
    net.run_for(70_000);
    let (crowd, elsewhere) = (Holder::network("192.0.2.1"), Holder::network("198.51.100.1"));
    let attach = |identity: &Identity| introduction(8, identity, Role::Leaf, net.now_ms);
    let leaves: Vec<_> = (0..105)
        .map(numbered)
        .map(|leaf| (leaf.id(), attach(&leaf)))
        .collect();
    for source in [crowd, elsewhere] {
        for (peer, body) in &leaves[..103] {
            assert_eq!(ask_from(&mut net, 0, source, *peer, body), None);
        }
    }
    let mut late = leaves[103..].iter();
    let mut next_is_refused = |net: &mut Network| {
        let (peer, body) = late.next().expect("another leaf");
        ask_from(net, 0, crowd, *peer, body) == Some(Class::Limit)
    };
    assert!(next_is_refused(&mut net));
    net.forget(0);
    assert!(next_is_refused(&mut net), "also after a sleep");
}

/// An association of an identity, and its record of the greatest length.
fn largest_entry(identity: &Identity, name: &str, now_ms: u64) -> Vec<u8> {
    let addresses: Vec<String> = (0..8)
        .map(|n| format!("wss://a{n}.example/{}/.mesh", "x".repeat(480)))
        .collect();
    let terms = RecordTerms::new(Role::Member, &addresses, now_ms, now_ms + HOUR_MS);
    let record = NodeRecord::sign(identity, &terms).expect("a record");
    let association = association(identity, leaf(name), now_ms);
    store(association.encoded(), record.encoded())
}

#[test]
fn identities_of_one_network_crowd_nobody_out_of_a_full_table() {
    let mut net = Network::ring_of(6, 1);
    let now_ms = net.now_ms;
    let (crowd, other) = (Holder::network("192.0.2.1"), Holder::network("198.51.100.1"));
    let honest = stranger(1);
    let record = record_at(&honest, now_ms);
    let names: Vec<String> = (0..100).map(|n| format!("honest{n}")).collect();
    for name in &names {
        let one = association(&honest, leaf(name), now_ms - 1);
        let body = store(one.encoded(), record.encoded());
        assert_eq!(ask_from(&mut net, 0, other, honest.id(), &body), None);
    }
    let mut taken = 0;
    for n in 0..8_000 {
        let identity = numbered(n);
        let body = largest_entry(&identity, &format!("crowd{n}"), now_ms);
        taken += usize::from(ask_from(&mut net, 0, crowd, identity.id(), &body).is_none());
    }
    assert!(taken < 7_900, "the table is full: {taken}");
    let newcomer = stranger(2);
    let body = largest_entry(&newcomer, "late", now_ms);
    assert_eq!(
        ask_from(&mut net, 0, Holder::network("203.0.113.1"), newcomer.id(), &body),
        None
    );
    for name in names.iter().map(String::as_str).chain(["late"]) {
        let found = net.outcome(0, |ring, cx, command| {
            ring.find_up_to(cx, command, None, name, false)
        });
        assert!(matches!(found, Outcome::Found(_)), "{name}");
    }
}
