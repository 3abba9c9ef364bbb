//! The thread that writes frames and waits for the disk, so that others can go on meanwhile.

use core::time::Duration;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use super::aligned::Aligned;
use super::journal::{Last, Pending};

/// When so long nothing follows what was written, a frame of its own vouches for it: a busy store has the next ones before, and writes
/// half as often.
const QUIET: Duration = Duration::from_millis(2);

/// What is called, in another thread, when what was waited for has ended
pub type Ended = Box<dyn FnOnce() + Send>;

/// What the thread is asked for
enum Asked {
    /// To put frames on the disk.
    Write(Pending, Ended),
    /// To write nothing any more.
    Rest,
}

/// The thread, which ends with this
#[derive(Debug)]
pub(crate) struct Syncer {
    asking: Sender<Asked>,
    outcomes: Receiver<(io::Result<()>, Aligned)>,
    /// That of what was written last, for what is written next.
    memory: Aligned,
    rested: Receiver<()>,
    is_at_rest: bool,
}

/// Where the thread's answers go: whoever gave the store up does not hear them
struct Answers {
    outcomes: Sender<(io::Result<()>, Aligned)>,
    rested: Sender<()>,
}

impl Syncer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub(crate) fn start() -> io::Result<Self> {
        let (asking, asked) = channel();
        let ((outcome, outcomes), (rest, rested)) = (channel(), channel());
        let answers = Answers {
            outcomes: outcome,
            rested: rest,
        };
        thread::Builder::new()
            .name("selfsame-sync".into())
            .spawn(move || carry_out(&asked, &answers))?;
        Ok(Self {
            asking,
            outcomes,
            memory: Aligned::default(),
            rested,
            is_at_rest: true,
        })
    }

    /// Waits until what was written is vouched for, and nothing is written any more.
    pub(crate) fn rest(&mut self) {
        if !core::mem::replace(&mut self.is_at_rest, true) && self.asking.send(Asked::Rest).is_ok() {
            // If the thread has ended, it writes nothing.
            _ = self.rested.recv();
        }
    }

    /// The memory of what was written last, for what is written next.
    pub(crate) fn memory(&mut self) -> Aligned {
        core::mem::take(&mut self.memory)
    }

    /// Puts frames on the disk, in the thread.
    pub(crate) fn begin(&mut self, frames: Pending, ended: Ended) {
        self.is_at_rest = false;
        // If the thread has ended, that is what `end` finds.
        _ = self.asking.send(Asked::Write(frames, ended));
    }

    /// What came of what was begun.
    ///
    /// # Errors
    /// What the system says, or that the thread has ended: then nobody knows what is there.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        let gone = |_| io::Error::other("the thread that waits for the disk has ended");
        let (outcome, memory) = self.outcomes.recv().map_err(gone)?;
        self.memory = memory;
        outcome
    }
}

/// Does what it is asked for, until nobody can ask any more.
fn carry_out(asked: &Receiver<Asked>, answers: &Answers) {
    let mut last = Last::default();
    loop {
        let next = if last.is_vouched_for() {
            asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            asked.recv_timeout(QUIET)
        };
        match next {
            Ok(Asked::Write(frames, ended)) => {
                _ = answers.outcomes.send(frames.write(&mut last));
                ended();
            }
            Ok(Asked::Rest) => {
                last.vouch();
                _ = answers.rested.send(());
            }
            Err(RecvTimeoutError::Timeout) => last.vouch(),
            Err(RecvTimeoutError::Disconnected) => return last.vouch(),
        }
    }
}
