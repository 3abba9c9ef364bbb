//! Sessions that strangers hold without using them.

use selfsame_codec::Role;
use selfsame_core::channel::{Frame, Open, Service};

use super::Arena;
use crate::figure::Figure;
use crate::hand::{Hand, stranger};
use crate::mesh::{Mesh, Publication};

const MEMBERS: usize = 3;
const NAME: &str = "page";
/// More than a node has places for.
const SESSIONS: u32 = 1_100;
/// Sessions that a node holds.
const PLACES: f64 = 1_024.0;
const NEWCOMERS: usize = 8;
/// Time between two looks after pings, which want an answer within three seconds.
const TEND_MS: u64 = 1_000;
/// How long a newcomer takes to join.
const JOIN_MS: u64 = 5_000;
/// Time after which a stream that carries nothing counts as stalled, and some more.
const STALLED_MS: u64 = 70_000;

/// Lets time pass, in which the sessions of these peers look alive.
fn live(mesh: &mut Mesh, hands: &mut [Hand], ms: u64) {
    let until_ms = mesh.now_ms() + ms;
    while mesh.now_ms() < until_ms {
        hands.iter_mut().for_each(|hand| hand.tend(mesh));
        mesh.run_ms(TEND_MS);
    }
}

/// Share of newcomers that join through member 0 alone while the sessions of these peers look alive.
fn newcomers(mesh: &mut Mesh, hands: &mut [Hand]) -> f64 {
    let mut joined = 0;
    for _ in 0..NEWCOMERS {
        let (host, tag) = mesh.start(Role::Leaf, &[0]);
        live(mesh, hands, JOIN_MS);
        joined += usize::from(mesh.finish(host, tag).is_some());
    }
    joined as f64 / NEWCOMERS as f64
}

pub(super) fn stalled(arena: Arena) -> Vec<Figure> {
    let remote = |number: u32| format!("45.{}.{}.9:4000", number >> 8, number & 0xff);
    hold(arena, |number| (number, remote(number)))
}

pub(super) fn one_identity(arena: Arena) -> Vec<Figure> {
    hold(arena, |_| (7, "45.9.1.9:4000".into()))
}

fn hold(arena: Arena, who: impl Fn(u32) -> (u32, String)) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let publication = Publication {
        name: NAME,
        replicas: 2,
        ..Publication::default()
    };
    assert!(mesh.publish(0, &publication), "nobody attacks yet");
    let without = newcomers(&mut mesh, &mut []);
    let mut hands = Vec::new();
    for number in 0..SESSIONS {
        let (identity, remote) = who(number);
        let Some(mut hand) = Hand::shake(&mut mesh, stranger(identity), 0, &remote) else {
            continue;
        };
        let service = Service {
            owner: None,
            name: NAME,
        };
        let (stream, head) = (0, b"head");
        hand.say(
            &mut mesh,
            &Frame::Open(Open {
                stream,
                service,
                head,
            }),
        );
        hands.push(hand);
    }
    let begun = hands.len();
    live(&mut mesh, &mut hands, STALLED_MS);
    let with = newcomers(&mut mesh, &mut hands);
    let held = hands.iter().filter(|hand| hand.is_connected(&mesh)).count();
    vec![
        Figure::note("sessions that the attacker began", begun as f64),
        Figure::at_most("sessions that the attacker holds at the end", held as f64, PLACES),
        Figure::honest("newcomers that join", without, with),
    ]
}
