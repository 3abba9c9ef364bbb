//! The streams that callers have begun.

use alloc::sync::{Arc, Weak};
use core::hash::Hash;
use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use selfsame_codec::Code;
use tokio::time::{Instant, sleep_until};

use super::RpcContext;
use super::batches::{Batches, ItemFormat, ItemStream};
use super::limits::{IDLE, MAX_CALLER_STREAMS, MAX_ENDED_STREAMS, MAX_NETWORK_STREAMS, MAX_STREAMS, WAIT};
use super::wire::StreamId;
use crate::id::PeerId;
use crate::keys::random_bytes;
use crate::lock::lock;
use crate::rpc::RpcRefusal;
use crate::rpc::answering::Outcome;
use crate::shares::{Share, Shares};
use crate::task::Task;
use crate::transport::network_of;

/// The streams of all callers.
pub(in crate::rpc) struct StreamTable {
    format: ItemFormat,
    shares: Arc<Shares<IpAddr>>,
    streams: Mutex<HashMap<StreamId, Arc<OpenStream>>>,
}

struct OpenStream {
    id: StreamId,
    caller: PeerId,
    /// The network that its caller began it from, where that is known.
    network: Option<IpAddr>,
    batches: tokio::sync::Mutex<Batches>,
    /// Its place among those that are open.
    share: Mutex<Option<Share<IpAddr>>>,
    is_over: AtomicBool,
    asked: Mutex<Asked>,
    expiry: OnceLock<Task>,
}

/// The callers that wait for a batch of a stream, and the end of the latest wait.
struct Asked {
    waiting: usize,
    at: Instant,
}

impl StreamTable {
    pub(in crate::rpc) fn new(format: ItemFormat) -> Arc<Self> {
        Arc::new(Self {
            format,
            shares: Shares::new(MAX_NETWORK_STREAMS, MAX_STREAMS),
            streams: Mutex::default(),
        })
    }

    /// Begins a stream and returns its first batch. Its caller does not know it before: it ends if this is dropped until then.
    pub(super) async fn begin(self: Arc<Self>, context: RpcContext, items: ItemStream) -> Outcome {
        let stream = self.keep(context, self.batches_of(items)?)?;
        let mut beginning = Beginning {
            table: &self,
            id: Some(stream.id),
        };
        let batch = self.batch(&stream, 0, context).await;
        beginning.id = None;
        batch
    }

    /// Begins a stream that takes a place only if its first batch is not its last, and returns that batch, for which the caller waits as
    /// long as it likes.
    pub(in crate::rpc) async fn answer(self: Arc<Self>, context: RpcContext, items: ItemStream) -> Outcome {
        let mut batches = self.batches_of(items)?;
        let left = Instant::from_std(context.deadline).saturating_duration_since(Instant::now());
        let first = batches.ask(0, left).await;
        if !batches.is_over() {
            self.keep(context, batches)?;
        }
        first
    }

    /// Returns a batch of a stream that its caller has begun.
    pub(in crate::rpc) async fn ask(&self, context: RpcContext, id: StreamId, number: u32) -> Outcome {
        let stream = self.find(context.caller, id);
        let stream = stream.ok_or(RpcRefusal(Code::UnknownStream))?;
        self.batch(&stream, number, context).await
    }

    /// Ends a stream for its caller; one that is not open any more has ended.
    pub(in crate::rpc) fn end(&self, caller: PeerId, id: StreamId) {
        if self.find(caller, id).is_some() {
            self.remove(id);
        }
    }

    fn batches_of(&self, items: ItemStream) -> Result<Batches, RpcRefusal> {
        let id = random_bytes().map_err(|_| RpcRefusal(Code::HandlerFailed))?;
        Ok(Batches::new(id, self.format, items))
    }

    fn keep(self: &Arc<Self>, context: RpcContext, batches: Batches) -> Result<Arc<OpenStream>, RpcRefusal> {
        let too_many = RpcRefusal(Code::TooManyStreams);
        let id = batches.id();
        let mut streams = lock(&self.streams);
        let own = streams.values().filter(|stream| stream.caller == context.caller);
        if own.filter(|stream| !stream.is_over()).count() >= MAX_CALLER_STREAMS {
            return Err(too_many);
        }
        let network = network_of(context.source.ip());
        let share = self.shares.take(network, 1);
        let stream = Arc::new(OpenStream {
            id,
            caller: context.caller,
            network,
            batches: tokio::sync::Mutex::new(batches),
            share: Mutex::new(Some(share.ok_or(too_many)?)),
            is_over: AtomicBool::new(false),
            asked: Mutex::new(Asked {
                waiting: 0,
                at: Instant::now(),
            }),
            expiry: OnceLock::new(),
        });
        let expiry = Task::spawn(expire(Arc::downgrade(self), Arc::downgrade(&stream)));
        _ = stream.expiry.set(expiry);
        streams.insert(id, Arc::clone(&stream));
        Ok(stream)
    }

