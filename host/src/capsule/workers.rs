//! The threads that the engines of a process share.

use alloc::sync::Arc;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Waker};
use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::thread;

use crate::error::Error;

/// Fewest threads once there are as many engines: an engine waits for the stores of others only while so many of them block.
const MIN_THREADS: usize = 8;

/// An engine that a thread polls
type EngineFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

static WORKERS: Workers = Workers {
    queue: Mutex::new(Queue {
        ready: VecDeque::new(),
        threads: 0,
    }),
    is_filled: Condvar::new(),
};

/// Threads that poll engines in the order in which they were woken
///
/// They belong to no runtime: a store may block, and may wait for a runtime of its own.
struct Workers {
    queue: Mutex<Queue>,
    is_filled: Condvar,
}

struct Queue {
    ready: VecDeque<Arc<Job>>,
    threads: usize,
}

/// An engine, and how often it was woken
struct Job {
    /// None once it has ended. One thread at a time locks it: the one that took the job from the queue.
    engine: Mutex<Option<EngineFuture>>,
    /// Wake-ups since it was idle: while there are any, it is in the queue or a thread polls it.
    wakes: AtomicUsize,
}

/// Runs an engine until it ends or panics. Each of the first engines starts a thread, until there are enough.
///
/// # Errors
/// [`Error::Io`] when the system gives no thread.
pub(super) fn run(engine: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
    WORKERS.add_thread()?;
    let job = Job {
        engine: Mutex::new(Some(Box::pin(engine))),
        wakes: AtomicUsize::new(0),
    };
    Arc::new(job).wake();
    Ok(())
}

impl Workers {
    /// Starts a thread unless there are enough.
    fn add_thread(&'static self) -> Result<(), Error> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut queue = self.queue();
        if queue.threads < cores.max(MIN_THREADS) {
            thread::Builder::new()
                .name("selfsame-capsule".into())
                .spawn(|| self.work())
                .map_err(|error| Error::io("a thread for capsules", error))?;
            queue.threads += 1;
        }
        Ok(())
    }

    /// Works until the process ends.
    fn work(&self) {
        loop {
            let mut next = Some(self.next());
            while let Some(job) = next {
                next = job.poll().then(|| self.exchange(job));
            }
        }
    }

    /// Waits for a job.
    fn next(&self) -> Arc<Job> {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.ready.pop_front() {
                return job;
            }
            queue = self.is_filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Puts a job at the end of the queue, and takes the first one.
    fn exchange(&self, job: Arc<Job>) -> Arc<Job> {
        let mut queue = self.queue();
        match queue.ready.pop_front() {
            Some(first) => {
                queue.ready.push_back(job);
                first
            }
            None => job,
        }
    }

    /// Puts a job at the end of the queue, and wakes a thread for it.
    fn push(&self, job: Arc<Job>) {
        self.queue().ready.push_back(job);
        self.is_filled.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics between two changes of the queue.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    /// Polls the engine; returns whether it was woken meanwhile, and so has to be polled again.
    fn poll(self: &Arc<Self>) -> bool {
        let seen = self.wakes.load(Ordering::Acquire);
        let mut place = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = place.as_mut() else {
            return false;
        };
        let waker = Waker::from(Arc::clone(self));
        let polled = catch_unwind(AssertUnwindSafe(|| {
            engine.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        let goes_on = polled.is_ok_and(|polled| polled.is_pending());
        if !goes_on {
            *place = None;
        }
        // An engine that has ended keeps its wake-ups, so that it is never queued again.
        goes_on && self.wakes.fetch_sub(seen, Ordering::AcqRel) > seen
    }
}

impl Wake for Job {
    fn wake(self: Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::AcqRel) == 0 {
            WORKERS.push(self);
        }
    }
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
