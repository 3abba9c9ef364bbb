//! Random schedules of faults, during which the ring must stay one and after which it must be whole.

use core::fmt;
use std::collections::BTreeSet;

use selfsame_codec::reply::Status;
use selfsame_codec::{Code, Input, Role};

use super::episodes::Episode;
use super::{Fault, Published, find, lookups, settle};
use crate::host::{Host, Outcome};
use crate::invariant::Broken;
use crate::machine::Native;
use crate::network::Transport;
use crate::ring::{Faults, RingState};
use crate::world::{End, START_MS, World};

/// Least number of members that the most at a time may be.
const FEWEST: usize = 5;
/// Most leaves at a time.
const MOST_LEAVES: usize = 3;
/// What happens in one schedule.
const STEPS: usize = 40;
/// Longest pause between two things that happen, in milliseconds.
const LONGEST_PAUSE_MS: u64 = 5_000;
/// Longest that a member may take to leave.
const LONGEST_LEAVE_MS: u64 = 10_000;
/// Shortest and longest time that frames do not pass from one host to another, in milliseconds.
const CUT_MS: core::ops::Range<u64> = 2_000..40_000;
/// Least number of members that is left while there are cuts: two that do not hear each other are gone for each other.
const FEWEST_CUT: usize = 6;
/// Most cuts at a time: members of pairs that are all cut could find each other in rings of their own.
const MOST_CUTS: usize = 1;
/// Time between two looks at the invariant.
pub(super) const LOOK_EVERY_MS: u64 = 500;
/// Longest that the ring may take to settle after the last change.
pub(super) const SETTLE_MS: u64 = 30_000;
/// Lookups in the settled ring.
const LOOKUPS: usize = 20;
/// Times that each published name is looked for, on average.
const FINDS_EACH: usize = 2;
/// Of so many members one publishes a name.
const MEMBERS_A_NAME: usize = 3;
/// Sibling objects of each name beyond the first.
const REPLICAS: u8 = 2;
/// Most members at a time that are in the middle of an episode.
const MOST_EPISODES: usize = 2;
/// Longest that a leaf may take to look a position up.
const LEAF_MS: u64 = 30_000;
/// Most members that may be down without having left: half of a successor list, so that every list holds a living one.
const MOST_DOWN: usize = 8;

/// A schedule: everything follows from its seed
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The seed.
    pub seed: u64,
    /// Most members at a time, of which the seed takes some.
    pub nodes: usize,
    /// The only kind of fault, while members join; none is all kinds.
    pub fault: Option<Fault>,
}

/// How a schedule failed
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The invariant was broken so long after the start.
    Invariant(u64, Broken),
    /// The ring did not settle.
    Unsettled(Faults),
    /// So many lookups went wrong in the settled ring.
    Lookups(usize),
    /// A leaf did not find a position in the settled ring.
    Leaf(usize),
    /// So many finds of published names went wrong in the settled ring.
    Finds(usize),
    /// A clone went on beside the original.
    CloneRuns(usize),
    /// A node stopped by itself.
    Stopped(usize, Code),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invariant(after_ms, broken) => write!(f, "{broken} after {after_ms} ms"),
            Self::Unsettled(faults) => write!(
                f,
                "unsettled: {} outside, {} successors, {} predecessors",
                faults.outside, faults.successors, faults.predecessors
            ),
            Self::Lookups(wrong) => write!(f, "{wrong} of {LOOKUPS} lookups wrong"),
            Self::Leaf(leaf) => write!(f, "leaf {leaf} does not find a position"),
            Self::Finds(missed) => write!(f, "{missed} finds without the publisher"),
            Self::CloneRuns(clone) => write!(f, "clone {clone} goes on"),
            Self::Stopped(host, code) => write!(f, "node {host} stopped: {}", code.name()),
        }
    }
}

/// Plays a schedule; returns the trace.
///
/// # Errors
/// How it failed.
pub fn schedule(plan: &Schedule) -> Result<[u8; 32], Failure> {
    let mut play = Play::new(plan);
    play.start_new(Role::Member);
    for _ in 0..STEPS {
        play.mend(false);
        play.happen(plan.fault);
        let pause_ms = play.world.dice().u64(0..LONGEST_PAUSE_MS);
        play.watch(pause_ms)?;
    }
    play.end_faults()?;
    let took_ms = settle(&mut play.world, SETTLE_MS).map_err(Failure::Unsettled)?;
    play.world.run_ms(SETTLE_MS - took_ms);
    let state = RingState::of(&mut play.world);
    let result = lookups(&mut play.world, &state, LOOKUPS);
    if result.right < result.asked {
        return Err(Failure::Lookups(result.asked - result.right));
    }
    play.leaves_look_up(&state)?;
    play.find_names()?;
    Ok(play.world.trace())
}

