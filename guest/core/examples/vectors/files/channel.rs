//! Packets, rekeying and frames.

use selfsame_codec::{Class, Code};
use selfsame_core::channel::{
    Data, Frame, FrameReader, FrameWriter, MAX_MESSAGE, Message, Open, Route, Service, Session, Side,
};
use selfsame_core::identity::{PeerId, PublicKey};
use selfsame_sodium::hash;

use super::NOW;
use super::handshake::{INDEXES, session_secrets};
use super::json::{Json, hex, number, text};

const HOUR: u64 = 3_600_000;

pub(super) fn vectors() -> Json {
    Json::Object(vec![
        ("session", session()),
        ("packets", packets()),
        ("refused_packets", refused_packets()),
        (
            "frames",
            Json::List(
                frames()
                    .into_iter()
                    .chain(routed_frames())
                    .map(|(name, frame)| frame_vector(name, &frame))
                    .collect(),
            ),
        ),
        ("refused_payloads", refused_payloads()),
    ])
}

/// Both sides of the session of the first handshake.
fn pair() -> (Session, Session) {
    let (ours, theirs) = session_secrets();
    (
        Session::new(ours, Side::Initiator, INDEXES.1, NOW),
        Session::new(theirs, Side::Responder, INDEXES.0, NOW),
    )
}

fn session() -> Json {
    let (secrets, _) = session_secrets();
    let phases = |first: &[u8; 32]| {
        let mut key = *first;
        let keys = (0..4).map(|_| {
            let this = hex(&key);
            key = hash::derive_key(
                "selfsame/1 next packet key",
                &[&key[..], &secrets.session_id].concat(),
            );
            this
        });
        Json::List(keys.collect())
    };
    Json::Object(vec![
        ("session_id", hex(&secrets.session_id)),
        ("initiator_index", number(INDEXES.0)),
        ("responder_index", number(INDEXES.1)),
        ("initiator_keys_by_phase", phases(secrets.send.as_bytes())),
        ("responder_keys_by_phase", phases(secrets.receive.as_bytes())),
    ])
}

fn seal(session: &mut Session, now_ms: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let sealed = session.seal(now_ms, &mut out, |out| out.extend_from_slice(payload));
    assert_eq!(sealed, Ok(()));
    out
}

/// Packets in the order in which they are sent; each opens at the other side.
fn packets() -> Json {
    let (mut alice, mut bob) = pair();
    let ping = payload(&Frame::Ping { token: 7 });
    let long: Vec<u8> = (0..1000).map(|at| at as u8).collect();
    let long = payload(&Frame::Data(Data {
        stream: 0,
        offset: 0,
        bytes: &long,
    }));
    let sent: [(bool, u64, &[u8]); 6] = [
        (true, 0, &ping),
        (false, 0, &ping),
        (true, 0, &[]),
        (true, 0, &long),
        (true, HOUR, &ping),
        (true, 2 * HOUR, &ping),
    ];
    let list = sent.iter().map(|(by_initiator, after_ms, payload)| {
        let (sender, receiver) = if *by_initiator {
            (&mut alice, &mut bob)
        } else {
            (&mut bob, &mut alice)
        };
        let packet = seal(sender, NOW + after_ms, payload);
        assert_eq!(receiver.open(NOW + after_ms, &mut packet.clone()), Ok(*payload));
        Json::Object(vec![
            (
                "sender",
                text(if *by_initiator { "initiator" } else { "responder" }),
            ),
            ("phase", number(packet[1])),
            (
                "counter",
                number(u64::from_le_bytes(packet[8..16].try_into().expect("8 bytes"))),
            ),
            ("payload", hex(payload)),
            ("packet", hex(&packet)),
        ])
    });
    Json::List(list.collect())
}

/// Packets for a responder that has opened nothing but `first`.
fn refused_packets() -> Json {
    let (mut alice, mut bob) = pair();
    let ping = payload(&Frame::Ping { token: 7 });
    let first = seal(&mut alice, NOW, &ping);
    assert!(bob.open(NOW, &mut first.clone()).is_ok());
    let second = seal(&mut alice, NOW, &ping);
    let mut mirror = pair().1;
    seal(&mut mirror, NOW, &ping);
    let mut reflected = seal(&mut mirror, NOW, &ping);
    // So that it finds the session at all.
    reflected[4..8].copy_from_slice(&INDEXES.1.to_le_bytes());
    let change = |at: usize, value: u8| {
        let mut packet = second.clone();
        packet[at] = value;
        packet
    };
    let cases: Vec<(&str, Vec<u8>, Code)> = vec![
        ("sent again", first.clone(), Code::Replayed),
        (
            "sealed by its receiver, with the next counter",
            reflected,
            Code::BadSeal,
        ),
        ("with another counter", change(8, 9), Code::BadSeal),
        ("with another phase", change(1, 1), Code::BadSeal),
        ("with a phase far off", change(1, 7), Code::BadSeal),
        ("with a reserved byte", change(2, 1), Code::BadFrame),
        ("with a changed payload", change(16, !second[16]), Code::BadSeal),
        (
            "with a changed tag",
            change(second.len() - 1, !second[second.len() - 1]),
            Code::BadSeal,
        ),
        ("cut short", second[..31].to_vec(), Code::BadFrame),
    ];
    let list = cases.into_iter().map(|(what, packet, code)| {
        assert_eq!(bob.open(NOW, &mut packet.clone()).err(), Some(code), "{what}");
        Json::Object(vec![
            ("what", text(what)),
            ("packet", hex(&packet)),
            ("code", text(code.name())),
        ])
    });
    let list = Json::List(list.collect());
    assert!(
        bob.open(NOW, &mut second.clone()).is_ok(),
        "what was refused changed nothing"
    );
    Json::Object(vec![
        ("first", hex(&first)),
        ("then", list),
        ("still_opens", hex(&second)),
    ])
}

