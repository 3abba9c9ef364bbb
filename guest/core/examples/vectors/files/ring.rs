//! Requests of the ring, and what a member of a ring of one answers.

use selfsame_codec::cbor::Encoder;
use selfsame_codec::{Class, Role};
use selfsame_core::Holder;
use selfsame_core::association::{Association, Leaf, ObjectId, Validity};
use selfsame_core::identity::{Identity, NetworkId};
use selfsame_core::random::Random;
use selfsame_core::record::{CLOCK_SKEW_MS, NodeRecord, RecordTerms};
use selfsame_core::ring::{Action, Context, Parameters, Ring, Settings};

use super::json::{Json, hex, number, text};
use super::{NETWORK, NOW};

const HOUR: u64 = 3_600_000;

fn net() -> NetworkId {
    NetworkId::open(NETWORK)
}

fn identity(seed: u8) -> Identity {
    Identity::recall(&[seed; 32], net(), &[])
}

fn record(seed: u8, role: Role) -> Vec<u8> {
    let addresses = match role {
        Role::Member => vec![format!("wss://n{seed}.example/.mesh")],
        Role::Leaf => Vec::new(),
    };
    signed(seed, &RecordTerms::new(role, &addresses, NOW, NOW + HOUR))
}

fn signed(seed: u8, terms: &RecordTerms<'_>) -> Vec<u8> {
    let record = NodeRecord::sign(&identity(seed), terms);
    record.expect("within limits").encoded().to_vec()
}

/// The member that answers
struct Member {
    ring: Ring,
    random: Random,
    token: u64,
}

impl Member {
    fn new(seed: u8) -> Self {
        let settings = Settings {
            id: identity(seed).id(),
            network: net(),
            authority: None,
            role: Role::Member,
            addresses: vec![format!("wss://n{seed}.example/.mesh")],
            domain: String::new(),
            allow_private: false,
            idle_ms: 60_000,
        };
        let ring = Ring::new(settings, &Parameters::DEFAULT);
        let random = Random::new(&[seed; 32]);
        let mut member = Self {
            ring,
            random,
            token: 0,
        };
        member.with(|ring, cx| ring.join(cx, 1, Vec::new()));
        assert!(member.ring.is_joined(), "a ring of one needs nobody");
        member
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Ring, &mut Context<'_>) -> R) -> R {
        let identity = identity(1);
        let mut context = Context {
            now_ms: NOW,
            wall_ms: NOW,
            identity: &identity,
            random: &mut self.random,
            source: Holder::EXEMPT,
        };
        act(&mut self.ring, &mut context)
    }

    fn answer(&mut self, from: u8, request: &[u8]) -> Vec<u8> {
        self.token += 1;
        let token = self.token;
        self.with(|ring, cx| ring.request(cx, identity(from).id(), token, request));
        let mut response = None;
        while let Some(action) = self.ring.poll() {
            if let Action::Respond { token: other, body } = action
                && other == token
            {
                response = Some(body);
            }
        }
        response.expect("a ring of one answers at once")
    }
}

fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Encoder::new(&mut out));
    out
}

/// An association of the leaf with seed 3 that it serves the unowned name `check`.
fn association(sequence_ms: u64) -> Association {
    let leaf = Leaf {
        salt: [0x5a; 16],
        owner: None,
        name: "check".into(),
        r: 0,
        withdrawn: false,
        version: "1".into(),
        weight: 100,
        grant: Vec::new(),
    };
    let validity = Validity {
        sequence_ms,
        not_before_ms: NOW,
        expiry_ms: NOW + HOUR,
    };
    Association::publish(&identity(3), &[leaf], validity)
        .expect("within limits")
        .remove(0)
}

fn entry(encoder: &mut Encoder<'_>, sequence_ms: u64) {
    let association = association(sequence_ms);
    encoder
        .array(2)
        .bytes(association.encoded())
        .bytes(&record(3, Role::Leaf));
}

pub(super) fn vectors() -> Json {
    let mut member = Member::new(1);
    let mut list = Vec::new();
    for (what, from, request) in requests() {
        let response = member.answer(from, &request);
        assert_eq!(response[..2], [0x82, 0], "{what} is answered with a result");
        list.push(exchange(what, from, &request, &response));
    }
    let mut refused = Vec::new();
    for (what, from, request, class) in refusals() {
        let response = member.answer(from, &request);
        assert_eq!(
            response,
            [0x82, 1, class as u8],
            "{what} is refused for this reason"
        );
        refused.push(exchange(what, from, &request, &response));
    }
    for (what, from, request, expected) in record_refusals() {
        let response = member.answer(from, &request);
        assert_eq!(response, expected, "{what} is refused with what mends it");
        refused.push(exchange(what, from, &request, &response));
    }
    Json::Object(vec![
        ("network", text(NETWORK)),
        ("now_ms", number(NOW)),
        ("member", hex(&identity(1).id().0)),
        ("answered_in_this_order", Json::List(list)),
        ("then_refused", Json::List(refused)),
    ])
}

