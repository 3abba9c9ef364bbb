//! Some of the members of a closed network lie, in each of the ways that there are, one after the other in one ring.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeSet;
use std::sync::mpsc::{Sender, channel};

use selfsame_codec::{Input, Role};
use selfsame_core::ring::{Contradiction, EPOCH_MS, Parameters};

use super::messages::{Messages, messages};
use super::{BOOTSTRAPS, join, lookups_among};
use crate::attack::{Coalition, Lie};
use crate::machine::Native;
use crate::report::{Bar, Row};
use crate::ring::RingState;
use crate::world::{End, World};

type Sim = World<Native>;
type Id = [u8; 32];

/// Rings with groups of seven: of these, three liars in twenty leave one in a hundred without a majority of honest members, and all
/// members know each other by their successor lists.
static GUARDED: Parameters = Parameters {
    group: 7,
    ..Parameters::DEFAULT
};
/// Least share of lookups that name the responsible member.
const LOOKUP_BAR: f64 = 0.999;
/// Least share of messages that arrive.
const MESSAGE_BAR: f64 = 0.99;
/// Most times that two honest members compare leases until who signed them is convicted.
const EXCHANGE_BAR: f64 = 3.0;
/// Members from which on a message has one more try: its way is longer.
const MANY_MEMBERS: usize = 500;
/// Longest that a ring may take to settle.
const SETTLE_MS: u64 = 10 * 60_000;
/// Time between two looks at the ring.
const LOOK_EVERY_MS: u64 = 5_000;
/// Until every member holds the leases of its neighbours.
const LEASE_MS: u64 = 4 * EPOCH_MS;
/// How long members lie before anything is measured.
const LIE_MS: u64 = 30_000;
/// How long they tell the truth before they lie in another way.
const REST_MS: u64 = 15_000;
/// Lookups and messages that are measured for each kind of lie in each ring.
const QUESTIONS: usize = 100;
/// Members whose certificates are revoked before old records are told.
const REVOKED: usize = 2;
/// How often members that cycle through addresses take another one, and how long they stay.
const MOVES: usize = 3;
const STAY_MS: u64 = 20_000;
/// Nodes that want to join while the authority is busy.
const NEWCOMERS: usize = 3;
/// Rings that are played at a time.
const THREADS: usize = 2;

/// All kinds in the order in which they are played: what changes the ring for good comes last.
const LIES: [Lie; 9] = [
    Lie::Drop,
    Lie::Misroute,
    Lie::Forge,
    Lie::Collude,
    Lie::Frame,
    Lie::Flood,
    Lie::Replay,
    Lie::Cycle,
    Lie::Equivocate,
];

/// What came of one kind of lie
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    asked: usize,
    right: usize,
    wrong: usize,
    pub(super) messages: Messages,
}

impl Tally {
    pub(super) fn right_share(&self) -> f64 {
        self.right as f64 / self.asked.max(1) as f64
    }

    fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        self.right += other.right;
        self.wrong += other.wrong;
        self.messages.add(&other.messages);
    }
}

