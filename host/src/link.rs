//! The queue between the driver and the task that owns a socket.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

/// Most bytes that wait for one peer to read them.
const MAX_QUEUED: usize = 8 * 1024 * 1024;
/// Bytes that wait for all peers together; when there are more, those with more than their share lose their paths.
const MAX_QUEUED_BY_ALL: usize = 32 * MAX_QUEUED;
/// What each may have waiting whatever the others do: the window of one stream.
const SHARE: usize = 256 * 1024;

/// Counts the bytes that wait on all paths of a node
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<AtomicUsize>);

/// Counts the bytes that wait on one path
#[derive(Debug)]
struct Queued {
    own: AtomicUsize,
    all: Budget,
}

impl Queued {
    /// Adds bytes, unless the path may not have so many.
    fn add(&self, len: usize) -> bool {
        let own = self.own.fetch_add(len, Ordering::Relaxed) + len;
        let all = self.all.0.fetch_add(len, Ordering::Relaxed) + len;
        let fits = own <= MAX_QUEUED && (all <= MAX_QUEUED_BY_ALL || own <= SHARE);
        if !fits {
            self.remove(len);
        }
        fits
    }

    fn remove(&self, len: usize) {
        self.own.fetch_sub(len, Ordering::Relaxed);
        self.all.0.fetch_sub(len, Ordering::Relaxed);
    }
}

impl Drop for Queued {
    /// What was queued is gone with both ends.
    fn drop(&mut self) {
        let left = *self.own.get_mut();
        self.all.0.fetch_sub(left, Ordering::Relaxed);
    }
}

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
    queued: Arc<Queued>,
    kill: Option<oneshot::Sender<()>>,
}

/// The socket's end
#[derive(Debug)]
pub(crate) struct LinkEnd {
    queue: mpsc::UnboundedReceiver<Outgoing>,
    queued: Arc<Queued>,
    killed: oneshot::Receiver<()>,
}

/// Makes both ends.
pub(crate) fn link(budget: &Budget) -> (Link, LinkEnd) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (kill, killed) = oneshot::channel();
    let queued = Arc::new(Queued {
        own: AtomicUsize::new(0),
        all: budget.clone(),
    });
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
        // After the first frame that is lost no other may follow.
        if self.kill.is_none() {
            return;
        }
        if !self.queued.add(frame.len()) {
            if let Some(kill) = self.kill.take() {
                tracing::debug!(queued = ?self.queued, "peer reads too slowly: path closed");
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

    /// Whether the driver has closed the path and nothing is left to be sent.
    pub(crate) fn is_over(&self) -> bool {
        self.queue.is_closed() && self.queue.is_empty()
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
            self.queued.remove(frame.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> (Link, LinkEnd) {
        super::link(&Budget::default())
    }

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
    async fn many_peers_that_read_nothing_leave_memory_to_the_others() {
        let budget = Budget::default();
        let queued = || budget.0.load(Ordering::Relaxed);
        let frame = Bytes::from(vec![0; 65_536]);
        let mut idle = Vec::new();
        for _ in 0..64 {
            let (mut link, end) = super::link(&budget);
            for _ in 0..120 {
                link.transmit(frame.clone());
            }
            idle.push((link, end));
        }
        let shares = idle.len() * SHARE;
        assert!(queued() > MAX_QUEUED_BY_ALL - MAX_QUEUED && queued() <= MAX_QUEUED_BY_ALL + shares);
        let (mut link, mut end) = super::link(&budget);
        for _ in 0..SHARE / frame.len() {
            link.transmit(frame.clone());
        }
        assert!(end.killed.try_recv().is_err(), "an honest peer keeps its path");
        drop((link, end, idle));
        assert_eq!(queued(), 0);
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
