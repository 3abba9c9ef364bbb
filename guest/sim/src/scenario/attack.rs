//! Some of the members lie, and the others go on looking things up.

use std::collections::BTreeSet;

use selfsame_codec::{Input, Role};
use selfsame_core::association::{Association, Leaf, Validity};
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, NetworkId, PeerId};
use selfsame_core::record::{NodeRecord, RecordTerms};

use super::{BOOTSTRAPS, Finds, Published, call, find, join_telling, lookups_among, publish, settled};
use crate::attack::{Coalition, Kind};
use crate::host::Outcome;
use crate::machine::Native;
use crate::report::{Bar, Row};
use crate::ring::RingState;
use crate::world::{End, World};

type Sim = World<Native>;

/// Least share of right answers.
const BAR: f64 = 0.999;
/// Sibling objects of each name beyond the first.
const REPLICAS: u8 = 2;
/// One of so many honest members publishes a name.
const PUBLISH_EVERY: usize = 4;
/// One of so many honest members gets another address before old records are replayed.
const MOVE_EVERY: usize = 10;
/// How long attackers only listen.
const LISTEN_MS: u64 = 60_000;
/// How long they lie before anything is measured, so that tables have time to go wrong.
const LIE_MS: u64 = 5 * 60_000;
/// Lookups and finds that are measured: so many that one in a thousand shows, in small rings as well.
const QUESTIONS: usize = 2_000;
const HOUR_MS: u64 = 60 * 60_000;
/// Seeds of the keys of owners and of publishers that do not exist.
const OWNER_SEED: [u8; 32] = [0xa1; 32];
const GHOST_SEED: [u8; 32] = [0xa2; 32];

/// Plays one kind of attack in a ring of its own.
pub(super) fn attack(
    kind: Kind,
    nodes: usize,
    share: f64,
    seed: u64,
    progress: &mut dyn FnMut(&str),
) -> (Vec<Row>, [u8; 32]) {
    let coalition = Coalition::new(Sim::network_id(), seed);
    let tapping = coalition.clone();
    let machine = Native::default().tapped(move |config| Some(tapping.tap(config)));
    let mut world = World::new(machine, seed);
    world.network.jitter_ms = 5;
    world.network.loss = 1;
    let (honest, liars) = gather(&mut world, kind, nodes, share, progress);
    let mut rows = vec![settled("the ring settled after the last join in", &mut world)];
    let owner = Identity::of_owner(&OWNER_SEED, Sim::network_id());
    let publishers = honest.iter().copied().step_by(PUBLISH_EVERY);
    progress("honest members publish names");
    let names = publish(&mut world, publishers.clone(), Some(&owner), REPLICAS);
    let is_ghost = kind == Kind::Ghost;
    let open_names = if is_ghost {
        publish(&mut world, publishers, None, REPLICAS)
    } else {
        Vec::new()
    };
    for liar in &liars {
        coalition.enlist(world.hosts()[*liar].id().0);
    }
    world.run_ms(LISTEN_MS);
    match kind {
        Kind::Replay => move_some(&mut world, &honest),
        Kind::Ghost => haunt(&coalition, &world, names.iter().chain(&open_names), None),
        Kind::Hide => haunt(&coalition, &world, names.iter(), Some(&owner)),
        _ => {}
    }
    progress(&format!("{} of {} members lie", liars.len(), world.hosts().len()));
    coalition.turn(kind);
    world.run_ms(LIE_MS);
    rows.push(Row::new("members that lie", "", liars.len() as f64));
    let mut measure = Measure {
        world: &mut world,
        honest: &honest,
        questions: QUESTIONS,
        bar: (kind != Kind::Grind).then_some(Bar::AtLeast(BAR)),
        rows: &mut rows,
    };
    progress("honest members look positions up");
    measure.positions();
    if kind == Kind::Grind {
        measure.victim(honest[BOOTSTRAPS]);
    }
    progress("honest members find names");
    // Of a find alone nobody can tell that whom it names is dead.
    let is_hidden = kind == Kind::Hide;
    let bar = measure.bar.filter(|_| !is_hidden);
    measure.names("owned names", find, &names, bar);
    if is_hidden {
        progress("honest members call names");
        measure.names("calls of owned names", call, &names, measure.bar);
    }
    if is_ghost {
        measure.names("unowned names, which anybody may serve", find, &open_names, None);
    }
    (rows, world.trace())
}

/// Lets all join; returns who is honest, the bootstraps first, and who will lie.
fn gather(
    world: &mut Sim,
    kind: Kind,
    nodes: usize,
    share: f64,
    progress: &mut dyn FnMut(&str),
) -> (Vec<usize>, Vec<usize>) {
    let count = (nodes as f64 * share / 100.0).round() as usize;
    let per_second = (nodes as u64 / 20).clamp(2, 50);
    if kind == Kind::Grind {
        let honest = nodes - count;
        join_telling(world, honest, per_second, progress);
        let liars = grind(world, BOOTSTRAPS, count);
        return ((0..honest).collect(), liars);
    }
    join_telling(world, nodes, per_second, progress);
    let mut others: Vec<usize> = (BOOTSTRAPS.min(nodes)..nodes).collect();
    world.dice().shuffle(&mut others);
    let liars = others.split_off(others.len() - count.min(others.len()));
    ((0..BOOTSTRAPS.min(nodes)).chain(others).collect(), liars)
}