fn exchange(what: &str, from: u8, request: &[u8], response: &[u8]) -> Json {
    Json::Object(vec![
        ("what", text(what)),
        ("from", hex(&identity(from).id().0)),
        ("request", hex(request)),
        ("response", hex(response)),
    ])
}

fn requests() -> Vec<(&'static str, u8, Vec<u8>)> {
    let object = ObjectId::of(&net(), None, "check", 0).0;
    let nothing = ObjectId::of(&net(), None, "nothing", 0).0;
    let member = record(2, Role::Member);
    let find = |object: &[u8; 32], held| encoded(|e| _ = e.array(3).uint(2).bytes(object).bool(held));
    vec![
        ("ping", 2, encoded(|e| _ = e.array(2).uint(0).array(0))),
        (
            "find-node",
            2,
            encoded(|e| _ = e.array(2).uint(1).bytes(&[0x80; 32])),
        ),
        (
            "vouch",
            2,
            encoded(|e| _ = e.array(3).uint(10).bytes(&[0x80; 32]).bytes(&identity(2).id().0)),
        ),
        (
            "attach, by a leaf",
            3,
            encoded(|e| _ = e.array(2).uint(8).bytes(&record(3, Role::Leaf))),
        ),
        (
            "store, by its publisher",
            3,
            encoded(|e| entry(e.array(2).uint(3), NOW)),
        ),
        ("find", 4, find(&object, false)),
        ("find of what is held", 4, find(&object, true)),
        ("find of what nobody serves", 4, find(&nothing, false)),
        ("join", 2, encoded(|e| _ = e.array(2).uint(5).bytes(&member))),
        (
            "update",
            2,
            encoded(|e| _ = e.array(4).uint(6).bytes(&member).bool(true).array(0)),
        ),
        (
            "ping with a hint",
            2,
            encoded(|e| _ = e.array(2).uint(0).array(1).bytes(&record(6, Role::Member))),
        ),
        (
            "mirror, by a member",
            2,
            encoded(|e| {
                e.array(2).uint(4).array(1);
                entry(e, NOW);
            }),
        ),
        (
            "leave",
            2,
            encoded(|e| _ = e.array(5).uint(7).bytes(&member).null().array(0).array(0)),
        ),
        ("detach", 3, encoded(|e| _ = e.array(1).uint(9))),
    ]
}

/// Updates with records that no longer serve, and what their senders are told.
fn record_refusals() -> Vec<(&'static str, u8, Vec<u8>, Vec<u8>)> {
    let update = |record: &[u8]| encoded(|e| _ = e.array(4).uint(6).bytes(record).bool(false).array(0));
    let newest = record(2, Role::Member);
    let at = |signed_at_ms| RecordTerms::new(Role::Member, &[], signed_at_ms, NOW + HOUR);
    let superseded = signed(2, &at(NOW - 1));
    let future = signed(2, &at(NOW + CLOCK_SKEW_MS + 1));
    let stored = association(NOW);
    let older = encoded(|e| entry(e.array(2).uint(3), NOW - 1));
    vec![
        (
            "store of an older sequence",
            3,
            older,
            encoded(|e| _ = e.array(2).uint(2).bytes(stored.encoded())),
        ),
        (
            "update with a record below the newest",
            2,
            update(&superseded),
            encoded(|e| _ = e.array(2).uint(2).bytes(&newest)),
        ),
        (
            "update with a record from the future",
            2,
            update(&future),
            encoded(|e| _ = e.array(2).uint(3).uint(NOW)),
        ),
    ]
}

fn refusals() -> Vec<(&'static str, u8, Vec<u8>, Class)> {
    let member = record(2, Role::Member);
    let leaf = record(3, Role::Leaf);
    let update = |record: &[u8]| encoded(|e| _ = e.array(4).uint(6).bytes(record).bool(false).array(0));
    let store = |sequence_ms| encoded(|e| entry(e.array(2).uint(3), sequence_ms));
    let long = |e: &mut Encoder<'_>| {
        e.array(2).uint(0).array(17);
        (0..17).for_each(|_| _ = e.bytes(&member));
    };
    vec![
        ("no CBOR", 2, vec![0xff], Class::Malformed),
        (
            "a request of no kind",
            2,
            encoded(|e| _ = e.array(1).uint(10)),
            Class::Malformed,
        ),
        (
            "a byte behind a request",
            2,
            vec![0x81, 0x09, 0x00],
            Class::Malformed,
        ),
        ("too long a list", 2, encoded(long), Class::Malformed),
        (
            "update about somebody else",
            4,
            update(&member),
            Class::Misbehaved,
        ),
        ("update by a leaf", 3, update(&leaf), Class::Usage),
        ("update without a record", 2, update(b"record"), Class::Malformed),
        (
            "attach by a member",
            2,
            encoded(|e| _ = e.array(2).uint(8).bytes(&member)),
            Class::Usage,
        ),
        (
            "store by another than its publisher",
            4,
            store(NOW + 1),
            Class::Misbehaved,
        ),
    ]
}
