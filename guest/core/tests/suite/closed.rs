//! Closed networks: who is in them, and who is not any more.

use selfsame_codec::reply::{Status, Validity};
use selfsame_codec::{Code, EventKind, Input, Role};
use selfsame_core::Node;
use selfsame_core::admission::{Certificate, CertificateTerms, Revocations};
use selfsame_core::ring::Parameters;

use crate::support::closed::{
    DAY_MS, add, authority, certificate, certified, key_of, revocations, ring, terms,
};
use crate::support::rings::{call, join, publish};
use crate::support::{Net, START_MS, Seen, config};

/// Why a node does not start with this certificate.
fn refusal(seed: u8, role: Role, certificate: Vec<u8>) -> Option<Code> {
    Node::new(
        &certified(seed, role, &[], certificate).encode(),
        &Parameters::DEFAULT,
    )
    .err()
}

/// Has a node use a certificate that its own start would refuse, as one with changed code does.
fn forged(change: impl FnOnce(&mut CertificateTerms)) -> Vec<u8> {
    let mut terms = terms(1, Role::Member);
    change(&mut terms);
    certificate(terms)
}

fn revoke(net: &mut Net, index: usize, list: &[u8]) {
    net.step(index, &[Input::Revoke { tag: 400, list }]);
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

#[test]
fn members_and_leaves_with_certificates_form_a_ring_and_call_each_other() {
    let mut net = ring(8);
    let leaf = add(&mut net, 100, Role::Leaf, &[0, 1]);
    join(&mut net, leaf);
    publish(&mut net, 5, "check");
    let (_, callee, _) = call(&mut net, leaf, "check", 7).expect("an answer");
    assert_eq!(callee, 5);
    let mut ids: Vec<_> = net.hosts.iter().map(|host| host.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 9);
}

#[test]
fn certificate_is_refused_for_each_of_its_faults() {
    let good = terms(1, Role::Member);
    assert_eq!(refusal(1, Role::Member, certificate(good.clone())), None);
    assert_eq!(refusal(1, Role::Member, vec![]), Some(Code::NoCertificate));
    assert_eq!(
        refusal(1, Role::Member, b"no certificate".to_vec()),
        Some(Code::BadCertificate)
    );
    assert_eq!(
        refusal(2, Role::Member, certificate(good.clone())),
        Some(Code::BadCertificate),
        "another's"
    );
    assert_eq!(
        refusal(1, Role::Leaf, certificate(good.clone())),
        Some(Code::WrongRole)
    );
    assert_eq!(
        refusal(1, Role::Member, certificate(terms(1, Role::Leaf))),
        Some(Code::WrongRole)
    );
    let elsewhere = forged(|terms| terms.address = Some("10.0.0.1:7001".into()));
    assert_eq!(refusal(1, Role::Member, elsewhere), Some(Code::WrongAddress));
    let of_other = Certificate::sign(&authority(201), good).expect("sound terms");
    assert_eq!(
        refusal(1, Role::Member, of_other.encoded().to_vec()),
        Some(Code::WrongIssuer)
    );
}

#[test]
fn terms_that_no_node_accepts_are_not_signed() {
    let sign = |change: &dyn Fn(&mut CertificateTerms)| {
        let mut terms = terms(1, Role::Member);
        change(&mut terms);
        Certificate::sign(&authority(200), terms).err()
    };
    assert_eq!(sign(&|_| ()), None);
    assert_eq!(
        sign(&|terms| terms.address = Some("[2001:db8::1]:443".into())),
        None
    );
    assert_eq!(
        sign(&|terms| terms.expiry_ms = terms.not_before_ms + 32 * DAY_MS),
        None
    );
    for address in [
        "",
        "host",
        ":1",
        "host:",
        "host:0",
        "host:01",
        "host:65536",
        "host:+1",
        "Host:1",
        "user@host:1",
        "host:1/x",
        "ho st:1",
        &format!("{}:1", "h".repeat(95)),
    ] {
        let bad = sign(&|terms| terms.address = Some(address.into()));
        assert_eq!(bad, Some(Code::BadCertificate), "{address}");
    }
    for change in [
        |terms: &mut CertificateTerms| terms.expiry_ms = terms.not_before_ms,
        |terms: &mut CertificateTerms| terms.expiry_ms = terms.not_before_ms - 1,
        |terms: &mut CertificateTerms| terms.expiry_ms = terms.not_before_ms + 32 * DAY_MS + 1,
    ] {
        assert_eq!(sign(&change), Some(Code::BadCertificate));
    }
}

#[test]
fn changed_bit_of_a_certificate_is_noticed() {
    let good = certificate(terms(1, Role::Member));
    assert!(good.len() <= 320);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(refusal(1, Role::Member, bad).is_some(), "bit {bit}");
    }
    for len in 0..good.len() {
        assert!(
            refusal(1, Role::Member, good[..len].to_vec()).is_some(),
            "{len} bytes"
        );
    }
    assert!(refusal(1, Role::Member, [&good[..], &[0]].concat()).is_some());
}

