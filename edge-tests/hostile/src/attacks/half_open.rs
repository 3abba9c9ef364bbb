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
/// Half-open handshakes that a node holds, and what one address may have of them.
const PLACES: f64 = 1_024.0;
const NEWCOMERS: usize = 8;
/// How long a newcomer has to get a session while the attack goes on.
const ATTEMPT_MS: u64 = 3_000;

/// Share of newcomers that get a session with member 0 at once.
fn newcomers(mesh: &mut Mesh) -> f64 {
    let mut connected = 0;
    for _ in 0..NEWCOMERS {
        let host = mesh.world.add(Role::Leaf, &[0]);
        mesh.world.start(host);
        connected += usize::from(mesh.connect(host, 0, ATTEMPT_MS));
    }
    connected as f64 / NEWCOMERS as f64
}

pub(super) fn fill(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let without = newcomers(&mut mesh);
    let (mut held, mut bytes) = (0, 0);
    for round in 0..PATHS {
        let path = mesh.open(0, REMOTE);
        for number in 0..OFFERS {
            let mut offer = Offer::new(&mesh, stranger(0), 0, path, round * OFFERS + number);
            held += usize::from(offer.half_open(&mut mesh).is_some());
            bytes += offer.len();
        }
    }
    let with = newcomers(&mut mesh);
    vec![
        Figure::note("bytes sent", bytes as f64),
        Figure::at_most("half-open handshakes begun by one address", held as f64, PLACES),
        Figure::honest("newcomers that get a session", without, with),
    ]
}
