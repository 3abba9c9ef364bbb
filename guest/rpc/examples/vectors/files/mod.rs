//! The files of vectors of the encrypted RPC.

mod conversations;
#[path = "../../../../core/examples/vectors/files/json.rs"]
mod json;
mod keys;
mod routing;
#[path = "../../../tests/world/mod.rs"]
mod world;

/// What writes the files.
pub(crate) const COMMAND: &str = "cargo run -p selfsame-rpc --example vectors -- docs/specification/vectors";

/// Every file: its name in the folder of vectors and its text.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    let files = [
        ("rpc-tickets.json", keys::vectors()),
        ("rpc-datagrams.json", conversations::vectors()),
        ("rpc-routers.json", routing::vectors()),
    ];
    files.map(|(name, vectors)| (name, vectors.to_text())).into()
}
