//! Rings of honest nodes in the module under attack, and what they are asked to do.

use selfsame_codec::reply::{Provider, Status, decode_providers};
use selfsame_codec::{Code, Input, Policy, Role};
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, NetworkId, PeerId, PublicKey};
use selfsame_sim::scenario::{GET, join, settle};
use selfsame_sim::{Answer, Outcome, World};

use crate::module::{Backend, Cores, Simulated};

/// Time within which a ring of these sizes must settle.
const SETTLE_MS: u64 = 120_000;
/// Members that join in a second.
const JOINS_PER_SECOND: u64 = 10;
/// How long a command may take.
const PATIENCE_MS: u64 = 30_000;
/// Life of a grant.
const HOUR_MS: u64 = 60 * 60_000;
/// Seed of the owner of all owned names.
const OWNER_SEED: [u8; 32] = [0xa1; 32];

type Sim = World<Simulated>;

/// A ring of nodes, each an instance of its own
pub(crate) struct Mesh {
    /// The simulation.
    pub(crate) world: Sim,
    cores: Cores,
    members: usize,
}

/// What a member is asked to publish
#[derive(Clone, Debug, Default)]
pub(crate) struct Publication<'a> {
    /// The name.
    pub(crate) name: &'a str,
    /// The owner's grant, for an owned name.
    pub(crate) grant: &'a [u8],
    /// Sibling objects beyond the first.
    pub(crate) replicas: u8,
}

impl Mesh {
    /// A settled ring.
    pub(crate) fn ring(backend: Backend, members: usize, seed: u64) -> Self {
        let cores = Cores::new(backend);
        Self::ring_of(cores, members, seed)
    }

    /// A settled ring of cores that were prepared.
    pub(crate) fn ring_of(cores: Cores, members: usize, seed: u64) -> Self {
        let mut world = World::new(Simulated::of(&cores), seed);
        join(&mut world, members, JOINS_PER_SECOND);
        settle(&mut world, SETTLE_MS).expect("an honest ring settles");
        Self {
            world,
            cores,
            members,
        }
    }

    /// The id of the network.
    pub(crate) fn network() -> NetworkId {
        Sim::network_id()
    }

    /// The owner of all owned names.
    pub(crate) fn owner() -> Identity {
        Identity::of_owner(&OWNER_SEED, Self::network())
    }

    /// The time.
    pub(crate) fn now_ms(&self) -> u64 {
        self.world.now_ms()
    }

    /// Lets time pass.
    pub(crate) fn run_ms(&mut self, ms: u64) {
        self.world.run_ms(ms);
    }

    /// A node's id.
    pub(crate) fn id(&self, host: usize) -> PeerId {
        self.world.hosts()[host].id()
    }

    /// Opens a path to a node from an address outside.
    pub(crate) fn open(&mut self, host: usize, remote: &str) -> u32 {
        self.world.open_from_outside(host, remote)
    }

    /// Sends a frame on such a path; returns what the node sends at once.
    pub(crate) fn say(&mut self, host: usize, path: u32, frame: &[u8]) -> Vec<Vec<u8>> {
        self.world.say_from_outside(host, path, frame)
    }

    /// Takes what the node has sent on such a path.
    pub(crate) fn hear(&mut self, host: usize, path: u32) -> Vec<Vec<u8>> {
        self.world.hear_outside(host, path)
    }

    /// Whether the node has left such a path open.
    pub(crate) fn is_open(&self, host: usize, path: u32) -> bool {
        self.world.is_open_outside(host, path)
    }

    /// Closes such a path.
    pub(crate) fn close(&mut self, host: usize, path: u32) {
        self.world.close_from_outside(host, path);
    }

    /// Bytes of a node's linear memory.
    pub(crate) fn memory_bytes(&self, host: usize) -> usize {
        let core = self.world.hosts()[host].core();
        core.map_or(0, |core| self.cores.memory_bytes(core))
    }

    /// How many nodes have trapped.
    pub(crate) fn trapped(&self) -> usize {
        self.cores.trapped()
    }

    /// What a node says of itself; `None` if it has trapped.
    pub(crate) fn status(&mut self, host: usize) -> Option<Status> {
        let answer = self.world.ask(host, |tag| Input::Status { tag });
        match answer?.outcome {
            Outcome::Reply(body) => Some(Status::decode(&body).expect("a core encodes its status")),
            Outcome::Opened(_) | Outcome::Failed(_) => None,
        }
    }

    /// How often a node has counted a code since it started.
    pub(crate) fn counted(&mut self, host: usize, code: Code) -> u64 {
        let status = self.status(host);
        let counters = status.map(|status| status.counters).unwrap_or_default();
        let of_code = counters.iter().find(|(other, _)| *other == code.as_u16());
        of_code.map_or(0, |(_, count)| *count)
    }

    /// Starts one more node, with these bootstraps; whether it has joined comes after a while.
    pub(crate) fn start(&mut self, role: Role, bootstraps: &[usize]) -> (usize, u32) {
        let host = self.world.add(role, bootstraps);
        self.world.start(host);
        let tag = self.world.command(host, |tag| Input::Join { tag });
        (host, tag)
    }

