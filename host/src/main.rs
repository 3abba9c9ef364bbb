//! The `selfsame` command.
#![forbid(unsafe_code)]
// They panic when the other end of a pipe is closed.
#![deny(clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

use std::process::ExitCode;

use mimalloc::MiMalloc;

mod cli;

/// What a thread allocates another one frees: messages go from the sockets' threads to the core's and its store's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