/// What came of all kinds in one ring, or in several
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// In the order in which they are played.
    pub(super) tallies: Vec<Tally>,
    /// Rings that did not settle.
    unsettled: usize,
    /// Newcomers that were not let in once the authority had time.
    kept_out: usize,
    /// Members that have signed contradictions, those of them that some honest member has not convicted in time, and most
    /// comparisons of two honest members that it took.
    equivocators: usize,
    unconvicted: usize,
    exchanges: u64,
    /// Honest members that somebody has convicted.
    framed: usize,
    traces: Vec<Id>,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.tallies.resize(other.tallies.len(), Tally::default());
        for (all, one) in self.tallies.iter_mut().zip(&other.tallies) {
            all.add(one);
        }
        self.unsettled += other.unsettled;
        self.kept_out += other.kept_out;
        self.equivocators += other.equivocators;
        self.unconvicted += other.unconvicted;
        self.exchanges = self.exchanges.max(other.exchanges);
        self.framed += other.framed;
        self.traces.extend(other.traces);
    }

    fn is_met(&self) -> bool {
        self.unsettled + self.kept_out + self.unconvicted + self.framed == 0
    }

    fn all(&self) -> Tally {
        let mut all = Tally::default();
        self.tallies.iter().for_each(|tally| all.add(tally));
        all
    }

    fn rows(&self, lies: &[Lie], tries: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        for (lie, tally) in lies.iter().zip(&self.tallies) {
            let name = super::play::name_of(lie);
            let sent = &tally.messages;
            let share = |tries| sent.share(tries);
            let of_lie = [
                Row::new("lookups that were right", "share", tally.right_share())
                    .bar(Bar::AtLeast(LOOKUP_BAR)),
                Row::new("lookups", "", tally.asked as f64),
                Row::new("wrong answers", "", tally.wrong as f64),
                Row::new(
                    format!("messages that arrived within {tries} tries"),
                    "share",
                    share(tries),
                )
                .bar(Bar::AtLeast(MESSAGE_BAR)),
                Row::new("messages that arrived at once", "share", share(1)),
                Row::new(
                    "members that passed a message on",
                    "hops",
                    sent.hops as f64 / sent.sent.max(1) as f64,
                ),
            ];
            rows.extend(of_lie.into_iter().map(|row| row.of(&name)));
        }
        let none = |what, count: usize| Row::new(what, "", count as f64).bar(Bar::AtMost(0.0));
        rows.push(none("rings that did not settle", self.unsettled));
        rows.push(none(
            "newcomers that were kept out after the flood",
            self.kept_out,
        ));
        rows.push(Row::new(
            "members that signed contradictions",
            "",
            self.equivocators as f64,
        ));
        rows.push(none("of these not convicted by all", self.unconvicted));
        rows.push(
            Row::new(
                "comparisons of two honest members before",
                "",
                self.exchanges as f64,
            )
            .bar(Bar::AtMost(EXCHANGE_BAR)),
        );
        rows.push(none("honest members convicted", self.framed));
        rows
    }
}

/// How many tries a message has in a ring of so many members.
fn tries(nodes: usize) -> usize {
    if nodes < MANY_MEMBERS { 3 } else { 4 }
}

/// Rings of closed networks in which some members lie
pub(super) struct Rings {
    pub(super) nodes: usize,
    /// How many of a hundred members lie.
    pub(super) share: f64,
    /// The only kind of lie; none is all.
    pub(super) lie: Option<Lie>,
    /// One for each ring.
    pub(super) seeds: core::ops::Range<u64>,
}

impl Rings {
    fn lies(&self) -> Vec<Lie> {
        self.lie.map_or_else(|| LIES.to_vec(), |lie| vec![lie])
    }
}

/// Plays rings with consecutive seeds, two at a time.
pub(super) fn liars(rings: &Rings, progress: &mut dyn FnMut(&str)) -> (Vec<Row>, Vec<Id>) {
    let outcome = play_all(rings, progress);
    (outcome.rows(&rings.lies(), tries(rings.nodes)), outcome.traces)
}

/// The share of right lookups and of messages that arrive, of all kinds of lies, while so many of a hundred members lie.
pub(super) fn point(rings: &Rings, progress: &mut dyn FnMut(&str)) -> [f64; 2] {
    let all = play_all(rings, progress).all();
    [all.right_share(), all.messages.share(tries(rings.nodes))]
}

