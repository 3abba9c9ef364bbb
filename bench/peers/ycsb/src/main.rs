//! YCSB on RocksDB and on capsules, and what capsules cost: `bench-ycsb ROCKSDB FOLDER`, the shared library and where stores are
//! created, then tasks on standard input (see `bench_pair::serve`).

mod backend;
mod capsule;
mod clients;
mod library;
mod proofs;
mod rocks;
mod server;
mod store;
mod table;
mod workload;
mod ycsb;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use bench_pair::{Outcome, Task, serve};

use crate::library::Functions;
use crate::ycsb::Plan;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(library), Some(folder), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        eprintln!("usage: bench-ycsb ROCKSDB FOLDER");
        return ExitCode::from(2);
    };
    let functions = match Functions::load(Path::new(&library)) {
        Ok(functions) => Arc::new(functions),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let folder = PathBuf::from(folder);
    match serve(|name| task(name, &functions, &folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task(name: &str, functions: &Arc<Functions>, folder: &Path) -> Outcome<Task> {
    let folder = folder.to_owned();
    let unknown = || format!("no task {name}");
    let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
    match name.split_once('/').ok_or_else(unknown)? {
        ("ycsb", plan) => {
            let (plan, functions) = (Plan::read(plan)?, Arc::clone(functions));
            Ok(Box::new(move |count| plan.run(&functions, &folder, count)))
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
