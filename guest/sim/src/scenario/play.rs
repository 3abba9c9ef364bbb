//! The scenarios that the command line offers.

use clap::ValueEnum;
use selfsame_core::identity::labelled_hash;

use super::attack::attack;
use super::curve::draw;
use super::hops::hops;
use super::liars::{Rings, liars, point};
use super::{Fault, Schedule, find, join_telling, lookups, publish, schedule, settle};
use crate::attack::{Kind, Lie};
use crate::machine::Native;
use crate::report::{Bar, Report, Row};
use crate::ring::RingState;
use crate::traffic::Requests;
use crate::world::{End, World};

/// Longest that a ring may take to settle after the last change.
const SETTLE_MS: u64 = 10 * 60_000;
/// The longest of all intervals at which a member looks after its neighbours.
const MAINTENANCE_MS: u64 = 15_000;
/// Shares of liars in percent, and rings for each of them, in a curve.
const CURVE_SHARES: [f64; 7] = [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0];
const CURVE_SEEDS: usize = 5;
const HOUR_MS: u64 = 60 * 60_000;
/// Purpose of the hash over the traces of many runs.
const TRACE: &str = "selfsame/1 simulation traces";

/// What can be played
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// All join, the ring settles, members look positions up
    Settle,
    /// The members are split in two for an hour
    Split,
    /// Three of ten die at once, without a word
    Loss,
    /// Lookups in rings of up to so many members, by fingers alone and with all that members know
    Hops,
    /// Random schedules of joins, leaves, crashes, returns and bad networks
    Faults,
    /// Some of the members lie
    Attack,
    /// Some of the members of closed networks lie, in one ring after the other
    Liars,
}

/// A scenario and its options
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is played.
    pub scenario: Scenario,
    /// How many nodes take part; in schedules of faults, how many at most.
    pub nodes: usize,
    /// What everything follows from.
    pub seed: u64,
    /// How many schedules of faults are played, one for each seed from the first on.
    pub schedules: usize,
    /// The only kind of fault in schedules of faults; none is all kinds.
    pub fault: Option<Fault>,
    /// What attackers do, each in a ring of its own; none is all kinds.
    pub kind: Option<Kind>,
    /// What liars do in closed networks; none is all, one after the other in each ring.
    pub lie: Option<Lie>,
    /// How many of a hundred members lie.
    pub share: f64,
    /// How many rings with liars are played, one for each seed from the first on.
    pub seeds: usize,
    /// Whether shares of liars from none to a third are played, too, for a curve.
    pub draws_curve: bool,
}

impl Plan {
    /// A scenario with the usual options.
    #[must_use]
    pub fn new(scenario: Scenario, nodes: usize, seed: u64) -> Self {
        Self {
            scenario,
            nodes,
            seed,
            schedules: 1,
            fault: None,
            kind: None,
            lie: None,
            share: 5.0,
            seeds: 1,
            draws_curve: false,
        }
    }

    /// The command that plays it again.
    #[must_use]
    pub fn command(&self) -> String {
        let name = name_of(&self.scenario);
        let mut command = format!("selfsame-sim {name} --nodes {} --seed {}", self.nodes, self.seed);
        match self.scenario {
            Scenario::Faults => {
                let fault = self.fault.map_or_else(|| "all".into(), |fault| name_of(&fault));
                command.push_str(&format!(" --schedules {} --fault {fault}", self.schedules));
            }
            Scenario::Attack => {
                let kind = self.kind.map_or_else(|| "all".into(), |kind| name_of(&kind));
                command.push_str(&format!(" --kind {kind} --share {}", self.share));
            }
            Scenario::Liars => {
                let lie = self.lie.map_or_else(|| "all".into(), |lie| name_of(&lie));
                let (seeds, share) = (self.seeds, self.share);
                command.push_str(&format!(" --seeds {seeds} --lie {lie} --fraction {share}"));
            }
            _ => {}
        }
        command
    }
}

