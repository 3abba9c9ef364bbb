//! The core as native code, snow and rustls: tasks on standard input (see `bench_pair::serve`).

mod core;
mod noise;
mod tls;

use std::process::ExitCode;

use bench_pair::{Outcome, Task, serve};

fn main() -> ExitCode {
    match serve(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn task(name: &str) -> Outcome<Task> {
    let (peer, work) = name.split_once('/').ok_or_else(|| format!("no task {name}"))?;
    let len = work
        .strip_prefix("channel/")
        .map(|len| len.parse().map_err(|_| format!("{len} is no length")));
    match (peer, work, len.transpose()?) {
        ("core", "handshake", None) => core::handshakes(),
        ("core", _, Some(len)) => core::messages(len),
        ("snow", "handshake", None) => noise::handshakes(),
        ("rustls", "handshake", None) => tls::handshakes(),
        ("snow", _, Some(len)) => noise::messages(len),
        ("rustls", _, Some(len)) => tls::messages(len),
        _ => Err(format!("no task {name}")),
    }
}
