use core::time::Duration;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, ThreadId};

use crate::Storage;

/// A disk under load waits for seconds; a store that takes longer has forgotten to call `ended`.
const PATIENCE: Duration = Duration::from_secs(60);

/// A sync that was begun, whose call of `ended` is observed
pub(super) struct PendingSync {
    pub(super) has_begun: bool,
    /// The thread that called `ended`.
    ended: Receiver<ThreadId>,
}

impl PendingSync {
    pub(super) fn begin(store: &mut dyn Storage) -> Self {
        let (tell, ended) = channel();
        let has_begun = store
            .begin_sync(Box::new(move || _ = tell.send(thread::current().id())))
            .expect("begin_sync failed");
        Self { has_begun, ended }
    }

    /// Waits until `ended` was called, if it is to be.
    pub(super) fn wait(&self) {
        if self.has_begun {
            let thread = self.ended.recv_timeout(PATIENCE);
            let thread = thread.expect("`begin_sync` returned true: `ended` must be called");
            // The caller may hold a lock that `ended` takes.
            assert_ne!(
                thread,
                thread::current().id(),
                "`ended` must be called in another thread"
            );
        } else {
            assert!(
                self.ended.try_recv().is_err(),
                "`begin_sync` returned false: `ended` must not be called"
            );
        }
    }

    /// Waits until all that was committed before it is durable.
    pub(super) fn end(self, store: &mut dyn Storage) {
        self.wait();
        store.end_sync().expect("end_sync failed");
    }
}
