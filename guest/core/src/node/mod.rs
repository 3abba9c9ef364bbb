//! A node: the protocols composed, behind the boundary.
//!
//! `step` takes a batch of inputs and the time and gives a batch of outputs. Every decision is made here; a host
//! only moves bytes. A bad input is refused on its own and never disturbs the others.

mod admission;
mod answers;
mod calls;
mod clock;
mod commands;
mod connect;
mod connection;
mod handshakes;
mod idle;
mod inbox;
mod liveness;
mod messages;
mod observed;
mod outbox;
mod owners;
mod paths;
mod providers;
mod provisional;
mod receive;
mod refusals;
mod relay;
mod ring_driver;
mod rival;
mod route;
mod send;
mod snapshots;
mod status;
mod store;
mod streams;
mod timers;
mod toll;

use alloc::vec::Vec;

use selfsame_codec::{BatchReader, Code, Config, EventKind, Input, Item, Output, Reader, Role};

use crate::admission::KNOWS_CLOSED;
use crate::identity::{Identity, NetworkId};
use crate::mesh::Mesh;
use crate::quota::Holder;
use crate::random::Random;
use crate::record::NodeRecord;
use crate::ring::{Context, Parameters, Ring, Settings as RingSettings};
use admission::{authority_of, certify};
use clock::Clock;
use connect::Attempts;
use connection::{Connection, Peers};
use handshakes::Handshakes;
use messages::Messages;
use outbox::Outbox;
use paths::Paths;
use refusals::Refusals;
use ring_driver::RingDriver;
use route::Routes;
use selfsame_sorted_map::Map;
use send::Unsent;
use store::StoreState;
use streams::StreamTable;
use timers::Timers;

/// Position in `Refused` that stands for the batch as a whole.
const WHOLE_BATCH: u32 = u32::MAX;
/// Smallest idle time a configuration may ask for: below it maintenance would be a load of its own.
const MIN_IDLE_MS: u64 = 1_000;
/// Scratch memory that is kept between steps; larger buffers are given back.
const KEPT_BUFFER: usize = 256 * 1024;

/// What of the configuration is needed after the start
struct Settings {
    network_name: alloc::string::String,
    bootstraps: Vec<alloc::string::String>,
    dials: Vec<alloc::string::String>,
    allow_private: bool,
    trust_on_first_use: bool,
    take_over: bool,
}

/// One node of one network
pub struct Node {
    settings: Settings,
    identity: Identity,
    random: Random,
    clock: Clock,
    /// [`Clock`] says what it is.
    now_ms: u64,
    out: Outbox,
    timers: Timers,
    paths: Paths,
    routes: Routes,
    messages: Messages,
    handshakes: Handshakes,
    connections: Map<u32, Connection>,
    unsent: Unsent,
    /// Memory for the next payload, so that idle connections hold none.
    spare_payload: Vec<u8>,
    peers: Peers,
    attempts: Attempts,
    refusals: Refusals,
    /// A newer record of this node, while it is asked whether its run lives.
    rival: Option<NodeRecord>,
    streams: StreamTable,
    ring: Ring,
    ring_driver: RingDriver,
    mesh: Mesh,
    calls: calls::Calls,
    providers: providers::Watches,
    store: StoreState,
    provisional: provisional::Provisional,
    /// A packet is opened in place in here.
    scratch: Vec<u8>,
    entropy_asked: bool,
}

impl Node {
    /// A node out of an encoded [`Config`], with constants of the ring that no host can choose.
    ///
    /// # Errors
    /// [`Code::BadConfig`] and the more telling codes of what is wrong with it.
    pub fn new(config: &[u8], parameters: &'static Parameters) -> Result<Self, Code> {
        let encoded = config;
        let mut config = Config::empty();
        config.read(encoded).map_err(|_| Code::BadConfig)?;
        if config.network.is_empty() || config.network.len() > crate::identity::MAX_NETWORK_NAME {
            return Err(Code::BadConfig);
        }
        let authority = authority_of(&config)?;
        let network = NetworkId::of(&config.network, config.admission, authority.as_ref());
        let mut identity = Identity::recall(&config.seed, network, &config.known_key);
        let mut random = Random::new(&config.entropy);
        zeroize::Zeroize::zeroize(&mut config.seed);
        zeroize::Zeroize::zeroize(&mut config.entropy);
        certify(&mut identity, authority, &config)?;
        for bootstrap in &config.bootstraps {
            connect::parse_bootstrap(bootstrap, config.trust_on_first_use)?;
        }
        let ring_settings = RingSettings {
            role: config.role,
            addresses: config.addresses,
            domain: config.domain,
            allow_private: config.allow_private,
            idle_ms: config.idle_ms.max(MIN_IDLE_MS),
            network,
            authority,
            id: identity.id(),
        };
        ring_settings.check()?;
        let mut ring = Ring::new(ring_settings, parameters);
        // A leaf is nobody's neighbour, and it attaches to members that others have confirmed.
        if config.confirms && config.role == Role::Member {
            ring.gate().confirm_newcomers();
        }
        let settings = Settings {
            network_name: config.network,
            bootstraps: config.bootstraps,
            dials: config.dials,
            allow_private: config.allow_private,
            trust_on_first_use: config.trust_on_first_use,
            take_over: config.take_over,
        };
        let handshakes = Handshakes::new(&mut random);
        Ok(Self {
            settings,
            identity,
            random,
            clock: Clock::default(),
            now_ms: 0,
            out: Outbox::default(),
            timers: Timers::default(),
            paths: Paths::default(),
            routes: Routes::default(),
            messages: Messages::default(),
            handshakes,
            connections: Map::new(),
            unsent: Unsent::default(),
            spare_payload: Vec::new(),
            peers: Peers::default(),
            attempts: Attempts::default(),
            refusals: Refusals::default(),
            rival: None,
            streams: StreamTable::default(),
            ring,
            ring_driver: RingDriver::default(),
            mesh: Mesh::default(),
            calls: calls::Calls::default(),
            providers: providers::Watches::default(),
            store: StoreState::default(),
            provisional: provisional::Provisional::default(),
            scratch: Vec::new(),
            entropy_asked: false,
        })
    }

