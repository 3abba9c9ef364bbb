//! YCSB on RocksDB and on capsules, and what capsules cost: `bench-ycsb FOLDER MODULE [ROCKSDB]`, where stores are created, the module
//! of primitives and RocksDB's shared library, then tasks on standard input (see `bench_pair::serve`).

/// As the command `selfsame` has it; RocksDB brings its own.
#[path = "../../../../host/src/allocator.rs"]
mod allocator;
mod backend;
mod clients;
mod clock;
mod exports;
mod library;
mod primitive;
mod proofs;
mod rocks;
mod server;
mod session;
mod table;
mod workload;
mod ycsb;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bench_pair::{Outcome, Task, serve};
use tokio::runtime::Runtime;

use crate::server::Way;
use crate::ycsb::Plan;

/// What all tasks have
struct Place {
    runtime: Runtime,
    folder: PathBuf,
    primitives: PathBuf,
    library: Option<PathBuf>,
}

fn main() -> ExitCode {
    allocator::configure();
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), Some(primitives), library, None) = (
        arguments.next(),
        arguments.next(),
        arguments.next(),
        arguments.next(),
    ) else {
        eprintln!("usage: bench-ycsb FOLDER MODULE [ROCKSDB]");
        return ExitCode::from(2);
    };
    let served = Runtime::new().and_then(|runtime| {
        let place = Arc::new(Place {
            runtime,
            folder,
            primitives,
            library,
        });
        serve(|name| task(name, &place))
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task(name: &str, place: &Arc<Place>) -> Outcome<Task> {
    let unknown = || format!("no task {name}");
    let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
    let place = Arc::clone(place);
    match name.split_once('/').ok_or_else(unknown)? {
        ("ycsb", plan) => {
            let plan = Plan::read(plan)?;
            Ok(Box::new(move |count| {
                plan.run(
                    place.runtime.handle(),
                    place.library.as_deref(),
                    &place.folder,
                    count,
                )
            }))
        }
        ("proofs", sizes) => {
            let (value_len, per_signature) = sizes.split_once('/').ok_or_else(unknown)?;
            let (value_len, per_signature) = (
                number(value_len)? as usize,
                number(per_signature)?.max(1) as usize,
            );
            Ok(Box::new(move |count| {
                let where_to = (place.folder.as_path(), place.primitives.as_path());
                let run = proofs::run(value_len, per_signature, where_to, count);
                place.runtime.block_on(run)
            }))
        }
        ("export", way) => {
            let way = Way::named(way)?;
            Ok(Box::new(move |count| {
                place.runtime.block_on(exports::run(&place.folder, way, count))
            }))
        }
        ("clients", clients) => {
            let clients = number(clients)?.max(1);
            Ok(Box::new(move |count| {
                place
                    .runtime
                    .block_on(clients::run(clients, &place.folder, count))
            }))
        }
        _ => Err(unknown()),
    }
}
