//! The queue between the driver and the task that owns a socket.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

/// Most bytes that wait for one peer to read them; streams are bounded by their credit, so only a peer that reads
/// nothing at all gets here.
const MAX_QUEUED: usize = 8 * 1024 * 1024;

/// What the driver asks of a socket
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Send a frame.
    Frame(Bytes),
    /// Whether the core awaits something on the path.
    Busy(bool),
}

/// The driver's end: dropping it closes the path once what is queued is sent
#[derive(Debug)]
pub(crate) struct Link {
    queue: mpsc::UnboundedSender<Outgoing>,
    queued: Arc<AtomicUsize>,
    kill: Option<oneshot::Sender<()>>,
}

/// The socket's end
#[derive(Debug)]
pub(crate) struct LinkEnd {
    queue: mpsc::UnboundedReceiver<Outgoing>,
    queued: Arc<AtomicUsize>,
    killed: oneshot::Receiver<()>,
}

/// Makes both ends.
pub(crate) fn link() -> (Link, LinkEnd) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (kill, killed) = oneshot::channel();
    let queued = Arc::new(AtomicUsize::new(0));
    let link = Link {
        queue: sender,
        queued: Arc::clone(&queued),
        kill: Some(kill),
    };
    (
        link,
        LinkEnd {
            queue: receiver,
            queued,
            killed,
        },
    )
}

impl Link {
    /// Queues a frame. A peer that does not read its frames loses the path.
    pub(crate) fn transmit(&mut self, frame: Bytes) {
        let queued = self.queued.fetch_add(frame.len(), Ordering::Relaxed) + frame.len();
        if queued > MAX_QUEUED {
            if let Some(kill) = self.kill.take() {
                tracing::debug!(queued, "peer reads too slowly: path closed");
                _ = kill.send(());
            }
            return;
        }
        // A socket that has closed by itself says so to the driver.
        _ = self.queue.send(Outgoing::Frame(frame));
    }

    /// Tells whether the core awaits something on the path.
    pub(crate) fn busy(&self, busy: bool) {
        _ = self.queue.send(Outgoing::Busy(busy));
    }
}

impl LinkEnd {
    /// The next item; `None` when the driver has closed the path.
    pub(crate) async fn recv(&mut self) -> Option<Outgoing> {
        let item = self.queue.recv().await;
        self.count(item.as_ref());
        item
    }

    /// The next item if there is one already.
    pub(crate) fn try_recv(&mut self) -> Result<Outgoing, mpsc::error::TryRecvError> {
        let item = self.queue.try_recv()?;
        self.count(Some(&item));
        Ok(item)
    }

    /// Completes when the path is to be closed without sending what is queued.
    pub(crate) fn take_killed(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let killed = core::mem::replace(&mut self.killed, oneshot::channel().1);
        async move {
            // An error is a driver that closed the path in order, which the queue tells.
            if killed.await.is_err() {
                core::future::pending().await
            }
        }
    }

    /// Completes when the driver has closed the path, in order or not.
    pub(crate) fn take_ended(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let ended = core::mem::replace(&mut self.killed, oneshot::channel().1);
        async move {
            // Either way the path is over.
            _ = ended.await;
        }
    }

    fn count(&self, item: Option<&Outgoing>) {
        if let Some(Outgoing::Frame(frame)) = item {
            self.queued.fetch_sub(frame.len(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_queued_is_received_after_the_driver_closes() {
        let (mut link, mut end) = link();
        link.transmit(Bytes::from_static(b"last words"));
        drop(link);
        assert!(matches!(end.recv().await, Some(Outgoing::Frame(frame)) if frame == "last words"));
        assert!(end.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_loses_the_path_and_memory_stays_bounded() {
        let (mut link, mut end) = link();
        let frame = Bytes::from(vec![0; 65_536]);
        for _ in 0..1000 {
            link.transmit(frame.clone());
        }
        end.take_killed().await;
        let mut bytes = 0;
        while let Ok(Outgoing::Frame(frame)) = end.try_recv() {
            bytes += frame.len();
        }
        assert!(bytes <= MAX_QUEUED, "{bytes}");
    }

    #[tokio::test]
    async fn a_peer_that_reads_keeps_the_path() {
        let (mut link, mut end) = link();
        for _ in 0..1000 {
            link.transmit(Bytes::from(vec![0; 65_536]));
            assert!(end.recv().await.is_some());
        }
        assert!(end.killed.try_recv().is_err());
    }
}