/// Frames do not pass from one host to another until a time
struct Cut {
    from: usize,
    to: usize,
    until_ms: u64,
}

/// A schedule that is played
pub(super) struct Play {
    pub(super) world: World<Native>,
    /// Most members at a time.
    most: usize,
    /// Hosts that were told to leave, with the tag of the command.
    pub(super) leaving: Vec<(usize, u32)>,
    /// Members that have started again and have found nobody they knew but others of these.
    pub(super) returning: BTreeSet<[u8; 32]>,
    pub(super) episodes: Vec<Episode>,
    /// Members whose clocks were corrected, and until when they may be astray.
    pub(super) corrected: Vec<([u8; 32], u64)>,
    /// Until when the invariant may be broken.
    pub(super) unwatched_until_ms: u64,
    cuts: Vec<Cut>,
}

impl Play {
    fn new(plan: &Schedule) -> Self {
        let mut world = World::new(Native::default(), plan.seed);
        world.network.jitter_ms = 20;
        world.network.loss = 5;
        if world.dice().u32(0..3) == 0 {
            world.transport = Transport::Exchange;
            world.network.reorder_ms = 50;
            world.network.duplicates = 20;
        }
        let most = world.dice().usize(FEWEST..=plan.nodes.max(FEWEST));
        Self {
            world,
            most,
            leaving: Vec::new(),
            returning: BTreeSet::new(),
            episodes: Vec::new(),
            corrected: Vec::new(),
            unwatched_until_ms: 0,
            cuts: Vec::new(),
        }
    }

    /// Lets time pass and looks at the invariant again and again.
    fn watch(&mut self, pause_ms: u64) -> Result<(), Failure> {
        let until_ms = self.world.now_ms() + pause_ms;
        while self.world.now_ms() < until_ms {
            let look_ms = LOOK_EVERY_MS.min(until_ms - self.world.now_ms());
            self.world.run_ms(look_ms);
            self.end_those_that_left();
            self.go_on()?;
            self.check_stopped()?;
            if self.is_unwatched() {
                continue;
            }
            let after_ms = self.world.now_ms() - START_MS;
            let state = RingState::of(&mut self.world);
            let (returning, unreliable) = (self.returning.clone(), self.unreliable());
            self.returning
                .retain(|member| unreliable.contains(member) || !state.is_back(member, &returning));
            state
                .invariant(&self.returning)
                .map_err(|broken| Failure::Invariant(after_ms, broken))?;
        }
        Ok(())
    }

    /// Lets everything come to its end.
    fn end_faults(&mut self) -> Result<(), Failure> {
        while !self.episodes.is_empty() {
            self.watch(LOOK_EVERY_MS)?;
        }
        let until_ms = self.world.now_ms() + LONGEST_LEAVE_MS;
        while !self.leaving.is_empty() && self.world.now_ms() < until_ms {
            self.watch(LOOK_EVERY_MS)?;
        }
        self.mend(true);
        Ok(())
    }

    fn end_those_that_left(&mut self) {
        let world = &mut self.world;
        self.leaving.retain(|(host, tag)| {
            let has_left = world.hosts()[*host].answer(*tag).is_some();
            if has_left {
                world.end(*host, End::Killed);
            }
            !has_left && world.hosts()[*host].is_up()
        });
    }

    /// Lets frames pass again where they have not for long enough, or everywhere.
    fn mend(&mut self, all: bool) {
        let world = &mut self.world;
        let now_ms = world.now_ms();
        self.cuts.retain(|cut| {
            let is_over = all || cut.until_ms <= now_ms;
            if is_over {
                world.network.mend(cut.from, cut.to);
            }
            !is_over
        });
    }

    /// One thing happens, if it can.
    fn happen(&mut self, only: Option<Fault>) {
        if self.is_unwatched() {
            return;
        }
        let running = self.hosts(Role::Member, true).len();
        let grows = running < self.most && (running < self.most / 2 || self.world.dice().bool());
        let is_churn = match only {
            None => self.world.dice().u32(0..4) > 0,
            Some(fault) => fault == Fault::Churn,
        };
        if is_churn {
            self.churn();
        } else if only.is_some() && grows {
            self.start_new(Role::Member);
        } else {
            self.begin_episode(only);
        }
    }