#[test]
fn node_of_an_open_network_with_the_same_name_is_not_let_in() {
    let mut net = ring(2);
    let bootstraps = [net.hosts[0].address.clone()];
    let stranger = net.add(config(50, Role::Member, &bootstraps));
    net.step(stranger, &[Input::Join { tag: 100 }]);
    net.run_ms(60_000);
    assert_eq!(net.reply(stranger, 100), None);
    assert!(!reaches(&mut net, stranger, 0) && !reaches(&mut net, 0, stranger));
}

#[test]
fn certificate_counts_only_in_its_time() {
    let mut net = ring(3);
    let early = CertificateTerms {
        not_before_ms: net.now_ms + 10 * 60_000,
        ..terms(50, Role::Member)
    };
    let bootstraps = [net.pinned(0)];
    let early = net.add(certified(50, Role::Member, &bootstraps, certificate(early)));
    net.step(early, &[Input::Join { tag: 100 }]);
    assert_eq!(net.failed(early, 100), Some(Code::EarlyCertificate));
    // Others see it so, too, whatever the node thinks.
    net.hosts[early].clock_error_ms = 20 * 60_000;
    assert!(!reaches(&mut net, early, 0));
    net.hosts[early].clock_error_ms = 0;
    net.step(early, &[]);
    net.run_ms(10 * 60_000);
    net.hosts[early].seen.clear();
    join(&mut net, early);
    assert!(reaches(&mut net, early, 1));
}

#[test]
fn node_whose_certificate_expires_stops_and_is_parted_with() {
    let mut net = ring(4);
    publish(&mut net, 2, "check");
    let left_ms = START_MS + DAY_MS - net.now_ms;
    for index in [0, 1, 3] {
        let renewed = CertificateTerms {
            expiry_ms: START_MS + 3 * DAY_MS,
            serial: 100 + index as u64,
            ..terms(index as u8 + 1, Role::Member)
        };
        let renewed = certificate(renewed);
        let input = Input::Certify {
            tag: 500,
            certificate: &renewed,
        };
        net.step(index, &[input]);
        assert_eq!(net.reply(index, 500), Some(vec![]));
    }
    net.run_ms(left_ms - 60_000);
    net.hosts.iter_mut().for_each(|host| host.seen.clear());
    net.run_ms(5 * 60_000);
    assert_eq!(net.failed(2, 0), Some(Code::ExpiredCertificate));
    assert!(!reaches(&mut net, 2, 0) && !reaches(&mut net, 0, 2));
    assert!(call(&mut net, 0, "check", 9).is_none());
    // The others go on.
    publish(&mut net, 3, "other");
    let (_, callee, _) = call(&mut net, 0, "other", 10).expect("an answer");
    assert_eq!(callee, 3);
}

