//! The `selfsame` command.
#![deny(unsafe_code)]
// They panic when the other end of a pipe is closed.
#![deny(clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

use std::process::ExitCode;

mod allocator;
mod cli;
// The library's own, which is no part of its interface.
mod retry;

fn main() -> ExitCode {
    allocator::configure();
    cli::main()
}
