//! The committed test vectors are what the core gives.

#[path = "../examples/vectors/files/mod.rs"]
mod files;

use std::path::Path;

#[test]
fn the_committed_vectors_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/specification/vectors");
    let files = files::all();
    for (name, text) in &files {
        let committed = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            committed == *text,
            "{name} is not current: cargo run -p selfsame-core --example vectors -- docs/specification/vectors"
        );
    }
    let committed = std::fs::read_dir(folder).expect("the folder of vectors").count();
    assert_eq!(
        committed,
        files.len(),
        "there are files of vectors that nothing makes"
    );
}