#[test]
fn certificate_is_renewed_only_by_one_that_fits() {
    let mut net = ring(2);
    let mut certify = |certificate: &[u8]| {
        net.hosts[0].seen.clear();
        net.step(
            0,
            &[Input::Certify {
                tag: 500,
                certificate,
            }],
        );
        net.failed(0, 500)
    };
    assert_eq!(certify(&forged(|terms| terms.expiry_ms += 1)), None);
    assert_eq!(certify(b""), Some(Code::NoCertificate));
    assert_eq!(
        certify(&certificate(terms(2, Role::Member))),
        Some(Code::BadCertificate)
    );
    let moved = forged(|terms| terms.address = Some("127.0.0.1:9999".into()));
    assert_eq!(certify(&moved), Some(Code::WrongSeat));
    let over = forged(|terms| {
        terms.not_before_ms = START_MS - 5000;
        terms.expiry_ms = START_MS - 1;
    });
    assert_eq!(certify(&over), Some(Code::ExpiredCertificate));
}

#[test]
fn revoked_node_is_refused_by_all_at_once() {
    let mut net = ring(12);
    publish(&mut net, 7, "check");
    let list = revocations(&net, 1, &[8]);
    net.hosts.iter_mut().for_each(|host| host.seen.clear());
    revoke(&mut net, 3, &list);
    net.run_ms(1_000);
    assert_eq!(net.reply(3, 400), Some(vec![]));
    let revoked = net.hosts[7].id;
    for index in (0..12).filter(|index| *index != 7) {
        assert!(!net.connected(index, revoked));
        assert!(net.hosts[index].store.contains_key(&b"ring/revocations"[..]));
    }
    for index in (0..12).filter(|index| *index != 7) {
        assert!(!reaches(&mut net, 7, index), "node {index} answers it");
        assert!(!reaches(&mut net, index, 7), "node {index} calls it");
    }
    reaches(&mut net, 7, 0);
    assert_eq!(net.failed(7, 1), Some(Code::RevokedCertificate), "it is told why");
    assert!(call(&mut net, 0, "check", 9).is_none());
}

#[test]
fn revoked_node_that_joins_is_told_why() {
    let mut net = ring(4);
    let list = revocations(&net, 1, &[4]);
    revoke(&mut net, 0, &list);
    net.run_ms(1_000);
    let through = net.pinned(0);
    let late = net.add(certified(
        4,
        Role::Member,
        &[through],
        certificate(terms(4, Role::Member)),
    ));
    net.step(late, &[Input::Join { tag: 50 }]);
    net.run_ms(30_000);
    assert_eq!(net.failed(late, 50), Some(Code::RevokedCertificate));
}

#[test]
fn status_tells_of_certificates_and_revocations() {
    let mut net = ring(4);
    let status = |net: &mut Net| {
        net.hosts[1].seen.clear();
        net.step(1, &[Input::Status { tag: 200 }]);
        let body = net.reply(1, 200).expect("a status");
        Status::decode(&body)
            .expect("a sound status")
            .membership
            .expect("a closed network")
    };
    let validity = Validity {
        since_ms: START_MS - 1000,
        until_ms: START_MS + DAY_MS,
    };
    let before = status(&mut net);
    assert_eq!(before.authority, authority(200).public().0);
    assert_eq!(before.certificate, validity);
    assert_eq!((before.serial, before.revoked), (0, 0));
    let mut others = [0, 2, 3].map(|index| (net.hosts[index].id.0, validity));
    others.sort_unstable_by_key(|(id, _)| *id);
    assert_eq!(before.neighbours, others);
    let list = revocations(&net, 7, &[4, 100]);
    revoke(&mut net, 0, &list);
    net.run_ms(1_000);
    let after = status(&mut net);
    assert_eq!((after.serial, after.revoked), (7, 2));
    assert!(after.neighbours.iter().all(|(id, _)| *id != net.hosts[3].id.0));
}

#[test]
fn revoked_leaf_is_parted_with() {
    let mut net = ring(4);
    let leaf = add(&mut net, 100, Role::Leaf, &[0, 1]);
    join(&mut net, leaf);
    let list = revocations(&net, 1, &[100]);
    revoke(&mut net, 2, &list);
    net.run_ms(1_000);
    let id = net.hosts[leaf].id;
    assert!((0..4).all(|index| !net.connected(index, id)));
    assert!(!reaches(&mut net, leaf, 0));
}

