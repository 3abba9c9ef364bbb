//! A peer that has contradicted itself is refused by all nodes, until its authority certifies it anew.

use selfsame_codec::{Code, EventKind, Role};
use selfsame_core::admission::{CertificateTerms, Gate};
use selfsame_core::identity::Identity;
use selfsame_core::ring::{Contradiction, EPOCH_MS, Lease, LeaseTerms};

use crate::support::closed::{add, authority, certificate, guarded_ring, key_of, revocations, terms};
use crate::support::rings::{call, join, publish};
use crate::support::{Net, Seen};

/// Two leases that a node has signed for the epoch of now, as evidence.
fn contradiction(net: &Net, seed: u8) -> Vec<u8> {
    let authority = authority(200);
    let mut identity = Identity::recall(&[seed; 32], authority.network(), &[]);
    let evidence = certificate(terms(seed, Role::Member));
    let mut gate = Gate::new(authority.network(), Some(authority.public()));
    let admitted = gate
        .admit(&identity.public(), &evidence)
        .expect("a sound certificate");
    admitted
        .expect("a closed network")
        .give_to(&mut identity)
        .expect("its own");
    let lease = |others: &[_]| {
        let leader = identity.id();
        let terms = LeaseTerms {
            leader,
            epoch: net.now_ms / EPOCH_MS,
            members: [&[leader], others].concat(),
        };
        Lease::sign(&identity, terms)
    };
    Contradiction::of(&evidence, &lease(&[]), &lease(&[net.hosts[0].id]))
}

/// Starts a node again whose store holds evidence against another.
fn restart_with_evidence(net: &mut Net, index: usize, against: u8) {
    let evidence = contradiction(net, against);
    let key = [b"ring/contradiction/", &key_of(&authority(200), against).0[..]].concat();
    net.kill(index);
    net.hosts[index].store.insert(key, evidence);
    net.restart(index);
    join(net, index);
}

/// Whether a node has a session with that one.
fn reaches(net: &mut Net, from: usize, to: usize) -> bool {
    net.hosts[from].seen.clear();
    net.connect(from, to);
    net.run_ms(10_000);
    let to = net.hosts[to].id;
    let is_end = |seen: &Seen| matches!(seen, Seen::Event { event: EventKind::PeerDisconnected, body } if body[..] == to.0);
    net.reply(from, 1).is_some() && !net.hosts[from].seen.iter().any(is_end)
}

fn has_convicted(net: &Net, index: usize) -> bool {
    net.hosts[index]
        .store
        .keys()
        .any(|key| key.starts_with(b"ring/contradiction/"))
}

fn told(net: &Net, index: usize) -> Option<Vec<u8>> {
    net.hosts[index].seen.iter().find_map(|seen| match seen {
        Seen::Event {
            event: EventKind::Convicted,
            body,
        } => Some(body.clone()),
        _ => None,
    })
}

#[test]
fn evidence_spreads_and_all_refuse_whom_it_convicts() {
    let mut net = guarded_ring(10);
    publish(&mut net, 6, "check");
    let evidence = contradiction(&net, 7);
    net.hosts.iter_mut().for_each(|host| host.seen.clear());
    restart_with_evidence(&mut net, 3, 7);
    net.run_ms(10_000);
    let convicted = net.hosts[6].id;
    for index in (0..10).filter(|index| *index != 6) {
        assert!(has_convicted(&net, index), "node {index}");
        assert!(!net.connected(index, convicted), "node {index}");
        if index != 3 {
            let body = told(&net, index).expect("the application is told");
            assert_eq!(body.len(), evidence.len());
        }
    }
    assert!(!reaches(&mut net, 6, 0));
    assert_eq!(net.failed(6, 1), Some(Code::Convicted), "it is told why");
    assert!(call(&mut net, 0, "check", 9).is_none());
}

#[test]
fn who_was_away_hears_of_a_conviction_on_contact() {
    let mut net = guarded_ring(6);
    net.kill(5);
    restart_with_evidence(&mut net, 3, 2);
    net.run_ms(10_000);
    assert!(!has_convicted(&net, 5));
    net.restart(5);
    net.connect(5, 0);
    net.run_ms(3_000);
    assert!(has_convicted(&net, 5));
}

#[test]
fn convicted_node_is_let_in_with_a_certificate_from_after_its_conviction() {
    let mut net = guarded_ring(6);
    restart_with_evidence(&mut net, 3, 2);
    net.run_ms(10_000);
    net.kill(1);
    let renewed = |not_before_ms: u64| {
        certificate(CertificateTerms {
            not_before_ms,
            serial: 99,
            ..terms(2, Role::Member)
        })
    };
    // One that overlaps the epoch of the contradiction is no way around it.
    net.hosts[1].config.certificate = renewed(net.now_ms - EPOCH_MS);
    net.restart(1);
    assert!(!reaches(&mut net, 1, 0));
    net.kill(1);
    net.run_ms(2 * EPOCH_MS);
    net.hosts[1].config.certificate = renewed(net.now_ms);
    net.restart(1);
    assert!(reaches(&mut net, 1, 0));
    // Others still hold the evidence, which counts for what was before.
    assert!(has_convicted(&net, 0));
}

#[test]
fn list_of_revocations_takes_the_place_of_a_conviction() {
    let mut net = guarded_ring(6);
    restart_with_evidence(&mut net, 3, 2);
    net.run_ms(2 * EPOCH_MS);
    let list = revocations(&net, 1, &[2]);
    net.step(
        0,
        &[selfsame_codec::Input::Revoke {
            tag: 400,
            list: &list,
        }],
    );
    net.run_ms(2 * EPOCH_MS);
    for index in (0..6).filter(|index| *index != 1) {
        assert!(!has_convicted(&net, index), "node {index}");
        assert!(!net.connected(index, net.hosts[1].id));
    }
}

#[test]
fn leaf_hears_of_a_conviction_and_refuses_too() {
    let mut net = guarded_ring(6);
    let leaf = add(&mut net, 100, Role::Leaf, &[0, 1]);
    join(&mut net, leaf);
    restart_with_evidence(&mut net, 3, 2);
    net.run_ms(30_000);
    assert!(has_convicted(&net, leaf));
}
