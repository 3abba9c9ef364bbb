//! Random members look up random positions.

use selfsame_codec::{Code, Input};

use crate::host::Outcome;
use crate::machine::Machine;
use crate::report::Row;
use crate::ring::RingState;
use crate::world::World;

/// Time between two lookups.
const PAUSE_MS: u64 = 20;
/// Longest that an answer may take: what a walk may ask one after the other, with all of them dead.
const PATIENCE_MS: u64 = 30_000;

/// What became of lookups
#[derive(Debug, Default)]
pub struct Lookups {
    /// How many were asked.
    pub asked: usize,
    /// Those that named the responsible member.
    pub right: usize,
    /// Those that named another.
    pub wrong: usize,
    /// Why others failed; 0 for one that was not answered.
    pub failed: Vec<u16>,
    /// Members that were asked for all right answers together.
    pub hops: u64,
    /// Milliseconds until each right answer.
    pub took_ms: Vec<u64>,
}

impl Lookups {
    /// Share of right answers.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.right as f64 / self.asked.max(1) as f64
    }

    /// Members asked until a right answer, on average.
    #[must_use]
    pub fn mean_hops(&self) -> f64 {
        self.hops as f64 / self.right.max(1) as f64
    }

    /// The mean time until a right answer, in milliseconds.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.took_ms.iter().sum::<u64>() as f64 / self.right.max(1) as f64
    }

    /// The median time until an answer, in milliseconds.
    pub fn median_ms(&mut self) -> f64 {
        self.took_ms.sort_unstable();
        self.took_ms.get(self.took_ms.len() / 2).copied().unwrap_or(0) as f64
    }

    /// As figures.
    pub fn rows(&mut self) -> Vec<Row> {
        let mut rows = vec![
            Row::new("lookups", "", self.asked as f64),
            Row::new("right answers", "share", self.share()),
            Row::new("wrong answers", "", self.wrong as f64),
            Row::new(
                "members asked until the right one answered",
                "hops",
                self.mean_hops(),
            ),
            Row::new("median time of a lookup", "ms", self.median_ms()),
        ];
        rows.extend(failures(&self.failed));
        rows
    }
}

/// How often each code was the reason.
pub(super) fn failures(codes: &[u16]) -> Vec<Row> {
    let mut codes = codes.to_vec();
    codes.sort_unstable();
    let kinds = codes.chunk_by(|one, other| one == other);
    kinds
        .map(|kind| {
            let name = Code::from_u16(kind[0]).map_or_else(|| "no answer".into(), |code| format!("{code:?}"));
            Row::new(format!("failed, {name}"), "", kind.len() as f64)
        })
        .collect()
}

/// Lets members that run look up positions, and compares the answers with who is responsible by `state`.
pub fn lookups<M: Machine>(world: &mut World<M>, state: &RingState, count: usize) -> Lookups {
    lookups_among(world, state, count, |_| true)
}

/// The same among some hosts only: they ask, and only what one of them is responsible for.
pub fn lookups_among<M: Machine>(
    world: &mut World<M>,
    state: &RingState,
    count: usize,
    is_among: impl Fn(&[u8; 32]) -> bool,
) -> Lookups {
    let askers: Vec<usize> = (0..world.hosts().len())
        .filter(|host| {
            let host = &world.hosts()[*host];
            let id = host.id().0;
            host.is_up() && !host.is_clone() && state.members().contains_key(&id) && is_among(&id)
        })
        .collect();
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let asker = askers[world.dice().usize(..askers.len())];
        let id = position(world, state, &is_among);
        let asked_ms = world.now_ms();
        let tag = world.command(asker, |tag| Input::FindNode { tag, id });
        open.push((asker, tag, id, asked_ms));
        world.run_ms(PAUSE_MS);
    }
    world.run_ms(PATIENCE_MS);
    let mut result = Lookups::default();
    for (asker, tag, id, asked_ms) in open {
        result.asked += 1;
        let Some(answer) = world.host_mut(asker).take_answer(tag) else {
            result.failed.push(0);
            continue;
        };
        match (answer.found_node(), answer.outcome) {
            (_, Outcome::Failed(code)) => result.failed.push(code),
            (Some((node, hops)), _) if state.owner(&id) == Some(node) => {
                result.right += 1;
                result.hops += u64::from(hops);
                result.took_ms.push(answer.at_ms - asked_ms);
            }
            _ => result.wrong += 1,
        }
    }
    result
}

/// A random position that one of them is responsible for.
fn position<M: Machine>(
    world: &mut World<M>,
    state: &RingState,
    is_among: impl Fn(&[u8; 32]) -> bool,
) -> [u8; 32] {
    loop {
        let mut id = [0; 32];
        world.dice().fill(&mut id);
        if state.owner(&id).is_some_and(|owner| is_among(&owner)) {
            return id;
        }
    }
}
