//! A deterministic network of rings: virtual clock, seeded delays and losses, crashes and restarts.

use alloc::collections::{BTreeMap, BTreeSet};

use selfsame_codec::{Code, Role};
use selfsame_core::Holder;
use selfsame_core::identity::{Identity, NetworkId, PeerId};
use selfsame_core::random::Random;
use selfsame_core::ring::{Action, Context, Parameters, Provider, Ring, Service, Settings};

use super::dice::Dice;

/// When every test begins.
pub(crate) const START_MS: u64 = 1_800_000_000_000;
/// Longest time between updates of ordinary nodes in these tests.
pub(crate) const IDLE_MS: u64 = 10_000;

/// What a command came to
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Found(Vec<Provider>),
    Node(PeerId),
    Failed(Code),
}

pub(crate) struct Node {
    pub(crate) identity: Identity,
    pub(crate) ring: Ring,
    random: Random,
    pub(super) settings: Settings,
    pub(crate) is_alive: bool,
    sessions: BTreeSet<usize>,
    pub(crate) store: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) writes: usize,
    pub(crate) wakes: usize,
    /// How often neighbours changed.
    pub(crate) changes: usize,
    pub(crate) duplicates: usize,
    pub(crate) outcomes: BTreeMap<u32, Outcome>,
    pub(crate) published: Vec<String>,
    pub(crate) refusals: Vec<Code>,
    /// Peers whose sessions it ended.
    pub(crate) disconnected: Vec<PeerId>,
}

enum Event {
    Request {
        from: usize,
        to: usize,
        call: u64,
        body: Vec<u8>,
    },
    Response {
        to: usize,
        call: u64,
        result: Result<Vec<u8>, Code>,
    },
    Gone {
        at: usize,
        peer: usize,
    },
}

/// What a node answers in place of its real answer, if anything
type Forge = Box<dyn FnMut(usize, &[u8]) -> Option<Vec<u8>>>;

pub(crate) struct Network {
    pub(crate) seed: u64,
    pub(crate) now_ms: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) dice: Dice,
    pub(super) parameters: &'static Parameters,
    /// Who admits to it, if it is closed.
    pub(super) authority: Option<Identity>,
    /// Evidence by which nodes have convicted peers, with the node that did.
    pub(crate) convicted: Vec<(usize, Vec<u8>)>,
    /// Nodes whose stores do not say that anything is stored.
    pub(crate) unstored: BTreeSet<usize>,
    /// Of a thousand messages, how many are lost.
    pub(crate) loss: usize,
    /// Requests that were delivered.
    pub(crate) requests: usize,
    index: BTreeMap<PeerId, usize>,
    events: BTreeMap<(u64, u64), Event>,
    last_event: u64,
    open_calls: BTreeSet<(usize, u64)>,
    tokens: BTreeMap<(usize, u64), (usize, u64)>,
    last_token: u64,
    last_command: u32,
    /// Pairs that cannot reach each other.
    walls: BTreeSet<(usize, usize)>,
    /// Nodes that can dial nobody at present.
    pub(crate) busy: BTreeSet<usize>,
    outside: Option<Vec<u8>>,
    /// Answers forged in place of those of a node.
    pub(crate) forge: Option<Forge>,
}

