//! Groups of a closed network: leases, contradictions, and that nobody else is convicted.

use alloc::rc::Rc;
use core::cell::Cell;

use selfsame_codec::cbor::Decoder;
use selfsame_codec::{Class, Code};
use selfsame_core::identity::{Identity, PeerId};
use selfsame_core::record::NodeRecord;
use selfsame_core::ring::{
    Contradiction, EPOCH_MS, Lease, LeaseTerms, MAX_CONTRADICTION_BYTES, MAX_GROUP, MAX_LEASE_BYTES,
};

use selfsame_core::Holder;

use super::network::{Network, START_MS};
use super::outsider::encoded;
use crate::support::closed::GUARDED;

/// Until every member has signed a lease that names its whole group, and told its neighbours.
const LEASED_MS: u64 = 5 * EPOCH_MS;

/// A ring whose members have all signed leases.
fn leased(seed: u64, count: usize) -> Network {
    let mut net = Network::guarded(seed).with_members(count);
    net.run_for(LEASED_MS);
    net
}

/// An answer to `groups`, taken apart: whether it is one, with the lease in it.
fn groups(body: &[u8]) -> Option<Option<&[u8]>> {
    let mut decoder = Decoder::new(body);
    decoder.array_of(2).ok()?;
    if decoder.uint() != Ok(0) || decoder.array_of(4).is_err() {
        return None;
    }
    decoder.bool().ok()?;
    Some(if decoder.null() {
        None
    } else {
        Some(decoder.bytes(MAX_LEASE_BYTES).ok()?)
    })
}

/// An answer to `groups` that gives this lease.
fn giving(lease: &[u8]) -> Vec<u8> {
    encoded(|encoder| {
        encoder
            .array(2)
            .uint(0)
            .array(4)
            .bool(true)
            .bytes(lease)
            .array(0)
            .array(0);
    })
}

/// Asks a node for its lease, as the peer of another node.
fn lease_of(net: &mut Network, node: usize, from: usize) -> Option<Vec<u8>> {
    let request = encoded(|encoder| _ = encoder.array(3).uint(12).array(0).bool(false));
    let from = net.id(from);
    let body = net.request(node, Holder::EXEMPT, from, &request);
    groups(&body).expect("an answer to groups").map(<[u8]>::to_vec)
}

/// The members that a lease names, and its epoch.
fn read(lease: &[u8]) -> (Vec<PeerId>, u64) {
    let mut outer = Decoder::new(lease);
    outer.array_of(2).expect("a statement and a signature");
    let mut decoder = Decoder::new(outer.bytes(MAX_LEASE_BYTES).expect("a statement"));
    decoder.array_of(6).expect("six items");
    decoder.uint().expect("a version");
    for _ in 0..3 {
        decoder.fixed::<32>().expect("a network, a key, a leader");
    }
    let epoch = decoder.uint().expect("an epoch");
    let count = decoder.array(MAX_GROUP).expect("members");
    let members = (0..count).map(|_| PeerId(decoder.fixed().expect("an id")));
    (members.collect(), epoch)
}

/// A lease of a node, whatever it says.
fn lease(identity: &Identity, epoch: u64, members: &[PeerId]) -> Lease {
    let terms = LeaseTerms {
        leader: identity.id(),
        epoch,
        members: members.to_vec(),
    };
    Lease::sign(identity, terms)
}

/// Two leases for now of a node that need not be in the ring.
fn contradiction_of(net: &Network, liar: usize) -> Vec<u8> {
    contradiction(net, liar, epoch(net))
}

/// Two leases of a node that contradict each other, as evidence.
fn contradiction(net: &Network, liar: usize, epoch: u64) -> Vec<u8> {
    let identity = net.identity(liar);
    let others = [identity.id(), PeerId([1; 32])];
    Contradiction::of(
        identity.evidence(),
        &lease(&identity, epoch, &others[..1]),
        &lease(&identity, epoch, &others),
    )
}

/// Has a liar tell a node that it knows of a conviction, and answer with this evidence when it is asked.
fn accuse(net: &mut Network, liar: usize, node: usize, evidence: Vec<u8>) {
    accuse_all(net, liar, node, &[evidence]);
}