/// Members whose keys were tried until each lies between a victim and the member before it.
fn grind(world: &mut Sim, victim: usize, count: usize) -> Vec<usize> {
    let victim = world.hosts()[victim].id();
    let before = world
        .hosts()
        .iter()
        .map(crate::Host::id)
        .filter(|id| *id != victim);
    let before = before.min_by_key(|id| way(id, &victim)).unwrap_or(victim);
    let network = Sim::network_id();
    let mut liars = Vec::new();
    while liars.len() < count {
        let mut seed = [0; 32];
        world.dice().fill(&mut seed);
        let id = Identity::recall(&seed, network, &[]).id();
        if way(&id, &victim) < way(&before, &victim) {
            let host = world.add_with_seed(seed, Role::Member, &[0, 1]);
            world.start(host);
            world.command(host, |tag| Input::Join { tag });
            world.run_ms(1_000);
            liars.push(host);
        }
    }
    liars
}

/// The leading part of the way clockwise from one node to another: enough to compare ways.
fn way(from: &PeerId, to: &PeerId) -> u128 {
    let leading = |id: &PeerId| u128::from_be_bytes(*id.0.first_chunk().expect("an id has 32 bytes"));
    leading(to).wrapping_sub(leading(from))
}

/// Some honest members start again at another address, so that their old records lead nowhere.
fn move_some(world: &mut Sim, honest: &[usize]) {
    for host in honest.iter().copied().skip(BOOTSTRAPS).step_by(MOVE_EVERY) {
        world.end(host, End::Killed);
        world.readdress(host);
        world.start(host);
        world.command(host, |tag| Input::Join { tag });
        world.run_ms(500);
    }
}

/// Gives the attackers an association of a publisher that cannot be reached for each object of each name, granted by the
/// owner if it was one of its own.
fn haunt<'a>(
    coalition: &Coalition,
    world: &Sim,
    names: impl Iterator<Item = &'a Published>,
    owner: Option<&Identity>,
) {
    let network: NetworkId = Sim::network_id();
    let ghost = Identity::recall(&GHOST_SEED, network, &[]);
    let (now_ms, until_ms) = (world.now_ms(), world.now_ms() + HOUR_MS);
    let nowhere = ["ws://nowhere.sim.example/".to_owned()];
    let record = NodeRecord::sign(
        &ghost,
        &RecordTerms::new(Role::Member, &nowhere, now_ms, until_ms),
    );
    let record = record.expect("a record within the limits");
    let validity = Validity {
        sequence_ms: now_ms,
        not_before_ms: now_ms,
        expiry_ms: until_ms,
    };
    for name in names {
        let grant = owner.map_or_else(Vec::new, |owner| {
            let terms = Terms {
                name: name.name.clone(),
                peer: ghost.id(),
                issued_ms: 0,
                expiry_ms: until_ms,
                revoked: Vec::new(),
            };
            let grant = Grant::sign(owner, terms).expect("a grant within the rules");
            grant.encoded().to_vec()
        });
        for r in 0..=REPLICAS {
            let leaf = Leaf {
                salt: [0; 16],
                owner: name.owner,
                name: name.name.clone(),
                r,
                withdrawn: false,
                version: String::new(),
                weight: 10_000,
                grant: grant.clone(),
            };
            let ghosts = Association::publish(&ghost, &[leaf], validity).expect("a leaf within the limits");
            ghosts.iter().for_each(|ghost| coalition.haunt(ghost, &record));
        }
    }
}

/// How members ask for names: find them or call them
type Ask = fn(&mut Sim, &[usize], &[Published], usize) -> Finds;

/// What is measured while attackers lie
struct Measure<'a> {
    world: &'a mut Sim,
    honest: &'a [usize],
    questions: usize,
    bar: Option<Bar>,
    rows: &'a mut Vec<Row>,
}

impl Measure<'_> {
    fn push(&mut self, row: Row, bar: Option<Bar>) {
        self.rows.push(match bar {
            Some(bar) => row.bar(bar),
            None => row,
        });
    }

    /// Positions that an honest member is responsible for must lead to it.
    fn positions(&mut self) {
        let state = RingState::of(self.world);
        let honest = self.honest.iter().map(|host| self.world.hosts()[*host].id().0);
        let honest: BTreeSet<[u8; 32]> = honest.collect();
        let mut result = lookups_among(self.world, &state, self.questions, |id| honest.contains(id));
        let share = Row::new("lookups that were right", "share", result.share());
        self.push(share, self.bar);
        self.rows.extend(result.rows());
    }

    /// Names must lead to those who serve them, also when a liar is responsible for some of their objects.
    fn names(&mut self, what: &str, ask: Ask, names: &[Published], bar: Option<Bar>) {
        let finds = ask(self.world, self.honest, names, self.questions);
        self.push(Row::new(format!("{what}: found"), "share", finds.share()), bar);
        self.rows.push(Row::new(
            format!("{what}: only others were named"),
            "",
            finds.wrong as f64,
        ));
        self.rows.extend(finds.failures());
    }

    /// How often the member before which all attackers lie is found by its own id.
    fn victim(&mut self, victim: usize) {
        let id = self.world.hosts()[victim].id().0;
        let mut right = 0;
        let mut asked = 0;
        for asker in self.honest.iter().copied().filter(|host| *host != victim) {
            let tag = self.world.command(asker, |tag| Input::FindNode { tag, id });
            self.world.run_ms(5_000);
            let answer = self.world.host_mut(asker).take_answer(tag);
            let found = answer.filter(|answer| matches!(answer.outcome, Outcome::Reply(_)));
            let found = found.and_then(|answer| answer.found_node());
            asked += 1;
            right += usize::from(found.is_some_and(|(node, _)| node == id));
        }
        let share = right as f64 / asked.max(1) as f64;
        self.rows
            .push(Row::new("the victim is found by its id", "share", share));
    }
}
