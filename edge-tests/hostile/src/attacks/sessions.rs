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
/// Time between two signs of life of each session; above it a node asks whether its peer lives.
const ALIVE_MS: u64 = 10_000;
/// Time after which a stream that carries nothing counts as stalled, and some more.
const STALLED_MS: u64 = 70_000;

/// Share of newcomers that join through member 0 alone.
fn newcomers(mesh: &mut Mesh) -> f64 {
    let mut joined = 0;
    for _ in 0..NEWCOMERS {
        joined += usize::from(mesh.join(Role::Leaf, &[0]).is_some());
    }
    joined as f64 / NEWCOMERS as f64
}

pub(super) fn stalled(arena: Arena) -> Vec<Figure> {
    let remote = |number: u32| format!("45.{}.{}.9:4000", number >> 8, number & 0xff);
    hold(arena, |number| (number, remote(number)), true)
}

pub(super) fn one_identity(arena: Arena) -> Vec<Figure> {
    hold(arena, |_| (7, "45.9.1.9:4000".into()), false)
}

fn hold(arena: Arena, who: impl Fn(u32) -> (u32, String), opens: bool) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let publication = Publication {
        name: NAME,
        replicas: 2,
        ..Publication::default()
    };
    assert!(mesh.publish(0, &publication), "nobody attacks yet");
    let without = newcomers(&mut mesh);
    let mut hands = Vec::new();
    for number in 0..SESSIONS {
        let (identity, remote) = who(number);
        let Some(mut hand) = Hand::shake(&mut mesh, stranger(identity), 0, &remote) else {
            continue;
        };
        if opens {
            let service = Service {
                owner: None,
                name: NAME,
            };
            let (stream, head) = (0, b"head");
            hand.say(&mut mesh, &Frame::Open(Open { stream, service, head }));
        }
        hands.push(hand);
    }
    let begun = hands.len();
    let until_ms = mesh.now_ms() + STALLED_MS;
    while mesh.now_ms() < until_ms {
        for hand in &mut hands {
            let token = mesh.now_ms();
            hand.say(&mut mesh, &Frame::Pong { token });
        }
        mesh.run_ms(ALIVE_MS);
    }
    let with = newcomers(&mut mesh);
    let held = hands.iter().filter(|hand| hand.is_connected(&mesh)).count();
    vec![
        Figure::note("sessions that the attacker began", begun as f64),
        Figure::at_most("sessions that the attacker holds at the end", held as f64, PLACES),
        Figure::honest("newcomers that join", without, with),
    ]
}