fn payload(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    FrameWriter::new(&mut out).frame(frame);
    out
}

fn frames() -> Vec<(&'static str, Frame<'static>)> {
    let service = |owner| Service { owner, name: "check" };
    let open = |owner| {
        Frame::Open(Open {
            stream: 2,
            service: service(owner),
            head: b"head",
        })
    };
    vec![
        ("REQUEST id 1, body 0102", Frame::Request { id: 1, body: &[1, 2] }),
        ("RESPONSE id 1, body 03", Frame::Response { id: 1, body: &[3] }),
        ("OPEN stream 2, unowned, check, head \"head\"", open(None)),
        (
            "OPEN stream 2, owner 32 times ee, check, head \"head\"",
            open(Some(PublicKey([0xee; 32]))),
        ),
        (
            "DATA stream 2, offset 16384, aabb",
            Frame::Data(Data {
                stream: 2,
                offset: 16_384,
                bytes: &[0xaa, 0xbb],
            }),
        ),
        (
            "END stream 2, offset 16386",
            Frame::End {
                stream: 2,
                offset: 16_386,
            },
        ),
        (
            "RESET stream 3, class 8",
            Frame::Reset {
                stream: 3,
                class: Class::Service,
            },
        ),
        (
            "CREDIT stream 3, limit 327680",
            Frame::Credit {
                stream: 3,
                limit: 327_680,
            },
        ),
        (
            "RELAY peer 32 times dd, frame 10",
            Frame::Relay {
                peer: PeerId([0xdd; 32]),
                frame: &[0x10],
            },
        ),
        (
            "RELAY peer 32 times dd, empty",
            Frame::Relay {
                peer: PeerId([0xdd; 32]),
                frame: &[],
            },
        ),
        ("PING token 7", Frame::Ping { token: 7 }),
        ("PONG token 7", Frame::Pong { token: 7 }),
        (
            "CLOSE class 8",
            Frame::Close {
                class: Class::Service,
            },
        ),
    ]
}

/// What members pass on, and what only goes through the ring.
fn routed_frames() -> Vec<(&'static str, Frame<'static>)> {
    vec![
        (
            "ROUTE to 32 times dd, from 32 times ee, 32 hops, frame 10",
            Frame::Route(Route {
                to: PeerId([0xdd; 32]),
                from: PeerId([0xee; 32]),
                hops: 32,
                frame: &[0x10],
            }),
        ),
        (
            "MESSAGE id 9, settled 8, target 32 times dd, body 0102",
            Frame::Message(Message {
                id: 9,
                settled: 8,
                target: [0xdd; 32],
                body: &[1, 2],
            }),
        ),
        (
            "ANSWER id 9, body 03",
            Frame::Answer {
                id: 9,
                class: None,
                body: &[3],
            },
        ),
        (
            "ANSWER id 9, class 5",
            Frame::Answer {
                id: 9,
                class: Some(Class::Unreachable),
                body: &[],
            },
        ),
    ]
}

fn frame_vector(name: &str, frame: &Frame<'_>) -> Json {
    let bytes = payload(frame);
    assert_eq!(FrameReader::new(&bytes).collect::<Vec<_>>(), [Ok(*frame)]);
    Json::Object(vec![("frame", text(name)), ("encoded", hex(&bytes))])
}

/// Payloads that end a session.
fn refused_payloads() -> Json {
    let data = |len: u32| {
        let mut out = vec![4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        out.extend_from_slice(&len.to_le_bytes());
        out.resize(out.len() + len as usize, 0);
        out
    };
    let message = |len: usize| {
        let message = Message {
            id: 1,
            settled: 1,
            target: [0; 32],
            body: &vec![0; len],
        };
        payload(&Frame::Message(message))
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a frame of no kind", vec![0]),
        ("a frame of another kind", vec![12, 0]),
        ("a ping that ends early", vec![9, 1, 2]),
        ("empty data", data(0)),
        ("too much data", data(16_385)),
        (
            "an owner of another length",
            vec![3, 2, 0, 0, 0, 1, 0xee, 1, b'a', 0, 0, 0, 0],
        ),
        ("no name", vec![3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (
            "a name that is not UTF-8",
            vec![3, 2, 0, 0, 0, 0, 1, 0xff, 0, 0, 0, 0],
        ),
        ("a message that is too long", message(MAX_MESSAGE + 1)),
        (
            "an answer of class 9",
            vec![14, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0],
        ),
        ("class 0", vec![11, 0]),
        ("class 9", vec![11, 9]),
        (
            "a body beyond the payload",
            vec![1, 0, 0, 0, 0, 255, 255, 255, 255],
        ),
    ];
    let list = cases.into_iter().map(|(why, payload)| {
        assert!(FrameReader::new(&payload).any(|frame| frame.is_err()), "{why}");
        Json::Object(vec![("why", text(why)), ("payload", hex(&payload))])
    });
    Json::List(list.collect())
}
