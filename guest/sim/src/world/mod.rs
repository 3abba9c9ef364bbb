//! Hosts, the network between them and the time, all of which follow from one seed.

mod closed;
mod links;
mod outputs;
mod stranger;

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;
use selfsame_codec::{Admission, Config, Input, Role};
use selfsame_core::identity::{Identity, NetworkId, labelled_hash};

use crate::disk::Disk;
use crate::host::{Answer, Host};
use crate::machine::Machine;
use crate::network::{Network, Place, Transport};
use crate::queue::{Event, Queue};
use crate::traffic::Traffic;
pub(crate) use closed::identity_of;
use links::Link;

/// When every simulation begins, in milliseconds since 1970.
pub const START_MS: u64 = 1_800_000_000_000;
/// The network that is simulated.
const NETWORK: &str = "simulated";
/// Purpose of the hashes that make the trace.
const TRACE: &str = "selfsame/1 simulation trace";
/// Longest time between two updates of a host's ring: that of a process; what sleeps waits longer.
const IDLE_MS: u64 = 15_000;

/// How a process ends
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process is killed: its system closes the sockets, and keeps what was written.
    Killed,
    /// The power fails: nobody is told, and what was not synced is lost.
    PowerLost,
}

/// A simulation
pub struct World<M> {
    machine: M,
    now_ms: u64,
    queue: Queue,
    dice: Rng,
    seed: u64,
    /// What lies between the hosts.
    pub network: Network,
    /// How hosts that are added from now on are reached.
    pub transport: Transport,
    /// Longest time between two updates of the ring, for hosts that are added from now on, in milliseconds.
    pub idle_ms: u64,
    hosts: Vec<Host>,
    /// How far the clocks of hosts that are added are ahead of the true time.
    clocks_ahead_ms: u64,
    /// Who admits hosts; nobody if the network is open.
    authority: Option<Identity>,
    at_address: HashMap<String, usize>,
    links: HashMap<u64, Link>,
    last_link: u64,
    trace: [u8; 32],
    /// What the hosts have said to each other.
    pub traffic: Traffic,
    /// Steps of all cores.
    pub steps: u64,
}

impl<M: Machine> World<M> {
    /// An empty world; everything in it follows from the seed and from what is done to it.
    pub fn new(machine: M, seed: u64) -> Self {
        Self {
            machine,
            now_ms: START_MS,
            queue: Queue::default(),
            dice: Rng::with_seed(seed),
            seed,
            network: Network::default(),
            transport: Transport::Ordered,
            idle_ms: IDLE_MS,
            hosts: Vec::new(),
            clocks_ahead_ms: 0,
            authority: None,
            at_address: HashMap::new(),
            links: HashMap::new(),
            last_link: 0,
            trace: [0; 32],
            traffic: Traffic::default(),
            steps: 0,
        }
    }

    /// The time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The dice of what is done to this world.
    pub fn dice(&mut self) -> &mut Rng {
        &mut self.dice
    }

    /// What runs the cores, to ask it what no host can.
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// What runs the cores.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// All hosts, by their numbers.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// One host.
    pub fn host_mut(&mut self, host: usize) -> &mut Host {
        &mut self.hosts[host]
    }

    /// A hash of everything that the cores have said so far: equal for equal simulations.
    pub fn trace(&self) -> [u8; 32] {
        self.trace
    }

    /// The id of every network.
    #[must_use]
    pub fn network_id() -> NetworkId {
        NetworkId::open(NETWORK)
    }

