//! A whole handshake with fixed seeds, and messages to refuse.

use selfsame_codec::Code;
use selfsame_core::BootId;
use selfsame_core::admission::Gate;
use selfsame_core::handshake::{
    Confirmed, Header, INITIATION_BYTES, Initiator, Responder, SessionSecrets, cookie_frame, reject_frame,
};
use selfsame_core::identity::{Identity, NetworkId, PeerId, labelled_hash};
use selfsame_core::random::Random;
use selfsame_sodium::aead::{self, Key};
use selfsame_sodium::hash::{derive_key, keyed};
use selfsame_sodium::xwing;

use super::NETWORK;
use super::json::{Json, hex, number, text};

const INITIATOR_INDEX: u32 = 0x0102_0304;
const RESPONDER_INDEX: u32 = 0xa1a2_a3a4;
/// A ping frame with token 5.
const PAYLOAD: &[u8] = &[9, 5, 0, 0, 0, 0, 0, 0, 0];

pub(super) fn net() -> NetworkId {
    NetworkId::open(NETWORK)
}

fn gate() -> Gate {
    Gate::new(net(), None)
}

pub(super) fn initiator_identity() -> Identity {
    run_of(1)
}

/// The identity of a node in a run of it.
fn run_of(seed: u8) -> Identity {
    let mut identity = Identity::recall(&[seed; 32], net(), &[]);
    identity.set_boot(BootId([0xb0 + seed; 16]));
    identity
}

pub(super) fn responder_identity() -> Identity {
    run_of(2)
}

/// One run: what each side drew, sent and got
struct Run {
    initiator: Initiator,
    responder: Responder,
    m1: [u8; INITIATION_BYTES],
    m2: Vec<u8>,
    m3: Vec<u8>,
    secrets: SessionSecrets,
    confirmed: Confirmed,
}

impl Run {
    /// Why the initiator refuses what it takes for m2.
    fn refusal_of_m2(&self, frame: &[u8]) -> Option<Code> {
        let finished = self
            .initiator
            .finish(&initiator_identity(), (&mut gate(), 0), frame);
        finished.err()
    }
}

fn run(target: Option<PeerId>, cookie: Option<&[u8; 32]>) -> Run {
    let (alice, bob) = (initiator_identity(), responder_identity());
    let mut initiator = Initiator::new(&alice, &mut Random::new(&[3; 32]), target, INITIATOR_INDEX);
    if let Some(cookie) = cookie {
        initiator.set_cookie(cookie);
    }
    let m1: [u8; INITIATION_BYTES] = initiator.initiation().try_into().expect("the length of m1");
    let responder =
        Responder::new(&bob, &mut Random::new(&[4; 32]), &m1, RESPONDER_INDEX).expect("m1 is sound");
    let m2 = responder.response().to_vec();
    let (secrets, confirmation) = initiator
        .finish(&alice, (&mut gate(), 0), &m2)
        .expect("m2 is sound");
    let m3 = confirmation.seal(&alice, PAYLOAD);
    let confirmed = responder
        .finish(&bob, (&mut gate(), 0), &m3)
        .expect("m3 is sound");
    assert_eq!(confirmed.payload, PAYLOAD);
    assert_eq!(confirmed.secrets.session_id, secrets.session_id);
    Run {
        initiator,
        responder,
        m1,
        m2,
        m3,
        secrets,
        confirmed,
    }
}

/// The secrets of both sides of the first run.
pub(super) fn session_secrets() -> (SessionSecrets, SessionSecrets) {
    let run = run(Some(responder_identity().id()), None);
    (run.secrets, run.confirmed.secrets)
}

/// The numbers that initiator and responder chose for the session.
pub(super) const INDEXES: (u32, u32) = (INITIATOR_INDEX, RESPONDER_INDEX);

pub(super) fn vectors() -> Json {
    let target = responder_identity().id();
    Json::Object(vec![
        ("network", text(NETWORK)),
        ("net", hex(&net().0)),
        ("initiator", side(&initiator_identity(), 1, INITIATOR_INDEX)),
        ("responder", side(&responder_identity(), 2, RESPONDER_INDEX)),
        (
            "handshakes",
            Json::List(vec![
                describe("with a target", &run(Some(target), None)),
                describe("with a cookie", &run(Some(target), Some(&[0x5c; 32]))),
                describe("with whoever answers", &run(None, None)),
            ]),
        ),
        ("cookie_and_reject", cookie_and_reject()),
        ("refused", refused()),
    ])
}

fn side(identity: &Identity, seed: u8, index: u32) -> Json {
    Json::Object(vec![
        ("master_seed", hex(&[seed; 32])),
        ("public_key", hex(&identity.public().0)),
        ("id", hex(&identity.id().0)),
        ("boot", hex(&identity.boot().0)),
        ("index", number(index)),
    ])
}

/// What the specification derives, computed here a second time from its formulas.
struct Derived {
    xwing_seed: [u8; 32],
    encapsulation_seed: [u8; 64],
    secret: [u8; 32],
    offer: [u8; 32],
    answer: [u8; 32],
    k_m2: [u8; 32],
    k_m3: [u8; 32],
}