#[test]
fn revocation_reaches_who_was_away_with_the_first_exchange() {
    let mut net = ring(5);
    net.kill(4);
    net.run_ms(30_000);
    let list = revocations(&net, 1, &[2]);
    revoke(&mut net, 0, &list);
    net.run_ms(5_000);
    net.restart(4);
    assert!(reaches(&mut net, 4, 3));
    assert!(!reaches(&mut net, 4, 1) && !reaches(&mut net, 1, 4));
    // The other way round: who knows the list meets who does not.
    net.kill(3);
    let second = revocations(&net, 2, &[2, 3]);
    revoke(&mut net, 4, &second);
    net.run_ms(5_000);
    net.restart(3);
    assert!(reaches(&mut net, 4, 3));
    assert!(!reaches(&mut net, 3, 2));
}

#[test]
fn revocation_survives_a_restart_and_no_older_list_undoes_it() {
    let mut net = ring(4);
    let old = revocations(&net, 1, &[]);
    let list = revocations(&net, 2, &[2]);
    revoke(&mut net, 0, &list);
    net.run_ms(5_000);
    net.kill(0);
    net.restart(0);
    net.hosts[0].seen.clear();
    revoke(&mut net, 0, &old);
    assert_eq!(net.failed(0, 400), Some(Code::StaleRevocations));
    assert!(!reaches(&mut net, 0, 1) && !reaches(&mut net, 1, 0));
    // The certificate from before is no way around it, a later one is.
    let later = CertificateTerms {
        not_before_ms: net.now_ms,
        ..terms(2, Role::Member)
    };
    net.kill(1);
    net.hosts[1].config.certificate = certificate(later);
    net.restart(1);
    join(&mut net, 1);
    assert!(reaches(&mut net, 1, 0));
}

#[test]
fn list_of_revocations_is_refused_for_each_of_its_faults() {
    let mut net = ring(2);
    let good = revocations(&net, 5, &[2]);
    let mut failure = |list: &[u8]| {
        net.hosts[0].seen.clear();
        net.step(0, &[Input::Revoke { tag: 400, list }]);
        net.failed(0, 400)
    };
    let of_other = Revocations::sign(&authority(201), 9, vec![]).expect("none");
    assert_eq!(failure(of_other.encoded()), Some(Code::WrongIssuer));
    assert_eq!(failure(b""), Some(Code::BadMessage));
    assert_eq!(failure(&vec![0; 20_000]), Some(Code::BadMessage));
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(failure(&bad).is_some(), "bit {bit}");
    }
    assert_eq!(failure(&good), None);
    assert_eq!(failure(&good), None, "the same again");
    let mut open = Net::new();
    let index = open.member(1, &[]);
    revoke(&mut open, index, &good);
    assert_eq!(open.failed(index, 400), Some(Code::BadMessage));
}

#[test]
fn list_has_an_end_and_no_key_twice() {
    let revoked = |count: u16| {
        (0..count)
            .map(|index| {
                let mut key = key_of(&authority(200), 1);
                key.0[..2].copy_from_slice(&index.to_be_bytes());
                selfsame_core::admission::Revocation {
                    public: key,
                    before_ms: u64::MAX,
                }
            })
            .collect::<Vec<_>>()
    };
    let sign = |revoked| Revocations::sign(&authority(200), u64::MAX, revoked);
    let most = sign(revoked(256)).expect("the most");
    assert!(most.encoded().len() <= selfsame_core::admission::MAX_REVOCATIONS_BYTES);
    assert_eq!(sign(revoked(257)).err(), Some(Code::TooLarge));
    let twice = [revoked(1), revoked(1)].concat();
    assert_eq!(sign(twice).err(), Some(Code::BadCertificate));
    let mut net = ring(3);
    revoke(&mut net, 0, most.encoded());
    net.run_ms(1_000);
    assert!(
        net.hosts
            .iter()
            .all(|host| host.store.contains_key(&b"ring/revocations"[..]))
    );
}
