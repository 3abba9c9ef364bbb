//! What the RPC is compared with. Client and server have a runtime of one thread each, the fastest for echoes that follow each other.

mod early;
pub(crate) use early::Early;

mod grpc;
pub(crate) use grpc::Grpc;

mod https;
pub(crate) use https::Https;

mod identity;

mod quic;
pub(crate) use quic::Quic;

use core::fmt::Display;
use core::future::Future;
use std::sync::{Arc, mpsc};
use std::thread;

use bench_pair::Outcome;
use tokio::runtime::{Builder, Runtime};

/// A runtime that the thread drives that waits in it.
pub(crate) fn runtime_of_one_thread() -> Outcome<Arc<Runtime>> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map(Arc::new).map_err(told)
}

/// Starts a server on a thread of its own, which ends with the process; returns what `start` says of it.
fn serve_on_thread<T, F>(start: impl FnOnce() -> Outcome<(T, F)> + Send + 'static) -> Outcome<T>
where
    T: Send + 'static,
    F: Future<Output = ()>,
{
    let (sender, started) = mpsc::channel();
    thread::spawn(move || {
        let running = runtime_of_one_thread().and_then(|runtime| {
            let _entered = runtime.enter();
            let (about, serving) = start()?;
            Ok((Arc::clone(&runtime), about, serving))
        });
        match running {
            Ok((runtime, about, serving)) => {
                if sender.send(Ok(about)).is_ok() {
                    runtime.block_on(serving);
                }
            }
            // Whoever started it has gone away.
            Err(error) => _ = sender.send(Err(error)),
        }
    });
    started
        .recv()
        .unwrap_or_else(|_| Err("a server does not start".into()))
}

fn told(error: impl Display) -> String {
    error.to_string()
}
