//! Revokes a member of a closed network over sockets of this machine, and looks who refuses it when.
//!
//!     selfsame-revoke [--peers N] [--short]
//!
//! All but two members run in this process, each with its own core and sockets; the two are processes of `selfsame`, of which one is told
//! of the revocation by a signal and one sleeps meanwhile.

#![allow(clippy::print_stdout, reason = "results go to the standard output")]

extern crate alloc;

mod checks;
mod network;
mod process;
mod report;
mod ring;

use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::report::Report;

/// What goes wrong beside what is checked
type Outcome<T> = Result<T, Box<dyn core::error::Error + Send + Sync>>;

#[derive(Debug, Parser)]
struct Arguments {
    /// Members of the network, the revoked one among them
    #[arg(long, default_value_t = 255, value_parser = clap::value_parser!(u16).range(8..=1000))]
    peers: u16,
    /// Sets no limit of time
    #[arg(long)]
    short: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    allow_many_files();
    let mut report = Report::default();
    if let Err(error) = checks::run(arguments.peers, !arguments.short, &mut report).await {
        report.check("the network runs", Err(error.to_string()));
    }
    report.finish()
}

/// Lets the process have as many sockets as its user may.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        println!("the limit of open files stays as it is: {error}");
    }
}
