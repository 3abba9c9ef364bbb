//! The way to a driver: what sockets tell it, and the commands that it is given.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use bytes::Bytes;
use selfsame_codec::{BatchReader, BatchWriter, Code, Input, PathKind};
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::Error;
use crate::id::PeerId;
use crate::inbox::Cause;
use crate::link::{Budget, Link, LinkEnd};
use crate::stream::Stream;

/// Messages of the network that wait for the driver. A socket that finds the queue full
/// reads no more, so a flood waits in the sender's memory; tokio serves waiting senders in turn, so each path gets its
/// share.
const QUEUE: usize = 256;

/// From sockets: bounded
#[derive(Debug)]
pub(crate) enum Inbound {
    /// A frame arrived.
    Frame { path: u32, frame: Bytes },
    /// Frames of one exchange arrived; `settled` is told when what the core had to say to them is on the link.
    Exchange {
        path: u32,
        frames: Vec<Bytes>,
        settled: oneshot::Sender<()>,
    },
    /// A path is open.
    Opened {
        path: u32,
        dial: Option<DialKey>,
        kind: PathKind,
        remote: String,
        link: Link,
    },
    /// A path is closed.
    Closed { path: u32 },
    /// A path is closed because its transport failed.
    Failed {
        path: u32,
        /// Which address it led to, and what failed.
        reason: String,
    },
    /// A dial came to nothing.
    DialFailed {
        dial: DialKey,
        /// Which address was dialled, and why in vain.
        reason: String,
    },
}

/// Where in the core a message waits for its answer
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageKey {
    /// The core's number.
    pub(crate) message: u32,
    /// Counts the core's lives.
    pub(crate) life: u32,
}

/// From the application: as many as it asks for
#[derive(Debug)]
pub(crate) enum Control {
    /// A command.
    Command {
        tag: u32,
        item: Item,
        effect: Effect,
        waiter: Waiter,
    },
    /// Nobody waits for a command's answer any more.
    Cancel { tag: u32 },
    /// The code of what came of the look-up of a peer, 0 if it is confirmed; for a life of the core, or any that counts it.
    LookedUp {
        life: Option<u32>,
        peer: PeerId,
        code: u16,
    },
    /// The answer to a routed message, or that it is refused.
    Answered { key: MessageKey, body: Option<Bytes> },
    /// End the node.
    Stop,
}

/// A dial of one life of the core
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialKey {
    /// The core's number.
    pub(crate) dial: u32,
    /// Counts the core's lives.
    pub(crate) life: u32,
}

/// An encoded input
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) kind: u8,
    pub(crate) payload: Vec<u8>,
}

impl Item {
    /// Encodes an input.
    pub(crate) fn new(input: &Input<'_>) -> Self {
        let mut batch = BatchWriter::new();
        input.encode(&mut batch);
        let mut items = BatchReader::new(batch.as_bytes()).expect("a batch that was just written decodes");
        let item = items.next().expect("one item was written");
        Self {
            kind: item.kind,
            payload: item.payload.to_vec(),
        }
    }
}

/// What a command changes for good, so that it is repeated in this order when the core is started anew
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// The node is in the ring from now on.
    Joins,
    /// The node is out of the ring.
    Leaves,
    /// The node publishes a name of an owner.
    Publishes(Vec<u8>, String),
    /// The node publishes it no longer.
    Withdraws(Vec<u8>, String),
    /// The node shows this certificate from now on.
    Certifies(Vec<u8>),
}

impl core::fmt::Display for Effect {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::None => f.write_str("a command"),
            Self::Joins => f.write_str("joining the ring"),
            Self::Leaves => f.write_str("leaving the ring"),
            Self::Publishes(_, name) => write!(f, "publishing {name}"),
            Self::Withdraws(_, name) => write!(f, "withdrawing {name}"),
            Self::Certifies(_) => f.write_str("renewing the certificate"),
        }
    }
}

/// What somebody who watches was told last: a list of providers, or why there will be none
pub(crate) type Told = Option<Result<Bytes, Code>>;

/// Who waits for a command's answer
#[derive(Debug)]
pub(crate) enum Waiter {
    /// Somebody who wants the reply's body.
    Reply(oneshot::Sender<Result<Bytes, Error>>),
    /// Somebody who wants a stream.
    Stream(oneshot::Sender<Result<Stream, Error>>),
    /// Somebody who wants each list of providers.
    Watch(watch::Sender<Told>),
    /// The driver itself, which gives the command again if nobody answered; it has failed so many times.
    Driver { failures: u32 },
}

impl Waiter {
    /// Tells of a failure.
    pub(crate) fn fail(self, error: Error) {
        match self {
            // Whoever dropped the receiver has cancelled.
            Self::Reply(waiter) => _ = waiter.send(Err(error)),
            Self::Stream(waiter) => _ = waiter.send(Err(error)),
            // Without a code the node is stopped, and the sender gone.
            Self::Watch(waiter) => _ = waiter.send(error.code().map(Err)),
            Self::Driver { .. } => tracing::warn!(%error, "a command could not be repeated"),
        }
    }
}

