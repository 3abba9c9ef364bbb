//! The threads that the engines of a process share.

use core::future::pending;
use core::panic::AssertUnwindSafe;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use async_executor::Executor;
use futures_lite::future::block_on;
use futures_util::FutureExt as _;

use crate::error::Error;

/// Fewest threads once there are as many engines: an engine waits for the stores of others only while so many of them block.
const MIN_THREADS: usize = 8;

/// Runs what was woken in turns, so that an engine with much to do leaves others theirs.
static EXECUTOR: Executor<'static> = Executor::new();
/// Threads that were started.
static THREADS: Mutex<usize> = Mutex::new(0);

/// Runs an engine until it ends or panics, on a few threads that all engines share.
///
/// The threads belong to no runtime: a store may block, and may wait for a runtime of its own.
///
/// # Errors
/// [`Error::Io`] when the system gives no thread.
pub(super) fn run(engine: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
    add_thread().map_err(|error| Error::io("a thread for capsules", error))?;
    // A panic ends one engine, and no thread.
    EXECUTOR.spawn(AssertUnwindSafe(engine).catch_unwind()).detach();
    Ok(())
}

/// Starts a thread for each of the first engines, until there are enough.
fn add_thread() -> io::Result<()> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    if *threads < cores.max(MIN_THREADS) {
        let work = || block_on(EXECUTOR.run(pending::<()>()));
        thread::Builder::new()
            .name("selfsame-capsule".into())
            .spawn(work)?;
        *threads += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::mpsc::channel;

    use tokio::task::yield_now;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_panic_ends_one_engine_and_no_thread() {
        let (ended, all) = channel::<()>();
        for _ in 0..2 * MIN_THREADS {
            let ended = ended.clone();
            run(async move {
                let _ended = ended;
                panic!("an engine that fails, as this test wants it");
            })
            .expect("a thread");
        }
        drop(ended);
        assert!(all.recv_timeout(LONG).is_err(), "each is dropped");
        let (alive, others) = channel();
        run(async move { alive.send(()).expect("it is heard") }).expect("a thread");
        others.recv_timeout(LONG).expect("another engine runs");
    }

    #[test]
    fn an_engine_runs_while_others_block() {
        let mut releases = Vec::new();
        for _ in 1..MIN_THREADS {
            let (release, blocked) = channel::<()>();
            run(async move { _ = blocked.recv() }).expect("a thread");
            releases.push(release);
        }
        let (alive, others) = channel();
        run(async move { alive.send(()).expect("it is heard") }).expect("a thread");
        others.recv_timeout(LONG).expect("it does not wait for them");
    }

    #[test]
    fn an_engine_that_wakes_itself_leaves_others_their_turn() {
        let (go_on, mut waits) = tokio::sync::mpsc::channel::<()>(1);
        for _ in 0..2 * MIN_THREADS {
            let busy = go_on.clone();
            run(async move {
                while !busy.is_closed() {
                    yield_now().await;
                }
            })
            .expect("a thread");
        }
        let (alive, others) = channel();
        run(async move {
            yield_now().await;
            waits.close();
            alive.send(()).expect("it is heard");
        })
        .expect("a thread");
        others.recv_timeout(LONG).expect("it has its turn");
    }
}
