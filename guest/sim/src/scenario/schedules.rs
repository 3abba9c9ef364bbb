//! Random schedules of joins, leaves, crashes and returns, after each of which the ring must still be one.

use std::collections::BTreeSet;

use selfsame_codec::{Input, Role};

use super::{lookups, settle};
use crate::invariant::Broken;
use crate::machine::Native;
use crate::ring::{Faults, RingState};
use crate::world::{End, START_MS, World};

/// Most members at a time.
const MOST: usize = 24;
/// What happens in one schedule.
const STEPS: usize = 40;
/// Longest pause between two things that happen, in milliseconds.
const LONGEST_PAUSE_MS: u64 = 5_000;
/// Longest that a member may take to leave.
const LONGEST_LEAVE_MS: u64 = 10_000;
/// Time between two looks at the invariant.
const LOOK_EVERY_MS: u64 = 500;
/// Longest that the ring may take to settle in the end.
const SETTLE_MS: u64 = 180_000;
/// Lookups in the settled ring.
const LOOKUPS: usize = 20;
/// Most members that may be down without having left: half of a successor list, so that every list holds a living one.
const MOST_DOWN: usize = 8;

/// How a schedule failed
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The invariant was broken so long after the start.
    Invariant(u64, Broken),
    /// The ring did not settle.
    Unsettled(Faults),
    /// So many lookups went wrong in the settled ring.
    Lookups(usize),
}

/// Plays the schedule of a seed; returns the trace.
///
/// # Errors
/// How it failed.
pub fn schedule(seed: u64) -> Result<[u8; 32], Failure> {
    let mut world = World::new(Native::default(), seed);
    world.network.jitter_ms = 20;
    world.network.loss = 5;
    let mut play = Play {
        world,
        leaving: Vec::new(),
        returning: BTreeSet::new(),
    };
    play.start_new();
    for _ in 0..STEPS {
        play.end_those_that_left();
        play.happen();
        let pause_ms = play.world.dice().u64(0..LONGEST_PAUSE_MS);
        play.watch(pause_ms)?;
    }
    play.watch(LONGEST_LEAVE_MS)?;
    play.end_those_that_left();
    settle(&mut play.world, SETTLE_MS).map_err(Failure::Unsettled)?;
    let state = RingState::of(&mut play.world);
    let result = lookups(&mut play.world, &state, LOOKUPS);
    if result.right < result.asked {
        return Err(Failure::Lookups(result.asked - result.right));
    }
    Ok(play.world.trace())
}

/// A schedule that is played
struct Play {
    world: World<Native>,
    /// Hosts that were told to leave, with the tag of the command.
    leaving: Vec<(usize, u32)>,
    /// Members that have started again and have not found anybody they knew.
    returning: BTreeSet<[u8; 32]>,
}

impl Play {
    /// Lets time pass and looks at the invariant again and again.
    fn watch(&mut self, pause_ms: u64) -> Result<(), Failure> {
        let until_ms = self.world.now_ms() + pause_ms;
        while self.world.now_ms() < until_ms {
            let look_ms = LOOK_EVERY_MS.min(until_ms - self.world.now_ms());
            self.world.run_ms(look_ms);
            let after_ms = self.world.now_ms() - START_MS;
            let state = RingState::of(&mut self.world);
            self.returning
                .retain(|member| !state.has_living_successor(member));
            state
                .invariant(&self.returning)
                .map_err(|broken| Failure::Invariant(after_ms, broken))?;
        }
        Ok(())
    }

    fn end_those_that_left(&mut self) {
        let world = &mut self.world;
        self.leaving.retain(|(host, tag)| {
            let has_left = world.hosts()[*host].answer(*tag).is_some();
            if has_left {
                world.end(*host, End::Killed);
            }
            !has_left
        });
    }

    /// One thing happens, if it can.
    fn happen(&mut self) {
        let running = self.hosts(true);
        let down = self.hosts(false);
        match self.world.dice().u32(0..100) {
            0..40 if running.len() < MOST => self.start_new(),
            40..60 if !down.is_empty() => {
                let host = self.one_of(&down);
                self.returning.insert(self.world.hosts()[host].id().0);
                self.start(host);
            }
            60..85 if running.len() > 2 && down.len() < MOST_DOWN => {
                let host = self.one_of(&running);
                let how = if self.world.dice().bool() {
                    End::Killed
                } else {
                    End::PowerLost
                };
                let id = self.world.hosts()[host].id().0;
                if !RingState::of(&mut self.world).depends_on(&id) {
                    self.world.end(host, how);
                }
            }
            85..100 if running.len() > 2 => {
                let host = self.one_of(&running);
                let tag = self.world.command(host, |tag| Input::Leave { tag });
                self.leaving.push((host, tag));
            }
            _ => {}
        }
    }

    /// Hosts whose process runs, or does not.
    fn hosts(&self, running: bool) -> Vec<usize> {
        let hosts = self.world.hosts().iter().enumerate();
        hosts
            .filter(|(_, host)| host.is_running() == running)
            .map(|(number, _)| number)
            .collect()
    }

    fn one_of(&mut self, hosts: &[usize]) -> usize {
        hosts[self.world.dice().usize(..hosts.len())]
    }

    fn start_new(&mut self) {
        let host = self.world.add(Role::Member, &[]);
        self.start(host);
    }

    /// A member joins through up to three that run.
    fn start(&mut self, host: usize) {
        let mut bootstraps = self.hosts(true);
        self.world.dice().shuffle(&mut bootstraps);
        bootstraps.truncate(3);
        self.world.set_bootstraps(host, &bootstraps);
        self.world.start(host);
        self.world.command(host, |tag| Input::Join { tag });
    }
}