    /// Returns a stream to its caller alone: an id is no secret.
    fn find(&self, caller: PeerId, id: StreamId) -> Option<Arc<OpenStream>> {
        let streams = lock(&self.streams);
        streams.get(&id).filter(|stream| stream.caller == caller).cloned()
    }

    async fn batch(&self, stream: &Arc<OpenStream>, number: u32, context: RpcContext) -> Outcome {
        let _waiting = Waiting::begin(stream);
        let mut batches = stream.batches.lock().await;
        let left = Instant::from_std(context.deadline).saturating_duration_since(Instant::now());
        let batch = batches.ask(number, WAIT.min(left / 2)).await;
        if batches.is_over() && !stream.is_over.swap(true, Ordering::Relaxed) {
            self.settle(stream);
        }
        batch
    }

    /// Gives the place of a stream at its end back, and keeps its last batch as long as there is room.
    fn settle(&self, stream: &OpenStream) {
        lock(&stream.share).take();
        let oldest = {
            let streams = lock(&self.streams);
            let ended: Vec<_> = streams.values().filter(|stream| stream.is_over()).collect();
            let is_full = ended.len() > MAX_ENDED_STREAMS;
            is_full.then(|| oldest_of_largest(ended)).flatten()
        };
        if let Some(id) = oldest {
            self.remove(id);
        }
    }

    fn remove(&self, id: StreamId) {
        // Its items may do anything when they are dropped.
        let removed = lock(&self.streams).remove(&id);
        drop(removed);
    }
}

impl OpenStream {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// How long until nobody has asked for too long.
    fn idle_left(&self) -> Duration {
        let asked = lock(&self.asked);
        match asked.waiting {
            0 => IDLE.saturating_sub(asked.at.elapsed()),
            _ => IDLE,
        }
    }
}

/// Returns the oldest stream of the caller with the most in the network with the most; where that is not known, of the caller with the most.
fn oldest_of_largest(streams: Vec<&Arc<OpenStream>>) -> Option<StreamId> {
    let of_network = largest(streams, |stream| {
        (stream.network, stream.network.is_none().then_some(stream.caller))
    });
    let of_caller = largest(of_network, |stream| stream.caller);
    let oldest = of_caller.iter().min_by_key(|stream| lock(&stream.asked).at);
    oldest.map(|stream| stream.id)
}

/// Returns the streams of the source that has the most of them.
fn largest<S: Hash + Eq>(
    streams: Vec<&Arc<OpenStream>>,
    source_of: impl Fn(&OpenStream) -> S,
) -> Vec<&Arc<OpenStream>> {
    let mut groups: HashMap<S, Vec<_>> = HashMap::new();
    for stream in streams {
        groups.entry(source_of(stream)).or_default().push(stream);
    }
    groups.into_values().max_by_key(Vec::len).unwrap_or_default()
}

/// Ends a stream that nobody asks any more.
async fn expire(table: Weak<StreamTable>, stream: Weak<OpenStream>) {
    loop {
        let Some(left) = stream.upgrade().map(|stream| stream.idle_left()) else {
            return;
        };
        if left.is_zero() {
            break;
        }
        sleep_until(Instant::now() + left).await;
    }
    if let (Some(table), Some(stream)) = (table.upgrade(), stream.upgrade()) {
        table.remove(stream.id);
    }
}

/// A caller that waits for a batch.
struct Waiting<'a>(&'a OpenStream);

impl<'a> Waiting<'a> {
    fn begin(stream: &'a OpenStream) -> Self {
        lock(&stream.asked).waiting += 1;
        Self(stream)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut asked = lock(&self.0.asked);
        asked.waiting -= 1;
        asked.at = Instant::now();
    }
}

/// A stream whose first batch is not there yet.
struct Beginning<'a> {
    table: &'a StreamTable,
    id: Option<StreamId>,
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.table.remove(id);
        }
    }
}
