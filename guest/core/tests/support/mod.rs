//! Nodes in one thread with a virtual clock, joined by paths that the test controls. Everything goes through the
//! boundary, as a host would do it.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test is a crate of its own and uses another part"
)]

pub mod closed;
pub mod rings;
mod seen;
pub use seen::Seen;
pub mod strangers;

use std::collections::{BTreeMap, VecDeque};

use selfsame_codec::reply::Status;
use selfsame_codec::{
    Admission, BatchReader, BatchWriter, Code, Config, EntryWriter, EventKind, Input, Operation, Operations,
    Output, PathKind, Role,
};
use selfsame_core::Node;
use selfsame_core::identity::{Identity, NetworkId, PeerId};
use selfsame_core::ring::Parameters;

pub const START_MS: u64 = 1_800_000_000_000;

pub struct Host {
    pub node: Node,
    pub id: PeerId,
    pub seed: [u8; 32],
    pub config: Config,
    pub store: BTreeMap<Vec<u8>, Vec<u8>>,
    pub snapshots: BTreeMap<u32, Vec<u8>>,
    pub seen: Vec<Seen>,
    pub wake_ms: u64,
    pub address: String,
    pub up: bool,
    /// SIGSTOP: it takes connections, and says nothing on them.
    pub stopped: bool,
    /// How far the clock of its machine is off.
    pub clock_error_ms: i64,
    paths: BTreeMap<u32, (usize, u32)>,
    next_path: u32,
    pub steps: u64,
    pub commits: u64,
    pub dials: u64,
}

/// A frame under way
pub struct Flight {
    pub from: usize,
    pub to: usize,
    pub path: u32,
    pub frame: Vec<u8>,
}

pub struct Net {
    pub now_ms: u64,
    pub hosts: Vec<Host>,
    pub flights: VecDeque<Flight>,
    /// All frames that were ever sent, for replays.
    pub recorded: Vec<(usize, usize, u32, Vec<u8>)>,
    pub kind: PathKind,
    pub dns: closed::Dns,
    /// Where dialled nodes see others, if not on this machine.
    pub seen_at: Option<String>,
    /// Constants of the rings of nodes that start from now on.
    pub parameters: &'static Parameters,
    entropy: u8,
}

impl Host {
    fn commit(&mut self, operations: &[u8]) {
        self.commits += 1;
        for operation in Operations::new(operations) {
            match operation.expect("a sound operation") {
                Operation::Put { key, value } => _ = self.store.insert(key.to_vec(), value.to_vec()),
                Operation::Delete { key } => _ = self.store.remove(key),
            }
        }
    }
}

pub fn config(seed: u8, role: Role, bootstraps: &[String]) -> Config {
    Config {
        seed: [seed; 32],
        entropy: [0; 32],
        known_key: vec![],
        network: "twiitr".into(),
        role,
        addresses: if role == Role::Member {
            vec![format!("ws://127.0.0.1:{}/.mesh", 7000 + u32::from(seed))]
        } else {
            vec![]
        },
        bootstraps: bootstraps.to_vec(),
        dials: vec!["ws".into()],
        allow_private: true,
        trust_on_first_use: true,
        idle_ms: 15_000,
        domain: String::new(),
        admission: Admission::Open,
        authority: Vec::new(),
        certificate: Vec::new(),
        take_over: false,
        confirms: false,
    }
}

pub fn id_of(seed: u8, network: &str) -> PeerId {
    Identity::recall(&[seed; 32], NetworkId::open(network), &[]).id()
}

impl Net {
    pub fn new() -> Self {
        Self {
            now_ms: START_MS,
            hosts: Vec::new(),
            flights: VecDeque::new(),
            recorded: Vec::new(),
            kind: PathKind::Ordered,
            dns: closed::Dns::default(),
            seen_at: None,
            parameters: &Parameters::DEFAULT,
            entropy: 0,
        }
    }

    /// Starts a node and answers its first questions to the store.
    pub fn add(&mut self, config: Config) -> usize {
        self.add_with(config, BTreeMap::new())
    }

    /// Starts a node with what an earlier one has stored.
    pub fn add_with(&mut self, config: Config, store: BTreeMap<Vec<u8>, Vec<u8>>) -> usize {
        let host = self.host(config, store);
        self.hosts.push(host);
        let index = self.hosts.len() - 1;
        self.step(index, &[]);
        index
    }