    /// Starts one more node and waits until it has joined; `None` if it cannot.
    pub(crate) fn join(&mut self, role: Role, bootstraps: &[usize]) -> Option<usize> {
        let (host, tag) = self.start(role, bootstraps);
        self.finish(host, tag).is_some().then_some(host)
    }

    /// The body of the reply to a command, when it succeeds in time.
    pub(crate) fn finish(&mut self, host: usize, tag: u32) -> Option<Vec<u8>> {
        let answer = self.answer(host, tag)?;
        match answer.outcome {
            Outcome::Reply(body) => Some(body),
            Outcome::Opened(_) | Outcome::Failed(_) => None,
        }
    }

    fn answer(&mut self, host: usize, tag: u32) -> Option<Answer> {
        let until_ms = self.now_ms() + PATIENCE_MS;
        while self.world.hosts()[host].answer(tag).is_none() && self.now_ms() < until_ms {
            self.run_ms(100);
        }
        self.world.host_mut(host).take_answer(tag)
    }

    /// The owner's grant of a name to a peer.
    pub(crate) fn grant(&self, name: &str, peer: PeerId, issued_ms: u64, revoked: Vec<PeerId>) -> Vec<u8> {
        let terms = Terms {
            name: name.into(),
            peer,
            issued_ms,
            expiry_ms: self.now_ms() + HOUR_MS,
            revoked,
        };
        let grant = Grant::sign(&Self::owner(), terms).expect("a grant within the rules");
        grant.encoded().to_vec()
    }

    /// Lets a node publish a name; whether it is stored.
    pub(crate) fn publish(&mut self, host: usize, publication: &Publication<'_>) -> bool {
        let tag = self.world.command(host, |tag| Input::Publish {
            tag,
            grant: publication.grant,
            name: publication.name,
            replicas: publication.replicas,
            version: "",
            weight: 10_000,
        });
        self.finish(host, tag).is_some()
    }

    /// Who serves a name, as a node finds; `None` if it finds nobody.
    pub(crate) fn find(
        &mut self,
        host: usize,
        owner: Option<&PublicKey>,
        name: &str,
    ) -> Option<Vec<Provider>> {
        let owner = owner.map_or(&[][..], |owner| &owner.0);
        let tag = self.world.command(host, |tag| Input::Find { tag, owner, name });
        let body = self.finish(host, tag)?;
        Some(decode_providers(&body).expect("a core encodes its replies"))
    }

    /// Lets a node call a name; whether the stream reaches `callee`.
    pub(crate) fn call(&mut self, host: usize, owner: Option<&PublicKey>, name: &str, callee: usize) -> bool {
        let (caller, id) = (self.id(host).0, self.id(callee).0);
        self.world.host_mut(callee).take_opened();
        self.world.host_mut(host).take_opened();
        let owner = owner.map_or(&[][..], |owner| &owner.0);
        let tag = self.world.command(host, |tag| Input::Call {
            tag,
            owner,
            name,
            key: &[],
            tried: &[],
            policy: Policy::PowerOfTwo,
            timeout_ms: 0,
            head: GET,
        });
        let until_ms = self.now_ms() + PATIENCE_MS;
        let has_failed = |answer: &Answer| matches!(answer.outcome, Outcome::Failed(_));
        while self.now_ms() < until_ms && !self.world.hosts()[host].answer(tag).is_some_and(has_failed) {
            self.run_ms(100);
            let served = self.world.host_mut(callee).take_opened();
            let is_called = |opened: &selfsame_sim::Opened| opened.tag == 0 && opened.peer == caller;
            if served.iter().any(is_called) {
                let opened = self.world.host_mut(host).take_opened();
                return opened.iter().any(|opened| opened.tag == tag && opened.peer == id);
            }
        }
        false
    }

    /// Lets a node connect to another one; whether it has a session within a time.
    pub(crate) fn connect(&mut self, host: usize, to: usize, within_ms: u64) -> bool {
        let (peer, address) = (self.id(to).0, self.world.hosts()[to].address().to_owned());
        let tag = self.world.command(host, |tag| Input::Connect {
            tag,
            peer,
            address: &address,
        });
        self.run_ms(within_ms);
        let answer = self.world.host_mut(host).take_answer(tag);
        answer.is_some_and(|answer| matches!(answer.outcome, Outcome::Reply(_)))
    }

    /// The number of the node with an id.
    pub(crate) fn host_of(&self, id: &[u8; 32]) -> Option<usize> {
        self.world.hosts().iter().position(|host| host.id().0 == *id)
    }

    /// The member that is responsible for a position: the first at or after it.
    pub(crate) fn responsible(&self, position: &[u8; 32]) -> usize {
        let members = (0..self.members).map(|host| (self.id(host).0, host));
        let at_or_after = members.clone().filter(|(id, _)| id >= position).min();
        at_or_after
            .or_else(|| members.min())
            .expect("a ring has members")
            .1
    }
}
