//! A member that is responsible for a sibling object and tells only of a dead provider.

use selfsame_core::association::{Leaf, ObjectId};

use super::Arena;
use crate::figure::Figure;
use crate::hand::stranger;
use crate::mesh::{Mesh, Publication};
use crate::module::Cores;
use crate::statement::{associations, leaf, record};
use selfsame_sim::attack::{Coalition, Kind};

const MEMBERS: usize = 12;
const REPLICAS: u8 = 3;
/// Calls before and after, a minute apart as the failures of providers are remembered.
const CALLS: usize = 10;
/// The member that lies.
const LIAR: usize = 6;
const CALLEE: usize = 2;
const DEAD: u32 = 99;

/// A name whose first object is the liar's.
fn name_of_liar(mesh: &Mesh) -> String {
    let owner = Mesh::owner().public();
    let names = (0..).map(|number| format!("check-{number}"));
    let mut of_liar = names.filter(|name| {
        let object = |r| ObjectId::of(&Mesh::network(), Some(&owner), name, r);
        let siblings: Vec<usize> = (0..=REPLICAS).map(|r| mesh.responsible(&object(r).0)).collect();
        siblings[0] == LIAR && siblings[1..].iter().all(|sibling| *sibling != LIAR)
    });
    of_liar.next().expect("one of a few names")
}

/// Share of calls of the name, from members in turn, that reach who serves it.
fn calls(mesh: &mut Mesh, name: &str) -> f64 {
    let owner = Mesh::owner().public();
    let callers: Vec<usize> = (0..MEMBERS)
        .filter(|host| ![LIAR, CALLEE].contains(host))
        .collect();
    let mut reached = 0;
    for caller in callers.into_iter().cycle().take(CALLS) {
        reached += usize::from(mesh.call(caller, Some(&owner), name, CALLEE));
        mesh.run_ms(60_000);
    }
    reached as f64 / CALLS as f64
}

pub(super) fn hide(arena: Arena) -> Vec<Figure> {
    let coalition = Coalition::new(Mesh::network(), arena.seed);
    let cores = Cores::with_liar(arena.backend, LIAR, &coalition);
    let mut mesh = Mesh::ring_of(cores, MEMBERS, arena.seed);
    let name = name_of_liar(&mesh);
    let grant = mesh.grant(&name, mesh.id(CALLEE), mesh.now_ms(), Vec::new());
    let publication = Publication {
        name: &name,
        grant: &grant,
        replicas: REPLICAS,
    };
    assert!(mesh.publish(CALLEE, &publication), "nobody attacks yet");
    let without = calls(&mut mesh, &name);
    let dead = stranger(DEAD);
    let (granted, now_ms) = (
        mesh.grant(&name, dead.id(), mesh.now_ms(), Vec::new()),
        mesh.now_ms(),
    );
    let leaf = Leaf {
        grant: granted,
        ..leaf(Some(Mesh::owner().public()), &name, 0)
    };
    let nowhere = ["ws://nowhere.sim.example/".to_owned()];
    coalition.haunt(
        &associations(&dead, &[leaf], now_ms)[0],
        &record(&dead, &nowhere, now_ms),
    );
    coalition.enlist(mesh.id(LIAR).0);
    coalition.turn(Kind::Ghost);
    let with = calls(&mut mesh, &name);
    vec![
        Figure::note("objects of the name that the liar is responsible for", 1.0),
        Figure::honest("calls that reach the living provider", without, with),
    ]
}
