//! Steps what is made in an instance of `capsule.wasm`: collects inputs, serves its store, sends what it asks others, wakes it, and
//! starts anew after a trap.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use selfsame_codec::capsule::{Input, Keys, Output, Values};
use selfsame_codec::{BatchReader, BatchWriter, Field, Item, Malformed, Operations, client};
use selfsame_write_batch::WriteBatchBuilder;
use tokio::runtime::Handle as Runtime;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};

use super::peer::{MAX_RESPONSE, Peers};
use super::workers;
use crate::core::{Core, CoreError, CoreModule};
use crate::error::Error;
use crate::keys::milliseconds;
use crate::store::{Storage, StoreError};
use crate::task::Task;

/// Events are taken together while they have so many bytes: one more still fits the largest batch, 16 MiB.
const BATCH: usize = (16 << 20) - MAX_RESPONSE - 1024;
/// Events that wait for the engine; beyond that whoever asks waits.
const QUEUE: usize = 1024;
/// Traps within `TRAP_WINDOW` after which the engine gives up: what traps again at once is not cured by a restart.
const MAX_TRAPS: usize = 3;
const TRAP_WINDOW: Duration = Duration::from_secs(60);
/// The time that never comes.
const NEVER: u64 = u64::MAX;

/// What an engine steps, as its front sees it: a replica or a client
pub(crate) trait Guest: Send + 'static {
    /// What it is asked to do.
    type Order: Send + 'static;

    /// Creates it in a fresh instance.
    fn create(&self, core: &mut Core) -> Result<(), CoreError>;

    /// Takes an order, and appends the inputs that it is.
    fn take(&mut self, order: Self::Order, inputs: &mut BatchWriter);

    /// Takes what the module says, except what it asks of the store, of others and of the clock.
    fn follow(&mut self, item: Item<'_>) -> Result<(), Malformed>;

    /// A key was written.
    fn wrote(&mut self, key: &[u8]);

    /// What was under way is lost, and why. Another instance follows, which is to know these inputs first.
    fn lose(&mut self, error: &CoreError, inputs: &mut BatchWriter);
}

/// What an engine hears
pub(crate) enum Event<T> {
    /// Something is to be done.
    Order(T),
    /// What somebody answered whom an instance has asked; `generation` tells which instance.
    Answered {
        generation: u32,
        tag: u32,
        response: Option<Bytes>,
    },
    /// The disk has what the store waited for.
    Synced,
    /// It is time.
    Wake,
    /// It ends, whoever may still order.
    End,
}

/// Where an engine hears events; it ends with its last sender, once what was ordered is done
pub(crate) type Orders<T> = mpsc::Sender<Event<T>>;

/// What runs a guest, on threads that all engines share
pub(crate) struct Engine<G: Guest> {
    module: CoreModule,
    core: Core,
    guest: G,
    store: Box<dyn Storage>,
    waiting: Waiting,
    outside: Outside<G::Order>,
    traps: VecDeque<Instant>,
}

/// Commits that were written, of which the module is told once the disk has them
#[derive(Default)]
struct Waiting {
    /// Those that the store waits for.
    syncing: Vec<u32>,
    /// Those that it waits for next, together.
    next: Vec<u32>,
}

/// The way to others, and to the clock
struct Outside<T> {
    /// None where the engine was started outside a runtime: then nobody is asked.
    runtime: Option<Runtime>,
    events: mpsc::WeakSender<Event<T>>,
    peers: Peers,
    generation: u32,
    asks: JoinSet<()>,
    alarm: Option<Task>,
    alarm_at: u64,
}

/// Commits that follow each other, which are written as one
#[derive(Default)]
struct Group {
    tags: Vec<u32>,
    changes: WriteBatchBuilder,
    durable: bool,
}

/// Starts a guest over a store.
pub(crate) fn start<G: Guest>(
    guest: G,
    store: Box<dyn Storage>,
    peers: Peers,
) -> Result<Orders<G::Order>, Error> {
    let (events, inbox) = mpsc::channel(QUEUE);
    let module = CoreModule::capsules()?;
    let mut core = module.instantiate()?;
    guest.create(&mut core)?;
    let engine = Engine {
        module,
        core,
        guest,
        store,
        waiting: Waiting::default(),
        outside: Outside {
            runtime: Runtime::try_current().ok(),
            events: events.downgrade(),
            peers,
            generation: 0,
            asks: JoinSet::new(),
            alarm: None,
            alarm_at: NEVER,
        },
        traps: VecDeque::new(),
    };
    workers::run(engine.run(inbox))?;
    Ok(events)
}

impl<G: Guest> Engine<G> {
    /// Works until nobody orders any more, or the module fails too often.
    async fn run(mut self, mut inbox: mpsc::Receiver<Event<G::Order>>) {
        // A client begins by itself.
        let mut goes_on = self.work(BatchWriter::new());
        while goes_on && let Some(first) = inbox.recv().await {
            let mut batch = BatchWriter::new();
            goes_on = self.take(first, &mut batch);
            while goes_on
                && batch.len() < BATCH
                && let Ok(next) = inbox.try_recv()
            {
                goes_on = self.take(next, &mut batch);
            }
            goes_on = self.work(batch) && goes_on;
            // Other engines have their turn, however much this one has to do.
            yield_now().await;
        }
        self.settle();
        // First the store: who sees that the engine has ended may open it again.
        drop(self);
        drop(inbox);
    }

