//! The test vectors and the table of errors that are committed are what the core gives.

#[path = "../examples/vectors/files/mod.rs"]
mod files;

use std::path::Path;

#[test]
fn what_is_made_from_the_core_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let files = files::all();
    for (name, text) in &files {
        let committed = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            committed == *text,
            "{name} is not current: cargo run -p selfsame-core --example vectors -- docs"
        );
    }
    let vectors = std::fs::read_dir(folder.join("specification/vectors")).expect("the folder of vectors");
    // Those of capsules and of the RPC are made from other crates, whose tests check them.
    let vectors = vectors.filter(|file| {
        let name = file.as_ref().expect("a file").file_name();
        let name = name.to_string_lossy();
        !name.starts_with("capsule-") && !name.starts_with("rpc-")
    });
    // Beside the vectors there is the table of errors.
    assert_eq!(
        vectors.count() + 1,
        files.len(),
        "there are files of vectors that nothing makes"
    );
}
