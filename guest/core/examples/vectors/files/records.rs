//! Node records, grants and addresses: valid ones, and ones to refuse with their codes.

use selfsame_codec::cbor::Encoder;
use selfsame_codec::{Code, Role};
use selfsame_core::BootId;
use selfsame_core::admission::Gate;
use selfsame_core::grant::{Grant, MAX_REVOKED, Terms};
use selfsame_core::identity::{Identity, NetworkId, PeerId};
use selfsame_core::record::{
    CLOCK_SKEW_MS, MAX_RECORD_LIFE_MS, NodeRecord, RecordTerms, addresses_allowed, relay_address,
};

use super::json::{Json, hex, number, text};
use super::{NETWORK, NOW};

const DAY: u64 = MAX_RECORD_LIFE_MS;
const RECORD: &str = "selfsame/1 node record";

pub(super) fn vectors() -> Json {
    Json::Object(vec![
        ("network", text(NETWORK)),
        ("records", records()),
        ("grants", grants()),
        ("addresses", addresses()),
    ])
}

fn net() -> NetworkId {
    NetworkId::open(NETWORK)
}

/// The run of the node.
const BOOT: BootId = BootId([0x42; 16]);

fn node() -> Identity {
    let mut node = Identity::recall(&[7; 32], net(), &[]);
    node.set_boot(BOOT);
    node
}

/// What is written in a statement, so that wrong ones can be signed as well.
struct Statement {
    version: u64,
    net: NetworkId,
    role: u64,
    addresses: Vec<String>,
    domain: String,
    boot: [u8; 16],
    sequence: u64,
    signed_at_ms: u64,
    expiry_ms: u64,
    certificate: Vec<u8>,
}

fn statement() -> Statement {
    Statement {
        version: 2,
        net: net(),
        role: 1,
        addresses: vec!["wss://a.example/.mesh".into(), "https://a.example/.mesh".into()],
        domain: "eu-1".into(),
        boot: BOOT.0,
        sequence: NOW + 5,
        signed_at_ms: NOW,
        expiry_ms: NOW + DAY,
        certificate: Vec::new(),
    }
}

fn signed(identity: &Identity, label: &'static str, statement: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out)
        .array(2)
        .bytes(statement)
        .bytes(&identity.sign(label, statement).0);
    out
}

impl Statement {
    fn sign_with(&self, signer: &Identity) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(11)
            .uint(self.version)
            .bytes(&self.net.0)
            .bytes(&node().public().0);
        encoder.uint(self.role).array(self.addresses.len());
        for address in &self.addresses {
            encoder.text(address);
        }
        encoder
            .text(&self.domain)
            .bytes(&self.boot)
            .uint(self.sequence)
            .uint(self.signed_at_ms)
            .uint(self.expiry_ms);
        if self.certificate.is_empty() {
            encoder.null();
        } else {
            encoder.bytes(&self.certificate);
        }
        signed(signer, RECORD, &out)
    }

    fn sign(&self) -> Vec<u8> {
        self.sign_with(&node())
    }
}

