//! The compiled core that the command keeps: used when it is there, and never a reason to fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use selfsame_host::Seed;

use crate::common::command;

/// Shows the id of the seed in `folder/data`, with a cache.
fn id(folder: &Path, cache: &Path) -> String {
    let output = command::selfsame(folder)
        .args(["id", "show", "--network", "t", "--data", "data"])
        .env("SELFSAME_CACHE", cache)
        .output()
        .expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{error}");
    String::from_utf8(output.stdout).expect("text")
}

/// A folder with a seed.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let seed = Seed::from_bytes([7; 32]);
    seed.save(&folder.path().join("data/identity.key"))
        .expect("a file");
    folder
}

/// Compiled modules in a folder; beside them the cache counts their use.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let found = paths.flat_map(|path| if path.is_dir() { modules(&path) } else { vec![path] });
    found.filter(|path| path.extension().is_none()).collect()
}

fn changed(path: &Path) -> SystemTime {
    let metadata = fs::metadata(path).expect("the file");
    metadata.modified().expect("its time")
}

#[test]
fn the_core_is_compiled_once() {
    let folder = folder();
    let cache = folder.path().join("cache/of/this");
    let shown = id(folder.path(), &cache);
    let [module] = modules(&cache).try_into().expect("one module");
    let written = changed(&module);
    assert_eq!(id(folder.path(), &cache), shown);
    assert_eq!(modules(&cache).as_slice(), core::slice::from_ref(&module));
    assert_eq!(changed(&module), written, "it is loaded, not compiled again");
}

#[test]
fn what_was_damaged_is_compiled_again() {
    let folder = folder();
    let cache = folder.path().join("cache");
    let shown = id(folder.path(), &cache);
    let [module] = modules(&cache).try_into().expect("one module");
    let whole = fs::read(&module).expect("the file");
    for damage in [&b""[..], b"nonsense", &whole[..whole.len() / 2]] {
        fs::write(&module, damage).expect("a write");
        assert_eq!(id(folder.path(), &cache), shown);
        assert_eq!(fs::read(&module).expect("the file"), whole, "it is replaced");
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_not_used() {
    let folder = folder();
    let shown = id(folder.path(), Path::new(""));
    let file = folder.path().join("file");
    fs::write(&file, "kept").expect("a file");
    assert_eq!(id(folder.path(), &file), shown);
    assert_eq!(id(folder.path(), &file.join("below")), shown);
    assert_eq!(fs::read_to_string(&file).expect("the file"), "kept");
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_may_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = folder();
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).expect("a folder");
    let shown = id(folder.path(), Path::new(""));
    for mode in [0o777, 0o770, 0o702] {
        fs::set_permissions(&cache, fs::Permissions::from_mode(mode)).expect("a mode");
        assert_eq!(id(folder.path(), &cache), shown);
        assert!(modules(&cache).is_empty(), "{mode:o}");
    }
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o755)).expect("a mode");
    assert_eq!(id(folder.path(), &cache), shown);
    assert_eq!(modules(&cache).len(), 1);
}
