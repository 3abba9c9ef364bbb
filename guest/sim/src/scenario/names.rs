//! Members publish names, and others find them.

use selfsame_codec::Input;

use super::lookups::failures;
use crate::host::Outcome;
use crate::machine::Machine;
use crate::report::Row;
use crate::world::World;

/// Time between two finds.
const PAUSE_MS: u64 = 20;
/// Longest that an answer may take.
const PATIENCE_MS: u64 = 30_000;

/// What came of finds
#[derive(Clone, Debug, Default)]
pub struct Finds {
    /// How many were asked.
    pub asked: usize,
    /// How many named a provider.
    pub found: usize,
    /// Why the others failed; 0 for one that was not answered.
    pub failed: Vec<u16>,
}

impl Finds {
    /// Share of those that named a provider.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.found as f64 / self.asked.max(1) as f64
    }

    /// Why the others failed, as figures.
    pub fn failures(&self) -> Vec<Row> {
        failures(&self.failed)
    }
}

/// A name and who publishes it
#[derive(Clone, Debug)]
pub struct Published {
    /// The name.
    pub name: String,
    /// The host that serves it.
    pub host: usize,
}

/// Lets every `every`th host publish a name of its own with k sibling objects, and waits until all are stored.
///
/// # Panics
/// When one cannot be stored: nothing is wrong yet.
pub fn publish<M: Machine>(world: &mut World<M>, every: usize, replicas: u8) -> Vec<Published> {
    let mut published = Vec::new();
    let mut open = Vec::new();
    for host in (0..world.hosts().len()).step_by(every) {
        let name = format!("service-{host}");
        let tag = world.command(host, |tag| Input::Publish {
            tag,
            grant: &[],
            name: &name,
            replicas,
            version: "",
            weight: 1,
        });
        open.push((host, tag));
        published.push(Published { name, host });
        world.run_ms(PAUSE_MS);
    }
    world.run_ms(PATIENCE_MS);
    for (host, tag) in open {
        let answer = world.host_mut(host).take_answer(tag);
        let is_stored = answer.is_some_and(|answer| matches!(answer.outcome, Outcome::Reply(_)));
        assert!(is_stored, "host {host} could publish its name");
    }
    published
}

/// Lets members that run find names, `count` times at random.
pub fn find<M: Machine>(world: &mut World<M>, names: &[Published], count: usize) -> Finds {
    let up: Vec<usize> = (0..world.hosts().len())
        .filter(|host| world.hosts()[*host].is_up())
        .collect();
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let asker = up[world.dice().usize(..up.len())];
        let name = &names[world.dice().usize(..names.len())].name;
        let owner = &[];
        let tag = world.command(asker, |tag| Input::Find { tag, owner, name });
        open.push((asker, tag));
        world.run_ms(PAUSE_MS);
    }
    world.run_ms(PATIENCE_MS);
    let mut finds = Finds::default();
    for (asker, tag) in open {
        finds.asked += 1;
        match world
            .host_mut(asker)
            .take_answer(tag)
            .map(|answer| answer.outcome)
        {
            Some(Outcome::Reply(_)) => finds.found += 1,
            Some(Outcome::Failed(code)) => finds.failed.push(code),
            None => finds.failed.push(0),
        }
    }
    finds
}
