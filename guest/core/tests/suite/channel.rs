//! Packets and streams of a session, and the attacks on them that must fail.

use selfsame_codec::{Class, Code, Reader};
use selfsame_core::admission::Gate;
use selfsame_core::channel::{
    Data, Frame, FrameReader, FrameWriter, MAX_PAYLOAD, Open, STREAM_WINDOW, Service, Session, Side,
    StreamEvent, Streams,
};
use selfsame_core::handshake::{INITIATION_BYTES, Initiator, Responder};
use selfsame_core::identity::{Identity, NetworkId, PublicKey};
use selfsame_core::random::Random;

const NOW: u64 = 1_800_000_000_000;

/// Two ends of a session.
fn sessions(entropy: u8) -> (Session, Session) {
    let network = NetworkId::open("n");
    let (alice, bob) = (
        Identity::recall(&[1; 32], network, &[]),
        Identity::recall(&[2; 32], network, &[]),
    );
    let mut random = Random::new(&[entropy; 32]);
    let initiator = Initiator::new(&alice, &mut random, Some(bob.id()), 11);
    let frame: [u8; INITIATION_BYTES] = initiator.initiation().try_into().expect("the length of m1");
    let responder = Responder::new(&bob, &mut random, &frame, 22).expect("a sound m1");
    let (secrets, confirmation) = initiator
        .finish(
            &alice,
            (&mut Gate::new(alice.network(), None), 0),
            responder.response(),
        )
        .expect("a sound m2");
    let a = Session::new(secrets, Side::Initiator, confirmation.peer_index(), NOW);
    let confirmed = responder
        .finish(
            &bob,
            (&mut Gate::new(bob.network(), None), 0),
            &confirmation.seal(&alice, &[]),
        )
        .expect("a sound m3");
    (
        a,
        Session::new(confirmed.secrets, Side::Responder, responder.peer_index(), NOW),
    )
}

fn seal(session: &mut Session, now_ms: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    session
        .seal(now_ms, &mut out, |out| out.extend_from_slice(payload))
        .expect("a small payload");
    out
}

fn open(session: &mut Session, now_ms: u64, packet: &[u8]) -> Result<Vec<u8>, Code> {
    let mut packet = packet.to_vec();
    session.open(now_ms, &mut packet).map(<[u8]>::to_vec)
}

#[test]
fn packets_go_both_ways_in_any_order() {
    let (mut a, mut b) = sessions(1);
    let packets: Vec<Vec<u8>> = (0..20_u8).map(|n| seal(&mut a, NOW, &[n])).collect();
    for n in [3_u8, 0, 19, 7, 1, 2, 18] {
        assert_eq!(open(&mut b, NOW, &packets[usize::from(n)]), Ok(vec![n]));
    }
    let back = seal(&mut b, NOW, b"back");
    assert_eq!(open(&mut a, NOW, &back), Ok(b"back".to_vec()));
}

#[test]
fn a_replayed_packet_is_refused() {
    let (mut a, mut b) = sessions(1);
    let packet = seal(&mut a, NOW, b"once");
    assert!(open(&mut b, NOW, &packet).is_ok());
    assert_eq!(open(&mut b, NOW, &packet), Err(Code::Replayed));
}

#[test]
fn a_packet_behind_the_window_is_refused() {
    let (mut a, mut b) = sessions(1);
    let old = seal(&mut a, NOW, b"old");
    for _ in 0..2048 {
        let packet = seal(&mut a, NOW, b"");
        open(&mut b, NOW, &packet).unwrap();
    }
    assert_eq!(open(&mut b, NOW, &old), Err(Code::Replayed));
}

#[test]
fn a_reflected_packet_is_refused() {
    let (mut a, mut b) = sessions(1);
    let packet = seal(&mut a, NOW, b"command");
    assert_eq!(open(&mut a, NOW, &packet), Err(Code::BadSeal));
    // Even when the counters are equal and the receiver's number is right.
    let mut answer = seal(&mut b, NOW, b"response");
    answer[4..8].copy_from_slice(&packet[4..8]);
    assert_eq!(open(&mut b, NOW, &answer), Err(Code::BadSeal));
}

#[test]
fn a_packet_of_another_session_of_the_same_peers_is_refused() {
    let (mut a, _) = sessions(1);
    let (_, mut other) = sessions(2);
    let packet = seal(&mut a, NOW, b"command");
    assert_eq!(open(&mut other, NOW, &packet), Err(Code::BadSeal));
}

#[test]
fn a_flipped_bit_anywhere_is_refused_and_changes_nothing() {
    let (mut a, mut b) = sessions(1);
    let packet = seal(&mut a, NOW, b"0123456789");
    for at in 0..packet.len() {
        let mut bad = packet.clone();
        bad[at] ^= 1;
        assert!(open(&mut b, NOW, &bad).is_err(), "byte {at}");
    }
    assert!(open(&mut b, NOW, &packet).is_ok());
}