    /// Takes an event; whether more may follow.
    fn take(&mut self, event: Event<G::Order>, batch: &mut BatchWriter) -> bool {
        match event {
            Event::Order(order) => self.guest.take(order, batch),
            Event::Answered {
                generation,
                tag,
                response,
            } if generation == self.outside.generation => Input::Answered {
                tag,
                ok: response.is_some(),
                response: response.as_deref().unwrap_or_default(),
            }
            .encode(batch),
            // What an instance has asked that is gone.
            Event::Answered { .. } => {}
            Event::Synced => self.end_sync(batch),
            Event::Wake => self.outside.alarm_at = NEVER,
            Event::End => return false,
        }
        true
    }

    /// Steps until nothing is left to do; whether the engine may go on.
    fn work(&mut self, mut inputs: BatchWriter) -> bool {
        while let Err(error) = self.carry_out(inputs) {
            match self.start_anew(&error) {
                Some(first) => inputs = first,
                None => return false,
            }
        }
        true
    }

    fn carry_out(&mut self, mut inputs: BatchWriter) -> Result<(), CoreError> {
        loop {
            let now_ms = milliseconds(SystemTime::now());
            let outputs = self.core.step(now_ms, inputs.as_bytes())?;
            inputs = self.follow(&outputs).map_err(|Malformed| not_understood())?;
            if inputs.is_empty() {
                self.begin_sync(&mut inputs);
            }
            if inputs.is_empty() {
                return Ok(());
            }
        }
    }

    /// Has the store wait for the disk, if somebody waits for that, while the module goes on.
    fn begin_sync(&mut self, inputs: &mut BatchWriter) {
        if self.waiting.next.is_empty() || !self.waiting.syncing.is_empty() {
            return;
        }
        let events = self.outside.events.clone();
        let ended = Box::new(move || {
            // Without senders the engine ends, and waits itself.
            if let Some(events) = events.upgrade() {
                _ = events.blocking_send(Event::Synced);
            }
        });
        let tags = core::mem::take(&mut self.waiting.next);
        match self.store.begin_sync(ended) {
            Ok(true) => self.waiting.syncing = tags,
            Ok(false) => tell(&tags, true, inputs),
            Err(error) => {
                report(error);
                tell(&tags, false, inputs);
            }
        }
    }

    /// The disk has what the store waited for, unless it failed.
    fn end_sync(&mut self, inputs: &mut BatchWriter) {
        let ok = self.store.end_sync().map_err(report).is_ok();
        tell(&core::mem::take(&mut self.waiting.syncing), ok, inputs);
    }

    /// Waits for the disk before all ends, so that whoever is to hear of it does.
    fn settle(&mut self) {
        while !self.waiting.syncing.is_empty() {
            let mut inputs = BatchWriter::new();
            self.end_sync(&mut inputs);
            if !self.work(inputs) {
                return;
            }
        }
    }

    /// Does what the module asks; what it is to be told. After a commit that failed it is told that of it and of all that follow,
    /// and nothing else, as what it asked of the store afterwards was in the belief that the commit had worked.
    fn follow(&mut self, outputs: &[u8]) -> Result<BatchWriter, Malformed> {
        let mut inputs = BatchWriter::new();
        let mut group = Group::default();
        let mut failed = Vec::new();
        for item in BatchReader::new(outputs)? {
            if item.kind >= client::FIRST_KIND {
                self.guest.follow(item)?;
                continue;
            }
            match Output::decode(item)? {
                Output::Ask { tag, peer, message } => self.outside.ask(tag, &peer, message),
                Output::Wake { at_ms } => self.outside.set_alarm(at_ms),
                read @ (Output::StoreGet { .. } | Output::StoreScan { .. }) => {
                    failed.extend(self.write(core::mem::take(&mut group), &mut inputs));
                    if failed.is_empty() {
                        self.read(&read, &mut inputs);
                    }
                }
                Output::StoreCommit {
                    tag,
                    durable,
                    operations,
                } if failed.is_empty() => group.add(tag, durable, operations)?,
                Output::StoreCommit { tag, .. } => failed.push(tag),
                _ => self.guest.follow(item)?,
            }
        }
        failed.extend(self.write(group, &mut inputs));
        if !failed.is_empty() {
            inputs.clear(0);
            tell(&failed, false, &mut inputs);
        }
        Ok(inputs)
    }