/// The way to a driver; cheap to clone
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    inbound: mpsc::Sender<Inbound>,
    control: mpsc::UnboundedSender<Control>,
    numbers: Arc<Numbers>,
    budget: Budget,
    /// Why the node has ended, unless it was stopped.
    ended: Arc<OnceLock<Code>>,
}

#[derive(Debug)]
struct Numbers {
    path: AtomicU32,
    tag: AtomicU32,
}

/// The driver's ends of a handle's queues
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) inbound: mpsc::Receiver<Inbound>,
    pub(crate) control: mpsc::UnboundedReceiver<Control>,
}

impl Handle {
    /// A handle and the queues behind it.
    pub(crate) fn new() -> (Self, Queues) {
        let (inbound, inbound_end) = mpsc::channel(QUEUE);
        let (control, control_end) = mpsc::unbounded_channel();
        let numbers = Arc::new(Numbers {
            path: AtomicU32::new(1),
            tag: AtomicU32::new(1),
        });
        let queues = Queues {
            inbound: inbound_end,
            control: control_end,
        };
        (
            Self {
                inbound,
                control,
                numbers,
                budget: Budget::default(),
                ended: Arc::default(),
            },
            queues,
        )
    }

    /// A number for a new path; `None` when four billion were used.
    pub(crate) fn next_path(&self) -> Option<u32> {
        let next = |path: u32| path.checked_add(1);
        self.numbers
            .path
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()
    }

    /// Both ends of the queue of a new path.
    pub(crate) fn link(&self) -> (Link, LinkEnd) {
        crate::link::link(&self.budget)
    }

    /// A tag for a command, never 0.
    pub(crate) fn next_tag(&self) -> u32 {
        let next = |tag: u32| Some(tag.checked_add(1).unwrap_or(1));
        let tag = self
            .numbers
            .tag
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        tag.unwrap_or_else(|tag| tag)
    }

    /// Queues a message, waiting for a place.
    pub(crate) async fn send(&self, message: Inbound) -> Result<(), Error> {
        self.inbound.send(message).await.map_err(|_| self.end().into())
    }

    /// Queues a message of the application.
    pub(crate) fn control(&self, message: Control) {
        // A node that was stopped has failed everything that could wait for this.
        _ = self.control.send(message);
    }

    /// Gives a command and waits for the body of its reply.
    pub(crate) async fn command(
        &self,
        effect: Effect,
        input: impl FnOnce(u32) -> Item,
    ) -> Result<Bytes, Error> {
        let (waiter, reply) = oneshot::channel();
        self.ask(effect, Waiter::Reply(waiter), reply, input).await
    }

    /// Gives a command and waits for the stream that it opens.
    pub(crate) async fn open(&self, input: impl FnOnce(u32) -> Item) -> Result<Stream, Error> {
        let (waiter, reply) = oneshot::channel();
        self.ask(Effect::None, Waiter::Stream(waiter), reply, input).await
    }

    /// Gives a command that is answered again and again, until the guard is dropped.
    pub(crate) fn watch(&self, input: impl FnOnce(u32) -> Item) -> (CancelOnDrop, watch::Receiver<Told>) {
        let (waiter, told) = watch::channel(None);
        let tag = self.next_tag();
        self.control(Control::Command {
            tag,
            item: input(tag),
            effect: Effect::None,
            waiter: Waiter::Watch(waiter),
        });
        let guard = CancelOnDrop {
            handle: self.clone(),
            tag: Some(tag),
        };
        (guard, told)
    }

    async fn ask<T>(
        &self,
        effect: Effect,
        waiter: Waiter,
        reply: oneshot::Receiver<Result<T, Error>>,
        input: impl FnOnce(u32) -> Item,
    ) -> Result<T, Error> {
        let tag = self.next_tag();
        let item = input(tag);
        let command = Control::Command {
            tag,
            item,
            effect,
            waiter,
        };
        self.control.send(command).map_err(|_| Error::from(self.end()))?;
        let mut cancel = CancelOnDrop {
            handle: self.clone(),
            tag: Some(tag),
        };
        let answer = reply.await;
        cancel.tag = None;
        answer.unwrap_or_else(|_| Err(self.end().into()))
    }

    /// Notes why the node cannot go on; the first reason counts.
    pub(crate) fn set_ended(&self, code: Code) {
        self.ended.get_or_init(|| code);
    }

    /// Why the node has ended, or is ending.
    pub(crate) fn end(&self) -> Cause {
        self.ended
            .get()
            .map_or(Cause::Stopped, |code| Cause::Reset(code.as_u16()))
    }
}

/// Cancels a command whose caller has gone away
#[derive(Debug)]
pub(crate) struct CancelOnDrop {
    handle: Handle,
    tag: Option<u32>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(tag) = self.tag {
            self.handle.control(Control::Cancel { tag });
        }
    }
}