fn derive(run: &Run) -> Derived {
    let xwing_seed = *Random::new(&[3; 32]).secret::<32>();
    let encapsulation_seed = *Random::new(&[4; 32]).secret::<64>();
    let key = run.m1[16..1232].try_into().expect("an X-Wing key");
    let (ciphertext, secret) = xwing::encapsulate(key, &encapsulation_seed).expect("a sound key");
    assert_eq!(ciphertext[..], run.m2[16..1136]);
    let secret = *secret.as_bytes();
    let offer = labelled_hash(
        "selfsame/1 handshake transcript offer",
        &[&run.m1, &run.m2[..1168]],
    );
    let answer = labelled_hash(
        "selfsame/1 handshake transcript answer",
        &[&offer, &run.m2[1168..]],
    );
    let root = derive_key("selfsame/1 handshake keys", &[secret, offer, net().0].concat());
    Derived {
        xwing_seed,
        encapsulation_seed,
        secret,
        offer,
        answer,
        k_m2: keyed(&root, &[1]),
        k_m3: keyed(&root, &[0]),
    }
}

fn open(key: &[u8; 32], ad: &[u8], sealed: &[u8]) -> Vec<u8> {
    let (body, tag) = sealed.split_last_chunk::<16>().expect("a tag");
    let mut body = body.to_vec();
    aead::open_in_place(&Key::new(*key), &[0; 12], ad, &mut body, tag).expect("it opens");
    body
}

fn describe(what: &str, run: &Run) -> Json {
    let derived = derive(run);
    let proof_m2 = open(&derived.k_m2, &derived.offer, &run.m2[1168..]);
    let proof_m3 = open(
        &derived.k_m3,
        &[&derived.answer[..], &run.m3[..16]].concat(),
        &run.m3[16..],
    );
    Json::Object(vec![
        ("what", text(what)),
        ("xwing_seed", hex(&derived.xwing_seed)),
        ("encapsulation_seed", hex(&derived.encapsulation_seed)),
        ("m1", hex(&run.m1)),
        ("secret", hex(&derived.secret)),
        ("offer", hex(&derived.offer)),
        ("k_m2", hex(&derived.k_m2)),
        ("k_m3", hex(&derived.k_m3)),
        ("proof_m2", hex(&proof_m2)),
        ("m2", hex(&run.m2)),
        ("answer", hex(&derived.answer)),
        ("payload", hex(PAYLOAD)),
        ("proof_and_payload_m3", hex(&proof_m3)),
        ("m3", hex(&run.m3)),
        ("k_initiator", hex(run.secrets.send.as_bytes())),
        ("k_responder", hex(run.secrets.receive.as_bytes())),
        ("session_id", hex(&run.secrets.session_id)),
    ])
}

fn cookie_and_reject() -> Json {
    let run = run(None, None);
    let header = Header::parse(&run.m1).expect("a header");
    Json::Object(vec![
        ("cookie", hex(&[0x5c; 32])),
        ("cookie_frame", hex(&cookie_frame(&header, &net(), &[0x5c; 32]))),
        ("reject_code", number(Code::WrongPeer.as_u16())),
        (
            "reject_frame",
            hex(&reject_frame(&header, &net(), Code::WrongPeer)),
        ),
    ])
}

fn flip(frame: &[u8], at: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at] ^= 1;
    frame
}

/// Messages of the first handshake, changed. Each is given to a side that awaits it.
fn refused() -> Json {
    let mut list = Vec::new();
    let run = run(Some(responder_identity().id()), None);
    let bob = responder_identity();
    let mut add = |what: &str, message: &str, frame: &[u8], given: Option<Code>, code: Code| {
        assert_eq!(given, Some(code), "{what}");
        list.push(Json::Object(vec![
            ("what", text(what)),
            ("message", text(message)),
            ("frame", hex(frame)),
            ("code", text(code.name())),
        ]));
    };
    let heads = [
        ("another version", 1, Code::WrongVersion),
        ("another suite", 2, Code::WrongSuite),
        ("another network tag", 12, Code::WrongNetwork),
    ];
    for (what, at, code) in heads {
        let frame = flip(&run.m1, at);
        let given = Header::parse(&frame).expect("a header").check(&net()).err();
        add(what, "m1", &frame, given, code);
    }
    let m2 = [
        ("a bit of the ciphertext", 16, Code::BadHandshake),
        ("a bit of the nonce", 1136, Code::BadHandshake),
        ("a bit of the sealed proof", 1168, Code::BadHandshake),
        ("a bit of the tag", 1281, Code::BadHandshake),
        ("a bit of the sender index", 4, Code::BadHandshake),
    ];
    for (what, at, code) in m2 {
        let frame = flip(&run.m2, at);
        add(what, "m2", &frame, run.refusal_of_m2(&frame), code);
    }
    let short = &run.m2[..run.m2.len() - 1];
    add("cut short", "m2", short, run.refusal_of_m2(short), Code::BadFrame);
    let carol = Identity::recall(&[5; 32], net(), &[]);
    let hers = Responder::new(&carol, &mut Random::new(&[6; 32]), &run.m1, 7).expect("m1 is sound");
    let hers = hers.response();
    let what = "answered by another peer";
    add(what, "m2", hers, run.refusal_of_m2(hers), Code::WrongPeer);
    let m3 = [
        ("a bit of the sender index", 4, Code::BadHandshake),
        ("a bit of the sealed proof", 16, Code::BadHandshake),
        ("a bit of the payload", 16 + 98, Code::BadHandshake),
    ];
    for (what, at, code) in m3 {
        let frame = flip(&run.m3, at);
        let given = run.responder.finish(&bob, (&mut gate(), 0), &frame).err();
        add(what, "m3", &frame, given, code);
    }
    Json::List(list)
}
