use alloc::sync::Arc;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use selfsame_codec::capsule::{Input, Keys, Output, ReplicaConfig, Values};
use selfsame_codec::{BatchReader, BatchWriter, Field, Malformed, Operation, Operations};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{MAX_CAPSULE_REQUEST, Shelf};
use crate::core::{Core, CoreError, CoreModule};
use crate::error::Error;
use crate::keys::{Seed, milliseconds};
use crate::store::{Storage, StoreError};

/// Memory for what is stored and for mirrors of readers' caches.
const CACHE: u32 = 64 << 20;
const MIRRORS: u32 = 32 << 20;
/// Requests are taken together while they have so many bytes: one more still fits the largest batch, 16 MiB.
const BATCH: usize = (16 << 20) - MAX_CAPSULE_REQUEST - 1024;
/// Traps within `TRAP_WINDOW` after which the replica gives up: what traps again at once is not cured by a restart.
const MAX_TRAPS: usize = 3;
const TRAP_WINDOW: Duration = Duration::from_secs(60);

/// A request, and who waits for its response
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) message: Bytes,
    pub(super) answer: oneshot::Sender<Result<Bytes, Error>>,
    /// What it takes of the memory for requests, whether or not somebody still waits.
    pub(super) room: OwnedSemaphorePermit,
}

/// Who waits for a response
struct Waiting {
    answer: oneshot::Sender<Result<Bytes, Error>>,
    #[expect(dead_code, reason = "it is only dropped")]
    room: OwnedSemaphorePermit,
}

/// The thread of a replica: steps the module, and does what it asks of the store
pub(super) struct Worker {
    module: CoreModule,
    config: ReplicaConfig,
    key: [u8; 32],
    core: Core,
    store: Box<dyn Storage>,
    shelf: Arc<Shelf>,
    waiting: HashMap<u32, Waiting>,
    last: u32,
    traps: VecDeque<Instant>,
}

/// Commits that follow each other, which are written as one
#[derive(Default)]
struct Group<'a> {
    tags: Vec<u32>,
    changes: Vec<Operation<'a>>,
    durable: bool,
}

impl Worker {
    /// A worker with the module started.
    pub(super) fn new(seed: &Seed, store: Box<dyn Storage>, shelf: Arc<Shelf>) -> Result<Self, Error> {
        let config = ReplicaConfig {
            seed: *seed.bytes(),
            cache: CACHE,
            mirrors: MIRRORS,
        };
        let module = CoreModule::capsules()?;
        let mut core = start(&module, &config)?;
        Ok(Self {
            key: derive_key(&mut core, &config)?,
            core,
            module,
            config,
            store,
            shelf,
            waiting: HashMap::new(),
            last: 0,
            traps: VecDeque::new(),
        })
    }

    /// The public key that the replica signs with.
    pub(super) fn key(&self) -> [u8; 32] {
        self.key
    }

    /// Answers until nobody asks any more, or the module fails too often.
    pub(super) fn run(mut self, mut inbox: mpsc::Receiver<Asked>) {
        while let Some(first) = inbox.blocking_recv() {
            let mut batch = BatchWriter::new();
            self.take(first, &mut batch);
            while batch.len() < BATCH
                && let Ok(next) = inbox.try_recv()
            {
                self.take(next, &mut batch);
            }
            if let Err(error) = self.carry_out(batch)
                && !self.start_anew(&error)
            {
                return;
            }
        }
    }

    fn take(&mut self, asked: Asked, batch: &mut BatchWriter) {
        let Asked {
            message,
            answer,
            room,
        } = asked;
        self.last = self.last.wrapping_add(1);
        self.waiting.insert(self.last, Waiting { answer, room });
        Input::Request {
            request: self.last,
            message: &message,
        }
        .encode(batch);
    }

    /// Steps until nothing is left to do.
    fn carry_out(&mut self, mut inputs: BatchWriter) -> Result<(), CoreError> {
        while !inputs.is_empty() {
            let now_ms = milliseconds(SystemTime::now());
            let outputs = self.core.step(now_ms, inputs.as_bytes())?;
            inputs = self.follow(&outputs).map_err(|Malformed| not_understood())?;
        }
        Ok(())
    }