    /// A member gets into an episode, if one can.
    fn begin_episode(&mut self, only: Option<Fault>) {
        let fault = only.unwrap_or_else(|| {
            let number = self.world.dice().usize(..Fault::EPISODES.len());
            Fault::EPISODES[number]
        });
        let running = self.hosts(Role::Member, true);
        let down = self.hosts(Role::Member, false).len() + self.episodes.len();
        let may_begin = self.episodes.len() < MOST_EPISODES && down < MOST_DOWN;
        if may_begin && running.len() > self.least() {
            let host = self.one_of(&running);
            let is_leaving = self.leaving.iter().any(|(other, _)| *other == host);
            let id = self.world.hosts()[host].id().0;
            if !is_leaving && self.has_bootstrap(id, id) && self.is_dispensable(id) {
                self.begin(fault, host);
            }
        }
    }

    /// How many reliable members have to be left.
    fn least(&self) -> usize {
        if self.cuts.is_empty() { 2 } else { FEWEST_CUT }
    }

    /// A member or leaf comes or goes, or frames do not pass for a while.
    fn churn(&mut self) {
        let running = self.hosts(Role::Member, true);
        let down = self.hosts(Role::Member, false);
        let least = self.least();
        match self.world.dice().u32(0..100) {
            0..35 if running.len() < self.most => self.start_new(Role::Member),
            35..50 if !down.is_empty() => {
                let host = self.one_of(&down);
                self.returning.insert(self.world.hosts()[host].id().0);
                self.start(host, host);
            }
            50..72 if running.len() > least && down.len() + self.episodes.len() < MOST_DOWN => {
                let host = self.one_of(&running);
                self.end(host);
            }
            72..84 if running.len() > least => {
                let host = self.one_of(&running);
                let id = self.world.hosts()[host].id().0;
                if self.is_dispensable(id) {
                    let tag = self.world.command(host, |tag| Input::Leave { tag });
                    self.leaving.push((host, tag));
                }
            }
            84..93 if running.len() > FEWEST_CUT && self.cuts.len() < MOST_CUTS => {
                let (from, to) = (self.one_of(&running), self.one_of(&running));
                self.cut(from, to);
            }
            93..100 => self.leaf_comes_or_goes(),
            _ => {}
        }
    }

    /// Ends a member without a word, unless another one knows nobody else who lives.
    fn end(&mut self, host: usize) {
        let how = if self.world.dice().bool() {
            End::Killed
        } else {
            End::PowerLost
        };
        let id = self.world.hosts()[host].id().0;
        if self.is_dispensable(id) {
            self.world.end(host, how);
        }
    }

    /// Whether a member can find the ring again through a bootstrap, though another member is gone; the first one has none.
    fn has_bootstrap(&self, member: [u8; 32], gone: [u8; 32]) -> bool {
        let hosts = self.world.hosts();
        let is_member = |host: &&Host| host.id().0 == member && !host.is_clone();
        let bootstraps = hosts.iter().find(is_member).map(|host| &host.config.bootstraps);
        let lives = |known: &String| {
            let other = hosts.iter().find(|host| host.pinned() == *known);
            other.is_some_and(|host| host.is_running() && host.id().0 != gone)
        };
        bootstraps.is_none_or(|known| known.is_empty() || known.iter().any(lives))
    }

    /// Whether everybody knows another living successor than this member and those in the middle of an episode.
    pub(super) fn is_dispensable(&mut self, id: [u8; 32]) -> bool {
        let cut: Vec<_> = self.cuts.iter().map(|cut| self.ids(cut.from, cut.to)).collect();
        let mut gone = self.unreliable();
        if !gone.iter().all(|astray| self.has_bootstrap(*astray, id)) {
            return false;
        }
        gone.insert(id);
        RingState::of(&mut self.world).outlives(&gone, &cut)
    }

    /// One host is not heard by another for a while, unless one of them knows nobody else who lives.
    fn cut(&mut self, from: usize, to: usize) {
        let pairs = self.cuts.iter().map(|cut| (cut.from, cut.to)).chain([(from, to)]);
        let cut: Vec<_> = pairs.map(|(from, to)| self.ids(from, to)).collect();
        let gone = self.unreliable();
        if from != to && RingState::of(&mut self.world).outlives(&gone, &cut) {
            self.world.network.cut(from, to);
            let until_ms = self.world.now_ms() + self.world.dice().u64(CUT_MS);
            self.cuts.push(Cut { from, to, until_ms });
        }
    }

