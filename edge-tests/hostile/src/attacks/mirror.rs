//! Entries that a stranger gives a member to keep copies of.

use selfsame_codec::Code;
use selfsame_core::admission::Gate;
use selfsame_core::association::Leaf;
use selfsame_core::identity::{Identity, PeerId};
use selfsame_core::ring::simulation::encode_ack;

use super::Arena;
use crate::figure::Figure;
use crate::hand::{Hand, stranger};
use crate::mesh::{Mesh, Publication};
use crate::statement::{Entry, associations, leaf, mirror, record};

const MEMBERS: usize = 8;
const PUBLISHERS: u32 = 64;
/// Associations that one publisher signs at once.
const OF_PUBLISHER: usize = 1_024;
/// Bytes of entries in one message.
const MESSAGE_BYTES: usize = 32_000;
/// Entries of a stranger that a member may hold: none, since it is nobody's neighbour.
const MAX_HELD: f64 = 0.0;
/// False signatures of one peer that a member verifies: the fourth (`MAX_FORGED` of `ring/serve.rs`) ends the session.
const MAX_VERIFIED: f64 = 4.0;
/// Messages of false entries.
const FALSE_MESSAGES: u64 = 200;
/// Names that members publish before and after.
const NAMES: usize = 8;

/// How many of some names members can publish, so that others find them.
fn publications(mesh: &mut Mesh, prefix: &str) -> f64 {
    let mut found = 0;
    for number in 0..NAMES {
        let name = format!("{prefix}-{number}");
        let host = 1 + number % (MEMBERS - 1);
        let publication = Publication {
            name: &name,
            replicas: 2,
            ..Publication::default()
        };
        let is_stored = mesh.publish(host, &publication);
        let id = mesh.id(host).0;
        let providers = mesh.find((host + 2) % MEMBERS, None, &name).unwrap_or_default();
        found += usize::from(is_stored && providers.iter().any(|provider| provider.peer == id));
    }
    found as f64 / NAMES as f64
}

/// All that one publisher signs at once.
fn entries(publisher: &Identity, now_ms: u64) -> Vec<Entry> {
    let leaves: Vec<Leaf> = (0..OF_PUBLISHER)
        .map(|n| leaf(None, &format!("x{n}"), 0))
        .collect();
    let record = record(publisher, &[], now_ms).encoded().to_vec();
    let signed = associations(publisher, &leaves, now_ms);
    let entry = |association: &selfsame_core::association::Association| Entry {
        association: association.encoded().to_vec(),
        record: record.clone(),
    };
    signed.iter().map(entry).collect()
}

/// Splits entries into messages of the longest size.
fn messages(entries: &[Entry]) -> Vec<&[Entry]> {
    let longest = entries.iter().map(Entry::len).max().unwrap_or(1) + 16;
    entries.chunks(MESSAGE_BYTES / longest).collect()
}

pub(super) fn flood(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let without = publications(&mut mesh, "before");
    let before = mesh.status(0).expect("it runs").objects;
    let mut hand = Hand::shake(&mut mesh, stranger(0), 0, "45.9.1.9:4000").expect("a member takes peers");
    let mut bytes = 0;
    'all: for number in 1..=PUBLISHERS {
        for message in messages(&entries(&stranger(number), mesh.now_ms())) {
            let body = mirror(message);
            bytes += body.len();
            hand.ask(&mut mesh, &body);
            if !hand.is_connected(&mesh) {
                break 'all;
            }
        }
    }
    let held = mesh
        .status(0)
        .map_or(0, |status| status.objects.saturating_sub(before));
    let with = publications(&mut mesh, "after");
    vec![
        Figure::note("bytes sent", bytes as f64),
        Figure::at_most(
            "foreign associations that the member holds",
            held as f64,
            MAX_HELD,
        ),
        Figure::honest("publications that are found", without, with),
    ]
}

pub(super) fn false_signatures(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let without = publications(&mut mesh, "before");
    let publisher = stranger(77);
    let sound = Entry::sign(&publisher, leaf(None, "a", 0), mesh.now_ms());
    let signature = signature_place(&sound.association, mesh.now_ms());
    let mut hand = Hand::shake(&mut mesh, stranger(0), 0, "45.9.1.9:4000").expect("a member takes peers");
    let (mut sent, mut acknowledged) = (0, 0);
    for message in 0..FALSE_MESSAGES {
        if !hand.is_connected(&mesh) {
            break;
        }
        let count = MESSAGE_BYTES / (sound.len() + 16);
        let falsified = |number: u64| {
            let mut entry = sound.clone();
            let unlike_others = (message << 32 | number).to_le_bytes();
            entry.association[signature..signature + 8].copy_from_slice(&unlike_others);
            entry
        };
        let entries: Vec<Entry> = (0..count as u64).map(falsified).collect();
        sent += count;
        let is_acknowledged = hand.ask(&mut mesh, &mirror(&entries)) == Some(encode_ack());
        acknowledged += if is_acknowledged { count } else { 0 };
        mesh.run_ms(10);
    }
    let verified = mesh.counted(0, Code::BadSignature);
    let with = publications(&mut mesh, "after");
    vec![
        Figure::note("false entries sent", sent as f64),
        Figure::at_most(
            "false signatures that the member verified",
            verified as f64,
            MAX_VERIFIED,
        ),
        Figure::at_most("false entries acknowledged", acknowledged as f64, 0.0),
        Figure::honest("publications that are found", without, with),
    ]
}

/// Where in an association a signature begins: each of its 64 bytes that is changed makes it false.
fn signature_place(association: &[u8], now_ms: u64) -> usize {
    use selfsame_core::association::Association;
    let is_false = |at: usize| {
        let mut changed = association.to_vec();
        changed[at] ^= 1;
        Association::decode_verified(
            &mut Gate::new(Mesh::network(), None),
            &|key| Some(PeerId::of(key, &Mesh::network())),
            &changed,
            now_ms,
        )
        .err()
            == Some(Code::BadSignature)
    };
    let places = 0..association.len() - 64;
    places
        .rev()
        .find(|at| (*at..at + 64).all(is_false))
        .expect("it is signed")
}