    /// Writes commits as one, of which the module is told once they are as durable as asked for; their tags when the store fails.
    fn write(&mut self, group: Group, inputs: &mut BatchWriter) -> Vec<u32> {
        let Group {
            tags,
            changes,
            durable,
        } = group;
        if tags.is_empty() {
            return tags;
        }
        let batch = changes.finish();
        if let Err(error) = self.store.commit(&batch, false) {
            report(error);
            return tags;
        }
        for row in batch.rows().filter(|row| row.value.is_some()) {
            self.guest.wrote(row.key);
        }
        match durable {
            true => self.waiting.next.extend(tags),
            false => tell(&tags, true, inputs),
        }
        Vec::new()
    }

    fn read(&self, output: &Output<'_>, inputs: &mut BatchWriter) {
        match *output {
            Output::StoreGet { tag, keys } => {
                let values = self.values(keys).map_err(report).unwrap_or_default();
                Input::StoreValues {
                    tag,
                    ok: !values.is_empty(),
                    values: &values,
                }
                .encode(inputs);
            }
            Output::StoreScan {
                tag,
                start,
                end,
                limit,
            } => {
                let found = self.store.keys(start, end, limit as usize);
                let ok = found.is_ok();
                let mut keys = Vec::new();
                for key in found.map_err(report).unwrap_or_default() {
                    key.as_slice().write(&mut keys);
                }
                Input::StoreKeys { tag, ok, keys: &keys }.encode(inputs);
            }
            _ => {}
        }
    }

    /// The encoded values of keys; never empty, as there is no question without a key.
    fn values(&self, keys: &[u8]) -> Result<Vec<u8>, StoreError> {
        let keys: Vec<&[u8]> = Keys::new(keys).flatten().collect();
        let mut values = Vec::new();
        for value in self.store.get_all(&keys)? {
            Values::write(value.as_deref(), &mut values);
        }
        Ok(values)
    }

    /// Begins with what is stored; whoever waits is told. What the new instance is to know first, if there is one.
    fn start_anew(&mut self, error: &CoreError) -> Option<BatchWriter> {
        tracing::error!(%error, "the module of capsules failed");
        self.outside.forget();
        self.waiting = Waiting::default();
        let mut inputs = BatchWriter::new();
        self.guest.lose(error, &mut inputs);
        let now = Instant::now();
        self.traps.retain(|at| now.duration_since(*at) < TRAP_WINDOW);
        self.traps.push_back(now);
        if self.traps.len() >= MAX_TRAPS {
            return None;
        }
        let started = self.module.instantiate().and_then(|mut core| {
            self.guest.create(&mut core)?;
            Ok(core)
        });
        match started {
            Ok(core) => {
                self.core = core;
                Some(inputs)
            }
            Err(error) => {
                tracing::error!(%error, "the module of capsules cannot be started again");
                None
            }
        }
    }
}

impl Group {
    fn add(&mut self, tag: u32, durable: bool, operations: &[u8]) -> Result<(), Malformed> {
        self.tags.push(tag);
        self.durable |= durable;
        for operation in Operations::new(operations) {
            self.changes.push(&operation?);
        }
        Ok(())
    }
}

impl<T: Send + 'static> Outside<T> {
    /// Sends a request; the answer comes as an event.
    fn ask(&mut self, tag: u32, peer: &[u8; 32], message: &[u8]) {
        let Some(runtime) = &self.runtime else {
            tracing::error!("a capsule was opened outside a runtime: it cannot ask others");
            return;
        };
        // Those that have ended.
        while self.asks.try_join_next().is_some() {}
        let (id, peers, message) = (*peer, self.peers.clone(), Bytes::copy_from_slice(message));
        let (events, generation) = (self.events.clone(), self.generation);
        let ask = async move {
            let response = peers.ask(&id, message).await;
            // Without an engine nobody waits.
            if let Some(events) = events.upgrade() {
                let answered = Event::Answered {
                    generation,
                    tag,
                    response,
                };
                _ = events.send(answered).await;
            }
        };
        self.asks.spawn_on(ask, runtime);
    }

    /// Lets the engine be woken by a time, unless it is woken before it anyway.
    fn set_alarm(&mut self, at_ms: u64) {
        let Some(runtime) = self.runtime.as_ref().filter(|_| at_ms < self.alarm_at) else {
            return;
        };
        self.alarm_at = at_ms;
        let wait = Duration::from_millis(at_ms.saturating_sub(milliseconds(SystemTime::now())));
        let events = self.events.clone();
        self.alarm = Some(Task::spawn_on(runtime, async move {
            tokio::time::sleep(wait).await;
            if let Some(events) = events.upgrade() {
                _ = events.send(Event::Wake).await;
            }
        }));
    }

    /// The instance is gone: so are its questions.
    fn forget(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.asks.abort_all();
        (self.alarm, self.alarm_at) = (None, NEVER);
    }
}

/// Tells the module whether commits are as durable as asked for.
fn tell(tags: &[u32], ok: bool, inputs: &mut BatchWriter) {
    for tag in tags {
        Input::StoreCommitted { tag: *tag, ok }.encode(inputs);
    }
}

fn not_understood() -> CoreError {
    CoreError::Trapped("it asks for what this host does not know".into())
}

fn report(error: StoreError) {
    tracing::error!(%error, "the store of a capsule failed");
}