    /// A new host that is not started yet; returns its number.
    pub fn add(&mut self, role: Role, bootstraps: &[usize]) -> usize {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&(self.hosts.len() as u64).to_le_bytes());
        self.add_with_seed(seed, role, bootstraps)
    }

    /// A new host whose node has a chosen master seed; returns its number.
    pub fn add_with_seed(&mut self, seed: [u8; 32], role: Role, bootstraps: &[usize]) -> usize {
        let host = self.hosts.len();
        let addresses = match role {
            Role::Member => vec![self.address(&format!("n{host}"))],
            Role::Leaf => vec![],
        };
        if let Some(address) = addresses.first() {
            self.at_address.insert(address.clone(), host);
        }
        let network = Self::network_id();
        let config = Config {
            seed,
            entropy: [0; 32],
            known_key: vec![],
            network: NETWORK.into(),
            role,
            addresses,
            bootstraps: vec![],
            dials: vec!["ws".into(), "http".into()],
            allow_private: false,
            trust_on_first_use: false,
            idle_ms: self.idle_ms,
            domain: String::new(),
            admission: Admission::Open,
            authority: Vec::new(),
            certificate: Vec::new(),
            take_over: false,
            confirms: false,
        };
        let place = Place::random(&mut self.dice);
        self.hosts.push(Host {
            id: Identity::recall(&seed, network, &[]).id(),
            config,
            core: None,
            incarnation: 0,
            disk: Disk::default(),
            place,
            group: 0,
            is_reachable: true,
            is_clone: false,
            clock_ahead_ms: self.clocks_ahead_ms,
            fatal: None,
            paths: BTreeMap::new(),
            outside: BTreeMap::new(),
            opened: Vec::new(),
            last_path: 0,
            wake_ms: u64::MAX,
            last_tag: 0,
            frozen: None,
            answers: BTreeMap::new(),
            convicted: Vec::new(),
        });
        self.certify(host);
        self.set_bootstraps(host, bootstraps);
        host
    }

    /// Names the bootstraps of a host, for its next start.
    pub fn set_bootstraps(&mut self, host: usize, bootstraps: &[usize]) {
        let pinned = bootstraps.iter().map(|other| self.hosts[*other].pinned());
        self.hosts[host].config.bootstraps = pinned.collect();
    }

    fn address(&self, name: &str) -> String {
        let scheme = match self.transport {
            Transport::Ordered => "ws",
            Transport::Exchange => "http",
        };
        format!("{scheme}://{name}.sim.example/")
    }

    /// A new host, not started yet, with a copy of a member's store and its identity, at an address of its own; returns its
    /// number.
    pub fn add_clone(&mut self, original: usize, copy: Disk) -> usize {
        let seed = self.hosts[original].config.seed;
        let clone = self.add_with_seed(seed, Role::Member, &[]);
        self.hosts[clone].is_clone = true;
        self.hosts[clone].disk = copy;
        clone
    }

    /// Gives a host a new address; its node says so from its next start on.
    pub fn readdress(&mut self, host: usize) {
        let new = self.address(&format!("n{host}.v{}", self.hosts[host].incarnation));
        self.move_to(host, &new);
    }

    /// Gives a host this address, which no other has; its node says so from its next start on.
    pub fn move_to(&mut self, host: usize, new: &str) {
        for address in &mut self.hosts[host].config.addresses {
            self.at_address.remove(address);
            new.clone_into(address);
            self.at_address.insert(new.to_owned(), host);
        }
        self.certify(host);
    }

    /// A copy of a host's store as it is now, whether its process runs or not.
    pub fn copy_store(&self, host: usize) -> Disk {
        self.hosts[host].disk.copy()
    }

    /// Puts a copy in place of the store of a host whose process does not run.
    ///
    /// # Panics
    /// When the process runs.
    pub fn restore_store(&mut self, host: usize, copy: Disk) {
        assert!(!self.hosts[host].is_up(), "host {host} runs");
        self.hosts[host].disk = copy;
    }

    /// Sets a host's clock ahead of the true time, or right with 0; timers that run keep their length.
    pub fn set_clock(&mut self, host: usize, ahead_ms: u64) {
        self.hosts[host].clock_ahead_ms = ahead_ms;
    }

    /// Sets the clocks of all hosts, and of those that are added later, ahead of the true time, or right with 0.
    pub fn set_clocks(&mut self, ahead_ms: u64) {
        self.clocks_ahead_ms = ahead_ms;
        (0..self.hosts.len()).for_each(|host| self.set_clock(host, ahead_ms));
    }

    /// The time that a host's clock shows, in milliseconds since 1970.
    pub(crate) fn clock_ms(&self, host: usize) -> u64 {
        self.now_ms + self.hosts[host].clock_ahead_ms
    }

    /// Starts the process of a host, with what its disk holds.
    pub fn start(&mut self, host: usize) {
        let mut config = self.hosts[host].config.clone();
        config.entropy = self.entropy();
        let core = self.machine.create(&config);
        let started = &mut self.hosts[host];
        started.core = Some(core);
        started.incarnation += 1;
        started.fatal = None;
        self.step(host, &[]);
    }

    /// Ends the process of a host.
    pub fn end(&mut self, host: usize, how: End) {
        let Some(core) = self.hosts[host].core.take() else {
            return;
        };
        self.machine.destroy(core);
        self.hosts[host].frozen = None;
        self.hosts[host].wake_ms = u64::MAX;
        self.hosts[host].answers.clear();
        self.hosts[host].outside.clear();
        self.hosts[host].opened.clear();
        if how == End::PowerLost {
            self.hosts[host].disk.lose_power();
        }
        for (_, end) in core::mem::take(&mut self.hosts[host].paths) {
            self.abandon(end, how == End::Killed);
        }
    }

    /// Stops the process of a host, as SIGSTOP does: its system goes on, and keeps for it what arrives.
    pub fn freeze(&mut self, host: usize) {
        self.hosts[host].frozen.get_or_insert_default();
    }

    /// Lets a stopped process go on.
    pub fn thaw(&mut self, host: usize) {
        for event in self.hosts[host].frozen.take().unwrap_or_default() {
            self.happen(event);
        }
    }

    /// Gives a core a command; returns its tag, under which the answer will be.
    pub fn command<'a>(&mut self, host: usize, command: impl FnOnce(u32) -> Input<'a>) -> u32 {
        let commanded = &mut self.hosts[host];
        commanded.last_tag += 1;
        let tag = commanded.last_tag;
        self.step(host, &[command(tag)]);
        tag
    }

    /// Gives a core a command whose answer comes at once, such as `Status`.
    pub fn ask<'a>(&mut self, host: usize, command: impl FnOnce(u32) -> Input<'a>) -> Option<Answer> {
        let tag = self.command(host, command);
        self.hosts[host].take_answer(tag)
    }

    /// Lets time pass.
    pub fn run_ms(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        while let Some((at_ms, event)) = self.queue.next(until_ms) {
            self.now_ms = at_ms;
            self.happen(event);
        }
        self.now_ms = until_ms;
    }

    fn happen(&mut self, event: Event) {
        if let Some(host) = event.host()
            && let Some(frozen) = &mut self.hosts[host].frozen
        {
            frozen.push(event);
            return;
        }
        match event {
            Event::Wake { host } => {
                if self.hosts[host].wake_ms <= self.now_ms {
                    self.step(host, &[]);
                }
            }
            Event::Frame { host, path, frame } => {
                if self.hosts[host].paths.contains_key(&path) {
                    self.traffic.add(&frame);
                    self.step(host, &[Input::Received { path, frame: &frame }]);
                }
            }
            Event::Opened { host, path, remote } => {
                if self.hosts[host].paths.contains_key(&path) {
                    self.opened(host, path, 0, &remote);
                }
            }
            Event::Accept { link } => self.accept(link),
            Event::Established { link } => self.established(link),
            Event::DialFailed {
                host,
                incarnation,
                dial,
            } => {
                if self.hosts[host].incarnation == incarnation {
                    self.step(host, &[Input::DialFailed { dial }]);
                }
            }
            Event::Closed { host, path } => {
                if let Some(end) = self.hosts[host].paths.remove(&path) {
                    self.release(end);
                    self.step(host, &[Input::PathClosed { path }]);
                }
            }
        }
    }

    /// Takes what a core said into the trace.
    fn record(&mut self, host: usize, outputs: &[u8]) {
        let (now_ms, host) = (self.now_ms.to_le_bytes(), (host as u64).to_le_bytes());
        self.trace = labelled_hash(TRACE, &[&self.trace, &now_ms, &host, outputs]);
    }

    fn entropy(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.dice.fill(&mut bytes);
        bytes
    }
}
