//! Sibling objects: one member that answers for one of them hides nobody from callers whose providers fail.

use selfsame_codec::cbor::Decoder;
use selfsame_codec::{Code, Role};
use selfsame_core::association::ObjectId;
use selfsame_core::identity::PeerId;
use selfsame_core::record::NodeRecord;
use selfsame_core::ring::Provider;

use super::network::{Network, Outcome, service};
use super::outsider::{association, encoded, leaf, record_at, stranger};

fn is_hop(body: &[u8]) -> bool {
    let mut decoder = Decoder::new(body);
    decoder.array_of(2).is_ok() && decoder.uint() == Ok(0) && decoder.array_of(5).is_ok()
}

/// A name for one of whose objects another member is responsible than for all others, and that member.
fn name_held_apart(net: &Network, r: u8) -> (String, usize) {
    let holder = |name: &str, r| {
        let object = ObjectId::of(&Network::network_id(), None, name, r);
        net.responsible(&object.0)
    };
    let is_apart = |name: &String| (0..=3).all(|other| other == r || holder(name, other) != holder(name, r));
    let mut names = (0..).map(|number| format!("check-{number}"));
    let name = names.find(is_apart).expect("names are many");
    let holder = holder(&name, r);
    (name, holder)
}

/// A ring in which whoever is responsible for the first object of a name gives out only a publisher that nobody can reach,
/// and another one each time.
struct Deceived {
    net: Network,
    name: String,
    liar: usize,
    server: usize,
}

fn ring_with_a_liar(seed: u64) -> Deceived {
    let mut net = Network::ring_of(seed, 24);
    let (name, liar) = name_held_apart(&net, 0);
    let server = net.add(Role::Leaf);
    assert_eq!(net.join(server, &[0]), Outcome::Done);
    let outcome = net.outcome(server, |ring, cx, command| {
        ring.publish(cx, command, service(&name, 3))
    });
    assert_eq!(outcome, Outcome::Done);
    let own: NodeRecord = net.with(liar, |ring, cx| ring.own_record(cx).clone());
    let now_ms = net.now_ms;
    let (mut number, named) = (0, name.clone());
    net.forge = Some(Box::new(move |node, body| {
        if node != liar || !is_hop(body) {
            return None;
        }
        number += 1;
        let dead = stranger(100 + number % 100);
        let association = association(&dead, leaf(&named), now_ms);
        let record = record_at(&dead, now_ms);
        Some(encoded(|encoder| {
            encoder.array(2).uint(0).array(5).bytes(own.encoded());
            encoder.array(0).array(0).null().array(1).array(2);
            encoder.bytes(association.encoded()).bytes(record.encoded());
        }))
    }));
    Deceived {
        net,
        name,
        liar,
        server,
    }
}

fn find(net: &mut Network, by: usize, name: &str, is_wide: bool) -> Vec<Provider> {
    match net.outcome(by, |ring, cx, command| {
        ring.find_up_to(cx, command, None, name, is_wide)
    }) {
        Outcome::Found(providers) => providers,
        other => panic!("it is served, not {other:?}"),
    }
}

#[test]
fn wide_find_reaches_siblings_behind_a_liar() {
    for seed in [41, 42, 43] {
        let deceived = ring_with_a_liar(seed);
        let Deceived {
            mut net,
            name,
            liar,
            server,
        } = deceived;
        let server: PeerId = net.id(server);
        for by in (0..24).filter(|node| *node != liar) {
            let narrow = find(&mut net, by, &name, false);
            assert!(
                narrow.iter().all(|provider| provider.peer != server),
                "seed {seed}"
            );
            let wide = find(&mut net, by, &name, true);
            let siblings = |peer: PeerId| wide.iter().find(|one| one.peer == peer).map(|one| one.siblings);
            assert_eq!(siblings(server), Some(3), "seed {seed}, node {by}");
            assert!(wide.iter().all(|one| one.peer == server || one.siblings == 1));
        }
    }
}

#[test]
fn wide_find_of_an_unknown_name_ends() {
    let mut net = Network::ring_of(44, 8);
    let outcome = net.outcome(2, |ring, cx, command| {
        ring.find_up_to(cx, command, None, "check", true)
    });
    assert_eq!(outcome, Outcome::Failed(Code::NoProvider));
}

#[test]
fn newest_statement_of_a_publisher_counts_at_any_sibling() {
    let mut net = Network::ring_of(45, 12);
    let (name, liar) = name_held_apart(&net, 1);
    let publish = net.outcome(3, |ring, cx, command| {
        ring.publish(cx, command, service(&name, 3))
    });
    assert_eq!(publish, Outcome::Done);
    // It goes on naming what was withdrawn.
    let (own, publisher) = (
        net.with(liar, |ring, cx| ring.own_record(cx).clone()),
        &net.nodes[3].identity,
    );
    let mut old = leaf(&name);
    old.r = 1;
    let old = association(publisher, old, net.now_ms);
    let record = record_at(publisher, net.now_ms);
    net.run_for(1_000);
    let withdraw = net.outcome(3, |ring, cx, command| ring.withdraw(cx, command, None, &name));
    assert_eq!(withdraw, Outcome::Done);
    net.forge = Some(Box::new(move |node, body| {
        (node == liar && is_hop(body)).then(|| {
            encoded(|encoder| {
                encoder.array(2).uint(0).array(5).bytes(own.encoded());
                encoder.array(0).array(0).null().array(1).array(2);
                encoder.bytes(old.encoded()).bytes(record.encoded());
            })
        })
    }));
    let by = (0..12)
        .find(|node| *node != liar && *node != 3)
        .expect("others are there");
    let outcome = net.outcome(by, |ring, cx, command| {
        ring.find_up_to(cx, command, None, &name, false)
    });
    assert_eq!(outcome, Outcome::Failed(Code::NoProvider));
}
