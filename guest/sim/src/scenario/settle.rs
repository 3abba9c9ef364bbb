//! Members join one after the other, or many at a time, and the ring settles.

use selfsame_codec::{Input, Role};

use crate::machine::Machine;
use crate::ring::{Faults, RingState};
use crate::world::World;

/// Members that others join through.
pub const BOOTSTRAPS: usize = 10;
/// Time between two looks at the ring.
const LOOK_EVERY_MS: u64 = 5_000;

/// How many members join between two messages of progress.
const TELL_EVERY: usize = 200;

/// Adds members that start at a steady pace, each with two of the first ones as bootstraps.
pub fn join<M: Machine>(world: &mut World<M>, nodes: usize, per_second: u64) {
    join_telling(world, nodes, per_second, &mut |_| ());
}

/// The same; `progress` hears how many have joined.
pub(super) fn join_telling<M: Machine>(
    world: &mut World<M>,
    nodes: usize,
    per_second: u64,
    progress: &mut dyn FnMut(&str),
) {
    for number in 0..nodes {
        if number % TELL_EVERY == 0 {
            progress(&format!("members join, {number} of {nodes}"));
        }
        let known = number.min(BOOTSTRAPS);
        let bootstraps: Vec<usize> = (0..known.min(2)).map(|next| (number + next) % known).collect();
        let host = world.add(Role::Member, &bootstraps);
        world.start(host);
        world.command(host, |tag| Input::Join { tag });
        // The first ones know each other before the crowd comes.
        let pause_ms = if number < BOOTSTRAPS {
            2_000
        } else {
            1_000 / per_second
        };
        world.run_ms(pause_ms);
    }
}

/// Lets time pass until the ring has settled; returns how long it took, or what was still wrong after `most_ms`.
///
/// # Errors
/// The faults that were left.
pub fn settle<M: Machine>(world: &mut World<M>, most_ms: u64) -> Result<u64, Faults> {
    let start_ms = world.now_ms();
    loop {
        let faults = RingState::of(world).faults();
        let took_ms = world.now_ms() - start_ms;
        if faults.is_settled() {
            return Ok(took_ms);
        }
        if took_ms >= most_ms {
            return Err(faults);
        }
        world.run_ms(LOOK_EVERY_MS);
    }
}