fn accuse_all(net: &mut Network, liar: usize, node: usize, evidence: &[Vec<u8>]) {
    let tell = encoded(|encoder| {
        encoder
            .array(2)
            .uint(13)
            .array(1)
            .array(2)
            .bytes(&[7; 32])
            .uint(u64::MAX);
    });
    let answer = encoded(|encoder| {
        encoder.array(2).uint(0).array(evidence.len());
        for one in evidence {
            encoder.bytes(one);
        }
    });
    net.forge = Some(Box::new(move |by, body| {
        let is_list = body.starts_with(&[0x82, 0x00]) && body[2] >> 5 == 4 && body.len() < 64;
        (by == liar && is_list).then(|| answer.clone())
    }));
    net.connect(liar, node);
    let from = net.id(liar);
    net.request(node, Holder::EXEMPT, from, &tell);
    net.run_for(5_000);
    net.forge = None;
}

fn epoch(net: &Network) -> u64 {
    net.now_ms / EPOCH_MS
}

/// Whether a node still counts another among those after it.
fn knows(net: &Network, node: usize, peer: usize) -> bool {
    let peer = net.id(peer);
    net.nodes[node].ring.record_of(&peer).is_some()
}

#[test]
fn every_member_signs_the_group_that_is_nearest_around_it() {
    for count in [1, 2, 5, 7, 30] {
        let mut net = leased(3, count);
        let members = net.members();
        for (place, node) in members.iter().enumerate() {
            let asker = members[(place + 1) % count];
            let (named, _) = read(&lease_of(&mut net, *node, asker).expect("a lease"));
            let group = count.min(GUARDED.group);
            assert_eq!(named.len(), group, "{count} members");
            let first = if count < 7 {
                members
                    .iter()
                    .position(|member| net.id(*member) == named[0])
                    .expect("a member")
            } else {
                (place + count - 3) % count
            };
            let expected: Vec<PeerId> = (0..group)
                .map(|step| net.id(members[(first + step) % count]))
                .collect();
            assert_eq!(named, expected, "{count} members");
        }
    }
}

#[test]
fn leader_that_signs_two_leases_for_one_epoch_is_convicted_by_all() {
    let mut net = leased(4, 24);
    let members = net.members();
    let liar = members[9];
    let identity = net.identity(liar);
    let turn = Rc::new(Cell::new(false));
    net.forge = Some(Box::new(move |by, body| {
        let honest = groups(body).flatten().filter(|_| by == liar)?;
        turn.set(!turn.get());
        let (mut named, epoch) = read(honest);
        named.pop();
        turn.get()
            .then(|| giving(lease(&identity, epoch, &named).encoded()))
    }));
    net.run_for(3 * EPOCH_MS);
    for node in members.iter().filter(|node| **node != liar) {
        assert!(!knows(&net, *node, liar), "node {node}");
        let told = net.convicted.iter().filter(|(by, _)| by == node);
        assert_eq!(told.count(), 1, "node {node}");
        assert_eq!(kept(&net, *node), 1);
    }
}

#[test]
fn churn_and_restarts_make_no_contradiction() {
    let mut net = leased(5, 20);
    for round in 0..12 {
        let members = net.members();
        let node = members[round % members.len()];
        let copy = net.nodes[node].store.clone();
        net.crash(node, round % 2 == 0);
        net.run_for(7_000);
        if round % 3 == 0 {
            // From a copy that is older than what was signed since.
            net.nodes[node].store = copy;
        }
        net.restart(node, round % 4 != 0);
        net.join(node, &[members[(round + 3) % members.len()]]);
        net.run_for(EPOCH_MS - 11_000);
    }
    net.run_for(2 * EPOCH_MS);
    assert!(net.convicted.is_empty());
}

