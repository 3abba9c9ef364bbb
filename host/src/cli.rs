//! What the command line asks, done with the library.

use std::process::ExitCode;

use clap::Parser as _;

mod args;
use args::{Arguments, Command};

mod authority;
mod cache;
mod capsule;
mod client;
mod control;
mod doctor;
mod duplicates;
mod keys;
mod listen;
mod log;
mod membership;
mod node;
mod nodes;
mod output;
mod proxy;
mod ring;
mod rpc;
mod running;
mod signals;
mod value;

use output::{Failure, Output};

/// Reads the command line, does what it says, and tells how it ended.
pub(crate) fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::report_usage(&error),
    };
    let output = Output { json: arguments.json };
    arguments.log.start();
    cache::keep_compiled_core();
    match run(arguments.command, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output.report(&failure),
    }
}

fn run(command: Command, output: Output) -> Result<(), Failure> {
    match command {
        Command::Id(command) => keys::id(command, output),
        Command::Owner(command) => keys::owner(command, output),
        Command::Grant(command) => keys::grant(&command, output),
        Command::Authority(command) => wait(authority::run(command, output)),
        Command::Node(command) => wait(node::run(command, output)),
        Command::Proxy(command) => wait(proxy::run(command, output)),
        Command::Nodes(command) => wait(nodes::run(command, output)),
        Command::Ring(command) => wait(ring::run(command, output)),
        Command::Doctor(command) => wait(doctor::run(command, output)),
        Command::Find(command) => wait(client::find(command, output)),
        Command::Store(command) => wait(client::store(command, output)),
        Command::Call(command) => wait(client::call(command, output)),
        Command::Capsule(command) => wait(capsule::run(command, output)),
        Command::Rpc(command) => wait(rpc::run(command, output)),
    }
}

fn wait(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::other(format!("no threads: {error}")))?;
    runtime.block_on(work)
}