/// What it is, the bytes, when they are read, and what is wrong with them.
type Case = (&'static str, Vec<u8>, u64, Option<Code>);

fn with(change: impl Fn(&mut Statement)) -> Vec<u8> {
    let mut statement = statement();
    change(&mut statement);
    statement.sign()
}

/// Soundly signed, but no records.
fn malformed_records() -> Vec<Case> {
    let good = statement().sign();
    let trailing = [&good[..], &[0]].concat();
    vec![
        ("of no role", with(|s| s.role = 2), NOW, Some(Code::BadRecord)),
        (
            "that lives too long",
            with(|s| s.expiry_ms += 1),
            NOW,
            Some(Code::BadRecord),
        ),
        (
            "that ends before it begins",
            with(|s| s.expiry_ms = NOW),
            NOW,
            Some(Code::BadRecord),
        ),
        (
            "with nine addresses",
            with(|s| s.addresses = vec!["ws://a.example".into(); 9]),
            NOW,
            Some(Code::BadRecord),
        ),
        (
            "with an address that is none",
            with(|s| s.addresses = vec!["a.example".into()]),
            NOW,
            Some(Code::BadRecord),
        ),
        (
            "of a member with a relay",
            with(|s| s.addresses = vec![relay_address(&PeerId([0xab; 32]))]),
            NOW,
            Some(Code::BadRecord),
        ),
        (
            "with too long a domain",
            with(|s| s.domain = "d".repeat(65)),
            NOW,
            Some(Code::BadRecord),
        ),
        ("with a byte after it", trailing, NOW, Some(Code::BadRecord)),
        (
            "cut short",
            good[..good.len() - 1].to_vec(),
            NOW,
            Some(Code::BadRecord),
        ),
    ]
}

/// What the second version added: sequences apart from the time, and room for a certificate.
fn records_of_version_2() -> Vec<Case> {
    vec![
        (
            "with a sequence of a clock that ran ahead",
            with(|s| s.sequence = NOW + DAY),
            NOW,
            None,
        ),
        (
            "with a sequence too far ahead",
            with(|s| s.sequence = NOW + DAY + 1),
            NOW,
            Some(Code::BadRecord),
        ),
        (
            "with a certificate in an open network",
            with(|s| s.certificate = vec![1; 320]),
            NOW,
            Some(Code::BadRecord),
        ),
    ]
}

fn records() -> Json {
    let good = statement().sign();
    let (addresses, domain) = (statement().addresses, statement().domain);
    let terms = RecordTerms {
        domain: &domain,
        sequence: NOW + 5,
        ..RecordTerms::new(Role::Member, &addresses, NOW, NOW + DAY)
    };
    let ours = NodeRecord::sign(&node(), &terms).expect("within limits");
    assert_eq!(ours.encoded(), good, "the core signs the same bytes");
    let leaf = Statement {
        role: 0,
        addresses: vec![relay_address(&PeerId([0xab; 32]))],
        domain: String::new(),
        ..statement()
    };
    let stranger = Identity::recall(&[8; 32], net(), &[]);
    let other = NetworkId::open("other");
    let mut cases: Vec<Case> = vec![
        ("a member", good.clone(), NOW, None),
        ("a leaf", leaf.sign(), NOW, None),
        ("in its last millisecond", good.clone(), NOW + DAY - 1, None),
        (
            "from a clock that runs ahead",
            good.clone(),
            NOW - CLOCK_SKEW_MS,
            None,
        ),
        ("expired", good.clone(), NOW + DAY, Some(Code::StaleRecord)),
        (
            "from the future",
            good.clone(),
            NOW - CLOCK_SKEW_MS - 1,
            Some(Code::WrongClock),
        ),
        (
            "signed by another",
            statement().sign_with(&stranger),
            NOW,
            Some(Code::BadSignature),
        ),
        (
            "of another network",
            with(|s| s.net = other),
            NOW,
            Some(Code::WrongNetwork),
        ),
        (
            "of another version",
            with(|s| s.version = 1),
            NOW,
            Some(Code::BadRecord),
        ),
    ];
    cases.extend(records_of_version_2());
    cases.extend(malformed_records());
    let check = |bytes: &[u8], now| {
        NodeRecord::decode_verified(&mut Gate::new(net(), None), bytes, now).map(|record| record.id())
    };
    Json::List(cases.into_iter().map(|case| one("record", case, check)).collect())
}

fn one(
    name: &'static str,
    (what, bytes, now_ms, code): (&str, Vec<u8>, u64, Option<Code>),
    check: impl Fn(&[u8], u64) -> Result<PeerId, Code>,
) -> Json {
    let given = check(&bytes, now_ms);
    assert_eq!(given.err(), code, "{what}");
    Json::Object(vec![
        ("what", text(what)),
        (name, hex(&bytes)),
        ("now_ms", number(now_ms)),
        ("peer", given.map_or(Json::Null, |id| hex(&id.0))),
        ("code", code.map_or(Json::Null, |code| text(code.name()))),
    ])
}

/// A grant's statement from now on for a second, as the specification has it.
fn grant_statement(owner: &Identity, net: NetworkId, name: &str, revoked: &[PeerId]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder
        .array(8)
        .uint(1)
        .bytes(&net.0)
        .bytes(&owner.public().0)
        .text(name)
        .bytes(&node().id().0)
        .uint(NOW)
        .uint(NOW + 1000)
        .array(revoked.len());
    for peer in revoked {
        encoder.bytes(&peer.0);
    }
    out
}

/// The same as the core signs it.
fn ours(owner: &Identity, revoked: &[PeerId]) -> Vec<u8> {
    let terms = Terms {
        name: "check".into(),
        peer: node().id(),
        issued_ms: NOW,
        expiry_ms: NOW + 1000,
        revoked: revoked.to_vec(),
    };
    let grant = Grant::sign(owner, terms).expect("within limits");
    grant.encoded().to_vec()
}

fn grants() -> Json {
    const LABEL: &str = "selfsame/1 grant";
    let owner = Identity::of_owner(&[9; 32], net());
    let peer = node().id();
    let revoked = vec![PeerId([0x11; 32]), PeerId([0x22; 32])];
    let make = |net: NetworkId, name: &str, revoked: &[PeerId]| grant_statement(&owner, net, name, revoked);
    let by = |identity: &Identity, statement: Vec<u8>| signed(identity, LABEL, &statement);
    let good = by(&owner, make(net(), "check", &[]));
    let revoking = by(&owner, make(net(), "check", &revoked));
    assert_eq!(ours(&owner, &revoked), revoking, "the core signs the same bytes");
    assert_eq!(ours(&owner, &[]), good, "the core signs the same bytes");
    let too_many = by(&owner, make(net(), "check", &[peer].repeat(MAX_REVOKED + 1)));
    let elsewhere = by(&owner, make(NetworkId::open("other"), "check", &[]));
    let misnamed = by(&owner, make(net(), "Check", &[]));
    let cases: Vec<(&str, Vec<u8>, u64, Option<Code>)> = vec![
        ("a grant", good.clone(), NOW, None),
        ("a grant that revokes others", revoking, NOW, None),
        (
            "revoking more than a grant may",
            too_many,
            NOW,
            Some(Code::BadRecord),
        ),
        (
            "issued by a clock that is ahead",
            good.clone(),
            NOW - CLOCK_SKEW_MS,
            None,
        ),
        (
            "issued in the future",
            good.clone(),
            NOW - CLOCK_SKEW_MS - 1,
            Some(Code::StaleRecord),
        ),
        ("expired", good.clone(), NOW + 1000, Some(Code::StaleRecord)),
        ("of another network", elsewhere, NOW, Some(Code::WrongNetwork)),
        ("for a name that is none", misnamed, NOW, Some(Code::BadRecord)),
        (
            "signed by the peer itself",
            by(&node(), make(net(), "check", &[])),
            NOW,
            Some(Code::BadSignature),
        ),
        (
            "signed under another label",
            signed(&owner, RECORD, &make(net(), "check", &[])),
            NOW,
            Some(Code::BadSignature),
        ),
    ];
    let check =
        |bytes: &[u8], now| Grant::decode_verified(bytes, &net(), now).map(|grant| grant.terms().peer);
    let list = cases.into_iter().map(|case| one("grant", case, check)).collect();
    Json::Object(vec![
        ("owner", hex(&owner.public().0)),
        ("name", text("check")),
        ("cases", Json::List(list)),
    ])
}

fn addresses() -> Json {
    let relay = relay_address(&PeerId([0xab; 32]));
    let cases: &[(&str, Option<Code>)] = &[
        ("wss://a.example", None),
        ("wss://a.example/.mesh", None),
        ("https://a.example:8443/behind/a/proxy/.mesh", None),
        ("https://a.example/.mesh/eu-1.b_2", None),
        ("ws://8.8.8.8:53", None),
        ("ws://[2606:4700::1]:80/", None),
        ("ws://localhost.example", None),
        (&relay, None),
        ("http://127.0.0.1:80/", Some(Code::ForbiddenAddress)),
        ("ws://127.1", Some(Code::ForbiddenAddress)),
        ("ws://2130706433/", Some(Code::ForbiddenAddress)),
        ("ws://0x7f.1/", Some(Code::ForbiddenAddress)),
        ("ws://0177.0.0.1/", Some(Code::ForbiddenAddress)),
        ("ws://172.31.0.1", Some(Code::ForbiddenAddress)),
        ("ws://172.32.0.1", None),
        ("http://169.254.169.254/", Some(Code::ForbiddenAddress)),
        ("http://100.100.100.200/", Some(Code::ForbiddenAddress)),
        ("http://metadata.google.internal/", Some(Code::ForbiddenAddress)),
        ("http://LOCALHOST./", Some(Code::ForbiddenAddress)),
        ("http://db/", Some(Code::ForbiddenAddress)),
        ("ws://[::1]:7000", Some(Code::ForbiddenAddress)),
        ("ws://[::ffff:7f00:1]/", Some(Code::ForbiddenAddress)),
        ("ws://[::ffff:127.0.0.1]/", Some(Code::BadAddress)),
        ("ws://[64:ff9b::7f00:1]/", Some(Code::ForbiddenAddress)),
        ("ws://[2002:7f00:1::]/", Some(Code::ForbiddenAddress)),
        ("ws://[fd00::1]", Some(Code::ForbiddenAddress)),
        ("", Some(Code::BadAddress)),
        ("a.example", Some(Code::BadAddress)),
        ("ftp://a.example", Some(Code::BadAddress)),
        ("ws://user@a.example", Some(Code::BadAddress)),
        ("ws://a.example:99999", Some(Code::BadAddress)),
        ("ws://a.example#id", Some(Code::BadAddress)),
        ("ws://a.example\\@b", Some(Code::BadAddress)),
        ("ws://256.1.1.1", Some(Code::BadAddress)),
        ("ws://[fe80::1%25eth0]/", Some(Code::BadAddress)),
        ("relay:00", Some(Code::BadAddress)),
        ("http://a.example/delete?all", Some(Code::BadAddress)),
        ("http://a.example/?/.mesh", Some(Code::BadAddress)),
        ("https://a.example/x?y/.mesh", Some(Code::BadAddress)),
        ("https://a.example/x", Some(Code::BadAddress)),
        ("https://a.example/.mesh/", Some(Code::BadAddress)),
        ("https://a.example/.mesh/..", Some(Code::BadAddress)),
        ("https://a.example/.mesh/%2e%2e", Some(Code::BadAddress)),
        ("https://a.example/.mesh/a/b", Some(Code::BadAddress)),
        ("https://a.example/.meshes", Some(Code::BadAddress)),
    ];
    let list = cases.iter().map(|(address, code)| {
        assert_eq!(
            addresses_allowed(Role::Leaf, &[(*address).into()], false).err(),
            *code,
            "{address}"
        );
        Json::Object(vec![
            ("address", text(*address)),
            ("code", code.map_or(Json::Null, |code| text(code.name()))),
        ])
    });
    Json::List(list.collect())
}
