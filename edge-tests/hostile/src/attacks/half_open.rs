//! Handshakes that one address begins and never ends.

use selfsame_codec::Role;

use super::Arena;
use crate::figure::Figure;
use crate::hand::{Offer, stranger};
use crate::mesh::Mesh;

const MEMBERS: usize = 3;
/// Paths that the attacker opens, and handshakes on each.
const PATHS: u32 = 400;
const OFFERS: u32 = 4;
/// The address of all of them.
const REMOTE: &str = "45.9.1.9:4000";
const NEWCOMERS: u32 = 8;
/// How long a newcomer has to get a session.
const ATTEMPT_MS: u64 = 3_000;

/// Fills the places of half-open handshakes; returns how many were given, and how many bytes that took.
fn flood(mesh: &mut Mesh, round: u32) -> (usize, usize) {
    let (mut held, mut bytes) = (0, 0);
    for number in 0..PATHS {
        let path = mesh.open(0, REMOTE);
        for offer in 0..OFFERS {
            let number = (round * PATHS + number) * OFFERS + offer;
            let mut offer = Offer::new(mesh, stranger(0), 0, path, number);
            bytes += offer.len();
            if offer.half_open(mesh).is_some() {
                held += 1;
            }
        }
        if !mesh.is_open(0, path) {
            break;
        }
    }
    (held, bytes)
}

/// Share of newcomers that get a session with member 0, each after the attacker has done something.
fn newcomers(mesh: &mut Mesh, mut attack: impl FnMut(&mut Mesh, u32)) -> f64 {
    let mut connected = 0;
    for number in 0..NEWCOMERS {
        attack(mesh, number);
        let host = mesh.world.add(Role::Leaf, &[0]);
        mesh.world.start(host);
        connected += usize::from(mesh.connect(host, 0, ATTEMPT_MS));
    }
    f64::from(connected as u32) / f64::from(NEWCOMERS)
}

pub(super) fn fill(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let without = newcomers(&mut mesh, |_, _| {});
    let (mut held, mut bytes) = (0, 0);
    let with = newcomers(&mut mesh, |mesh, round| {
        let (more, sent) = flood(mesh, round);
        held += more;
        bytes += sent;
    });
    vec![
        Figure::note("bytes sent", bytes as f64),
        Figure::note("half-open handshakes that the address was given", held as f64),
        Figure::honest("newcomers that get a session", without, with),
    ]
}