    pub fn member(&mut self, seed: u8, bootstraps: &[usize]) -> usize {
        let bootstraps: Vec<String> = bootstraps.iter().map(|index| self.pinned(*index)).collect();
        self.add(config(seed, Role::Member, &bootstraps))
    }

    pub fn leaf(&mut self, seed: u8, bootstraps: &[usize]) -> usize {
        let bootstraps: Vec<String> = bootstraps.iter().map(|index| self.pinned(*index)).collect();
        self.add(config(seed, Role::Leaf, &bootstraps))
    }

    /// `url#id` of a node.
    pub fn pinned(&self, index: usize) -> String {
        format!("{}#{}", self.hosts[index].address, self.hosts[index].id)
    }

    fn host(&mut self, mut config: Config, store: BTreeMap<Vec<u8>, Vec<u8>>) -> Host {
        self.entropy = self.entropy.wrapping_add(1);
        config.entropy = [self.entropy; 32];
        Host {
            id: closed::own_id(&config),
            node: Node::new(&config.encode(), self.parameters).expect("a usable configuration"),
            seed: config.seed,
            address: config.addresses.first().cloned().unwrap_or_default(),
            config,
            store,
            snapshots: BTreeMap::new(),
            seen: Vec::new(),
            wake_ms: 0,
            up: true,
            stopped: false,
            clock_error_ms: 0,
            paths: BTreeMap::new(),
            next_path: 1,
            steps: 0,
            commits: 0,
            dials: 0,
        }
    }

    /// kill -9: the memory is gone, the store stays; peers see their paths close.
    pub fn kill(&mut self, index: usize) {
        self.hosts[index].up = false;
        self.flights
            .retain(|flight| flight.from != index && flight.to != index);
        for (_, (peer, path)) in core::mem::take(&mut self.hosts[index].paths) {
            self.hosts[peer].paths.remove(&path);
            self.step(peer, &[Input::PathClosed { path }]);
        }
    }

    /// All paths of a node end, with what is under way on them.
    pub fn cut(&mut self, index: usize) {
        self.flights
            .retain(|flight| flight.from != index && flight.to != index);
        let paths: Vec<u32> = self.hosts[index].paths.keys().copied().collect();
        for path in paths {
            self.close_path(index, path);
        }
    }

    pub fn restart(&mut self, index: usize) {
        let config = self.hosts[index].config.clone();
        let store = core::mem::take(&mut self.hosts[index].store);
        let clock_error_ms = self.hosts[index].clock_error_ms;
        self.hosts[index] = self.host(config, store);
        self.hosts[index].clock_error_ms = clock_error_ms;
        self.step(index, &[]);
    }

    /// The memory is gone; the store and the paths stay, with what was saved of them. So wakes what hibernated.
    pub fn wake(&mut self, index: usize) {
        let config = self.hosts[index].config.clone();
        let store = core::mem::take(&mut self.hosts[index].store);
        let fresh = self.host(config, store);
        let old = core::mem::replace(&mut self.hosts[index], fresh);
        self.hosts[index].paths = old.paths;
        self.hosts[index].next_path = old.next_path;
        self.step(index, &[]);
        let paths: Vec<u32> = self.hosts[index].paths.keys().copied().collect();
        for path in paths {
            let snapshot = &old.snapshots[&path];
            let remote = "127.0.0.1:1";
            self.step(
                index,
                &[Input::PathResumed {
                    path,
                    remote,
                    snapshot,
                }],
            );
        }
    }

    fn wall_ms(&self, index: usize) -> u64 {
        self.now_ms
            .saturating_add_signed(self.hosts[index].clock_error_ms)
    }

