use core::time::Duration;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use selfsame_codec::{EntryWriter, Operation as Change, Operations};
use tokio::sync::mpsc::UnboundedSender;

use super::{Storage, StoreError};

/// Commits that did not ask to be durable become so after this long at the latest.
const FLUSH_AFTER: Duration = Duration::from_secs(1);
/// Most operations of commits that are written together, as in one commit of the smallest store we support.
const GROUP: usize = 500;

/// What the driver asks of a store
#[derive(Debug)]
pub(crate) struct Request {
    /// Which of the node's cores asks.
    pub(crate) life: u32,
    /// The core's number for the answer.
    pub(crate) tag: u32,
    /// What to do.
    pub(crate) operation: Operation,
}

/// What is to be done
#[derive(Debug)]
pub(crate) enum Operation {
    /// Read one value.
    Get { key: Bytes },
    /// Read a range.
    Scan { start: Bytes, end: Bytes, limit: u32 },
    /// Change.
    Commit { durable: bool, operations: Bytes },
}

/// A store's answer to a request
#[derive(Debug)]
pub(crate) struct Completion {
    /// From the request.
    pub(crate) life: u32,
    /// From the request.
    pub(crate) tag: u32,
    /// What came of it.
    pub(crate) answer: Answer,
}

/// What came of a request
#[derive(Debug)]
pub(crate) enum Answer {
    /// The encoded entries, or `None` when the store failed.
    Read(Option<Vec<u8>>),
    /// Whether the changes are made.
    Committed(bool),
}

/// A thread that owns a store and serves it in the order of the requests
#[derive(Debug)]
pub(crate) struct Worker {
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread.
    pub(crate) fn start(
        store: Box<dyn Storage>,
        completions: UnboundedSender<Completion>,
    ) -> Result<Self, std::io::Error> {
        let (requests, inbox) = channel();
        let mut state = State {
            store,
            completions,
            inbox,
            unflushed: false,
        };
        let thread = thread::Builder::new()
            .name("selfsame-store".into())
            .spawn(move || state.run())?;
        Ok(Self {
            requests: Some(requests),
            thread: Some(thread),
        })
    }

    /// Queues a request; the answer comes through the completions.
    pub(crate) fn send(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // The thread ends only after this sender is gone.
            _ = requests.send(request);
        }
    }
}

impl Drop for Worker {
    /// Waits until everything that was queued is written and the file is closed.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

struct State {
    store: Box<dyn Storage>,
    completions: UnboundedSender<Completion>,
    inbox: Receiver<Request>,
    /// Whether commits that are not durable yet wait for a flush.
    unflushed: bool,
}

struct Commit {
    life: u32,
    tag: u32,
    durable: bool,
    operations: Bytes,
}

impl State {
    fn run(&mut self) {
        let mut next = self.receive();
        while let Some(Request { life, tag, operation }) = next {
            next = match operation {
                Operation::Get { key } => {
                    let entry = self
                        .store
                        .get(&key)
                        .map(|value| value.map(|value| (key.to_vec(), value)));
                    self.answer(life, tag, entry.map(Vec::from_iter));
                    self.receive()
                }
                Operation::Scan { start, end, limit } => {
                    let entries = self.store.scan(&start, &end, limit as usize);
                    self.answer(life, tag, entries);
                    self.receive()
                }
                Operation::Commit { durable, operations } => self.commit_group(Commit {
                    life,
                    tag,
                    durable,
                    operations,
                }),
            };
        }
        self.flush();
    }

    /// The next request, after a flush when none comes for a while; `None` when the node is gone.
    fn receive(&mut self) -> Option<Request> {
        if self.unflushed {
            match self.inbox.recv_timeout(FLUSH_AFTER) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.flush(),
            }
        }
        self.inbox.recv().ok()
    }

    /// Writes a commit together with those that already wait behind it, so that they share one fsync. Returns the
    /// request that follows them.
    fn commit_group(&mut self, first: Commit) -> Option<Request> {
        let mut count = Operations::new(&first.operations).count();
        let mut group = vec![first];
        let mut follower = None;
        while count < GROUP {
            match self.inbox.try_recv() {
                Ok(Request {
                    life,
                    tag,
                    operation: Operation::Commit { durable, operations },
                }) => {
                    count += Operations::new(&operations).count();
                    group.push(Commit {
                        life,
                        tag,
                        durable,
                        operations,
                    });
                }
                other => {
                    follower = other.ok();
                    break;
                }
            }
        }
        self.write(&group);
        follower.or_else(|| self.receive())
    }

    fn write(&mut self, group: &[Commit]) {
        let durable = group.iter().any(|commit| commit.durable);
        let parsed: Vec<Result<Vec<Change<'_>>, _>> = group
            .iter()
            .map(|commit| Operations::new(&commit.operations).collect())
            .collect();
        let changes: Vec<Change<'_>> = parsed.iter().flatten().flatten().copied().collect();
        let written = self.store.commit(&changes, durable);
        match &written {
            Ok(()) => self.unflushed = !durable,
            Err(error) => tracing::error!(%error, "commit failed"),
        }
        for (commit, parsed) in group.iter().zip(&parsed) {
            let ok = written.is_ok() && parsed.is_ok();
            self.complete(commit.life, commit.tag, Answer::Committed(ok));
        }
    }

    fn flush(&mut self) {
        if core::mem::take(&mut self.unflushed)
            && let Err(error) = self.store.commit(&[], true)
        {
            tracing::error!(%error, "flush failed");
        }
    }

    fn answer(&self, life: u32, tag: u32, entries: Result<Vec<super::Entry>, StoreError>) {
        let entries = match entries {
            Ok(entries) => {
                let mut writer = EntryWriter::new();
                entries.iter().for_each(|(key, value)| writer.push(key, value));
                Some(writer.as_bytes().to_vec())
            }
            Err(error) => {
                tracing::error!(%error, "read failed");
                None
            }
        };
        self.complete(life, tag, Answer::Read(entries));
    }

    fn complete(&self, life: u32, tag: u32, answer: Answer) {
        // When the node is gone nobody waits for the answer, but what it asked for is still written.
        _ = self.completions.send(Completion { life, tag, answer });
    }
}