#[test]
fn short_packets_are_refused() {
    let (mut a, mut b) = sessions(1);
    let packet = seal(&mut a, NOW, b"");
    for len in 0..packet.len() {
        assert!(open(&mut b, NOW, &packet[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn an_oversized_payload_is_not_sealed() {
    let (mut a, _) = sessions(1);
    let mut out = vec![1, 2, 3];
    assert_eq!(
        a.seal(NOW, &mut out, |out| out.resize(out.len() + MAX_PAYLOAD + 1, 0)),
        Err(Code::TooLarge)
    );
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn an_old_key_is_replaced_and_packets_under_it_still_arrive_for_a_while() {
    let (mut a, mut b) = sessions(1);
    let early = seal(&mut a, NOW, b"early");
    let late = seal(&mut a, NOW, b"late");
    let hour = NOW + 3_600_000;
    let renewed = seal(&mut a, hour, b"renewed");
    assert_eq!((early[1], renewed[1]), (0, 1), "the phase changes");
    assert_eq!(open(&mut b, hour, &renewed), Ok(b"renewed".to_vec()));
    assert_eq!(open(&mut b, hour, &early), Ok(b"early".to_vec()));
    assert_eq!(open(&mut b, hour + 30_000, &late), Err(Code::BadSeal));
    b.drop_previous_key(hour + 29_999);
    assert_eq!(b.previous_key_expiry_ms(), Some(hour + 30_000));
    b.drop_previous_key(hour + 30_000);
    assert_eq!(
        open(&mut b, hour, &late),
        Err(Code::BadSeal),
        "not even when the clock goes back"
    );
    let again = seal(&mut a, hour + 3_600_000, b"again");
    assert_eq!(open(&mut b, hour + 3_600_000, &again), Ok(b"again".to_vec()));
}

#[test]
fn a_phase_that_nobody_reached_is_refused() {
    let (mut a, mut b) = sessions(1);
    let packet = seal(&mut a, NOW, b"x");
    for phase in [1, 2, 255] {
        let mut bad = packet.clone();
        bad[1] = phase;
        assert_eq!(open(&mut b, NOW, &bad), Err(Code::BadSeal));
    }
}

#[test]
fn counters_go_on_after_a_restart_from_a_snapshot() {
    let (mut a, mut b) = sessions(1);
    let first = seal(&mut b, NOW, b"first");
    open(&mut a, NOW, &first).unwrap();
    let sent = seal(&mut a, NOW, b"sent");
    let mut snapshot = Vec::new();
    a.save(&mut snapshot);
    drop(a);
    let mut a = Session::load(&mut Reader::new(&snapshot)).unwrap();
    assert_eq!(
        open(&mut a, NOW, &first),
        Err(Code::Replayed),
        "what was received stays received"
    );
    let next = seal(&mut a, NOW, b"next");
    assert_ne!(next[8..16], sent[8..16], "no counter is used twice");
    assert_eq!(open(&mut b, NOW, &sent), Ok(b"sent".to_vec()));
    assert_eq!(open(&mut b, NOW, &next), Ok(b"next".to_vec()));
    for len in 0..snapshot.len() {
        assert!(Session::load(&mut Reader::new(&snapshot[..len])).is_err());
    }
}

fn frames() -> Vec<Frame<'static>> {
    let owner = Some(PublicKey([5; 32]));
    vec![
        Frame::Request {
            id: 1,
            body: b"request",
        },
        Frame::Response { id: 1, body: b"" },
        Frame::Open(Open {
            stream: 2,
            service: Service { owner, name: "check" },
            head: b"head",
        }),
        Frame::Open(Open {
            stream: 4,
            service: Service {
                owner: None,
                name: "c",
            },
            head: b"",
        }),
        Frame::Data(Data {
            stream: 2,
            offset: 9,
            bytes: b"bytes",
        }),
        Frame::End {
            stream: 2,
            offset: 14,
        },
        Frame::Reset {
            stream: 2,
            class: Class::Service,
        },
        Frame::Credit {
            stream: 2,
            limit: u64::MAX,
        },
        Frame::Relay {
            peer: Identity::recall(&[1; 32], NetworkId::open("n"), &[]).id(),
            frame: b"frame",
        },
        Frame::Ping { token: 7 },
        Frame::Pong { token: 7 },
        Frame::Close { class: Class::Limit },
    ]
}

#[test]
fn frames_come_back_and_no_prefix_of_them_is_taken_for_the_whole() {
    let mut payload = Vec::new();
    let mut writer = FrameWriter::new(&mut payload);
    frames().iter().for_each(|frame| writer.frame(frame));
    let read: Vec<Frame<'_>> = FrameReader::new(&payload).map(Result::unwrap).collect();
    assert_eq!(read, frames());
    for len in 1..payload.len() {
        let all = FrameReader::new(&payload[..len]).collect::<Result<Vec<_>, _>>();
        assert!(all.is_err() || all.unwrap().len() < frames().len());
    }
    assert!(FrameReader::new(&[0]).next().unwrap().is_err());
    assert!(FrameReader::new(&[200]).next().unwrap().is_err());
}

/// What a stream told, with its own memory.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Data(Vec<u8>),
    End,
    Done,
    Credit(u32),
    Reset,
}

fn note(told: &mut Vec<Told>) -> impl FnMut(StreamEvent<'_>) {
    |event| {
        told.push(match event {
            StreamEvent::Data(_, bytes) => Told::Data(bytes.to_vec()),
            StreamEvent::End(_) => Told::End,
            StreamEvent::Done(_) => Told::Done,
            StreamEvent::Credit(_, bytes) => Told::Credit(bytes),
            StreamEvent::Reset(..) => Told::Reset,
        });
    }
}

#[test]
fn bytes_are_delivered_in_order_whatever_the_order_of_arrival() {
    let mut streams = Streams::new(Side::Responder, false);
    let mut told = Vec::new();
    streams.end_received(0, 6, &mut note(&mut told)).unwrap();
    streams
        .data(
            Data {
                stream: 0,
                offset: 4,
                bytes: b"ef",
            },
            &mut note(&mut told),
        )
        .unwrap();
    streams.accept(0, 1, &mut note(&mut told)).unwrap();
    streams
        .data(
            Data {
                stream: 0,
                offset: 2,
                bytes: b"cd",
            },
            &mut note(&mut told),
        )
        .unwrap();
    assert_eq!(told, []);
    streams
        .data(
            Data {
                stream: 0,
                offset: 0,
                bytes: b"abc",
            },
            &mut note(&mut told),
        )
        .unwrap();
    let bytes_of = |one: &Told| {
        if let Told::Data(bytes) = one {
            bytes.clone()
        } else {
            vec![]
        }
    };
    assert_eq!(told.iter().flat_map(bytes_of).collect::<Vec<u8>>(), b"abcdef");
    assert_eq!(told.last(), Some(&Told::End));
}

#[test]
fn a_sender_stops_at_its_credit_and_a_receiver_insists_on_it() {
    let mut sender = Streams::new(Side::Initiator, true);
    let mut receiver = Streams::new(Side::Responder, true);
    let mut told = Vec::new();
    let id = sender.open(1).unwrap();
    receiver.accept(id, 9, &mut note(&mut told)).unwrap();
    let chunk = vec![7; 16 * 1024];
    let mut sent = 0;
    while let Ok(Frame::Data(data)) = sender.send(id, &chunk) {
        receiver.data(data, &mut note(&mut told)).unwrap();
        sent += data.bytes.len() as u64;
    }
    assert_eq!(sent, STREAM_WINDOW);
    assert_eq!(sender.send(id, b"x").err(), Some(Code::OverCredit));
    let beyond = Data {
        stream: id,
        offset: STREAM_WINDOW,
        bytes: b"x",
    };
    assert_eq!(
        receiver.data(beyond, &mut note(&mut told)),
        Err(Code::PeerOverCredit)
    );
    assert_eq!(receiver.consumed(id, 100), Ok(None), "small credit waits");
    let Ok(Some(Frame::Credit { limit, .. })) = receiver.consumed(id, STREAM_WINDOW as u32 / 2) else {
        panic!("half a window is announced")
    };
    sender.credit_received(id, limit, &mut note(&mut told));
    assert!(sender.send(id, b"x").is_ok());
    assert_eq!(receiver.consumed(id, u32::MAX), Err(Code::OverCredit));
}

#[test]
fn rules_of_streams_are_kept() {
    let mut told = Vec::new();
    let mut streams = Streams::new(Side::Responder, true);
    assert_eq!(
        streams.accept(1, 9, &mut note(&mut told)),
        Err(Code::BadStream),
        "an odd number is ours"
    );
    streams.accept(0, 9, &mut note(&mut told)).unwrap();
    assert_eq!(
        streams.accept(0, 9, &mut note(&mut told)),
        Err(Code::BadStream),
        "in use"
    );
    assert_eq!(
        streams.data(
            Data {
                stream: 8,
                offset: 0,
                bytes: b"x"
            },
            &mut note(&mut told)
        ),
        Err(Code::UnknownStream)
    );
    streams
        .data(
            Data {
                stream: 0,
                offset: 0,
                bytes: b"abc",
            },
            &mut note(&mut told),
        )
        .unwrap();
    assert_eq!(
        streams.end_received(0, 2, &mut note(&mut told)),
        Err(Code::BadStream),
        "shorter than what came"
    );
    streams.end_received(0, 3, &mut note(&mut told)).unwrap();
    assert_eq!(
        streams.end_received(0, 3, &mut note(&mut told)),
        Err(Code::BadStream),
        "twice"
    );
    let after = Data {
        stream: 0,
        offset: 3,
        bytes: b"x",
    };
    assert_eq!(
        streams.data(after, &mut note(&mut told)),
        Err(Code::BadStream),
        "after the end"
    );
    assert!(streams.contains(0), "our half is open");
    streams.end(0).unwrap();
    assert!(!streams.contains(0));
}

fn piece(stream: u32, offset: u64, bytes: &[u8]) -> Data<'_> {
    Data {
        stream,
        offset,
        bytes,
    }
}

#[test]
fn bytes_out_of_order_are_refused_on_ordered_paths() {
    let mut told = Vec::new();
    for offset in [0, 2, 4, 100] {
        let mut streams = Streams::new(Side::Responder, true);
        streams.accept(0, 9, &mut note(&mut told)).unwrap();
        streams.data(piece(0, 0, b"abc"), &mut note(&mut told)).unwrap();
        assert_eq!(
            streams.data(piece(0, offset, b"xy"), &mut note(&mut told)),
            Err(Code::BadStream),
            "{offset}"
        );
        assert_eq!(
            streams.end_received(0, 4, &mut note(&mut told)),
            Err(Code::BadStream),
            "an end before all has come"
        );
        assert_eq!(streams.unread_bytes(), 3, "nothing is kept");
    }
}

#[test]
fn pieces_that_wait_fit_into_the_window() {
    let mut told = Vec::new();
    let bytes = vec![7; 16 * 1024];
    let mut streams = Streams::new(Side::Responder, false);
    streams.accept(0, 9, &mut note(&mut told)).unwrap();
    let overlapping = (1..=64).map_while(|offset| {
        let taken = streams.data(piece(0, offset, &bytes), &mut note(&mut told));
        taken.ok()
    });
    assert_eq!(overlapping.count(), 16, "16 pieces of 16 KiB are a window");
    assert_eq!(streams.unread_bytes(), STREAM_WINDOW);

    // A sender that keeps to the rules fills the window in any order.
    let mut streams = Streams::new(Side::Responder, false);
    streams.accept(0, 9, &mut note(&mut told)).unwrap();
    for n in (0..16).rev() {
        let taken = streams.data(piece(0, n * 16 * 1024, &bytes), &mut note(&mut told));
        assert_eq!(taken, Ok(()), "{n}");
    }
    assert_eq!(streams.unread_bytes(), STREAM_WINDOW);
    assert!(streams.are_held_back());
    streams.consumed(0, STREAM_WINDOW as u32).unwrap();
    assert_eq!(streams.unread_bytes(), 0);
    assert!(!streams.are_held_back());
}

#[test]
fn overlapping_pieces_that_outlast_the_window_are_refused() {
    let bytes = vec![7; 16 * 1024];
    let mut streams = Streams::new(Side::Responder, false);
    streams.accept(0, 9, &mut |_| {}).unwrap();
    for offset in 0..16 {
        // All of them end near the end of the window.
        let offset = 14 * 16 * 1024 + offset;
        streams.data(piece(0, offset, &bytes), &mut |_| {}).unwrap();
    }
    let next = |streams: &mut Streams| streams.data(piece(0, 0, b"x"), &mut |_| {});
    assert_eq!(next(&mut streams), Err(Code::BadStream));
}

#[test]
fn a_piece_that_comes_twice_is_refused() {
    let mut streams = Streams::new(Side::Responder, false);
    streams.accept(0, 9, &mut |_| {}).unwrap();
    streams.data(piece(0, 5, b"ab"), &mut |_| {}).unwrap();
    assert_eq!(
        streams.data(piece(0, 5, b"ab"), &mut |_| {}),
        Err(Code::BadStream)
    );
    assert_eq!(streams.unread_bytes(), 2);
}

#[test]
fn the_number_of_streams_is_bounded_each_way() {
    let mut streams = Streams::new(Side::Initiator, true);
    let opened = (0..1000)
        .take_while(|handle| streams.open(*handle).is_ok())
        .count();
    let accepted = (0..1000)
        .take_while(|n| streams.accept(2 * n + 1, 5000 + n, &mut |_| {}).is_ok())
        .count();
    assert_eq!((opened, accepted), (256, 256));
    streams.reset(0);
    assert!(streams.open(7777).is_ok());
}
