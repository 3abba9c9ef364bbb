//! Puts core.wasm where `include_bytes!` finds it.

use std::env;
use std::fs;
use std::path::PathBuf;

/// Names another file to embed, for a core that was built elsewhere.
const OVERRIDE: &str = "SELFSAME_CORE_WASM";
/// First bytes of every WebAssembly module.
const MAGIC: &[u8] = b"\0asm";

fn main() {
    println!("cargo::rerun-if-env-changed={OVERRIDE}");
    let path = env::var_os(OVERRIDE).map_or_else(
        || variable("CARGO_MANIFEST_DIR").join("../runtime/core/core.wasm"),
        PathBuf::from,
    );
    println!("cargo::rerun-if-changed={}", path.display());
    let Ok(wasm) = fs::read(&path) else {
        return fail(&format!("{} is missing: run `npm run build`", path.display()));
    };
    if !wasm.starts_with(MAGIC) {
        return fail(&format!(
            "{} is not WebAssembly: run `npm run build`",
            path.display()
        ));
    }
    if let Err(error) = fs::write(variable("OUT_DIR").join("core.wasm"), wasm) {
        fail(&format!(
            "core.wasm cannot be copied into the build folder: {error}"
        ));
    }
}

fn variable(name: &str) -> PathBuf {
    env::var_os(name)
        .map(PathBuf::from)
        .expect("cargo sets this variable for build scripts")
}

fn fail(message: &str) {
    println!("cargo::error={message}");
}
