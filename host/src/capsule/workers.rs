//! The threads that the engines of a process share.

use core::future::pending;
use core::panic::AssertUnwindSafe;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use async_executor::Executor;
use futures_lite::future::block_on;
use futures_util::FutureExt as _;

use crate::error::Error;

/// Fewest threads once there are as many engines: an engine waits for the stores of those that it shares a thread with.
const MIN_THREADS: usize = 8;

static WORKERS: Workers = Workers::new();

/// Runs an engine until it ends or panics, on a few threads that all engines share.
///
/// The threads belong to no runtime: a store may block, and may wait for a runtime of its own.
///
/// # Errors
/// [`Error::Io`] when the system gives no thread.
pub(super) fn run(engine: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
    WORKERS.run(engine)
}

/// Threads that each run some engines in turns. An engine stays with its thread: what it works with stays in the core's cache, and is
/// freed by the thread that allocated it, which saves a twentieth of what writing to a capsule costs.
struct Workers(Mutex<Vec<Worker>>);

struct Worker {
    /// Runs what was woken in turns, so that an engine with much to do leaves others theirs.
    executor: &'static Executor<'static>,
    engines: usize,
}

impl Workers {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn run(&'static self, engine: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let begun = self.begin();
        let (executor, place) = begun.map_err(|error| Error::io("a thread for capsules", error))?;
        // A panic ends one engine, and no thread.
        let engine = AssertUnwindSafe(engine).catch_unwind();
        let running = async move {
            let _place = place;
            engine.await
        };
        executor.spawn(running).detach();
        Ok(())
    }

    /// Takes a place at the thread with the fewest engines; a new thread has none, until there are enough.
    fn begin(&'static self) -> io::Result<(&'static Executor<'static>, Place)> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut workers = self.lock();
        if workers.len() < cores.max(MIN_THREADS) && workers.iter().all(|worker| worker.engines > 0) {
            workers.push(Worker::start()?);
        }
        let fewest = workers
            .iter_mut()
            .enumerate()
            .min_by_key(|(_, worker)| worker.engines);
        let (at, worker) = fewest.ok_or_else(|| io::Error::other("there is no thread"))?;
        worker.engines += 1;
        Ok((worker.executor, Place { workers: self, at }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    fn start() -> io::Result<Self> {
        // It lives as long as its thread, and that as long as the process.
        let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
        thread::Builder::new()
            .name("selfsame-capsule".into())
            .spawn(|| block_on(executor.run(pending::<()>())))?;
        Ok(Self { executor, engines: 0 })
    }
}

/// The place of an engine at a thread, which is free again when this is dropped.
struct Place {
    workers: &'static Workers,
    at: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(worker) = self.workers.lock().get_mut(self.at) {
            worker.engines -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::collections::HashSet;
    use std::sync::mpsc::channel;

    use tokio::task::yield_now;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// Threads of one test alone.
    fn workers() -> &'static Workers {
        Box::leak(Box::new(Workers::new()))
    }

    #[test]
    fn a_panic_ends_one_engine_and_no_thread() {
        let workers = workers();
        let (ended, all) = channel::<()>();
        for _ in 0..2 * MIN_THREADS {
            let ended = ended.clone();
            workers
                .run(async move {
                    let _ended = ended;
                    panic!("an engine that fails, as this test wants it");
                })
                .expect("a thread");
        }
        drop(ended);
        assert!(all.recv_timeout(LONG).is_err(), "each is dropped");
        let (alive, others) = channel();
        workers
            .run(async move { alive.send(()).expect("it is heard") })
            .expect("a thread");
        others.recv_timeout(LONG).expect("another engine runs");
    }

    #[test]
    fn an_engine_runs_while_others_block() {
        let workers = workers();
        let mut releases = Vec::new();
        for _ in 1..MIN_THREADS {
            let (release, blocked) = channel::<()>();
            workers.run(async move { _ = blocked.recv() }).expect("a thread");
            releases.push(release);
        }
        let (alive, others) = channel();
        workers
            .run(async move { alive.send(()).expect("it is heard") })
            .expect("a thread");
        others.recv_timeout(LONG).expect("it does not wait for them");
    }

    #[test]
    fn an_engine_that_wakes_itself_leaves_others_their_turn() {
        let workers = workers();
        let (go_on, mut waits) = tokio::sync::mpsc::channel::<()>(1);
        for _ in 0..2 * MIN_THREADS {
            let busy = go_on.clone();
            workers
                .run(async move {
                    while !busy.is_closed() {
                        yield_now().await;
                    }
                })
                .expect("a thread");
        }
        let (alive, others) = channel();
        workers
            .run(async move {
                yield_now().await;
                waits.close();
                alive.send(()).expect("it is heard");
            })
            .expect("a thread");
        others.recv_timeout(LONG).expect("it has its turn");
    }

    #[test]
    fn engines_have_threads_of_their_own_while_there_are_enough() {
        let workers = workers();
        let most = thread::available_parallelism()
            .map_or(1, usize::from)
            .max(MIN_THREADS);
        let (told, places) = channel();
        let mut begun = Vec::new();
        for _ in 0..2 * most {
            let (release, waits) = tokio::sync::oneshot::channel::<()>();
            let told = told.clone();
            let engine = async move {
                told.send(thread::current().id()).expect("it is heard");
                _ = waits.await;
            };
            workers.run(engine).expect("a thread");
            begun.push((release, places.recv_timeout(LONG).expect("it runs")));
        }
        let threads: HashSet<_> = begun.iter().map(|(_, thread)| *thread).collect();
        assert_eq!(threads.len(), most);
        let first: HashSet<_> = begun[..most].iter().map(|(_, thread)| *thread).collect();
        assert_eq!(first, threads);
    }
}
