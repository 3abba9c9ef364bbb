//! Stream data that a receiver must hold because what stands before it never comes.

use selfsame_codec::Role;
use selfsame_core::channel::{Data, Frame, MAX_DATA, Open, Service};

use super::Arena;
use crate::figure::Figure;
use crate::hand::{Hand, stranger};
use crate::mesh::{Mesh, Publication};

const MEMBERS: usize = 3;
const NAME: &str = "page";
/// Streams that a peer may open.
const STREAMS: u32 = 256;
/// Overlapping pieces on each: the window is 256 KiB.
const PIECES: u64 = 64;
const MIB: f64 = 1024.0 * 1024.0;
/// What one session may make a node hold: 256 streams with a window of 256 KiB each, and what the allocator adds.
const MAX_SESSION_MIB: f64 = 80.0;
/// What all sessions together may make a node hold: 64 MiB that nobody has read (`MAX_UNREAD_BYTES` of `node/idle.rs`), in memory
/// that an allocator doubles as it grows.
const MAX_NODE_MIB: f64 = 128.0;
const SESSIONS: u32 = 3;
const CALLERS: usize = 6;

pub(super) fn overlap(arena: Arena) -> Vec<Figure> {
    fill(arena, 1, MAX_SESSION_MIB)
}

pub(super) fn many_sessions(arena: Arena) -> Vec<Figure> {
    fill(arena, SESSIONS, MAX_NODE_MIB)
}

fn callers(mesh: &mut Mesh) -> f64 {
    let mut reached = 0;
    for _ in 0..CALLERS {
        let caller = mesh.join(Role::Leaf, &[1]);
        reached += usize::from(caller.is_some_and(|caller| mesh.call(caller, None, NAME, 0)));
    }
    reached as f64 / CALLERS as f64
}

fn fill(arena: Arena, sessions: u32, most_mib: f64) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let publication = Publication {
        name: NAME,
        replicas: 2,
        ..Publication::default()
    };
    assert!(mesh.publish(0, &publication), "nobody attacks yet");
    let without = callers(&mut mesh);
    let before = mesh.memory_bytes(0);
    let mut sent = 0;
    for number in 0..sessions {
        let remote = format!("45.9.{number}.9:4000");
        if let Some(mut hand) = Hand::shake(&mut mesh, stranger(number), 0, &remote) {
            sent += pour(&mut mesh, &mut hand);
        }
    }
    let grown = mesh.memory_bytes(0).saturating_sub(before) as f64 / MIB;
    let with = callers(&mut mesh);
    vec![
        Figure::note("MiB sent", sent as f64 / MIB),
        Figure::at_most("MiB by which the node's memory grew", grown, most_mib),
        Figure::at_most("nodes that trapped", mesh.trapped() as f64, 0.0),
        Figure::honest("calls of the node", without, with),
    ]
}

/// Sends all that a session may be made to hold; returns how many bytes were sent before it ended.
fn pour(mesh: &mut Mesh, hand: &mut Hand) -> usize {
    let bytes = [0x55; MAX_DATA];
    let mut sent = 0;
    for stream in (0..STREAMS).map(|number| 2 * number) {
        let service = Service {
            owner: None,
            name: NAME,
        };
        let head = b"head";
        hand.say(
            mesh,
            &Frame::Open(Open {
                stream,
                service,
                head,
            }),
        );
        for offset in 1..=PIECES {
            if !hand.is_connected(mesh) || mesh.trapped() > 0 {
                return sent;
            }
            let bytes = &bytes;
            hand.say(
                mesh,
                &Frame::Data(Data {
                    stream,
                    offset,
                    bytes,
                }),
            );
            sent += MAX_DATA;
        }
    }
    sent
}
