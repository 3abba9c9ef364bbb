//! The `selfsame` command.
#![deny(unsafe_code)]
// They panic when the other end of a pipe is closed.
#![deny(clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

use std::process::ExitCode;

mod allocator;
mod cli;

fn main() -> ExitCode {
    allocator::configure();
    cli::main()
}
