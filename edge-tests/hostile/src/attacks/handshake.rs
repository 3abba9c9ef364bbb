//! Frames of a handshake, and packets, that come wrong or late.

use selfsame_codec::Code;
use selfsame_core::channel::Frame;
use selfsame_core::identity::{Identity, NetworkId};

use super::Arena;
use crate::figure::Figure;
use crate::hand::{Answer, Hand, Offer, stranger};
use crate::mesh::Mesh;

const MEMBERS: usize = 2;
const REMOTE: &str = "45.9.1.9:4000";
/// Confirmations that are sent on one half-open handshake.
const CONFIRMATIONS: u64 = 1_000;
/// Offers after which a node asks for a cookie, and some more.
const LOAD: u32 = 80;
/// A cookie's life and a second.
const COOKIE_MS: u64 = 61_000;
/// The life of a key, and the time for which the previous one counts, with a second each.
const KEY_MS: u64 = 3_601_000;
const PREVIOUS_KEY_MS: u64 = 31_000;

pub(super) fn wrong_signature(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let path = mesh.open(0, REMOTE);
    let mut offer = Offer::new(&mesh, stranger(1), 0, path, 1);
    let response = offer.half_open(&mut mesh).expect("nothing is wrong yet");
    let elsewhere = Identity::recall(&[9; 32], NetworkId::open("elsewhere"), &[]);
    let wrong = offer
        .confirm(&response, &elsewhere)
        .expect("the response is sound");
    let before = mesh.counted(0, Code::BadSignature);
    for _ in 0..CONFIRMATIONS {
        mesh.say(0, path, &wrong);
    }
    let verified = mesh.counted(0, Code::BadSignature) - before;
    vec![
        Figure::note("confirmations sent", CONFIRMATIONS as f64),
        Figure::at_most(
            "signatures verified for one half-open handshake",
            verified as f64,
            1.0,
        ),
    ]
}

/// Begins handshakes until the node asks for a cookie, which is returned.
fn cookie(mesh: &mut Mesh, first: u32, offer: &Offer) -> Option<[u8; 32]> {
    for number in first..first + LOAD {
        let path = mesh.open(0, &format!("45.{}.{}.9:4000", number >> 8, number & 0xff));
        Offer::new(mesh, stranger(number), 0, path, number).half_open(mesh);
    }
    match offer.send(mesh) {
        Answer::Cookie(cookie) => Some(cookie),
        _ => None,
    }
}

pub(super) fn old_cookie(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let path = mesh.open(0, REMOTE);
    let mut offer = Offer::new(&mesh, stranger(1), 0, path, 1);
    let old = cookie(&mut mesh, 1_000, &offer).expect("the node is under load");
    mesh.run_ms(COOKIE_MS);
    // Under load again; nothing but a fresh cookie may count.
    let path = mesh.open(0, REMOTE);
    offer.move_to(path);
    let is_loaded = cookie(&mut mesh, 2_000, &offer).is_some();
    offer.set_cookie(&old);
    let is_taken = matches!(offer.send(&mut mesh), Answer::Response(_));
    vec![
        Figure::note("whether the node is under load", f64::from(u8::from(is_loaded))),
        Figure::at_most("expired cookies accepted", f64::from(u8::from(is_taken)), 0.0),
    ]
}

pub(super) fn previous_key(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let mut hand = Hand::shake(&mut mesh, stranger(1), 0, REMOTE).expect("nothing is wrong yet");
    let late = hand.seal(&mesh, &Frame::Ping { token: 1 });
    let in_time = hand.seal(&mesh, &Frame::Ping { token: 2 });
    let until_ms = mesh.now_ms() + KEY_MS;
    let mut rekeyed = false;
    while !rekeyed {
        mesh.run_ms(5_000);
        rekeyed = mesh.now_ms() >= until_ms;
        hand.say(&mut mesh, &Frame::Pong { token: 3 });
    }
    let is_connected = hand.is_connected(&mesh);
    let answered_in_time = !hand.send(&mut mesh, &in_time).is_empty();
    for _ in 0..PREVIOUS_KEY_MS / 5_000 + 1 {
        mesh.run_ms(5_000);
        hand.say(&mut mesh, &Frame::Pong { token: 3 });
    }
    let answered_late = !hand.send(&mut mesh, &late).is_empty();
    vec![
        Figure::note("whether the session lasted", f64::from(u8::from(is_connected))),
        Figure::note(
            "packets under the previous key that count in time",
            f64::from(u8::from(answered_in_time)),
        ),
        Figure::at_most(
            "packets under the previous key that count after its time",
            f64::from(u8::from(answered_late)),
            0.0,
        ),
    ]
}
