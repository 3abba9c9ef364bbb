//! YCSB on RocksDB and on capsules, and what capsules cost: `bench-ycsb FOLDER [ROCKSDB]`, where stores are created and RocksDB's
//! shared library, then tasks on standard input (see `bench_pair::serve`).

/// As the command `selfsame` has it; RocksDB brings its own.
#[path = "../../../../host/src/allocator.rs"]
mod allocator;
mod backend;
mod capsule;
mod clients;
mod library;
mod proofs;
mod rocks;
mod server;
mod session;
mod store;
mod table;
mod workload;
mod ycsb;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench_pair::{Outcome, Task, serve};

use crate::ycsb::Plan;

fn main() -> ExitCode {
    allocator::configure();
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), library, None) = (arguments.next(), arguments.next(), arguments.next()) else {
        eprintln!("usage: bench-ycsb FOLDER [ROCKSDB]");
        return ExitCode::from(2);
    };
    match serve(|name| task(name, &folder, library.as_deref())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task(name: &str, folder: &Path, library: Option<&Path>) -> Outcome<Task> {
    let folder = folder.to_owned();
    let unknown = || format!("no task {name}");
    let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
    match name.split_once('/').ok_or_else(unknown)? {
        ("ycsb", plan) => {
            let (plan, library) = (Plan::read(plan)?, library.map(PathBuf::from));
            Ok(Box::new(move |count| {
                plan.run(library.as_deref(), &folder, count)
            }))
        }
        ("proofs", sizes) => {
            let (value_len, per_signature) = sizes.split_once('/').ok_or_else(unknown)?;
            let (value_len, per_signature) = (
                number(value_len)? as usize,
                number(per_signature)?.max(1) as usize,
            );
            Ok(Box::new(move |count| {
                proofs::run(value_len, per_signature, &folder, count)
            }))
        }
        ("clients", clients) => {
            let clients = number(clients)?.max(1);
            Ok(Box::new(move |count| clients::run(clients, &folder, count)))
        }
        _ => Err(unknown()),
    }
}
