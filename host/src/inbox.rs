//! The way of what a stream delivers from the driver to the application.
//!
//! The peer chooses how it cuts its bytes, and each piece that waits by itself takes many times what one byte does: small ones are
//! joined, so that memory follows the bytes, which the credit bounds.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

use crate::core::CoreError;

/// Most bytes of one `StreamData`.
pub(crate) const MAX_CHUNK: usize = 16 * 1024;
/// Smaller pieces are joined while they wait.
const SMALL: usize = 1024;

/// Why a stream is gone before its end
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// The peer or the core reset it.
    Reset(u16),
    /// The core failed.
    Poisoned(CoreError),
    /// The node was stopped.
    Stopped,
}

/// What a stream delivers
#[derive(Debug)]
pub(crate) enum Delivery {
    /// Bytes.
    Data(Bytes),
    /// The peer has sent its last byte.
    End,
    /// The stream is gone.
    Gone(Cause),
}

/// The driver's end; the application hears of no more once it is dropped
#[derive(Debug)]
pub(crate) struct Sender(Arc<Mutex<Inbox>>);

/// The application's end
#[derive(Debug)]
pub(crate) struct Receiver(Arc<Mutex<Inbox>>);

/// Tells how the peer keeps the application waiting
#[derive(Debug)]
pub(crate) struct Progress(Arc<Mutex<Inbox>>);

#[derive(Debug, Default)]
struct Inbox {
    waiting: VecDeque<Delivery>,
    /// Small pieces that follow them.
    joined: BytesMut,
    reader: Option<Waker>,
    received_bytes: u64,
    /// Whether nothing is put in any more.
    is_over: bool,
    /// Whether nobody takes anything any more.
    is_closed: bool,
}

/// Makes both ends.
pub(crate) fn inbox() -> (Sender, Receiver) {
    let inbox = Arc::default();
    (Sender(Arc::clone(&inbox)), Receiver(inbox))
}

impl Inbox {
    fn put(&mut self, delivery: Delivery) {
        if let Delivery::Data(data) = &delivery {
            self.received_bytes += data.len() as u64;
        }
        match delivery {
            Delivery::Data(data) if data.len() < SMALL => {
                if self.joined.len() + data.len() > MAX_CHUNK {
                    self.seal();
                }
                self.joined.extend_from_slice(&data);
            }
            other => {
                self.seal();
                self.waiting.push_back(other);
            }
        }
    }

    fn seal(&mut self) {
        if let Some(joined) = self.take_joined() {
            self.waiting.push_back(Delivery::Data(joined));
        }
    }

    fn take_joined(&mut self) -> Option<Bytes> {
        (!self.joined.is_empty()).then(|| core::mem::take(&mut self.joined).freeze())
    }

    fn take(&mut self) -> Option<Delivery> {
        let first = self.waiting.pop_front();
        first.or_else(|| self.take_joined().map(Delivery::Data))
    }
}

impl Sender {
    /// Puts something in; whether it will be taken.
    pub(crate) fn send(&self, delivery: Delivery) -> bool {
        let mut inbox = lock(&self.0);
        if inbox.is_closed {
            return false;
        }
        inbox.put(delivery);
        wake(inbox);
        true
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut inbox = lock(&self.0);
        inbox.is_over = true;
        wake(inbox);
    }
}

impl Progress {
    /// How many bytes have come, if the application waits for more.
    pub(crate) fn while_waiting(&self) -> Option<u64> {
        let inbox = lock(&self.0);
        let is_waiting = inbox.reader.is_some() && !inbox.is_over;
        is_waiting.then_some(inbox.received_bytes)
    }
}

impl Receiver {
    /// What tells how it is kept waiting.
    pub(crate) fn progress(&self) -> Progress {
        Progress(Arc::clone(&self.0))
    }

    /// The next delivery; `None` once nothing comes any more.
    pub(crate) fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Delivery>> {
        let mut inbox = lock(&self.0);
        if let Some(delivery) = inbox.take() {
            return Poll::Ready(Some(delivery));
        }
        if inbox.is_over {
            return Poll::Ready(None);
        }
        inbox.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// The next delivery that is there already.
    pub(crate) fn try_recv(&mut self) -> Option<Delivery> {
        lock(&self.0).take()
    }

    /// Refuses what is still sent.
    pub(crate) fn close(&mut self) {
        lock(&self.0).is_closed = true;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut inbox = lock(&self.0);
        inbox.is_closed = true;
        let waiting = core::mem::take(&mut inbox.waiting);
        inbox.joined = BytesMut::new();
        drop(inbox);
        drop(waiting);
    }
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    // Nothing panics between two changes of it.
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the reader, after the lock is given back.
fn wake(mut inbox: MutexGuard<'_, Inbox>) {
    let reader = inbox.reader.take();
    drop(inbox);
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of all that waits, where 0 is the end.
    fn lengths(receiver: &mut Receiver) -> Vec<usize> {
        let mut lengths = Vec::new();
        while let Some(delivery) = receiver.try_recv() {
            lengths.push(match delivery {
                Delivery::Data(data) => data.len(),
                Delivery::End | Delivery::Gone(_) => 0,
            });
        }
        lengths
    }

    #[test]
    fn small_pieces_are_joined_in_their_order() {
        let (sender, mut receiver) = inbox();
        for _ in 0..MAX_CHUNK + 3 {
            assert!(sender.send(Delivery::Data(Bytes::from_static(b"x"))));
        }
        assert!(sender.send(Delivery::Data(Bytes::from(vec![1; SMALL]))));
        assert!(sender.send(Delivery::Data(Bytes::from_static(b"abc"))));
        assert!(sender.send(Delivery::End));
        assert_eq!(lengths(&mut receiver), [MAX_CHUNK, 3, SMALL, 3, 0]);
    }

    #[tokio::test]
    async fn a_reader_hears_of_what_comes_and_of_the_end() {
        let (sender, mut receiver) = inbox();
        let reading = tokio::spawn(async move {
            let mut heard = 0;
            while core::future::poll_fn(|context| receiver.poll_recv(context))
                .await
                .is_some()
            {
                heard += 1;
            }
            heard
        });
        for _ in 0..3 {
            tokio::task::yield_now().await;
            assert!(sender.send(Delivery::Data(Bytes::from_static(b"x"))));
        }
        tokio::task::yield_now().await;
        drop(sender);
        assert!((1..=3).contains(&reading.await.expect("it ends")));
    }

    #[test]
    fn a_closed_inbox_takes_nothing_more() {
        let (sender, mut receiver) = inbox();
        assert!(sender.send(Delivery::Data(Bytes::from_static(b"x"))));
        receiver.close();
        assert!(!sender.send(Delivery::End));
        assert_eq!(lengths(&mut receiver), [1]);
        drop(receiver);
        assert!(!sender.send(Delivery::End));
    }
}
