//! The driver: one task that owns one core and feeds it.
//!
//! Everything that happens becomes an input; inputs that wait together go into one batch. What the core asks for is
//! done by others (sockets by tasks, the store by its thread), so nothing here ever waits. A task and not a thread: a
//! frame that a socket's task has read is then handled, and answered, without a switch between threads.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;
use std::collections::HashMap;
use std::time::SystemTime;

use bytes::Bytes;
use selfsame_codec::{BatchWriter, Config};
use tokio::runtime::Handle as Runtime;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zeroize::Zeroize as _;

use crate::core::{Core, CoreError, CoreModule};
use crate::error::Error;
use crate::event::Event;
use crate::handle::{Control, Effect, Handle, Item, Queues, Waiter};
use crate::inbox::Cause;
use crate::keys::{milliseconds, random_bytes};
use crate::link::Link;
use crate::newcomers::Newcomers;
use crate::serve::Services;
use crate::store::{Completion, Opened, Worker};
use crate::stream::{self, StreamEntry, StreamKey, StreamQueues, StreamSender};
use crate::transport::Dialler;

mod inputs;
mod outputs;
mod refusal;
use refusal::refusal;
mod traps;
use traps::Traps;

/// Most messages of one batch: bounds how long a command waits behind a flood.
const BATCH: usize = 64;
/// Frames of as many bytes are enough for one batch: what the core answers to them is under way while it takes the rest.
const BATCH_BYTES: usize = 8 * 1024;
/// Memory of the batch that is kept between steps.
const KEPT_BATCH: usize = 1024 * 1024;
/// A step that takes longer, as one full of handshakes does, lets the other tasks of the runtime go first.
const LONG_STEP: Duration = Duration::from_millis(1);
/// Longest sleep: a machine that was suspended is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// What a driver is started with
pub(crate) struct Parts {
    pub(crate) module: CoreModule,
    pub(crate) config: Config,
    pub(crate) store: Opened,
    pub(crate) dialler: Arc<Dialler>,
    pub(crate) services: Arc<Services>,
    pub(crate) events: broadcast::Sender<Event>,
    /// Where newcomers to a closed network are looked up, if they are.
    pub(crate) newcomers: Option<Newcomers>,
    /// Where tasks run.
    pub(crate) runtime: Runtime,
}

/// Starts the task. `started` is told once when the core has loaded its state, or why it cannot.
pub(crate) fn start(
    parts: Parts,
    handle: Handle,
    queues: Queues,
    started: oneshot::Sender<Result<(), Error>>,
) -> Result<JoinHandle<()>, Error> {
    let runtime = parts.runtime.clone();
    let (driver, sources) = Driver::new(parts, handle, queues)?;
    Ok(runtime.spawn(driver.run(sources, started)))
}

struct Driver {
    module: CoreModule,
    config: Config,
    dialler: Arc<Dialler>,
    services: Arc<Services>,
    events: broadcast::Sender<Event>,
    newcomers: Option<Newcomers>,
    runtime: Runtime,
    handle: Handle,
    /// For the streams that are opened.
    sender: StreamSender,
    store: Worker,
    core: Core,
    /// Counts the cores: what an earlier one asked for means nothing to this one.
    life: u32,
    /// Whether the core has loaded its state and takes more than what loads it.
    ready: bool,
    batch: BatchWriter,
    /// For each item of the batch the tag of its command, or 0.
    tags: Vec<u32>,
    /// Who waits until the core has seen this batch.
    settled: Vec<oneshot::Sender<()>>,
    /// When the core is called at the latest.
    wake: Instant,
    pending: HashMap<u32, Pending>,
    /// `None` while a path is closing.
    paths: HashMap<u32, Option<Link>>,
    streams: HashMap<u32, StreamEntry>,
    /// Which address was last dialled in vain, and why.
    last_dial_failure: String,
    /// Why a path failed of which the next step tells the core.
    path_failure: String,
    /// Whether the core has left a private address out since it was last told to join.
    has_refused_private: bool,
    /// Streams opened so far.
    serial: u64,
    /// What has to be repeated when the core is started anew.
    lasting: BTreeMap<Effect, Item>,
    /// Commands of those who watch, by their tags, while there is no core to give them to.
    watches: Vec<(u32, Pending)>,
    stopped: bool,
    /// Why the node as a whole cannot go on.
    broken: Option<Error>,
}

