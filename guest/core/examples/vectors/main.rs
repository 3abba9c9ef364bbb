//! Writes what in `docs` is made from the core, the test vectors and the table of errors:
//! `cargo run -p selfsame-core --example vectors -- docs`.
//!
//! Everything comes out of the core itself with fixed seeds. `tests/vectors.rs` checks that what is committed equals
//! what the core gives.

mod files;

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("say where the files go: cargo run -p selfsame-core --example vectors -- docs");
        std::process::exit(2);
    };
    for (name, text) in files::all() {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}
