//! Frames for a leaf that strangers send through its relay, none of which opens anything.

use selfsame_codec::{Code, Role};
use selfsame_core::channel::Frame;

use super::Arena;
use crate::figure::Figure;
use crate::hand::{Hand, stranger};
use crate::mesh::{Mesh, Publication};

const MEMBERS: usize = 4;
const NAME: &str = "page";
/// More than the leaf has places for.
const STRANGERS: u32 = 1_100;
/// New leaves that call before and after.
const CALLERS: usize = 6;

/// How many of some new leaves reach the leaf by its name.
fn callers(mesh: &mut Mesh, leaf: usize) -> f64 {
    let mut reached = 0;
    for number in 0..CALLERS {
        let caller = mesh.join(Role::Leaf, &[number % MEMBERS]);
        reached += usize::from(caller.is_some_and(|caller| mesh.call(caller, None, NAME, leaf)));
    }
    reached as f64 / CALLERS as f64
}

pub(super) fn use_up_paths(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let leaf = mesh.join(Role::Leaf, &[0]).expect("nobody attacks yet");
    mesh.run_ms(5_000);
    let publication = Publication {
        name: NAME,
        replicas: 2,
        ..Publication::default()
    };
    assert!(mesh.publish(leaf, &publication), "nobody attacks yet");
    let without = callers(&mut mesh, leaf);
    let relays = mesh.status(leaf).expect("it runs").relays;
    let relays: Vec<usize> = relays
        .iter()
        .filter_map(|relay| mesh.host_of(&relay.id))
        .collect();
    let leaf_id = mesh.id(leaf);
    let mut bytes = 0;
    for number in 0..STRANGERS {
        let remote = format!("45.{}.{}.9:4000", number >> 8, number & 0xff);
        let Some(mut hand) = Hand::shake(&mut mesh, stranger(number), relays[0], &remote) else {
            continue;
        };
        let frame = Frame::Relay {
            peer: leaf_id,
            frame: &[2; 20],
        };
        bytes += hand.seal(&mesh, &frame).len();
        hand.say(&mut mesh, &frame);
        hand.hang_up(&mut mesh);
        if number % 50 == 0 {
            mesh.run_ms(50);
        }
    }
    mesh.run_ms(60_000);
    let with = callers(&mut mesh, leaf);
    mesh.run_ms(30 * 60_000);
    let later = callers(&mut mesh, leaf);
    let refused = mesh.counted(leaf, Code::TooManyPaths);
    vec![
        Figure::note("bytes of relayed frames", bytes as f64),
        Figure::at_most(
            "handshakes that the leaf refused for want of a place",
            refused as f64,
            0.0,
        ),
        Figure::honest("calls of the leaf a minute later", without, with),
        Figure::honest("calls of the leaf half an hour later", without, later),
    ]
}