/// The name of a choice on the command line.
pub(super) fn name_of(choice: &impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.expect("nothing is hidden").get_name().into()
}

/// Plays a scenario; `progress` hears what happens.
pub fn play(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Report {
    let (nodes, seed) = (plan.nodes, plan.seed);
    let (rows, trace) = match plan.scenario {
        Scenario::Faults => faults(plan, progress),
        Scenario::Hops => {
            let (rows, traces) = hops(nodes, seed, progress);
            (rows, of_all(&traces))
        }
        Scenario::Attack => attacks(plan, progress),
        Scenario::Liars => {
            let (rows, traces) = liars(&rings_of(plan, plan.share, plan.seeds), progress);
            (rows, of_all(&traces))
        }
        scenario => one_ring(scenario, nodes, seed, progress),
    };
    Report {
        scenario: name_of(&plan.scenario),
        command: plan.command(),
        rows,
        trace,
        figure: plan.draws_curve.then(|| curve(plan, progress)),
    }
}

fn rings_of(plan: &Plan, share: f64, count: usize) -> Rings {
    Rings {
        nodes: plan.nodes,
        share,
        lie: plan.lie,
        seeds: plan.seed..plan.seed + count as u64,
    }
}

/// Plays a few rings with each share of liars, and draws what comes of it.
fn curve(plan: &Plan, progress: &mut dyn FnMut(&str)) -> String {
    let seeds = plan.seeds.min(CURVE_SEEDS);
    let points = CURVE_SHARES.map(|share| (share, point(&rings_of(plan, share, seeds), progress)));
    let title = format!("{} members, {seeds} rings for each share of liars", plan.nodes);
    draw(&title, &points)
}

/// One hash for the traces of many runs.
fn of_all(traces: &[[u8; 32]]) -> [u8; 32] {
    let parts: Vec<&[u8]> = traces.iter().map(<[u8; 32]>::as_slice).collect();
    labelled_hash(TRACE, &parts)
}

/// Plays one kind of attack, or all of them one after the other.
fn attacks(plan: &Plan, progress: &mut dyn FnMut(&str)) -> (Vec<Row>, [u8; 32]) {
    let kinds = plan
        .kind
        .map_or_else(|| Kind::value_variants().to_vec(), |kind| vec![kind]);
    let mut rows = Vec::new();
    let mut traces = Vec::new();
    for kind in kinds {
        let name = name_of(&kind);
        let mut progress = |text: &str| progress(&format!("{name}: {text}"));
        let (measured, trace) = attack(kind, plan.nodes, plan.share, plan.seed, &mut progress);
        rows.extend(measured.into_iter().map(|row| row.of(&name)));
        traces.push(trace);
    }
    (rows, of_all(&traces))
}

/// Plays the schedules of consecutive seeds.
fn faults(plan: &Plan, progress: &mut dyn FnMut(&str)) -> (Vec<Row>, [u8; 32]) {
    let mut traces = Vec::new();
    let mut failed = Vec::new();
    for number in 0..plan.schedules {
        if number % 10 == 0 {
            progress(&format!("schedule {number} of {}", plan.schedules));
        }
        let seed = plan.seed + number as u64;
        match schedule(&Schedule {
            seed,
            nodes: plan.nodes,
            fault: plan.fault,
        }) {
            Ok(trace) => traces.push(trace),
            Err(failure) => {
                let again = Plan {
                    seed,
                    schedules: 1,
                    ..plan.clone()
                };
                failed.push(format!("{}: {failure}", again.command()));
            }
        }
    }
    let played = Row::new("schedules", "", plan.schedules as f64);
    let broken = Row::new("schedules that broke the ring", "", failed.len() as f64).bar(Bar::AtMost(0.0));
    let rows = failed.into_iter().map(|text| Row::new(text, "", 1.0));
    let rows = [played, broken].into_iter().chain(rows).collect();
    (rows, of_all(&traces))
}

fn one_ring(
    scenario: Scenario,
    nodes: usize,
    seed: u64,
    progress: &mut dyn FnMut(&str),
) -> (Vec<Row>, [u8; 32]) {
    let requests = Requests::default();
    let tap = requests.clone();
    let machine = Native::default().tapped(move |_| Some(Box::new(tap.clone())));
    let mut world = World::new(machine, seed);
    world.network.jitter_ms = 5;
    world.network.loss = 1;
    let mut rows = Vec::new();
    join_telling(&mut world, nodes, (nodes as u64 / 20).clamp(2, 50), progress);
    progress("the ring settles");
    rows.push(settled("the ring settled after the last join in", &mut world));
    let each = |value: u64| value as f64 / nodes as f64;
    rows.push(Row::new("handshakes a node", "", each(world.traffic.handshakes)));
    rows.push(Row::new("frames a node", "", each(world.traffic.frames)));
    rows.push(Row::new("bytes a node", "", each(world.traffic.bytes)));
    rows.extend(requests.rows(nodes));
    match scenario {
        Scenario::Split => split(&mut world, &mut rows, progress),
        Scenario::Loss => loss(&mut world, &mut rows, progress),
        _ => look_up(&mut world, &mut rows, progress),
    }
    rows.push(Row::new("frames", "", world.traffic.frames as f64));
    rows.push(Row::new("steps", "", world.steps as f64));
    (rows, world.trace())
}

/// Lets the ring settle; one that does not within the time is shown with what is wrong.
pub(super) fn settled(what: &str, world: &mut World<Native>) -> Row {
    match settle(world, SETTLE_MS) {
        Ok(took_ms) => {
            Row::new(what, "s", took_ms as f64 / 1000.0).bar(Bar::AtMost(SETTLE_MS as f64 / 1000.0))
        }
        Err(faults) => {
            let wrong = faults.outside + faults.successors + faults.predecessors;
            Row::new(format!("{what}: still wrong {faults:?}"), "", wrong as f64).bar(Bar::AtMost(0.0))
        }
    }
}

/// Lets members look positions up in a ring that is whole: every answer must be right.
fn look_up(world: &mut World<Native>, rows: &mut Vec<Row>, progress: &mut dyn FnMut(&str)) {
    progress("members look positions up");
    let state = RingState::of(world);
    let mut result = lookups(world, &state, 1000);
    rows.push(Row::new("right of all lookups", "share", result.share()).bar(Bar::AtLeast(1.0)));
    rows.extend(result.rows());
}

fn split(world: &mut World<Native>, rows: &mut Vec<Row>, progress: &mut dyn FnMut(&str)) {
    progress("the network is split for an hour");
    for host in 0..world.hosts().len() {
        world.host_mut(host).group = (host % 2) as u8;
    }
    world.network.wall(0, 1);
    world.network.wall(1, 0);
    world.run_ms(HOUR_MS);
    progress("the network is whole again");
    world.network.heal();
    rows.push(settled("one ring again after", world));
    look_up(world, rows, progress);
}

fn loss(world: &mut World<Native>, rows: &mut Vec<Row>, progress: &mut dyn FnMut(&str)) {
    progress("every tenth member publishes a name");
    let mut hosts: Vec<usize> = (0..world.hosts().len()).collect();
    let names = publish(world, hosts.iter().copied().step_by(10), None, 2);
    world.dice().shuffle(&mut hosts);
    let dead = hosts.len() * 3 / 10;
    for host in &hosts[..dead] {
        world.end(*host, End::PowerLost);
    }
    progress("three of ten members are dead; others find names meanwhile");
    let askers = &hosts[dead..];
    let during = find(world, askers, &names, 1000);
    rows.push(Row::new("found while the ring heals", "share", during.share()).bar(Bar::AtLeast(0.999)));
    rows.extend(during.failures());
    world.run_ms(MAINTENANCE_MS);
    let after = find(world, askers, &names, 1000);
    rows.push(Row::new("found afterwards", "share", after.share()).bar(Bar::AtLeast(1.0)));
    rows.push(settled("the ring settled after", world));
}