    /// Does what the module asks; what it is to be told. After a commit that failed it is told that and nothing else, as what
    /// it asked afterwards was in the belief that the commit had worked.
    fn follow(&mut self, outputs: &[u8]) -> Result<BatchWriter, Malformed> {
        let mut inputs = BatchWriter::new();
        let mut group = Group::default();
        let mut failed = None;
        for item in BatchReader::new(outputs)? {
            match Output::decode(item)? {
                Output::Respond { request, response } => self.respond(request, response),
                Output::Refused { input, code } => {
                    tracing::error!(input, code, "the module of capsules refused an input");
                }
                _ if failed.is_some() => {}
                Output::StoreCommit {
                    tag,
                    durable,
                    operations,
                } => {
                    group.tags.push(tag);
                    group.durable |= durable;
                    for operation in Operations::new(operations) {
                        group.changes.push(operation?);
                    }
                }
                read => {
                    failed = self.write(core::mem::take(&mut group), &mut inputs).err();
                    if failed.is_none() {
                        self.read(&read, &mut inputs);
                    }
                }
            }
        }
        if failed.is_none() {
            failed = self.write(group, &mut inputs).err();
        }
        if let Some(tag) = failed {
            inputs.clear(0);
            Input::StoreCommitted { tag, ok: false }.encode(&mut inputs);
        }
        Ok(inputs)
    }

    fn respond(&mut self, request: u32, response: &[u8]) {
        if let Some(waiting) = self.waiting.remove(&request) {
            // Who has gone away needs no answer.
            _ = waiting.answer.send(Ok(Bytes::copy_from_slice(response)));
        }
    }

    /// Writes commits as one; the tag of the first when the store fails.
    fn write(&mut self, group: Group<'_>, inputs: &mut BatchWriter) -> Result<(), u32> {
        let Group {
            tags,
            changes,
            durable,
        } = group;
        let Some(first) = tags.first() else {
            return Ok(());
        };
        if let Err(error) = self.store.commit(&changes, durable) {
            tracing::error!(%error, "the store of capsules failed");
            return Err(*first);
        }
        for change in &changes {
            if let Operation::Put { key, .. } = change {
                self.shelf.hold(key);
            }
        }
        for tag in tags {
            Input::StoreCommitted { tag, ok: true }.encode(inputs);
        }
        Ok(())
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
                let found = self.store.scan(start, end, limit as usize);
                let ok = found.is_ok();
                let mut keys = Vec::new();
                for (key, _) in found.map_err(report).unwrap_or_default() {
                    key.as_slice().write(&mut keys);
                }
                Input::StoreKeys { tag, ok, keys: &keys }.encode(inputs);
            }
            _ => {}
        }
    }

    /// The encoded values of keys; never empty, as there is no question without a key.
    fn values(&self, keys: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut values = Vec::new();
        for key in Keys::new(keys).flatten() {
            Values::write(self.store.get(key)?.as_deref(), &mut values);
        }
        Ok(values)
    }

    /// Begins with what is stored; whoever waits is told. Whether it may go on.
    fn start_anew(&mut self, error: &CoreError) -> bool {
        tracing::error!(%error, "the module of capsules failed");
        for (_, waiting) in self.waiting.drain() {
            _ = waiting.answer.send(Err(Error::Poisoned(error.clone())));
        }
        let now = Instant::now();
        self.traps.retain(|at| now.duration_since(*at) < TRAP_WINDOW);
        self.traps.push_back(now);
        if self.traps.len() >= MAX_TRAPS {
            return false;
        }
        match start(&self.module, &self.config) {
            Ok(core) => {
                self.core = core;
                true
            }
            Err(error) => {
                tracing::error!(%error, "the module of capsules cannot be started again");
                false
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.config.seed);
    }
}

fn start(module: &CoreModule, config: &ReplicaConfig) -> Result<Core, CoreError> {
    let mut core = module.instantiate()?;
    core.create_replica(config)?;
    Ok(core)
}

/// The public key of a replica with this seed: kind 1 of `derive`.
fn derive_key(core: &mut Core, config: &ReplicaConfig) -> Result<[u8; 32], Error> {
    let mut request = [0; 33];
    request[0] = 1;
    request[1..].copy_from_slice(&config.seed);
    let answer = core.derive(&request);
    zeroize::Zeroize::zeroize(&mut request);
    match answer?.as_slice() {
        [0, 0, key @ ..] => key.try_into().map_err(|_| Error::version_skew()),
        _ => Err(Error::version_skew()),
    }
}

fn not_understood() -> CoreError {
    CoreError::Trapped("it asks for what this host does not know".into())
}

fn report(error: StoreError) {
    tracing::error!(%error, "the store of capsules failed");
}
