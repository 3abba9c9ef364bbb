//! The files of vectors of capsules.

mod bodies;
mod epochs;
mod exports;
mod fixture;
#[path = "../../../../core/examples/vectors/files/json.rs"]
mod json;
mod metadata;
mod records;
mod sets;
#[path = "../../../tests/common/single.rs"]
mod single;
mod statements;
#[path = "../../../tests/common/stepped.rs"]
pub(crate) mod stepped;
mod trees;

/// What writes the files.
pub(crate) const COMMAND: &str =
    "cargo run -p selfsame-capsule --example vectors -- docs/specification/vectors";

/// Every file: its name in the folder of vectors and its text.
pub(crate) fn all() -> Vec<(&'static str, String)> {
    let files = [
        ("capsule-metadata.json", metadata::vectors()),
        ("capsule-records.json", records::vectors()),
        ("capsule-bodies.json", bodies::vectors()),
        ("capsule-trees.json", trees::vectors()),
        ("capsule-epochs.json", epochs::vectors()),
        ("capsule-statements.json", statements::vectors()),
        ("capsule-sets.json", sets::vectors()),
        ("capsule-files.json", exports::vectors()),
    ];
    files.map(|(name, vectors)| (name, vectors.to_text())).into()
}
