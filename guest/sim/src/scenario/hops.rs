//! How many members a lookup asks until the responsible one answers, by fingers alone and with all that a member knows,
//! and how long it takes until the answer is believed.

use selfsame_core::ring::Parameters;

use super::{join_telling, lookups, settle};
use crate::machine::Native;
use crate::report::{Bar, Row};
use crate::ring::RingState;
use crate::world::World;

/// Chord's expected path length, the hop to the responsible member included, by the number of members.
const EXPECTED: [(usize, f64); 5] = [(16, 2.68), (64, 3.76), (255, 4.88), (1000, 5.85), (4096, 6.87)];
/// How far from it the measured mean may be.
const TOLERANCE: f64 = 0.05;
/// Members in all rings of one size together, at least: in a small ring much depends on where its few members are.
const MEMBERS: usize = 256;
/// Lookups in all rings of one size together: with a deviation of 1.7 hops the mean is then within 0.03.
const LOOKUPS: usize = 4_000;
/// Time in which each member looks after every finger.
const FINGERS_MS: u64 = 5 * 60_000;
/// Least share of lookups that are right.
const LEAST_RIGHT: f64 = 0.999;
/// Longest that a ring may take to settle.
const SETTLE_MS: u64 = 10 * 60_000;

/// One successor, and lookups that begin at nothing but the routing table: what Chord's expectation is about.
static FINGERS_ALONE: Parameters = Parameters {
    successors: 1,
    named_successors: 1,
    routes: 0,
    half_spacings: 0,
    ..Parameters::DEFAULT
};

/// Measures all sizes up to `most` members.
///
/// # Panics
/// When a ring does not settle.
pub(super) fn hops(most: usize, seed: u64, progress: &mut dyn FnMut(&str)) -> (Vec<Row>, Vec<[u8; 32]>) {
    let mut rows = Vec::new();
    let mut traces = Vec::new();
    for (nodes, expected) in EXPECTED.into_iter().filter(|(nodes, _)| *nodes <= most) {
        let mut alone_progress = |text: &str| progress(&format!("{nodes} members, fingers alone: {text}"));
        let alone = mean(nodes, seed, &FINGERS_ALONE, &mut traces, &mut alone_progress);
        rows.push(
            Row::new(format!("{nodes} members, by fingers alone"), "hops", alone.hops)
                .bar(Bar::Within(expected, TOLERANCE)),
        );
        let mut all_progress = |text: &str| progress(&format!("{nodes} members, with all they know: {text}"));
        let all = mean(nodes, seed, &Parameters::DEFAULT, &mut traces, &mut all_progress);
        rows.extend([
            Row::new(format!("{nodes} members, with all they know"), "hops", all.hops)
                .bar(Bar::AtMost(alone.hops)),
            Row::new(
                format!("{nodes} members, by fingers alone, mean time"),
                "ms",
                alone.took_ms,
            ),
            Row::new(
                format!("{nodes} members, with all they know, mean time, until others vouch for it"),
                "ms",
                all.took_ms,
            ),
        ]);
    }
    (rows, traces)
}

/// What a lookup costs on average
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    hops: f64,
    took_ms: f64,
}

/// The mean over as many rings as make enough members.
fn mean(
    nodes: usize,
    seed: u64,
    parameters: &'static Parameters,
    traces: &mut Vec<[u8; 32]>,
    progress: &mut dyn FnMut(&str),
) -> Cost {
    let rings = MEMBERS.div_ceil(nodes);
    let mut mean = Cost::default();
    for ring in 0..rings as u64 {
        let mut progress = |text: &str| progress(&format!("ring {} of {rings}: {text}", ring + 1));
        let (cost, trace) = of_one_ring(nodes, seed + ring, parameters, LOOKUPS / rings, &mut progress);
        traces.push(trace);
        mean.hops += cost.hops / rings as f64;
        mean.took_ms += cost.took_ms / rings as f64;
    }
    mean
}

fn of_one_ring(
    nodes: usize,
    seed: u64,
    parameters: &'static Parameters,
    count: usize,
    progress: &mut dyn FnMut(&str),
) -> (Cost, [u8; 32]) {
    let mut world = World::new(Native::with(parameters), seed);
    join_telling(&mut world, nodes, 50, progress);
    progress("the ring settles");
    if let Err(faults) = settle(&mut world, SETTLE_MS) {
        panic!("a ring of {nodes} did not settle: {faults:?} (seed {seed})");
    }
    progress("members look after their fingers");
    world.run_ms(FINGERS_MS);
    progress("members look positions up");
    let state = RingState::of(&mut world);
    let lookups = lookups(&mut world, &state, count);
    // A ring whose members know one successor each has no second way to anybody.
    assert!(
        lookups.share() >= LEAST_RIGHT,
        "lookups in a whole ring are right: {} of {} (seed {seed})",
        lookups.right,
        lookups.asked
    );
    let cost = Cost {
        hops: lookups.mean_hops(),
        took_ms: lookups.mean_ms(),
    };
    (cost, world.trace())
}