    fn ids(&self, one: usize, other: usize) -> ([u8; 32], [u8; 32]) {
        let hosts = self.world.hosts();
        (hosts[one].id().0, hosts[other].id().0)
    }

    /// Hosts whose process runs, or does not; none in the middle of an episode.
    fn hosts(&self, role: Role, running: bool) -> Vec<usize> {
        let hosts = self.world.hosts().iter().enumerate();
        hosts
            .filter(|(_, host)| host.config.role == role && host.is_running() == running && !host.is_clone())
            .map(|(number, _)| number)
            .filter(|number| !self.episodes.iter().any(|episode| episode.subject == *number))
            .collect()
    }

    fn one_of(&mut self, hosts: &[usize]) -> usize {
        hosts[self.world.dice().usize(..hosts.len())]
    }

    /// A host behind an address translator starts, or one of those that run ends.
    fn leaf_comes_or_goes(&mut self) {
        let running = self.hosts(Role::Leaf, true);
        if running.len() < MOST_LEAVES && self.world.dice().bool() {
            self.start_new(Role::Leaf);
        } else if !running.is_empty() {
            let host = self.one_of(&running);
            self.world.end(host, End::Killed);
        }
    }

    fn start_new(&mut self, role: Role) {
        let host = self.world.add(role, &[]);
        self.world.host_mut(host).is_reachable = role == Role::Member;
        self.start(host, host);
    }

    /// A node joins through up to three members that run, and some members publish a name; a clone publishes that of its
    /// original.
    pub(super) fn start(&mut self, host: usize, original: usize) {
        let mut bootstraps = self.hosts(Role::Member, true);
        self.world.dice().shuffle(&mut bootstraps);
        bootstraps.truncate(3);
        self.world.set_bootstraps(host, &bootstraps);
        self.world.start(host);
        self.world.command(host, |tag| Input::Join { tag });
        if self.publishes(original) {
            let name = name_of(original);
            self.world.command(host, |tag| Input::Publish {
                tag,
                grant: &[],
                name: &name,
                replicas: REPLICAS,
                version: "",
                weight: 10_000,
            });
        }
    }

    fn publishes(&self, host: usize) -> bool {
        host.is_multiple_of(MEMBERS_A_NAME) && self.world.hosts()[host].config.role == Role::Member
    }

    /// Members find every name whose publisher runs.
    fn find_names(&mut self) -> Result<(), Failure> {
        let running = self.hosts(Role::Member, true);
        let names = running.iter().filter(|host| self.publishes(**host));
        let names: Vec<Published> = names
            .map(|host| Published {
                name: name_of(*host),
                owner: None,
                host: *host,
            })
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let finds = find(&mut self.world, &running, &names, names.len() * FINDS_EACH);
        match finds.asked - finds.found {
            0 => Ok(()),
            missed => Err(Failure::Finds(missed)),
        }
    }

    /// Every leaf that is attached and one of whose bootstraps runs finds who is responsible for a position.
    fn leaves_look_up(&mut self, state: &RingState) -> Result<(), Failure> {
        let members = self.hosts(Role::Member, true).into_iter();
        let living: BTreeSet<String> = members.map(|host| self.world.hosts()[host].pinned()).collect();
        for leaf in self.hosts(Role::Leaf, true) {
            let status = self.world.ask(leaf, |tag| Input::Status { tag });
            let Some(Outcome::Reply(body)) = status.map(|answer| answer.outcome) else {
                continue;
            };
            let status = Status::decode(&body).expect("a core encodes its status");
            let bootstraps = &self.world.hosts()[leaf].config.bootstraps;
            let knows_nobody = !bootstraps.iter().any(|known| living.contains(known));
            if knows_nobody || status.relays.is_empty() {
                continue;
            }
            let mut id = [0; 32];
            self.world.dice().fill(&mut id);
            let tag = self.world.command(leaf, |tag| Input::FindNode { tag, id });
            self.world.run_ms(LEAF_MS);
            let answer = self.world.host_mut(leaf).take_answer(tag);
            let found = answer.filter(|answer| matches!(answer.outcome, Outcome::Reply(_)));
            let found = found.and_then(|answer| answer.found_node());
            if found.map(|(node, _)| node) != state.owner(&id) {
                return Err(Failure::Leaf(leaf));
            }
        }
        Ok(())
    }
}

/// The name that a host publishes.
fn name_of(host: usize) -> String {
    format!("service-{host}")
}