#[test]
fn node_that_starts_again_gives_the_lease_that_it_has_stored() {
    let mut net = leased(6, 12);
    let members = net.members();
    let (node, asker) = (members[4], members[5]);
    let before = lease_of(&mut net, node, asker).expect("a lease");
    net.forget(node);
    assert_eq!(lease_of(&mut net, node, asker), Some(before.clone()));
    // Others join and leave around it: for the epoch that is under way it says nothing new.
    net.crash(members[3], true);
    net.run_for(EPOCH_MS - net.now_ms % EPOCH_MS - 1);
    let after = lease_of(&mut net, node, asker);
    assert!(after.is_none_or(|after| read(&after).1 != read(&before).1 || after == before));
}

#[test]
fn nothing_is_signed_before_it_is_stored() {
    let mut net = Network::guarded(7).with_members(8);
    let members = net.members();
    net.unstored.insert(members[2]);
    net.run_for(LEASED_MS);
    assert!(net.nodes[members[2]].store.contains_key(&b"ring/lease"[..]));
    assert_eq!(lease_of(&mut net, members[2], members[3]), None);
    assert!(lease_of(&mut net, members[3], members[2]).is_some());
}

#[test]
fn no_lease_is_signed_in_the_epoch_in_which_a_run_began_nor_in_the_next() {
    let mut net = Network::guarded(8).with_members(6);
    let members = net.members();
    let start_ms = START_MS;
    while net.now_ms < start_ms + 10 * EPOCH_MS {
        net.run_for(1_000);
        if let Some(lease) = lease_of(&mut net, members[0], members[1]) {
            assert!(read(&lease).1 * EPOCH_MS >= start_ms + EPOCH_MS);
            return;
        }
    }
    panic!("no lease");
}

#[test]
fn true_evidence_convicts_and_survives_a_restart() {
    let mut net = leased(9, 16);
    let members = net.members();
    let (liar, teller, node) = (members[3], members[10], members[12]);
    let evidence = contradiction(&net, liar, epoch(&net));
    accuse(&mut net, teller, node, evidence.clone());
    assert!(
        members
            .iter()
            .filter(|node| **node != liar)
            .all(|node| !knows(&net, *node, liar))
    );
    assert!(net.convicted.iter().all(|(_, told)| *told == evidence));
    net.forget(node);
    assert_eq!(
        net.convicted.last(),
        Some(&(node, evidence)),
        "its host is told again"
    );
    net.run_for(60_000);
    assert!(!knows(&net, node, liar));
}

#[test]
fn nobody_is_convicted_by_evidence_that_has_a_fault() {
    let mut net = leased(10, 16);
    let members = net.members();
    let (victim, liar, node) = (members[3], members[10], members[12]);
    let now = epoch(&net);
    let (of_victim, of_liar) = (net.identity(victim), net.identity(liar));
    let me = [net.id(victim)];
    let both = [net.id(victim), net.id(liar)];
    let one = lease(&of_victim, now, &me);
    let other = lease(&of_victim, now, &both);
    let of = |one: &Lease, other: &Lease| Contradiction::of(of_victim.evidence(), one, other);
    // What the victim has signed, under the liar's signature.
    let forged = Lease::sign(&of_liar, other.terms().clone());
    let elsewhere = Network::guarded(99);
    let elsewhere_certified = net.certificate(liar, of_victim.public());
    let of_other_network = lease(&elsewhere.identity(victim), now, &both);
    let mut broken = of(&one, &other);
    *broken.last_mut().expect("bytes") ^= 1;
    let faults = [
        ("a lease that the victim has not signed", of(&one, &forged)),
        ("a bit of a signature", broken),
        ("the same lease twice", of(&one, &one)),
        ("two epochs", of(&one, &lease(&of_victim, now - 1, &both))),
        ("two leaders", of(&one, &lease(&of_liar, now, &both))),
        ("another network", of(&one, &of_other_network)),
        (
            "another's certificate",
            Contradiction::of(of_liar.evidence(), &one, &other),
        ),
        ("no certificate", Contradiction::of(&[], &one, &other)),
        (
            "an epoch to come",
            of(
                &lease(&of_victim, now + 9, &me),
                &lease(&of_victim, now + 9, &both),
            ),
        ),
        (
            "an epoch before the certificate",
            of(&lease(&of_victim, 9, &me), &lease(&of_victim, 9, &both)),
        ),
        (
            "a certificate of the victim for another place",
            Contradiction::of(elsewhere_certified.encoded(), &one, &other),
        ),
        (
            "two leases in the victim's name by the liar's key",
            Contradiction::of(
                of_liar.evidence(),
                &forged,
                &Lease::sign(&of_liar, one.terms().clone()),
            ),
        ),
        ("nothing", Vec::new()),
        ("too much", vec![0; MAX_CONTRADICTION_BYTES + 1]),
    ];
    for (fault, evidence) in faults {
        accuse(&mut net, liar, node, evidence);
        assert!(net.convicted.is_empty() && knows(&net, node, victim), "{fault}");
    }
    // It was not for something else that nobody was.
    accuse(&mut net, liar, node, of(&one, &other));
    assert!(!knows(&net, node, victim));
}

