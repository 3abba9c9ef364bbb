use core::time::Duration;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use selfsame_codec::{EntryWriter, Operation as Change, Operations};
use selfsame_write_batch::WriteBatch;
use tokio::sync::mpsc::UnboundedSender;

use super::{Opened, Storage, StoreError};

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

/// Serves a store in the order of the requests
#[derive(Debug)]
pub(crate) enum Worker {
    /// A store on disk in a thread of its own, since it waits for the disk.
    Thread {
        requests: Sender<Request>,
        thread: Option<JoinHandle<()>>,
    },
    /// A store in memory, where it is asked.
    Here(Server),
}

impl Worker {
    /// Takes a store; the answers come through the completions.
    pub(crate) fn start(
        store: Opened,
        completions: UnboundedSender<Completion>,
    ) -> Result<Self, std::io::Error> {
        let server = |store| Server {
            store,
            completions,
            unflushed: false,
        };
        let mut server = match store {
            Opened::InMemory(store) => return Ok(Self::Here(server(Box::new(store)))),
            Opened::OnDisk(store) => server(store),
        };
        let (requests, inbox) = channel();
        let thread = thread::Builder::new()
            .name("selfsame-store".into())
            .spawn(move || server.run(&inbox))?;
        Ok(Self::Thread {
            requests,
            thread: Some(thread),
        })
    }

    /// Asks something.
    pub(crate) fn send(&mut self, request: Request) {
        match self {
            // The thread ends only after this sender is gone.
            Self::Thread { requests, .. } => _ = requests.send(request),
            Self::Here(server) => server.serve(request),
        }
    }

    /// Completes when everything that was asked is written and the file is closed.
    pub(crate) async fn close(mut self) {
        if let Self::Thread { requests, thread } = &mut self
            && let Some(thread) = thread.take()
        {
            *requests = channel().0;
            // A panic in it was printed already.
            _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

impl Drop for Worker {
    /// Waits, when nobody has closed it.
    fn drop(&mut self) {
        if let Self::Thread { requests, thread } = self
            && let Some(thread) = thread.take()
        {
            *requests = channel().0;
            _ = thread.join();
        }
    }
}

/// A store and those who wait for its answers
pub(crate) struct Server {
    store: Box<dyn Storage>,
    completions: UnboundedSender<Completion>,
    /// Whether commits that are not durable yet wait for a flush.
    unflushed: bool,
}

impl core::fmt::Debug for Server {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

struct Commit {
    life: u32,
    tag: u32,
    durable: bool,
    operations: Bytes,
}

impl Commit {
    /// A request that is one; another is given back.
    fn from_request(request: Request) -> Result<Self, Request> {
        let Request { life, tag, operation } = request;
        match operation {
            Operation::Commit { durable, operations } => Ok(Self {
                life,
                tag,
                durable,
                operations,
            }),
            operation => Err(Request { life, tag, operation }),
        }
    }
}

impl Server {
    fn run(&mut self, inbox: &Receiver<Request>) {
        let mut next = self.receive(inbox);
        while let Some(request) = next {
            next = match Commit::from_request(request) {
                Ok(commit) => self.commit_group(commit, inbox),
                Err(request) => {
                    self.serve(request);
                    self.receive(inbox)
                }
            };
        }
        self.flush();
    }

    /// Does what one request asks.
    fn serve(&mut self, request: Request) {
        let Request { life, tag, operation } = request;
        match operation {
            Operation::Get { key } => {
                let entry = self.store.get(&key);
                let entry = entry.map(|value| value.map(|value| (key.to_vec(), value)));
                self.answer(life, tag, entry.map(Vec::from_iter));
            }
            Operation::Scan { start, end, limit } => {
                let entries = self.store.scan(&start, &end, limit as usize);
                self.answer(life, tag, entries);
            }
            Operation::Commit { durable, operations } => self.write(&[Commit {
                life,
                tag,
                durable,
                operations,
            }]),
        }
    }

    /// The next request, after a flush when none comes for a while; `None` when the node is gone.
    fn receive(&mut self, inbox: &Receiver<Request>) -> Option<Request> {
        if self.unflushed {
            match inbox.recv_timeout(FLUSH_AFTER) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.flush(),
            }
        }
        inbox.recv().ok()
    }

    /// Writes a commit together with those that already wait behind it, so that they share one fsync. Returns the
    /// request that follows them.
    fn commit_group(&mut self, first: Commit, inbox: &Receiver<Request>) -> Option<Request> {
        let mut count = Operations::new(&first.operations).count();
        let mut group = vec![first];
        let mut follower = None;
        while count < GROUP {
            match inbox.try_recv().map(Commit::from_request) {
                Ok(Ok(commit)) => {
                    count += Operations::new(&commit.operations).count();
                    group.push(commit);
                }
                Ok(Err(other)) => {
                    follower = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        self.write(&group);
        follower.or_else(|| self.receive(inbox))
    }

    fn write(&mut self, group: &[Commit]) {
        let durable = group.iter().any(|commit| commit.durable);
        let parsed: Vec<Result<Vec<Change<'_>>, _>> = group
            .iter()
            .map(|commit| Operations::new(&commit.operations).collect())
            .collect();
        let changes: Vec<Change<'_>> = parsed.iter().flatten().flatten().copied().collect();
        let written = self.store.commit(&WriteBatch::of(&changes), durable);
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
            && let Err(error) = self.store.commit(&WriteBatch::default(), true)
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
