//! The `selfsame` command.
#![forbid(unsafe_code)]

extern crate alloc;

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::main()
}