fn play_all(rings: &Rings, progress: &mut dyn FnMut(&str)) -> Outcome {
    let (tries, share) = (tries(rings.nodes), rings.share);
    let next = AtomicU64::new(rings.seeds.start);
    let (told, hears) = channel();
    let mut outcomes: Vec<(u64, Outcome)> = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (told, next): (Sender<(u64, Outcome)>, _) = (told.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Nobody listens any more when this fails.
                    if seed >= rings.seeds.end || told.send((seed, play(rings, seed))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(told);
        let outcomes = hears.into_iter().inspect(|(seed, outcome)| {
            let all = outcome.all();
            let (right, arrived) = (all.right_share(), all.messages.share(tries));
            let verdict = if outcome.is_met() { "" } else { ", a bar is missed" };
            progress(&format!(
                "{share} %, seed {seed}: {right:.4} right, {arrived:.4} arrived{verdict}"
            ));
        });
        outcomes.collect()
    });
    outcomes.sort_by_key(|(seed, _)| *seed);
    let mut all = Outcome::default();
    outcomes.into_iter().for_each(|(_, outcome)| all.add(outcome));
    all
}

/// A ring, and who in it lies
struct Play {
    world: Sim,
    coalition: Coalition,
    honest: Vec<usize>,
    liars: Vec<usize>,
    /// All ids that liars have had.
    known_liars: BTreeSet<Id>,
    outcome: Outcome,
}

/// Plays all kinds of lies in one ring.
fn play(rings: &Rings, seed: u64) -> Outcome {
    let nodes = rings.nodes;
    let coalition = Coalition::behind(Sim::closed_gate(), seed);
    let tapping = coalition.clone();
    let machine = Native::with(&GUARDED).tapped(move |config| Some(tapping.tap(config)));
    let mut world = World::closed(machine, seed);
    world.network.jitter_ms = 5;
    world.network.loss = 1;
    join(&mut world, nodes, (nodes as u64 / 10).clamp(2, 50));
    let mut others: Vec<usize> = (BOOTSTRAPS.min(nodes)..nodes).collect();
    world.dice().shuffle(&mut others);
    let count = (nodes as f64 * rings.share / 100.0).round() as usize;
    let liars = others.split_off(others.len() - count.min(others.len()));
    let honest = (0..BOOTSTRAPS.min(nodes)).chain(others).collect();
    let mut play = Play {
        world,
        coalition,
        honest,
        liars,
        known_liars: BTreeSet::new(),
        outcome: Outcome::default(),
    };
    play.settle();
    play.enlist();
    play.world.run_ms(LEASE_MS);
    for lie in rings.lies() {
        play.lie(lie);
    }
    play.judge();
    play.outcome.traces.push(play.world.trace());
    play.outcome
}

impl Play {
    /// Lets time pass until each honest member knows the next honest one; where liars are is their own affair.
    fn settle(&mut self) {
        let end_ms = self.world.now_ms() + SETTLE_MS;
        while !self.is_settled() {
            if self.world.now_ms() >= end_ms {
                self.outcome.unsettled += 1;
                return;
            }
            self.world.run_ms(LOOK_EVERY_MS);
        }
    }

    fn is_settled(&mut self) -> bool {
        let state = RingState::of(&mut self.world);
        let honest: BTreeSet<Id> = self
            .honest
            .iter()
            .map(|host| self.world.hosts()[*host].id().0)
            .collect();
        honest.iter().all(|id| {
            let next = honest.range(*id..).nth(1).or_else(|| honest.first());
            let successors = state.members().get(id).map(|status| &status.successors);
            let first = successors.and_then(|nodes| nodes.iter().find(|node| honest.contains(&node.id)));
            honest.len() == 1 || first.map(|node| &node.id) == next
        })
    }

    /// Tells the attackers who they are now.
    fn enlist(&mut self) {
        for liar in &self.liars {
            let id = self.world.hosts()[*liar].id().0;
            self.coalition.enlist(id);
            self.known_liars.insert(id);
        }
    }

