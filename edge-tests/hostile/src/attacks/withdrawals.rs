//! Withdrawn associations of an owned name, signed by strangers to whom the owner granted nothing.

use selfsame_core::association::{Leaf, ObjectId};
use selfsame_core::identity::Identity;

use super::Arena;
use crate::figure::Figure;
use crate::hand::{Hand, stranger};
use crate::mesh::{Mesh, Publication};
use crate::statement::{Entry, leaf, unsigned_grant};

const MEMBERS: usize = 12;
const NAME: &str = "check";
/// A name that is not attacked.
const OTHER: &str = "other";
/// Sibling objects of the name beyond the first.
const REPLICAS: u8 = 3;
/// Times that each of the members looks the name up.
const ROUNDS: usize = 5;
/// Publishers that one object takes.
const PUBLISHERS: u32 = 256;
/// Bytes of a grant that is none, as long as the longest one.
const JUNK_GRANT: usize = 640;
/// Numbers of the strangers that the owner grants the name to.
const GRANTED: u32 = 1_000_000;
const REVOKED: u32 = 1_000_001;

/// Stores an entry as its publisher, at the member that is responsible for it; whether that acknowledged.
fn store(mesh: &mut Mesh, publisher: Identity, number: u32, leaf: Leaf) -> bool {
    let object = ObjectId::of(&Mesh::network(), leaf.owner.as_ref(), &leaf.name, leaf.r);
    let at = mesh.responsible(&object.0);
    let entry = Entry::sign(&publisher, leaf, mesh.now_ms());
    let remote = format!("45.{}.{}.9:4000", number >> 8 & 0xff, number & 0xff);
    let Some(mut hand) = Hand::shake(mesh, publisher, at, &remote) else {
        return false;
    };
    let answer = hand.ask(mesh, &entry.store());
    hand.hang_up(mesh);
    answer.is_some_and(|answer| answer == selfsame_core::ring::simulation::encode_ack())
}

fn owned(name: &str, r: u8) -> Leaf {
    leaf(Some(Mesh::owner().public()), name, r)
}

/// Withdrawals of so many strangers at each sibling object; returns how many were taken.
fn withdraw(mesh: &mut Mesh, strangers: u32, siblings: impl Iterator<Item = u8> + Clone) -> usize {
    let mut taken = 0;
    for number in 0..strangers {
        for r in siblings.clone() {
            let leaf = Leaf {
                withdrawn: true,
                grant: vec![0; JUNK_GRANT],
                ..owned(NAME, r)
            };
            taken += usize::from(store(mesh, stranger(number), number, leaf));
        }
    }
    taken
}

/// Share of finds of the name by all members but the first four that satisfy a test.
fn finds(mesh: &mut Mesh, is_right: impl Fn(&[[u8; 32]]) -> bool) -> f64 {
    finds_of(mesh, NAME, is_right)
}

fn finds_of(mesh: &mut Mesh, name: &str, is_right: impl Fn(&[[u8; 32]]) -> bool) -> f64 {
    let owner = Mesh::owner().public();
    let mut right = 0;
    let askers = 4..MEMBERS;
    let asked = askers.len() * ROUNDS;
    for asker in askers.cycle().take(asked) {
        let found = mesh.find(asker, Some(&owner), name).unwrap_or_default();
        let peers: Vec<[u8; 32]> = found.iter().map(|provider| provider.peer).collect();
        right += usize::from(is_right(&peers));
    }
    right as f64 / asked as f64
}

pub(super) fn revoke(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let providers = [mesh.id(2), mesh.id(3)];
    for host in [2, 3] {
        let grant = mesh.grant(NAME, mesh.id(host), mesh.now_ms(), Vec::new());
        let publication = Publication {
            name: NAME,
            grant: &grant,
            replicas: REPLICAS,
        };
        assert!(mesh.publish(host, &publication), "nobody attacks yet");
    }
    let named = |peers: &[[u8; 32]]| providers.iter().all(|provider| peers.contains(&provider.0));
    let without = finds(&mut mesh, named);
    let owner = Mesh::owner().public();
    let mut taken = 0;
    for r in 0..=REPLICAS {
        let leaf = Leaf {
            withdrawn: true,
            grant: unsigned_grant(&owner, NAME, &providers),
            ..owned(NAME, r)
        };
        taken += usize::from(store(&mut mesh, stranger(66), 66, leaf));
    }
    mesh.run_ms(1_000);
    let with = finds(&mut mesh, named);
    vec![
        Figure::at_most("withdrawals taken", taken as f64, 0.0),
        Figure::honest("finds that name the owner's providers", without, with),
    ]
}

pub(super) fn revive(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let (granted, revoked) = (stranger(GRANTED).id(), stranger(REVOKED).id());
    let now_ms = mesh.now_ms();
    let new = mesh.grant(NAME, granted, now_ms - 5, vec![revoked]);
    let old = mesh.grant(NAME, revoked, now_ms - 10, Vec::new());
    for r in 0..=REPLICAS {
        for (number, grant) in [(GRANTED, &new), (REVOKED, &old)] {
            let leaf = Leaf {
                grant: grant.clone(),
                ..owned(NAME, r)
            };
            // A member that knows of the revocation may refuse the revoked one: all the better.
            store(&mut mesh, stranger(number), number, leaf);
        }
    }
    let without = finds(&mut mesh, |peers| peers.contains(&granted.0));
    let taken = withdraw(&mut mesh, PUBLISHERS - 2, 0..=REPLICAS);
    let with = finds(&mut mesh, |peers| peers.contains(&granted.0));
    let revived = finds(&mut mesh, |peers| peers.contains(&revoked.0));
    vec![
        Figure::note("withdrawals taken", taken as f64),
        Figure::at_most("finds that name the revoked peer, share", revived, 0.0),
        Figure::honest("finds that name the granted peer", without, with),
    ]
}

/// Stores a provider at each sibling object of a name; how many took it.
fn provide(mesh: &mut Mesh, name: &str) -> usize {
    let granted = stranger(GRANTED).id();
    let grant = mesh.grant(name, granted, mesh.now_ms(), Vec::new());
    let mut stored = 0;
    for r in 0..=REPLICAS {
        let leaf = Leaf {
            grant: grant.clone(),
            ..owned(name, r)
        };
        stored += usize::from(store(mesh, stranger(GRANTED), GRANTED, leaf));
    }
    stored
}

pub(super) fn block(arena: Arena) -> Vec<Figure> {
    let mut mesh = Mesh::ring(arena.backend, MEMBERS, arena.seed);
    let granted = stranger(GRANTED).id().0;
    let stored_without = provide(&mut mesh, OTHER) as f64;
    let without = finds_of(&mut mesh, OTHER, |peers| peers.contains(&granted));
    let taken = withdraw(&mut mesh, PUBLISHERS, 0..=REPLICAS);
    let stored = provide(&mut mesh, NAME) as f64;
    let with = finds(&mut mesh, |peers| peers.contains(&granted));
    vec![
        Figure::note("withdrawals taken", taken as f64),
        Figure::honest("objects that take the owner's provider", stored_without, stored),
        Figure::honest("finds that name the owner's provider", without, with),
    ]
}
