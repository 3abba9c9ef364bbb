//! The `selfsame` command.
#![forbid(unsafe_code)]
// They panic when the other end of a pipe is closed.
#![deny(clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::main()
}
