//! The committed test vectors of the encrypted RPC are what the crate gives.

#[path = "../examples/vectors/files/mod.rs"]
mod files;

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn committed_vectors_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/specification/vectors");
    let made = files::all();
    for (name, text) in &made {
        let committed = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(committed == *text, "{name} is not current: {}", files::COMMAND);
    }
    let committed: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the folder of vectors")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("rpc-"))
        .collect();
    let made: BTreeSet<String> = made.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(committed, made, "every file has what writes it");
}