/// Where inputs come from
struct Sources {
    /// Sockets, and whoever gives commands.
    queues: Queues,
    /// The application's ends of streams.
    streams: StreamQueues,
    /// The store.
    completions: mpsc::UnboundedReceiver<Completion>,
}

/// A command that is under way
struct Pending {
    waiter: Waiter,
    effect: Effect,
    item: Item,
}

impl Driver {
    fn new(parts: Parts, handle: Handle, queues: Queues) -> Result<(Self, Sources), Error> {
        let Parts {
            module,
            mut config,
            store,
            dialler,
            services,
            events,
            newcomers,
            runtime,
        } = parts;
        let core = new_core(&module, &mut config)?;
        let (completed, completions) = mpsc::unbounded_channel();
        let (sender, streams) = stream::queues();
        let failed = |error| Error::io("a thread for the store", error);
        let driver = Self {
            module,
            config,
            dialler,
            services,
            events,
            newcomers,
            runtime,
            handle,
            sender,
            store: Worker::start(store, completed).map_err(failed)?,
            core,
            life: 1,
            ready: false,
            batch: BatchWriter::new(),
            tags: Vec::new(),
            settled: Vec::new(),
            wake: Instant::now(),
            pending: HashMap::new(),
            paths: HashMap::new(),
            streams: HashMap::new(),
            last_dial_failure: String::new(),
            path_failure: String::new(),
            has_refused_private: false,
            serial: 0,
            lasting: BTreeMap::new(),
            watches: Vec::new(),
            stopped: false,
            broken: None,
        };
        let sources = Sources {
            queues,
            streams,
            completions,
        };
        Ok((driver, sources))
    }

    async fn run(mut self, mut sources: Sources, started: oneshot::Sender<Result<(), Error>>) {
        self.keep_alive(&mut sources, Some(started)).await;
        // Whoever waits for an answer hears of the end.
        drop(sources);
        self.store.close().await;
    }

    /// Drives one core after the other until the node is stopped.
    async fn keep_alive(
        &mut self,
        sources: &mut Sources,
        mut started: Option<oneshot::Sender<Result<(), Error>>>,
    ) {
        let mut traps = Traps::default();
        loop {
            let Err(error) = self.live(sources, &mut started).await else {
                return self.fail_everything(&self.handle.end());
            };
            self.fail_everything(&Cause::Poisoned(error.clone()));
            if let Some(started) = started.take() {
                // Whoever started the node may have gone away meanwhile.
                _ = started.send(Err(Error::Poisoned(error)));
                return;
            }
            // Nobody needs to listen to events.
            _ = self.events.send(Event::Restarted(error.clone()));
            loop {
                let after = traps.note(Instant::now());
                tracing::error!(%error, pause = ?after.pause, "the core trapped, and is started anew");
                if let Some(traps) = after.unstable {
                    _ = self.events.send(Event::Unstable {
                        traps,
                        error: error.clone(),
                    });
                }
                self.reject(&mut sources.queues, &error, after.pause).await;
                if self.stopped {
                    return;
                }
                match new_core(&self.module, &mut self.config) {
                    Ok(core) => break self.begin(core),
                    Err(error) => tracing::error!(%error, "the core cannot be started anew"),
                }
            }
        }
    }