impl Network {
    /// Token of requests from outside.
    const OUTSIDE: u64 = u64::MAX;

    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            now_ms: START_MS,
            nodes: Vec::new(),
            dice: Dice::new(seed),
            parameters: &Parameters::DEFAULT,
            authority: None,
            convicted: Vec::new(),
            unstored: BTreeSet::new(),
            loss: 0,
            requests: 0,
            index: BTreeMap::new(),
            events: BTreeMap::new(),
            last_event: 0,
            open_calls: BTreeSet::new(),
            tokens: BTreeMap::new(),
            last_token: 0,
            last_command: 0,
            walls: BTreeSet::new(),
            busy: BTreeSet::new(),
            outside: None,
            forge: None,
        }
    }

    pub(crate) fn network_id() -> NetworkId {
        NetworkId::open("ring-tests")
    }

    /// A new node; nothing is joined yet.
    pub(crate) fn add(&mut self, role: Role) -> usize {
        self.add_with(role, |_| {})
    }

    pub(crate) fn add_with(&mut self, role: Role, change: impl FnOnce(&mut Settings)) -> usize {
        let index = self.nodes.len();
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&(index as u64).to_le_bytes());
        let identity = self.identity(index);
        let addresses = match role {
            Role::Member => vec![format!("wss://n{index}.example/.mesh")],
            Role::Leaf => Vec::new(),
        };
        let mut settings = Settings {
            id: identity.id(),
            network: identity.network(),
            authority: self.authority.as_ref().map(Identity::public),
            role,
            addresses,
            domain: String::new(),
            allow_private: false,
            idle_ms: IDLE_MS,
        };
        change(&mut settings);
        self.index.insert(identity.id(), index);
        self.nodes.push(Node {
            identity,
            ring: Ring::new(settings.clone(), self.parameters),
            random: Random::new(&seed),
            settings,
            is_alive: true,
            sessions: BTreeSet::new(),
            store: BTreeMap::new(),
            writes: 0,
            wakes: 0,
            changes: 0,
            duplicates: 0,
            outcomes: BTreeMap::new(),
            published: Vec::new(),
            refusals: Vec::new(),
            disconnected: Vec::new(),
        });
        index
    }

    pub(crate) fn add_members(&mut self, count: usize) -> Vec<usize> {
        (0..count).map(|_| self.add(Role::Member)).collect()
    }

    pub(crate) fn id(&self, node: usize) -> PeerId {
        self.nodes[node].identity.id()
    }

    /// Lets a node do something, and does what it asks for.
    pub(crate) fn with<T>(&mut self, node: usize, act: impl FnOnce(&mut Ring, &mut Context<'_>) -> T) -> T {
        let now_ms = self.now_ms;
        let this = &mut self.nodes[node];
        let mut cx = Context {
            now_ms,
            wall_ms: now_ms,
            identity: &this.identity,
            random: &mut this.random,
            source: Holder::EXEMPT,
        };
        let result = act(&mut this.ring, &mut cx);
        self.drain(node);
        result
    }

    /// Sends bytes to a node as a peer that is not part of this network would, and gives the answer.
    pub(crate) fn request(&mut self, node: usize, source: Holder, from: PeerId, body: &[u8]) -> Vec<u8> {
        self.with(node, |ring, cx| {
            cx.source = source;
            ring.request(cx, from, Self::OUTSIDE, body);
        });
        self.outside.take().expect("an answer at once")
    }

    fn drain(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].ring.poll() {
            let this = &mut self.nodes[node];
            match action {
                Action::Request {
                    call,
                    to,
                    body,
                    timeout_ms,
                } => self.send(node, to, call, body, timeout_ms),
                Action::Respond { token, body } if token == Self::OUTSIDE => self.outside = Some(body),
                Action::Respond { token, body } => {
                    let (to, call) = self
                        .tokens
                        .remove(&(node, token))
                        .expect("one answer to each request");
                    let body = match &mut self.forge {
                        Some(forge) => forge(node, &body).unwrap_or(body),
                        None => body,
                    };
                    self.after_delay(Event::Response {
                        to,
                        call,
                        result: Ok(body),
                    });
                }
                Action::Found { command, providers } => {
                    this.outcomes.insert(command, Outcome::Found(providers));
                }
                Action::FoundNode { command, record, .. } => {
                    this.outcomes.insert(command, Outcome::Node(record.id()));
                }
                Action::Done { command } => _ = this.outcomes.insert(command, Outcome::Done),
                Action::Failed { command, code } => _ = this.outcomes.insert(command, Outcome::Failed(code)),
                Action::Put { key, value, .. } => {
                    this.writes += 1;
                    this.store.insert(key, value);
                }
                Action::Commit { key, value } => {
                    this.writes += 1;
                    this.store.insert(key, value);
                    if !self.unstored.contains(&node) {
                        self.with(node, Ring::committed);
                    }
                }
                Action::Convicted { evidence } => self.convicted.push((node, evidence)),
                Action::Delete { key } => {
                    this.writes += 1;
                    this.store.remove(&key);
                }
                Action::Disconnect { peer } => self.disconnect(node, peer),
                Action::ShutOut | Action::LookUp { .. } => {}
                Action::Published { name } => this.published.push(name),
                Action::Log { code, .. } => this.refusals.push(code),
                Action::Changed => this.changes += 1,
                Action::Rival { .. } => self.with(node, |ring, cx| ring.outlive_rival(cx)),
                Action::Duplicate { .. } => this.duplicates += 1,
            }
        }
    }

    fn send(&mut self, from: usize, to: PeerId, call: u64, body: Vec<u8>, timeout_ms: u32) {
        self.open_calls.insert((from, call));
        let fail = |code| Event::Response {
            to: from,
            call,
            result: Err(code),
        };
        self.at(self.now_ms + u64::from(timeout_ms), fail(Code::TimedOut));
        let target = self.index.get(&to).copied();
        let has_session = target.is_some_and(|to| self.nodes[from].sessions.contains(&to));
        let is_member = target.is_some_and(|to| self.nodes[to].settings.role == Role::Member);
        let has_record = self.nodes[from].ring.record_of(&to).is_some();
        match target {
            _ if !has_session && !has_record => self.after_delay(fail(Code::NoRoute)),
            None => self.after_delay(fail(Code::DialFailed)),
            Some(_) if !has_session && self.busy.contains(&from) => {
                self.after_delay(fail(Code::TooManyRequests));
            }
            Some(_) if !has_session && !is_member => self.after_delay(fail(Code::NoRoute)),
            Some(to) if !self.nodes[to].is_alive && !has_session => self.after_delay(fail(Code::DialFailed)),
            Some(to) if self.walls.contains(&(from, to)) => {}
            Some(_) if self.dice.below(1000) < self.loss => {}
            Some(to) => self.after_delay(Event::Request { from, to, call, body }),
        }
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.last_event += 1;
        self.events.insert((at_ms, self.last_event), event);
    }

    fn after_delay(&mut self, event: Event) {
        let delay = 1 + self.dice.below(40) as u64;
        self.at(self.now_ms + delay, event);
    }

    /// Connects two nodes, as a dialled bootstrap is.
    pub(crate) fn connect(&mut self, one: usize, two: usize) {
        for (at, peer) in [(one, two), (two, one)] {
            if self.nodes[at].is_alive && self.nodes[at].sessions.insert(peer) {
                let id = self.id(peer);
                self.with(at, |ring, cx| ring.peer_connected(cx, id));
            }
        }
    }

    /// Two nodes have no session from now on, and neither is told.
    pub(crate) fn end_session(&mut self, one: usize, two: usize) {
        self.nodes[one].sessions.remove(&two);
        self.nodes[two].sessions.remove(&one);
    }

    /// Ends the sessions of a node with a peer.
    fn disconnect(&mut self, node: usize, peer: PeerId) {
        self.nodes[node].disconnected.push(peer);
        if let Some(other) = self.index.get(&peer).copied() {
            self.after_delay(Event::Gone {
                at: node,
                peer: other,
            });
            self.after_delay(Event::Gone {
                at: other,
                peer: node,
            });
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request { from, to, call, body } => {
                if !self.nodes[to].is_alive || !self.nodes[from].is_alive {
                    return;
                }
                self.connect(from, to);
                self.requests += 1;
                self.last_token += 1;
                let token = self.last_token;
                self.tokens.insert((to, token), (from, call));
                let id = self.id(from);
                self.with(to, |ring, cx| ring.request(cx, id, token, &body));
            }
            Event::Response { to, call, result } => {
                if self.nodes[to].is_alive && self.open_calls.remove(&(to, call)) {
                    self.with(to, |ring, cx| {
                        ring.response(cx, call, result.as_deref().map_err(|code| *code))
                    });
                }
            }
            Event::Gone { at, peer } => {
                if self.nodes[at].is_alive && self.nodes[at].sessions.remove(&peer) {
                    let id = self.id(peer);
                    self.with(at, |ring, cx| ring.peer_gone(cx, id));
                }
            }
        }
    }

    /// Lets time pass until a moment.
    pub(crate) fn run_to(&mut self, until_ms: u64) {
        while self.step(until_ms) {}
        self.now_ms = until_ms;
    }

    pub(crate) fn run_for(&mut self, ms: u64) {
        self.run_to(self.now_ms + ms);
    }

    /// Does what comes next, if it comes until then.
    pub(super) fn step(&mut self, until_ms: u64) -> bool {
        let alive = self.nodes.iter().enumerate().filter(|(_, node)| node.is_alive);
        let wake = alive.map(|(index, node)| (node.ring.next_wake_ms(), index)).min();
        let event_ms = self.events.first_key_value().map(|(key, _)| key.0);
        let wake = wake.filter(|(at_ms, _)| event_ms.is_none_or(|event_ms| *at_ms < event_ms));
        if let Some((at_ms, node)) = wake {
            if at_ms > until_ms {
                return false;
            }
            self.now_ms = self.now_ms.max(at_ms);
            self.nodes[node].wakes += 1;
            self.with(node, |ring, cx| ring.tick(cx));
            let next_ms = self.nodes[node].ring.next_wake_ms();
            assert!(
                next_ms > self.now_ms,
                "a tick does what is due (seed {})",
                self.seed
            );
            return true;
        }
        match self.events.first_key_value() {
            Some(((at_ms, _), _)) if *at_ms <= until_ms => {
                let ((at_ms, _), event) = self.events.pop_first().expect("there is one");
                self.now_ms = self.now_ms.max(at_ms);
                self.handle(event);
                true
            }
            _ => false,
        }
    }

    /// Lets time pass until something holds; says how long it took.
    pub(crate) fn run_until(
        &mut self,
        limit_ms: u64,
        what: &str,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> u64 {
        let start_ms = self.now_ms;
        while !holds(self) {
            let more = self.step(start_ms + limit_ms);
            assert!(more, "within {limit_ms} ms: {what} (seed {})", self.seed);
        }
        self.now_ms - start_ms
    }

    pub(crate) fn command(&mut self, node: usize, act: impl FnOnce(&mut Ring, &mut Context<'_>, u32)) -> u32 {
        self.last_command += 1;
        let command = self.last_command;
        self.with(node, |ring, cx| act(ring, cx, command));
        command
    }

    /// Runs a command to its end.
    pub(crate) fn outcome(
        &mut self,
        node: usize,
        act: impl FnOnce(&mut Ring, &mut Context<'_>, u32),
    ) -> Outcome {
        let command = self.command(node, act);
        self.run_until(120_000, "a command is answered", |net| {
            net.nodes[node].outcomes.contains_key(&command)
        });
        self.nodes[node].outcomes[&command].clone()
    }

    /// Begins to join through other nodes.
    pub(crate) fn start_join(&mut self, node: usize, bootstraps: &[usize]) -> u32 {
        bootstraps.iter().for_each(|peer| self.connect(node, *peer));
        let ids: Vec<PeerId> = bootstraps.iter().map(|peer| self.id(*peer)).collect();
        self.command(node, |ring, cx, command| ring.join(cx, command, ids))
    }

    pub(crate) fn join(&mut self, node: usize, bootstraps: &[usize]) -> Outcome {
        let command = self.start_join(node, bootstraps);
        self.run_until(60_000, "a join is answered", |net| {
            net.nodes[node].outcomes.contains_key(&command)
        });
        self.nodes[node].outcomes[&command].clone()
    }

    /// A ring of so many members, in its final shape.
    pub(crate) fn ring_of(seed: u64, count: usize) -> Self {
        Self::new(seed).with_members(count)
    }

    /// The same network with so many members that form a ring.
    pub(crate) fn with_members(self, count: usize) -> Self {
        let mut net = self;
        let members = net.add_members(count);
        for node in &members {
            let bootstraps: Vec<usize> = if *node == 0 { Vec::new() } else { vec![0] };
            net.start_join(*node, &bootstraps);
        }
        net.converge();
        net
    }

    /// A node stops at once. Loud: its connections close. Otherwise its peers have to find out.
    pub(crate) fn crash(&mut self, node: usize, loud: bool) {
        self.nodes[node].is_alive = false;
        self.open_calls.retain(|(of, _)| *of != node);
        for peer in core::mem::take(&mut self.nodes[node].sessions) {
            if loud {
                self.after_delay(Event::Gone { at: peer, peer: node });
            }
        }
    }

    /// Starts a node that crashed, from its store or without it.
    pub(crate) fn restart(&mut self, node: usize, keep_store: bool) {
        self.nodes[node].is_alive = true;
        if !keep_store {
            self.nodes[node].store.clear();
        }
        for peer in 0..self.nodes.len() {
            self.nodes[peer].sessions.remove(&node);
        }
        self.forget(node);
    }

    /// Takes a node's memory away; its store and sessions stay, as when it sleeps.
    pub(crate) fn forget(&mut self, node: usize) {
        let this = &mut self.nodes[node];
        this.ring = Ring::new(this.settings.clone(), self.parameters);
        self.open_calls.retain(|(of, _)| *of != node);
        let store = self.nodes[node].store.clone();
        self.with(node, |ring, cx| {
            for (key, value) in &store {
                ring.load(cx, key, value).expect("a node reads what it wrote");
            }
        });
    }

    /// Makes two groups unable to reach each other, or able again.
    pub(crate) fn wall(&mut self, one: &[usize], two: &[usize], stands: bool) {
        for a in one {
            for b in two {
                for pair in [(*a, *b), (*b, *a)] {
                    if stands {
                        self.walls.insert(pair);
                    } else {
                        self.walls.remove(&pair);
                    }
                }
            }
        }
    }

    /// Members of the ring in the order of their ids.
    pub(crate) fn members(&self) -> Vec<usize> {
        let mut members: Vec<usize> = (0..self.nodes.len())
            .filter(|index| {
                let node = &self.nodes[*index];
                node.is_alive && node.settings.role == Role::Member && node.ring.is_joined()
            })
            .collect();
        members.sort_by_key(|index| self.id(*index));
        members
    }
}

/// A name that anyone may serve.
pub(crate) fn service(name: &str, replicas: u8) -> Service {
    Service {
        name: name.into(),
        owner: None,
        grant: Vec::new(),
        replicas,
        version: "1".into(),
        weight: 100,
    }
}
