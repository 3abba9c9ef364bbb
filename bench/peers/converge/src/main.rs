//! Two replicas of a capsule that differ: `bench-converge`, then tasks on standard input (see `bench_pair::serve`).
//!
//! `ALGORITHM/DIFFERING` with the seed of a world as its count, where the algorithm is `ours`, `negentropy`, `naive`, `lu` or
//! `bloom-lu`. Half of what differs lies on either side, in branches of up to ten records that leave the common chain at random
//! places. Each answers what it cost until both knew the difference.

mod ours;
mod paper;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use bench_pair::{Outcome, Task, serve};
use negentropy::{Id, Negentropy, NegentropyStorageVector};

use crate::world::World;

/// What it cost to know the difference
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Of all messages, both ways.
    pub(crate) bytes: usize,
    pub(crate) round_trips: usize,
    /// Of both sides, one after the other.
    pub(crate) nanoseconds: u128,
    /// Records that differ and were not found.
    pub(crate) missed: usize,
    /// Records that do not differ and were named all the same.
    pub(crate) needless: usize,
}

fn main() -> ExitCode {
    match serve(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task(name: &str) -> Outcome<Task> {
    let unknown = || format!("{name} is no ALGORITHM/DIFFERING");
    let (algorithm, differing) = name.split_once('/').ok_or_else(unknown)?;
    let differing: usize = differing.parse().map_err(|_| unknown())?;
    let run: fn(&World) -> Outcome<Cost> = match algorithm {
        "ours" => ours::run,
        "negentropy" => negentropy,
        "naive" => |world| Ok(paper::naive(world)),
        "lu" => |world| Ok(paper::lu(world)),
        "bloom-lu" => |world| Ok(paper::bloom_then_lu(world)),
        _ => return Err(unknown()),
    };
    Ok(Box::new(move |seed| {
        let cost = run(&World::random(seed, differing))?;
        let Cost {
            bytes,
            round_trips,
            nanoseconds,
            missed,
            needless,
        } = cost;
        Ok(format!(
            r#"{{"bytes":{bytes},"roundTrips":{round_trips},"ns":{nanoseconds},"missed":{missed},"needless":{needless}}}"#
        ))
    }))
}

/// Range-based reconciliation of the names; there are no times, so that all have the same.
fn negentropy(world: &World) -> Outcome<Cost> {
    let failed = |error: negentropy::Error| error.to_string();
    let storage = |names: &[[u8; 32]]| -> Outcome<NegentropyStorageVector> {
        let mut storage = NegentropyStorageVector::with_capacity(names.len());
        for name in names {
            storage.insert(0, Id::from_byte_array(*name)).map_err(failed)?;
        }
        storage.seal().map_err(failed)?;
        Ok(storage)
    };
    let (here, there) = (storage(&world.names(0))?, storage(&world.names(1))?);
    let begin = Instant::now();
    let mut client = Negentropy::borrowed(&here, 0).map_err(failed)?;
    let mut server = Negentropy::borrowed(&there, 0).map_err(failed)?;
    let mut cost = Cost::default();
    let (mut have, mut need) = (Vec::new(), Vec::new());
    let mut query = Some(client.initiate().map_err(failed)?);
    while let Some(message) = query {
        let answer = server.reconcile(&message).map_err(failed)?;
        cost.bytes += message.len() + answer.len();
        cost.round_trips += 1;
        query = client
            .reconcile_with_ids(&answer, &mut have, &mut need)
            .map_err(failed)?;
    }
    cost.nanoseconds = begin.elapsed().as_nanos();
    let found = have.iter().chain(&need).map(|id| *id.as_bytes());
    cost.judge(world, found);
    Ok(cost)
}

impl Cost {
    /// Counts what was not found, and what was found though both have it.
    fn judge(&mut self, world: &World, found: impl Iterator<Item = [u8; 32]>) {
        let mut found: Vec<[u8; 32]> = found.collect();
        found.sort_unstable();
        found.dedup();
        let differing = world.differing();
        let right = found.iter().filter(|name| differing.contains(*name)).count();
        self.missed = differing.len() - right;
        self.needless = found.len() - right;
    }
}