#[test]
fn changed_bit_of_evidence_is_noticed() {
    let net = Network::guarded(11).with_members(2);
    let evidence = contradiction(&net, 1, START_MS / EPOCH_MS);
    let authority = Identity::of_authority(&[11; 32], "ring-tests", selfsame_codec::Admission::Dns);
    let verify = |bytes: &[u8]| {
        let mut gate = selfsame_core::admission::Gate::new(authority.network(), Some(authority.public()));
        Contradiction::verify(&mut gate, bytes, START_MS).map(|found| found.leader())
    };
    assert_eq!(verify(&evidence), Ok(net.id(1)));
    assert!(evidence.len() <= MAX_CONTRADICTION_BYTES);
    for bit in 0..evidence.len() * 8 {
        let mut bad = evidence.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(verify(&bad).is_err(), "bit {bit}");
    }
    for len in 0..evidence.len() {
        assert!(verify(&evidence[..len]).is_err(), "{len} bytes");
    }
}

/// What a member makes of a lease that its neighbour gives.
fn reason(change: impl FnOnce(&Network, usize, &mut Vec<PeerId>, &mut u64)) -> Vec<Code> {
    let mut net = leased(12, 20);
    let members = net.members();
    let (leader, node) = (members[6], members[7]);
    let (mut named, mut at) = read(&lease_of(&mut net, leader, node).expect("a lease"));
    change(&net, leader, &mut named, &mut at);
    let given = lease(&net.identity(leader), at, &named);
    net.nodes[node].refusals.clear();
    net.forge = Some(Box::new(move |by, body| {
        groups(body).filter(|_| by == leader)?;
        Some(giving(given.encoded()))
    }));
    net.run_for(EPOCH_MS);
    net.nodes[node].refusals.clone()
}

#[test]
fn list_that_is_not_in_order_is_refused() {
    assert!(
        !reason(|_, _, _, at| *at += 1).contains(&Code::BadGroup),
        "a sound one"
    );
    for change in [
        |named: &mut Vec<PeerId>| named.swap(1, 2),
        |named: &mut Vec<PeerId>| named[1] = named[0],
        |named: &mut Vec<PeerId>| named.rotate_left(3),
        |named: &mut Vec<PeerId>| named.clear(),
        |named: &mut Vec<PeerId>| _ = named.remove(3),
    ] {
        let reasons = reason(|_, _, named, at| {
            change(named);
            *at += 1;
        });
        assert!(reasons.contains(&Code::BadGroup), "{reasons:?}");
    }
    let moved = reason(|net, leader, named, at| {
        let members = net.members();
        let place = members
            .iter()
            .position(|member| *member == leader)
            .expect("a member");
        *named = (0..7)
            .map(|step| net.id(members[(place + step) % members.len()]))
            .collect();
        *at += 1;
    });
    assert!(
        moved.contains(&Code::BadGroup),
        "the leader is not in the middle: {moved:?}"
    );
}

#[test]
fn list_with_a_stranger_is_refused() {
    let reasons = reason(|_, _, named, at| {
        let last = named.last_mut().expect("a member");
        last.0[31] ^= 1;
        *at += 1;
    });
    assert!(reasons.contains(&Code::StrangerInGroup), "{reasons:?}");
}