    /// Drives one core until the node is stopped or the core traps.
    async fn live(
        &mut self,
        sources: &mut Sources,
        started: &mut Option<oneshot::Sender<Result<(), Error>>>,
    ) -> Result<(), CoreError> {
        self.step()?;
        loop {
            if let Some(error) = self.broken.take() {
                tracing::error!(%error, "the node cannot go on");
                if let Some(code) = error.code() {
                    self.handle.set_ended(code);
                    // Nobody needs to listen to events.
                    _ = self.events.send(Event::Ended(code));
                }
                // Whoever started the node may have gone away meanwhile.
                _ = started.take().map(|started| started.send(Err(error)));
                return Ok(());
            }
            if self.ready {
                _ = started.take().map(|started| started.send(Ok(())));
            }
            tokio::select! {
                Some(completion) = sources.completions.recv() => self.complete(completion),
                Some(control) = sources.queues.control.recv(), if self.ready => {
                    self.control(control);
                    // Whoever else was woken with the one who commands may have more for the same batch.
                    tokio::task::yield_now().await;
                }
                Some(signal) = sources.streams.signals.recv(), if self.ready => self.stream_signal(signal),
                Some(input) = sources.streams.inputs.recv(), if self.ready => self.stream_input(input),
                Some(message) = sources.queues.inbound.recv(), if self.ready => self.inbound(message),
                () = tokio::time::sleep_until(self.wake) => {}
            }
            self.gather(sources);
            if self.stopped {
                return Ok(());
            }
            let began = Instant::now();
            self.step()?;
            if began.elapsed() > LONG_STEP {
                // The runtime looks after sockets and timers between tasks.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Adds what waits already to the batch.
    fn gather(&mut self, sources: &mut Sources) {
        let Sources {
            queues,
            streams,
            completions,
        } = sources;
        for completion in core::iter::from_fn(|| completions.try_recv().ok()).take(BATCH) {
            self.complete(completion);
        }
        if !self.ready {
            return;
        }
        for control in core::iter::from_fn(|| queues.control.try_recv().ok()).take(BATCH) {
            self.control(control);
        }
        for signal in core::iter::from_fn(|| streams.signals.try_recv().ok()).take(BATCH) {
            self.stream_signal(signal);
        }
        for input in core::iter::from_fn(|| streams.inputs.try_recv().ok()).take(BATCH) {
            self.stream_input(input);
        }
        for message in core::iter::from_fn(|| queues.inbound.try_recv().ok()).take(BATCH) {
            self.inbound(message);
            if self.batch.as_bytes().len() >= BATCH_BYTES {
                return;
            }
        }
    }

    /// Calls the core with the batch, does what it asks, and again while that makes new inputs.
    fn step(&mut self) -> Result<(), CoreError> {
        loop {
            let now_ms = milliseconds(SystemTime::now());
            let answer = self.core.step(now_ms, self.batch.as_bytes())?;
            self.batch.clear(KEPT_BATCH);
            let tags = core::mem::take(&mut self.tags);
            self.dispatch(Bytes::from(answer), &tags, now_ms);
            self.path_failure.clear();
            for settled in self.settled.drain(..) {
                // A request that was given up awaits nothing.
                _ = settled.send(());
            }
            if self.batch.is_empty() {
                return Ok(());
            }
        }
    }

    /// Refuses commands for a while, after a trap.
    async fn reject(&mut self, queues: &mut Queues, error: &CoreError, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.stopped {
            tokio::select! {
                Some(control) = queues.control.recv() => match control {
                    Control::Command { waiter, .. } => waiter.fail(Error::Poisoned(error.clone())),
                    Control::Stop => self.stopped = true,
                    // The command, the message, or the core that asked, is gone already.
                    Control::Cancel { .. } | Control::LookedUp { .. } | Control::Answered { .. } => {}
                },
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    /// Puts a new core in the place of one that trapped, and repeats what has to last.
    fn begin(&mut self, core: Core) {
        self.core = core;
        self.life += 1;
        self.ready = false;
        self.wake = Instant::now();
    }

    /// Ends everything that the core knew of.
    fn fail_everything(&mut self, cause: &Cause) {
        self.batch.clear(KEPT_BATCH);
        self.tags.clear();
        self.settled.clear();
        self.paths.clear();
        for (_, entry) in self.streams.drain() {
            entry.fail(cause.clone());
        }
        for (tag, pending) in self.pending.drain() {
            let Pending { waiter, effect, item } = pending;
            match waiter {
                Waiter::Watch(_) if matches!(cause, Cause::Poisoned(_)) => {
                    self.watches.push((tag, Pending { waiter, effect, item }));
                }
                // What is being repeated is repeated again.
                Waiter::Driver { .. } => _ = self.lasting.insert(effect, item),
                waiter => waiter.fail(cause.clone().into()),
            }
        }
    }

    fn set_wake(&mut self, at_ms: u64, now_ms: u64) {
        let pause = Duration::from_millis(at_ms.saturating_sub(now_ms).max(1));
        self.wake = Instant::now() + pause.min(LONGEST_SLEEP);
    }

    /// The stream of a key, unless it is gone.
    fn stream(&mut self, key: StreamKey) -> Option<&mut StreamEntry> {
        self.streams.get_mut(&key.stream).filter(|entry| entry.key == key)
    }
}

/// Makes a core with fresh entropy.
fn new_core(module: &CoreModule, config: &mut Config) -> Result<Core, Error> {
    config.entropy = random_bytes()?;
    let mut core = module.instantiate()?;
    let created = core.create(config);
    config.entropy.zeroize();
    match created {
        Ok(()) => Ok(core),
        Err(CoreError::Refused(code)) => Err(refusal(config, code)),
        Err(error) => Err(error.into()),
    }
}