    /// Lets a tap see and change what this node's ring says.
    #[cfg(feature = "simulation")]
    pub fn tap(&mut self, tap: alloc::boxed::Box<dyn crate::ring::simulation::Tap>) {
        self.ring.tap(tap);
    }

    /// To whom this node would pass a message on for whoever is responsible for a place, the best first.
    #[cfg(feature = "simulation")]
    pub fn hops_to(&mut self, target: &crate::Place) -> Vec<crate::identity::PeerId> {
        self.ring.group_hops(&mut self.random, target)
    }

    /// Takes a batch of inputs and gives the batch of outputs, which lives until the next call.
    pub fn step(&mut self, batch: &[u8]) -> &[u8] {
        self.out.clear(KEPT_BUFFER);
        self.scratch.shrink_to(KEPT_BUFFER);
        match read_batch(batch) {
            Ok((wall_ms, items)) => {
                self.advance(wall_ms);
                self.take_items(items);
            }
            Err(code) => self.refuse(WHOLE_BATCH, code),
        }
        self.settle();
        let at_ms = self.clock.host_ms(self.next_wake_ms());
        self.out.finish(at_ms)
    }

    fn take_items(&mut self, items: BatchReader<'_>) {
        for (position, item) in items.enumerate() {
            if let Err(code) = self.take_item(item) {
                let input = u32::try_from(position).unwrap_or(WHOLE_BATCH);
                self.refuse(input, code);
            }
        }
    }

    // Engines compile a function when it is first called: what the first step does not need stays out of it.
    #[inline(never)]
    fn take_item(&mut self, item: Item<'_>) -> Result<(), Code> {
        self.take(Input::decode(item).map_err(|_| Code::BadInput)?)
    }

    #[inline(never)]
    fn refuse(&mut self, input: u32, code: Code) {
        self.out.push(&Output::Refused {
            input,
            code: code.as_u16(),
        });
    }

    fn take(&mut self, input: Input<'_>) -> Result<(), Code> {
        match input {
            Input::Received { path, frame } => self.received(path, frame),
            Input::PathOpened {
                path,
                dial,
                kind,
                remote,
            } => self.path_opened(path, dial, kind, remote),
            Input::PathClosed { path } => self.path_closed(path),
            Input::PathResumed {
                path,
                remote,
                snapshot,
            } => self.path_resumed(path, remote, snapshot),
            Input::DialFailed { dial } => self.dial_failed(dial),
            Input::Entropy { bytes } => {
                self.random.reseed(&bytes);
                self.entropy_asked = false;
                Ok(())
            }
            Input::StoreRead { tag, ok, entries } => self.store_read(tag, ok, entries),
            Input::StoreCommitted { tag, ok } => self.store_committed(tag, ok),
            Input::LookedUp { peer, code } if KNOWS_CLOSED => self.looked_up(peer, code),
            Input::StreamData { stream, data } => self.stream_data(stream, data),
            Input::StreamEnd { stream } => self.stream_end(stream),
            Input::StreamReset { stream, code } => self.stream_reset(stream, code),
            Input::StreamCredit { stream, bytes } => self.stream_credit(stream, bytes),
            Input::AnswerRouted { message, ok, body } => self.answer_routed(message, ok, body),
            command => self.command(command),
        }
    }

    /// Runs what is due and carries every consequence to its end.
    fn settle(&mut self) {
        self.run_timers();
        self.drive_ring();
        self.judge_answers();
        self.flush();
        self.commit_store();
        self.store.end_step();
        self.save_paths();
        if self.random.wants_entropy() && !self.entropy_asked {
            self.entropy_asked = true;
            self.out.push(&Output::NeedEntropy {});
        }
    }

    fn next_wake_ms(&self) -> u64 {
        self.timers.next_ms().min(self.ring.next_wake_ms())
    }

    fn ring_with<R>(&mut self, act: impl FnOnce(&mut Ring, &mut Context<'_>) -> R) -> R {
        let mut context = Context {
            now_ms: self.now_ms,
            wall_ms: self.clock.wall_ms,
            identity: &self.identity,
            random: &mut self.random,
            source: Holder::EXEMPT,
        };
        act(&mut self.ring, &mut context)
    }

    fn event(&mut self, event: EventKind, body: &[u8]) {
        self.out.push(&Output::Event { event, body });
    }

    /// The host has the table of codes and puts the words to it.
    fn fail(&mut self, tag: u32, code: Code) {
        self.out.push(&Output::Failed {
            tag,
            code: code.as_u16(),
            detail: "",
        });
    }

    fn reply(&mut self, tag: u32, body: &[u8]) {
        self.out.push(&Output::Reply { tag, body });
    }
}

fn read_batch(batch: &[u8]) -> Result<(u64, BatchReader<'_>), Code> {
    let mut reader = Reader::new(batch);
    let now_ms = reader.field().map_err(|_| Code::BadInput)?;
    let items = BatchReader::new(reader.rest()).map_err(|_| Code::BadInput)?;
    Ok((now_ms, items))
}
