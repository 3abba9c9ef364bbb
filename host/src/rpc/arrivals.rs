//! What tasks bring to the thread of an instance.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::mpsc;

use bytes::Bytes;
use mio::{Events, Poll, Token, Waker};
use selfsame_codec::rpc::Input;

use super::endpoint::endpoint_of;
use super::engine::Engine;

const WOKEN: Token = Token(0);

/// What has arrived and is not taken yet.
pub(super) struct Arrivals<T> {
    poll: Poll,
    events: Events,
    receiver: mpsc::Receiver<T>,
    sender: ArrivalSender<T>,
}

/// Brings something to a thread.
pub(super) struct ArrivalSender<T> {
    sender: mpsc::Sender<T>,
    waker: Arc<Waker>,
}

impl<T> Arrivals<T> {
    /// Nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WOKEN)?);
        let (sender, receiver) = mpsc::channel();
        Ok(Self {
            poll,
            events: Events::with_capacity(1),
            receiver,
            sender: ArrivalSender { sender, waker },
        })
    }

    pub(super) fn sender(&self) -> &ArrivalSender<T> {
        &self.sender
    }

    pub(super) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.sender.waker)
    }

    /// Returns what has arrived next, if there is something.
    pub(super) fn take(&self) -> Option<T> {
        self.receiver.try_recv().ok()
    }

    /// Waits until it is woken or the time is over.
    pub(super) fn wait(&mut self, longest: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, longest) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// A datagram, and the endpoint that it is from.
pub(super) type Datagram = (SocketAddr, Bytes);

impl Arrivals<Datagram> {
    /// Gives an instance the datagrams that have arrived.
    pub(super) fn give(&self, engine: &mut Engine) {
        while let Some((source, bytes)) = self.take() {
            engine.give(&Input::Datagram {
                source: endpoint_of(source),
                bytes: &bytes,
            });
        }
    }
}

impl<T> ArrivalSender<T> {
    /// Brings something; whether the thread is still there.
    pub(super) fn send(&self, arrival: T) -> bool {
        let is_sent = self.sender.send(arrival).is_ok();
        if is_sent && let Err(error) = self.waker.wake() {
            tracing::error!(%error, "a thread of the RPC cannot be woken");
        }
        is_sent
    }
}

impl<T> Clone for ArrivalSender<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            waker: Arc::clone(&self.waker),
        }
    }
}
