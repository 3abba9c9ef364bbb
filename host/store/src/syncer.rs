//! The thread that writes frames and waits for the disk, so that others can go on meanwhile.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::aligned::Aligned;
use super::journal::{Pending, Written};

/// What is called, in another thread, when what was waited for has ended
pub type Ended = Box<dyn FnOnce() + Send>;

/// The thread, which ends with this
#[derive(Debug)]
pub(crate) struct Syncer {
    asking: Sender<(Pending, Ended)>,
    outcomes: Receiver<io::Result<()>>,
    /// What was written last, when it has been vouched for.
    vouched: Receiver<Aligned>,
    /// Its memory, while nothing is written.
    memory: Option<Aligned>,
}

impl Syncer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub(crate) fn start() -> io::Result<Self> {
        let (asking, asked) = channel();
        let (outcome, outcomes) = channel();
        let (vouching, vouched) = channel();
        thread::Builder::new()
            .name("selfsame-sync".into())
            .spawn(move || carry_out(asked, &outcome, &vouching))?;
        Ok(Self {
            asking,
            outcomes,
            vouched,
            memory: Some(Aligned::default()),
        })
    }

    /// Waits until nothing is written any more.
    pub(crate) fn rest(&mut self) {
        let vouched = || self.vouched.recv().unwrap_or_default();
        self.memory.get_or_insert_with(vouched);
    }

    /// The memory of what was written last, for what is written next.
    pub(crate) fn memory(&mut self) -> Aligned {
        self.rest();
        self.memory.take().unwrap_or_default()
    }

    /// Puts frames on the disk, in the thread.
    pub(crate) fn begin(&self, frames: Pending, ended: Ended) {
        // If the thread has ended, that is what `end` finds.
        _ = self.asking.send((frames, ended));
    }

    /// What came of what was begun.
    ///
    /// # Errors
    /// What the system says, or that the thread has ended: then nobody knows what is there.
    pub(crate) fn end(&self) -> io::Result<()> {
        let gone = |_| io::Error::other("the thread that waits for the disk has ended");
        self.outcomes.recv().map_err(gone)?
    }
}

/// Writes what is asked for. Whoever gave the store up does not hear what came of it.
fn carry_out(
    asked: Receiver<(Pending, Ended)>,
    outcomes: &Sender<io::Result<()>>,
    vouched: &Sender<Aligned>,
) {
    for (frames, ended) in asked {
        let (outcome, written) = match frames.write() {
            Ok(written) => (Ok(()), Some(written)),
            Err(error) => (Err(error), None),
        };
        _ = outcomes.send(outcome);
        ended();
        _ = vouched.send(written.map(Written::vouch).unwrap_or_default());
    }
}