    /// One step of one node, with the batch encoded and decoded as on the boundary.
    pub fn step(&mut self, index: usize, inputs: &[Input<'_>]) {
        let mut batch = BatchWriter::new();
        inputs.iter().for_each(|input| input.encode(&mut batch));
        let mut bytes = self.wall_ms(index).to_le_bytes().to_vec();
        bytes.extend_from_slice(batch.as_bytes());
        self.step_raw(index, &bytes);
    }

    pub fn step_raw(&mut self, index: usize, batch: &[u8]) {
        if !self.hosts[index].up || self.hosts[index].stopped {
            return;
        }
        self.hosts[index].steps += 1;
        let output = self.hosts[index].node.step(batch).to_vec();
        for item in BatchReader::new(&output).expect("a sound batch") {
            let output = Output::decode(item).expect("a sound output");
            self.take(index, output);
        }
    }

    fn take(&mut self, index: usize, output: Output<'_>) {
        match output {
            Output::Transmit { path, frame } => self.transmit(index, path, frame),
            Output::Dial { dial, address } => self.dial(index, dial, address),
            Output::ClosePath { path } => self.close_path(index, path),
            Output::Snapshot { path, snapshot } => {
                self.hosts[index].snapshots.insert(path, snapshot.to_vec());
            }
            Output::NeedEntropy {} => {
                self.entropy = self.entropy.wrapping_add(1);
                let bytes = [self.entropy; 32];
                self.step(index, &[Input::Entropy { bytes }]);
            }
            // A host sleeps for a while, not until a time.
            Output::Wake { at_ms } => {
                let wait_ms = at_ms.saturating_sub(self.wall_ms(index));
                self.hosts[index].wake_ms = self.now_ms.saturating_add(wait_ms);
            }
            Output::StoreGet { .. } | Output::StoreScan { .. } | Output::StoreCommit { .. } => {
                self.serve_store(index, output);
            }
            Output::LookUp { peer, remote, .. } => closed::look_up(self, index, peer, remote),
            told => self.hosts[index].seen.extend(Seen::of(told)),
        }
    }

    fn transmit(&mut self, index: usize, path: u32, frame: &[u8]) {
        let Some((to, peer_path)) = self.hosts[index].paths.get(&path).copied() else {
            return;
        };
        let frame = frame.to_vec();
        self.recorded.push((index, to, peer_path, frame.clone()));
        self.flights.push_back(Flight {
            from: index,
            to,
            path: peer_path,
            frame,
        });
    }

    fn close_path(&mut self, index: usize, path: u32) {
        if let Some((peer, peer_path)) = self.hosts[index].paths.remove(&path) {
            self.hosts[peer].paths.remove(&peer_path);
            self.step(index, &[Input::PathClosed { path }]);
            self.step(peer, &[Input::PathClosed { path: peer_path }]);
        }
    }

    fn serve_store(&mut self, index: usize, output: Output<'_>) {
        let host = &mut self.hosts[index];
        let mut entries = EntryWriter::new();
        let tag = match output {
            Output::StoreGet { tag, key } => {
                if let Some(value) = host.store.get(key) {
                    entries.push(key, value);
                }
                tag
            }
            Output::StoreScan {
                tag,
                start,
                end,
                limit,
            } => {
                let range = host.store.range(start.to_vec()..end.to_vec());
                range
                    .take(limit as usize)
                    .for_each(|(key, value)| entries.push(key, value));
                tag
            }
            Output::StoreCommit { tag, operations, .. } => {
                host.commit(operations);
                return self.step(index, &[Input::StoreCommitted { tag, ok: true }]);
            }
            _ => return,
        };
        self.step(
            index,
            &[Input::StoreRead {
                tag,
                ok: true,
                entries: entries.as_bytes(),
            }],
        );
    }

    fn dial(&mut self, index: usize, dial: u32, address: &str) {
        self.hosts[index].dials += 1;
        let found = self
            .hosts
            .iter()
            .position(|host| host.up && !address.is_empty() && host.address == address);
        match found.filter(|to| *to != index) {
            Some(to) => {
                let kind = self.kind;
                let (path, _) = self.link(index, to);
                let remote = address.split('/').nth(2).unwrap_or_default();
                self.step(
                    index,
                    &[Input::PathOpened {
                        path,
                        dial,
                        kind,
                        remote,
                    }],
                );
            }
            None if address.contains("//tarpit.") => {} // It never answers.
            None => self.step(index, &[Input::DialFailed { dial }]),
        }
    }

    /// A new path between two nodes; the dialled side is told at once.
    pub fn link(&mut self, from: usize, to: usize) -> (u32, u32) {
        let port = 40_001 + self.hosts[from].next_path;
        let own = || format!("127.0.0.1:{port}");
        let remote = self.seen_at.clone().unwrap_or_else(own);
        self.link_from(from, to, &remote)
    }

    /// A new path whose dialled side sees it come from `remote`.
    pub fn link_from(&mut self, from: usize, to: usize, remote: &str) -> (u32, u32) {
        let kind = self.kind;
        let path = self.new_path(from);
        let peer_path = self.new_path(to);
        self.hosts[from].paths.insert(path, (to, peer_path));
        self.hosts[to].paths.insert(peer_path, (from, path));
        self.step(
            to,
            &[Input::PathOpened {
                path: peer_path,
                dial: 0,
                kind,
                remote,
            }],
        );
        (path, peer_path)
    }

    pub fn new_path(&mut self, index: usize) -> u32 {
        let host = &mut self.hosts[index];
        host.next_path += 1;
        host.next_path
    }

    /// Delivers what is under way, in order, until nothing is.
    pub fn deliver(&mut self) {
        for _ in 0..1_000_000 {
            let Some(flight) = self.flights.pop_front() else {
                return;
            };
            self.step(
                flight.to,
                &[Input::Received {
                    path: flight.path,
                    frame: &flight.frame,
                }],
            );
        }
        panic!("the nodes never come to rest");
    }

    /// Delivers all but what is sent to one host.
    fn deliver_others(&mut self, outside: usize) {
        while let Some(at) = self.flights.iter().position(|flight| flight.to != outside) {
            let flight = self.flights.remove(at).expect("its position");
            let (path, frame) = (flight.path, &flight.frame);
            self.step(flight.to, &[Input::Received { path, frame }]);
        }
    }

    /// Lets time pass, waking nodes when they asked for it.
    pub fn run_ms(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        self.deliver();
        while let Some(index) = self.next_awake(end_ms) {
            self.now_ms = self.now_ms.max(self.hosts[index].wake_ms);
            self.step(index, &[]);
            self.deliver();
        }
        self.now_ms = end_ms;
    }

    fn next_awake(&self, end_ms: u64) -> Option<usize> {
        let awake = self
            .hosts
            .iter()
            .enumerate()
            .filter(|(_, host)| host.up && !host.stopped && host.wake_ms <= end_ms);
        awake.min_by_key(|(_, host)| host.wake_ms).map(|(index, _)| index)
    }

    pub fn take_seen(&mut self, index: usize) -> Vec<Seen> {
        core::mem::take(&mut self.hosts[index].seen)
    }

    pub fn logged(&self, index: usize, code: Code) -> usize {
        let is_logged = |seen: &&Seen| **seen == Seen::Log { code };
        self.hosts[index].seen.iter().filter(is_logged).count()
    }

    /// How often a node has counted a code, also when it logged it no more.
    pub fn counted(&mut self, index: usize, code: Code) -> u64 {
        const TAG: u32 = 0xC0DE;
        self.step(index, &[Input::Status { tag: TAG }]);
        let body = self.reply(index, TAG).expect("a status");
        let is_other = |seen: &Seen| !matches!(seen, Seen::Reply { tag: TAG, .. });
        self.hosts[index].seen.retain(is_other);
        let counters = Status::decode(&body).expect("a sound status").counters;
        let of_code = counters.iter().find(|(other, _)| *other == code.as_u16());
        of_code.map_or(0, |(_, count)| *count)
    }

    pub fn failed(&self, index: usize, tag: u32) -> Option<Code> {
        self.hosts[index].seen.iter().find_map(|seen| match seen {
            Seen::Failed { tag: other, code, .. } if *other == tag => Some(*code),
            _ => None,
        })
    }

    pub fn reply(&self, index: usize, tag: u32) -> Option<Vec<u8>> {
        self.hosts[index].seen.iter().find_map(|seen| match seen {
            Seen::Reply { tag: other, body } if *other == tag => Some(body.clone()),
            _ => None,
        })
    }

    pub fn connected(&self, index: usize, peer: PeerId) -> bool {
        let of_peer = |seen: &Seen, kind| matches!(seen, Seen::Event { event, body } if *event == kind && body[..] == peer.0);
        let count = |kind| {
            self.hosts[index]
                .seen
                .iter()
                .filter(|seen| of_peer(seen, kind))
                .count()
        };
        count(EventKind::PeerConnected) > count(EventKind::PeerDisconnected)
    }
}
