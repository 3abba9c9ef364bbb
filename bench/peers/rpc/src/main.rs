//! Echoes over the encrypted RPC and its peers: `bench-rpc`, then tasks on standard input (see `bench_pair::serve`).

extern crate alloc;

mod bare;
mod clock;
mod echo;
mod error;
mod first;
mod forward;
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
use crate::first::{Fresh, Ticketed};
use crate::peers::{Early, Grpc, Https, Quic, runtime_of_one_thread};
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
        "echo/plain" => ours(runtime, Plain::start()),
        "echo/sealed" => ours(runtime, Sealed::start()),
        "echo/grpc" => peer(Grpc::start(false)),
        "echo/grpc-tls" => peer(Grpc::start(true)),
        "echo/quic" => peer(Quic::start()),
        "echo/https" => peer(Https::start()),
        "first/ticket" => ours(runtime, Ticketed::start(false)),
        "first/client" => ours(runtime, Ticketed::start(true)),
        "first/rpc" => ours(runtime, Fresh::start(false)),
        "first/fetch" => ours(runtime, Fresh::start(true)),
        "first/early" => peer(Early::start(false)),
        "first/endpoint" => peer(Early::start(true)),
        "datagrams/ticket" => first::datagrams_of_ticketed(runtime),
        "datagrams/early" => first::datagrams_of_early(runtime),
        "usage" => Ok(Box::new(|_| rate::usage())),
        "serve" => rate::serve(runtime),
        _ if name.starts_with("load|") => rate::load(name),
        _ if name.starts_with("sources|") => rate::load_from_sources(name),
        _ => Err(format!("no task {name}")),
    }
}

fn ours<E: Echo>(runtime: &Arc<Runtime>, start: impl Future<Output = Outcome<E>>) -> Outcome<Task> {
    Ok(echo::task(runtime, runtime.block_on(start)?))
}

fn peer<E: Echo>(start: impl Future<Output = Outcome<E>>) -> Outcome<Task> {
    let runtime = runtime_of_one_thread()?;
    let client = runtime.block_on(start)?;
    Ok(echo::task(&runtime, client))
}
