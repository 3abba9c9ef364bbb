//! Puts core.wasm, core-closed.wasm, capsule.wasm, rpc.wasm and admission.wasm where `include_bytes!` finds them.

use std::env;
use std::fs;
use std::path::PathBuf;

/// The modules, and what names another file to embed for one that was built elsewhere.
const MODULES: [(&str, &str); 5] = [
    ("core.wasm", "SELFSAME_CORE_WASM"),
    ("core-closed.wasm", "SELFSAME_CLOSED_CORE_WASM"),
    ("capsule.wasm", "SELFSAME_CAPSULE_WASM"),
    ("rpc.wasm", "SELFSAME_RPC_WASM"),
    ("admission.wasm", "SELFSAME_ADMISSION_WASM"),
];
/// First bytes of every WebAssembly module.
const MAGIC: &[u8] = b"\0asm";

fn main() {
    for (file, override_name) in MODULES {
        embed(file, override_name);
    }
}

fn embed(file: &str, override_name: &str) {
    println!("cargo::rerun-if-env-changed={override_name}");
    let path = env::var_os(override_name).map_or_else(
        || variable("CARGO_MANIFEST_DIR").join("../runtime/core").join(file),
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
    if let Err(error) = fs::write(variable("OUT_DIR").join(file), wasm) {
        fail(&format!("{file} cannot be copied into the build folder: {error}"));
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
