//! Writes the test vectors of the encrypted RPC: `cargo run -p selfsame-rpc --example vectors -- docs/specification/vectors`.
//!
//! A client, replicas and routers make them, with fixed secrets and randomness. The test `committed_vectors_are_current` checks that what
//! is committed equals what the crate gives.

mod files;

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("say where the files go: {}", files::COMMAND);
        std::process::exit(2);
    };
    for (name, text) in files::all() {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}
