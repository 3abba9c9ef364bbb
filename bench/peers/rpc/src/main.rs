//! Echoes over the encrypted RPC and its peers: `bench-rpc MODULE`, the module of primitives, then tasks on standard input (see `bench_pair::serve`).

extern crate alloc;

mod bare;
mod clock;
mod echo;
mod error;
mod first;
mod forward;
mod parts;
mod peers;
mod plain;
mod pre_shared;
mod rate;
mod sealed;
mod sources;

/// As the command `selfsame` has it.
#[path = "../../../../host/src/allocator.rs"]
mod allocator;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bench_pair::{Outcome, Task, serve};
use selfsame_host::rpc::RpcOptions;
use tokio::runtime::Runtime;

use crate::bare::Bare;
use crate::echo::Echo;
use crate::first::{Calls, Fetching, Fresh, InSession, Through, Ticketed};
use crate::parts::Exchange;
use crate::peers::{Early, Grpc, Https, Quic, runtime_of_one_thread};
use crate::plain::{Alone, Plain};
use crate::pre_shared::PreShared;
use crate::sealed::Sealed;

fn main() -> ExitCode {
    allocator::configure();
    let Some(primitives) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: bench-rpc MODULE");
        return ExitCode::from(2);
    };
    let served = Runtime::new().and_then(|runtime| {
        let runtime = Arc::new(runtime);
        serve(|name| task(name, &runtime, &primitives))
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task(name: &str, runtime: &Arc<Runtime>, primitives: &Path) -> Outcome<Task> {
    match name {
        "echo/bare" => Ok(echo::task(runtime, Bare::start()?)),
        "echo/plain" => ours(runtime, Plain::start(false)),
        "echo/sealed" => ours(runtime, Sealed::start(RpcOptions::new().idempotent())),
        "echo/bound" => ours(runtime, Sealed::start(RpcOptions::new())),
        "part/kernel" => ours(runtime, Plain::start(true)),
        "part/engine" => ours(runtime, Alone::start()),
        "part/module" => ours(runtime, Exchange::start()),
        "part/steps" => parts::steps(),
        "part/cryptography" => parts::packets(primitives),
        "echo/grpc" => peer(Grpc::start(false)),
        "echo/grpc-tls" => peer(Grpc::start(true)),
        "echo/quic" => peer(Quic::start()),
        "echo/https" => peer(Https::start()),
        "first/ticket" => ours(runtime, Ticketed::start(Calls::Idempotent)),
        "first/bound" => ours(runtime, Ticketed::start(Calls::Bound)),
        "first/client" => ours(runtime, Ticketed::start(Calls::OfNewClients)),
        "first/rpc" => ours(runtime, Fresh::start(Through::Ticket)),
        "first/fetch" => ours(runtime, Fresh::start(Through::Fetch)),
        "first/session" => ours(runtime, Fresh::start(Through::Session)),
        "first/pre-shared" => ours(runtime, PreShared::start(true)),
        "first/early" => peer(Early::start(false)),
        "first/endpoint" => peer(Early::start(true)),
        "datagrams/ticket" => first::datagrams_of_ticketed(runtime, Calls::Idempotent),
        "datagrams/bound" => first::datagrams_of_ticketed(runtime, Calls::Bound),
        "datagrams/pre-shared" => pre_shared::datagrams(runtime),
        "echo/fetch" => ours(runtime, Fetching::start()),
        "echo/session" => ours(runtime, InSession::start()),
        "echo/pre-shared" => ours(runtime, PreShared::start(false)),
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