    fn lie(&mut self, lie: Lie) {
        if lie == Lie::Replay {
            self.revoke();
        }
        if lie == Lie::Equivocate {
            self.world.run_ms(LEASE_MS);
        }
        self.coalition.tell(Some(lie));
        match lie {
            Lie::Cycle => self.cycle(),
            Lie::Equivocate => self.world.run_ms(3 * EPOCH_MS),
            _ => self.world.run_ms(LIE_MS),
        }
        self.measure();
        self.coalition.tell(None);
        if lie == Lie::Flood {
            self.let_in();
        }
        self.world.run_ms(REST_MS);
    }

    /// Lets honest members look up what honest members are responsible for, and send each other messages.
    fn measure(&mut self) {
        let state = RingState::of(&mut self.world);
        let honest: BTreeSet<Id> = self
            .honest
            .iter()
            .map(|host| self.world.hosts()[*host].id().0)
            .collect();
        let lookups = lookups_among(&mut self.world, &state, QUESTIONS, |id| honest.contains(id));
        let tries = tries(self.honest.len() + self.liars.len());
        self.outcome.tallies.push(Tally {
            asked: lookups.asked,
            right: lookups.right,
            wrong: lookups.wrong,
            messages: messages(&mut self.world, &self.honest, QUESTIONS, tries),
        });
    }

    /// Some honest members are revoked, and go.
    fn revoke(&mut self) {
        let gone = self.honest.split_off(self.honest.len() - REVOKED);
        let ids: Vec<Id> = gone.iter().map(|host| self.world.hosts()[*host].id().0).collect();
        let list = self.world.revocations(&gone);
        self.world.command(0, |tag| Input::Revoke { tag, list: &list });
        self.world.run_ms(1_000);
        gone.iter().for_each(|host| self.world.end(*host, End::Killed));
        self.coalition.revoked(&ids);
        self.settle();
    }

    /// Liars move from address to address.
    fn cycle(&mut self) {
        for _ in 0..MOVES {
            for liar in self.liars.clone() {
                self.world.end(liar, End::Killed);
                self.world.readdress(liar);
                self.enlist();
                self.world.start(liar);
                self.world.command(liar, |tag| Input::Join { tag });
            }
            self.world.run_ms(STAY_MS);
        }
        self.settle();
    }

    /// The authority has time again for those who wanted to join meanwhile.
    fn let_in(&mut self) {
        let mut joins = Vec::new();
        for number in 0..NEWCOMERS {
            let newcomer = self.world.add(Role::Member, &[number, number + 1]);
            self.world.start(newcomer);
            let tag = self.world.command(newcomer, |tag| Input::Join { tag });
            joins.push((newcomer, tag));
        }
        self.world.run_ms(REST_MS);
        for (newcomer, tag) in joins {
            let is_in = self.world.hosts()[newcomer].answer(tag).is_some();
            self.outcome.kept_out += usize::from(!is_in);
            self.honest.push(newcomer);
        }
        self.settle();
    }

    /// Who has been convicted by whom.
    fn judge(&mut self) {
        let mut gate = Sim::closed_gate();
        let now_ms = self.world.now_ms();
        let mut framed = BTreeSet::new();
        let mut unconvicted = self.coalition.equivocators();
        self.outcome.equivocators = unconvicted.len();
        let mut by_all = unconvicted.clone();
        for host in &self.honest {
            let convicted = self.world.hosts()[*host].convicted();
            let leader = |(_, evidence): &(u64, Vec<u8>)| {
                let evidence = Contradiction::verify(&mut gate, evidence, now_ms);
                evidence.expect("a core convicts by sound evidence").leader().0
            };
            let convicted: BTreeSet<Id> = convicted.iter().map(leader).collect();
            by_all.retain(|liar| convicted.contains(liar));
            framed.extend(convicted.difference(&self.known_liars).copied());
        }
        unconvicted.retain(|liar| !by_all.contains(liar));
        self.outcome.unconvicted = unconvicted.len();
        self.outcome.framed = framed.len();
        self.outcome.exchanges = self.coalition.exchanges();
    }
}
