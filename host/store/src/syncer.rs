//! The thread that waits for the disk, so that others can write meanwhile.

use alloc::sync::Arc;
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// What is called, in another thread, when what was waited for has ended
pub type Ended = Box<dyn FnOnce() + Send>;

/// A wait for a file
struct Wait {
    file: Arc<File>,
    ended: Ended,
}

/// The thread, which ends with this
#[derive(Debug)]
pub(crate) struct Syncer {
    waits: Sender<Wait>,
    outcomes: Receiver<io::Result<()>>,
}

impl Syncer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub(crate) fn start() -> io::Result<Self> {
        let (waits, asked) = channel::<Wait>();
        let (tell, outcomes) = channel();
        thread::Builder::new()
            .name("selfsame-sync".into())
            .spawn(move || {
                for Wait { file, ended } in asked {
                    // Whoever gave the store up does not ask.
                    _ = tell.send(file.sync_data());
                    ended();
                }
            })?;
        Ok(Self { waits, outcomes })
    }

    /// Waits in the thread until the disk has what was written to a file.
    pub(crate) fn begin(&self, file: Arc<File>, ended: Ended) {
        // If the thread has ended, that is what `end` finds.
        _ = self.waits.send(Wait { file, ended });
    }

    /// What a wait came to that was begun.
    ///
    /// # Errors
    /// What the system says, or that the thread has ended: then nobody knows what is there.
    pub(crate) fn end(&self) -> io::Result<()> {
        let gone = |_| io::Error::other("the thread that waits for the disk has ended");
        self.outcomes.recv().map_err(gone)?
    }
}