#[test]
fn list_that_is_too_long_is_refused() {
    let net = Network::guarded(13);
    let members: Vec<PeerId> = (0..=MAX_GROUP as u8).map(|number| PeerId([number; 32])).collect();
    let given = lease(&net.identity(0), 9, &members);
    let authority = Identity::of_authority(&[13; 32], "ring-tests", selfsame_codec::Admission::Dns);
    let mut gate = selfsame_core::admission::Gate::new(authority.network(), Some(authority.public()));
    assert_eq!(
        Lease::verify(&mut gate, given.encoded()).err(),
        Some(Code::BadMessage)
    );
    let most = lease(&net.identity(0), u64::MAX, &members[1..]);
    assert!(most.encoded().len() <= MAX_LEASE_BYTES);
    assert_eq!(Lease::verify(&mut gate, most.encoded()), Ok(most));
}

#[test]
fn lease_in_the_name_of_another_is_refused() {
    let net = Network::guarded(18);
    let (victim, liar) = (net.identity(0), net.identity(1));
    let authority = Identity::of_authority(&[18; 32], "ring-tests", selfsame_codec::Admission::Dns);
    let mut gate = selfsame_core::admission::Gate::new(authority.network(), Some(authority.public()));
    let of_victim = lease(&victim, 9, &[victim.id()]);
    assert_eq!(
        Lease::verify(&mut gate, of_victim.encoded()),
        Ok(of_victim.clone())
    );
    let forged = Lease::sign(&liar, of_victim.terms().clone());
    assert_eq!(
        Lease::verify(&mut gate, forged.encoded()).err(),
        Some(Code::BadSignature)
    );
}

#[test]
fn lease_of_an_old_epoch_is_refused() {
    let reasons = reason(|_, _, _, at| *at -= 5);
    assert!(reasons.contains(&Code::StaleRecord), "{reasons:?}");
    let reasons = reason(|_, _, _, at| *at += 5);
    assert!(reasons.contains(&Code::StaleRecord), "{reasons:?}");
}

#[test]
fn member_without_a_guard_knows_no_such_requests() {
    let mut net = Network::ring_of(14, 4);
    let from = net.id(1);
    for request in [
        encoded(|encoder| _ = encoder.array(3).uint(12).array(0).bool(false)),
        encoded(|encoder| _ = encoder.array(2).uint(13).array(0)),
    ] {
        assert_eq!(
            super::outsider::ask(&mut net, 0, from, &request),
            Some(Class::Malformed)
        );
    }
    net.run_for(LEASED_MS);
    assert!(
        net.nodes
            .iter()
            .all(|node| !node.store.contains_key(&b"ring/lease"[..]))
    );
}

#[test]
fn group_takes_the_place_of_a_predecessor_that_is_gone() {
    let mut net = leased(16, 20);
    let members = net.members();
    let (before, gone, node) = (members[4], members[5], members[6]);
    net.end_session(before, gone);
    net.crash(gone, true);
    net.run_for(250);
    let predecessor = net.nodes[node].ring.predecessor().map(NodeRecord::id);
    assert_eq!(predecessor, Some(net.id(before)));
}

/// How many convictions a node keeps.
fn kept(net: &Network, node: usize) -> usize {
    let keys = net.nodes[node].store.keys();
    keys.filter(|key| key.starts_with(b"ring/contradiction/")).count()
}

#[test]
fn table_of_convictions_lets_nobody_go_for_another() {
    let mut net = Network::guarded(17).with_members(3);
    let first = contradiction(&net, 1, epoch(&net));
    accuse(&mut net, 2, 0, first);
    assert_eq!(kept(&net, 0), 1);
    let guilty = net.identity(1).public();
    for round in 0..20 {
        let start = 100 + 16 * round;
        let evidence: Vec<Vec<u8>> = (start..start + 16)
            .map(|liar| contradiction_of(&net, liar))
            .collect();
        accuse_all(&mut net, 2, 0, &evidence);
    }
    assert_eq!(kept(&net, 0), 256);
    let first = [b"ring/contradiction/", &guilty.0[..]].concat();
    assert!(net.nodes[0].store.contains_key(&first));
}
