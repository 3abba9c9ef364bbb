//! Requests whose bodies come slowly, which give way to others when places are few.
//!
//! Identities cost nothing: whoever holds places with bodies that never end would else keep a service from everybody.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::inbox::Progress;

/// Every body has so long before its rate counts.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes a second below which a body that is waited for counts as slow: a modem is faster.
const LEAST_RATE: u64 = 512;
/// Requests that give way at a time, and how long it is until the next look: a look goes through all of them.
const MOST_AT_ONCE: usize = 64;
const LOOK: Duration = Duration::from_millis(100);

/// The requests of a node that may have bodies
#[derive(Debug, Default)]
pub(crate) struct Uploads(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last: u64,
    by_number: BTreeMap<u64, Running>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Running {
    progress: Progress,
    began: Instant,
    end: Arc<Notify>,
}

/// A request while it is served
#[derive(Debug)]
pub(crate) struct Upload {
    uploads: Arc<Uploads>,
    number: u64,
    end: Arc<Notify>,
}

impl Uploads {
    /// Notes a request that begins.
    pub(crate) fn begin(self: &Arc<Self>, progress: Progress, now: Instant) -> Upload {
        let end = Arc::new(Notify::new());
        let mut table = self.lock();
        table.last += 1;
        let number = table.last;
        let running = Running {
            progress,
            began: now,
            end: Arc::clone(&end),
        };
        table.by_number.insert(number, running);
        Upload {
            uploads: Arc::clone(self),
            number,
            end,
        }
    }

    /// Ends requests whose bodies come slowly, those that began first.
    pub(crate) fn end_slow(&self, now: Instant) {
        let mut table = self.lock();
        if table.looked.is_some_and(|looked| now < looked + LOOK) {
            return;
        }
        table.looked = Some(now);
        let running = table.by_number.values();
        let slow = running.filter(|running| running.is_slow(now)).take(MOST_AT_ONCE);
        slow.for_each(|running| running.end.notify_one());
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics between two changes of the table.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn is_slow(&self, now: Instant) -> bool {
        let took = now.saturating_duration_since(self.began);
        let received = self.progress.while_waiting().filter(|_| took >= PATIENCE);
        received.is_some_and(|received| received < took.as_secs() * LEAST_RATE)
    }
}

impl Upload {
    /// Completes when the request is to give way.
    pub(crate) async fn ended(&self) {
        self.end.notified().await;
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.uploads.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt as _;

    use super::*;
    use crate::inbox::{Delivery, Receiver, Sender, inbox};

    /// A request of which bytes have come, and whose application waits for more or not.
    fn request(
        uploads: &Arc<Uploads>,
        bytes: usize,
        waits: bool,
        now: Instant,
    ) -> (Upload, Sender, Receiver) {
        let (sender, mut receiver) = inbox();
        let upload = uploads.begin(receiver.progress(), now);
        sender.send(Delivery::Data(Bytes::from(vec![1; bytes])));
        while waits
            && core::future::poll_fn(|context| receiver.poll_recv(context))
                .now_or_never()
                .is_some()
        {}
        (upload, sender, receiver)
    }

    #[test]
    fn slow_bodies_that_are_waited_for_give_way() {
        let uploads = Arc::<Uploads>::default();
        let began = Instant::now();
        let slow = request(&uploads, 100, true, began);
        let fast = request(&uploads, 100_000, true, began);
        let unread = request(&uploads, 100, false, began);
        let ends = |request: &(Upload, Sender, Receiver)| request.0.ended().now_or_never().is_some();
        uploads.end_slow(began + PATIENCE / 2);
        assert!(!ends(&slow), "it has time");
        uploads.end_slow(began + 2 * PATIENCE);
        assert!(ends(&slow) && !ends(&fast) && !ends(&unread));
    }

    #[test]
    fn request_that_is_over_is_forgotten() {
        let uploads = Arc::<Uploads>::default();
        drop(request(&uploads, 0, true, Instant::now()));
        assert!(uploads.lock().by_number.is_empty());
    }
}
