//! Leases of a closed network and evidence that they contradict each other: sound ones, and ones to refuse.

use selfsame_codec::{Admission, Code};
use selfsame_core::admission::{Certificate, CertificateTerms, Gate};
use selfsame_core::identity::{Identity, PeerId};
use selfsame_core::ring::{Contradiction, EPOCH_MS, Lease, LeaseTerms};

use super::json::{Json, hex, number, text};
use super::{NETWORK, NOW};

const HOUR: u64 = 3_600_000;

fn authority() -> Identity {
    Identity::of_authority(&[200; 32], NETWORK, Admission::Dns)
}

fn leader() -> Identity {
    let mut leader = Identity::recall(&[7; 32], authority().network(), &[]);
    let terms = CertificateTerms {
        public: leader.public(),
        serial: 1,
        not_before_ms: NOW - HOUR,
        expiry_ms: NOW + HOUR,
        address: Some("n7.example:443".into()),
    };
    let certificate = Certificate::sign(&authority(), terms).expect("sound terms");
    certificate.give_to(&mut leader).expect("its own");
    leader
}

fn lease(epoch: u64, steps: &[u8]) -> Lease {
    let leader = leader();
    let at = |step: &u8| {
        let mut id = leader.id();
        id.0[0] = id.0[0].wrapping_add(*step);
        id
    };
    let members: Vec<PeerId> = steps.iter().map(at).collect();
    let terms = LeaseTerms {
        leader: leader.id(),
        epoch,
        members,
    };
    Lease::sign(&leader, terms)
}

pub(super) fn vectors() -> Json {
    let epoch = NOW / EPOCH_MS;
    let (one, other) = (lease(epoch, &[254, 0, 2]), lease(epoch, &[254, 0, 3]));
    let evidence = |one: &Lease, other: &Lease| Contradiction::of(leader().evidence(), one, other);
    let sound = evidence(&one, &other);
    let mut broken = sound.clone();
    *broken.last_mut().expect("bytes") ^= 1;
    let bad = [
        ("the same lease twice", evidence(&one, &one)),
        ("two epochs", evidence(&one, &lease(epoch - 1, &[254, 0, 3]))),
        (
            "an epoch to come",
            evidence(&lease(epoch + 9, &[0]), &lease(epoch + 9, &[0, 1])),
        ),
        (
            "an epoch from before the certificate",
            evidence(&lease(9, &[0]), &lease(9, &[0, 1])),
        ),
        ("a signature that does not verify", broken),
        ("no certificate", Contradiction::of(&[], &one, &other)),
    ];
    Json::Object(vec![
        ("network", text(NETWORK)),
        ("authority", hex(&authority().public().0)),
        ("now-ms", number(NOW)),
        ("public-key", hex(&leader().public().0)),
        ("leader", hex(&leader().id().0)),
        ("epoch", number(epoch)),
        ("lease", hex(one.encoded())),
        ("digest", hex(&one.digest())),
        ("contradiction", hex(&sound)),
        ("before-ms", number((epoch + 1) * EPOCH_MS)),
        (
            "refused",
            Json::List(bad.iter().map(|(what, bytes)| refused(what, bytes)).collect()),
        ),
    ])
}

fn refused(what: &'static str, bytes: &[u8]) -> Json {
    let mut gate = Gate::new(authority().network(), Some(authority().public()));
    let code: Code = Contradiction::verify(&mut gate, bytes, NOW).expect_err(what);
    Json::Object(vec![
        ("what", text(what)),
        ("bytes", hex(bytes)),
        ("code", text(code.name())),
    ])
}
