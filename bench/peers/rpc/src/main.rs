//! Echoes over the encrypted RPC and its peers: `bench-rpc`, then tasks on standard input (see `bench_pair::serve`).

extern crate alloc;

mod bare;
mod clock;
mod echo;
mod error;
mod peers;
mod plain;
mod rate;
mod sealed;
mod sources;

/// As the command `selfsame` has it.
#[path = "../../../../host/src/allocator.rs"]
mod allocator;

use std::process::ExitCode;
use std::sync::Arc;

use bench_pair::{Outcome, Task, serve};
use tokio::runtime::Runtime;

use crate::bare::Bare;
use crate::echo::Echo;
use crate::peers::{Grpc, Https, Quic, runtime_of_one_thread};
use crate::plain::Plain;
use crate::sealed::Sealed;

fn main() -> ExitCode {
    allocator::configure();
    let served = Runtime::new().and_then(|runtime| {
        let runtime = Arc::new(runtime);
        serve(|name| task(name, &runtime))
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task(name: &str, runtime: &Arc<Runtime>) -> Outcome<Task> {
    match name {
        "echo/bare" => Ok(echo::task(runtime, Bare::start()?)),
        "echo/plain" => Ok(echo::task(runtime, runtime.block_on(Plain::start())?)),
        "echo/sealed" => Ok(echo::task(runtime, runtime.block_on(Sealed::start())?)),
        "echo/grpc" => peer(Grpc::start(false)),
        "echo/grpc-tls" => peer(Grpc::start(true)),
        "echo/quic" => peer(Quic::start()),
        "echo/https" => peer(Https::start()),
        "usage" => Ok(Box::new(|_| rate::usage())),
        "serve" => rate::serve(runtime),
        _ if name.starts_with("load|") => rate::load(name),
        _ if name.starts_with("sources|") => rate::load_from_sources(name),
        _ => Err(format!("no task {name}")),
    }
}

fn peer<E: Echo>(start: impl Future<Output = Outcome<E>>) -> Outcome<Task> {
    let runtime = runtime_of_one_thread()?;
    let client = runtime.block_on(start)?;
    Ok(echo::task(&runtime, client))
}
