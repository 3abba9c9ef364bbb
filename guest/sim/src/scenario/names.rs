//! Members publish names, and others find them.

use selfsame_codec::reply::decode_providers;
use selfsame_codec::{Input, Policy};
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, PublicKey};

use super::lookups::failures;
use crate::host::Outcome;
use crate::machine::Machine;
use crate::report::Row;
use crate::world::World;

/// The head of a request: `GET /`.
pub const GET: &[u8] = b"\x83\x63GET\x61/\x80";
/// Time between two finds.
const PAUSE_MS: u64 = 20;
/// Longest that an answer may take.
const PATIENCE_MS: u64 = 30_000;
/// Life of a grant.
const DAY_MS: u64 = 24 * 60 * 60_000;

/// What came of finds
#[derive(Clone, Debug, Default)]
pub struct Finds {
    /// How many were asked.
    pub asked: usize,
    /// How many named who serves it.
    pub found: usize,
    /// How many named only others.
    pub wrong: usize,
    /// Why the others failed; 0 for one that was not answered.
    pub failed: Vec<u16>,
}

impl Finds {
    /// Share of those that named who serves it.
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
    /// Its owner; none for a name that anybody may serve.
    pub owner: Option<PublicKey>,
    /// The host that serves it.
    pub host: usize,
}

/// Lets hosts publish a name each with k sibling objects, and waits until all are stored.
///
/// # Panics
/// When one cannot be stored: nothing is wrong yet.
pub fn publish<M: Machine>(
    world: &mut World<M>,
    hosts: impl IntoIterator<Item = usize>,
    owner: Option<&Identity>,
    replicas: u8,
) -> Vec<Published> {
    let mut published = Vec::new();
    let mut open = Vec::new();
    for host in hosts {
        let name = format!("service-{host}");
        let grant = owner.map_or_else(Vec::new, |owner| {
            let (peer, until_ms) = (world.hosts()[host].id(), world.now_ms() + DAY_MS);
            let terms = Terms {
                name: name.clone(),
                peer,
                issued_ms: 0,
                expiry_ms: until_ms,
                revoked: Vec::new(),
            };
            let grant = Grant::sign(owner, terms);
            grant.expect("a grant within the rules").encoded().to_vec()
        });
        let tag = world.command(host, |tag| Input::Publish {
            tag,
            grant: &grant,
            name: &name,
            replicas,
            version: "",
            weight: 10_000,
        });
        open.push((host, tag));
        let owner = owner.map(Identity::public);
        published.push(Published { name, owner, host });
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

/// Lets some of the members that run find names, `count` times at random.
///
/// # Panics
/// When a core encodes its reply wrongly.
pub fn find<M: Machine>(world: &mut World<M>, askers: &[usize], names: &[Published], count: usize) -> Finds {
    ask(world, askers, names, count, |tag, owner, name| Input::Find {
        tag,
        owner,
        name,
    })
}

/// Lets some of the members that run call names, `count` times at random; found is who opens a stream.
///
/// # Panics
/// When a core encodes its reply wrongly.
pub fn call<M: Machine>(world: &mut World<M>, askers: &[usize], names: &[Published], count: usize) -> Finds {
    ask(world, askers, names, count, |tag, owner, name| Input::Call {
        tag,
        owner,
        name,
        key: &[],
        tried: &[],
        policy: Policy::PowerOfTwo,
        timeout_ms: PATIENCE_MS as u32,
        head: GET,
    })
}

fn ask<M: Machine>(
    world: &mut World<M>,
    askers: &[usize],
    names: &[Published],
    count: usize,
    command: impl for<'a> Fn(u32, &'a [u8], &'a str) -> Input<'a>,
) -> Finds {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let asker = askers[world.dice().usize(..askers.len())];
        let wanted = &names[world.dice().usize(..names.len())];
        let owner = wanted.owner.as_ref().map_or(&[][..], |owner| &owner.0);
        let tag = world.command(asker, |tag| command(tag, owner, &wanted.name));
        open.push((asker, tag, world.hosts()[wanted.host].id().0));
        world.run_ms(PAUSE_MS);
    }
    world.run_ms(PATIENCE_MS);
    let mut finds = Finds::default();
    for (asker, tag, server) in open {
        finds.asked += 1;
        let answer = world.host_mut(asker).take_answer(tag);
        let is_named = match answer.map(|answer| answer.outcome) {
            Some(Outcome::Reply(body)) => {
                let providers = decode_providers(&body).expect("a core encodes its replies");
                providers.iter().any(|provider| provider.peer == server)
            }
            Some(Outcome::Opened(peer)) => peer == server,
            Some(Outcome::Failed(code)) => {
                finds.failed.push(code);
                continue;
            }
            None => {
                finds.failed.push(0);
                continue;
            }
        };
        finds.found += usize::from(is_named);
        finds.wrong += usize::from(!is_named);
    }
    finds
}
