//! What only the store on disk has to stand: damage, other versions, other programs' files.

use std::fs;
use std::path::{Path, PathBuf};

use selfsame_codec::Operation;
use selfsame_store::{DiskStore, SCHEMA, Storage, StoreError};
use selfsame_write_batch::WriteBatch;

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
    Operation::Put { key, value }
}

fn delete(key: &[u8]) -> Operation<'_> {
    Operation::Delete { key }
}

#[test]
fn a_store_that_is_open_is_not_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let _store = DiskStore::open(&path).expect("a store");
    assert!(matches!(DiskStore::open(&path), Err(StoreError::InUse { path: named }) if named == path));
}

/// The line of a schema file, which says that it is whole.
fn schema_line(number: u64) -> String {
    let text = format!("selfsame store {number} ");
    format!("{text}{:08x}\n", crc32fast::hash(text.as_bytes()))
}

#[test]
fn another_schema_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    drop(DiskStore::open(&path).expect("a store"));
    let schema = path.join("schema");
    assert_eq!(fs::read_to_string(&schema).expect("a file"), schema_line(SCHEMA));
    let refused = |number| {
        fs::write(&schema, schema_line(number)).expect("a file");
        DiskStore::open(&path).expect_err("another schema")
    };
    for _ in 0..2 {
        let error = refused(SCHEMA + 1);
        assert!(
            matches!(error, StoreError::TooNew { found, .. } if found == SCHEMA + 1),
            "{error}"
        );
        assert!(error.to_string().contains("run the newer version"), "{error}");
        let error = refused(SCHEMA - 1);
        assert!(matches!(error, StoreError::TooOld { .. }), "{error}");
    }
    assert_eq!(
        fs::read_to_string(&schema).expect("a file"),
        schema_line(SCHEMA - 1)
    );
}

/// What earlier versions wrote is refused, and nothing is created in its place.
#[test]
fn a_file_of_redb_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    for name in ["store.redb", "store"] {
        let old = folder.path().join(name);
        fs::write(&old, b"redb\x1a\x0a\xa9\x0d\x0a").expect("a file");
        let error = DiskStore::open(&path).expect_err(name);
        assert!(
            matches!(&error, StoreError::TooOld { path } if *path == old),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("earlier version") && text.contains("move it away"),
            "{text}"
        );
        fs::remove_file(&old).expect("the file is there");
        assert!(!path.exists(), "{name}: nothing was created");
    }
    DiskStore::open(&path).expect("it was moved away");
}

/// Every way in which a path can be no store of ours: refused by its path, with the remedy, and not touched.
#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let refused = |what: &str| {
        let error = DiskStore::open(&path).expect_err(what);
        assert!(matches!(error, StoreError::Corrupt { .. }), "{what}: {error}");
        let text = error.to_string();
        assert!(
            text.contains("store") && text.contains("move it away"),
            "{what}: {text}"
        );
    };
    let files: [(&str, &[u8]); 3] = [("empty", b""), ("text", b"not a store"), ("zeros", &[0; 65_536])];
    for (what, bytes) in files {
        fs::write(&path, bytes).expect("a file");
        refused(what);
        assert_eq!(fs::read(&path).expect("the file"), bytes, "{what}: its bytes");
    }
    fs::remove_file(&path).expect("a file");
    fs::create_dir(&path).expect("a folder");
    fs::write(path.join("other"), "another program's").expect("a file");
    refused("another program's folder");
    assert_eq!(fs::read_dir(&path).expect("the folder").count(), 1);
}

#[test]
fn an_empty_folder_becomes_a_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = DiskStore::open(folder.path()).expect("a store");
    store
        .commit(&WriteBatch::of(&[put(b"a", b"1")]), true)
        .expect("a commit");
    drop(store);
    let store = DiskStore::open(folder.path()).expect("the same store");
    assert_eq!(store.get(b"a").expect("a read"), Some(b"1".to_vec()));
}

#[test]
fn keys_that_are_too_long_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let mut store = DiskStore::open(&path).expect("a store");
    let longest = vec![7; 65_534];
    store
        .commit(&WriteBatch::of(&[put(&longest, b"1")]), true)
        .expect("a commit");
    let error = store.commit(&WriteBatch::of(&[put(&[7; 65_535], b"1")]), true);
    assert!(error.expect_err("too long").to_string().contains("65,534"));
    drop(store);
    let store = DiskStore::open(&path).expect("the same store");
    assert_eq!(store.get(&longest).expect("a read"), Some(b"1".to_vec()));
}

/// Some lie in the runs, and some beside them.
fn value_of(number: u32) -> Vec<u8> {
    vec![number as u8; if number.is_multiple_of(3) { 700 } else { 300 }]
}

fn filled_store(path: &Path) {
    // Several runs, and what is removed in a later one.
    for part in 0..3_u32 {
        let mut store = DiskStore::open(path).expect("a store");
        for number in (part..200).step_by(1 + part as usize) {
            store
                .commit(
                    &WriteBatch::of(&[put(&number.to_be_bytes(), &value_of(number))]),
                    number % 20 == 0,
                )
                .expect("a commit");
        }
        let extra = [&[0xee][..], &part.to_be_bytes()].concat();
        let before = [&[0xee][..], &part.wrapping_sub(1).to_be_bytes()].concat();
        let changes: &[Operation<'_>] = match part {
            2 => &[delete(&before)],
            _ => &[put(&extra, b"removed later"), delete(&before)],
        };
        store.commit(&WriteBatch::of(changes), true).expect("a commit");
    }
}

fn is_whole(store: &dyn Storage) -> bool {
    let entries = store.scan(&[], &[0xff], 1000).expect("a scan");
    entries.len() == 200
        && entries
            .iter()
            .zip(0..)
            .all(|((key, value), number)| *key == u32::to_be_bytes(number) && *value == value_of(number))
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let of = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files_in(&path)
        } else {
            vec![path]
        }
    };
    entries.flat_map(of).collect()
}

fn copy(from: &Path, to: &Path) {
    for file in files_in(from) {
        let target = to.join(file.strip_prefix(from).expect("it is in it"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
        fs::copy(file, target).expect("a copy");
    }
}

/// A copy of a store with one file changed: it is refused or whole. Whether it was refused.
fn is_refused(store: &Path, file: &Path, change: impl FnOnce(&mut Vec<u8>), what: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let aside = folder.path().join("aside");
    copy(store, &aside);
    let file = aside.join(file.strip_prefix(store).expect("it is in it"));
    let mut bytes = fs::read(&file).expect("a file");
    change(&mut bytes);
    fs::write(&file, bytes).expect("a file");
    match DiskStore::open(&aside) {
        Ok(store) => {
            assert!(is_whole(&store), "{what} changed what is read");
            false
        }
        Err(StoreError::Corrupt { path, .. }) => {
            // What says which manifest counts may name one that is not there.
            let is_named =
                path == file || (file.ends_with("current") && path.starts_with(aside.join("runs")));
            assert!(is_named, "{what}: {} is named", path.display());
            true
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// A byte that changes anywhere in any file is noticed when the store is opened, or is of no consequence, as in a file that is left
/// from before.
#[test]
fn damage_is_noticed_wherever_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    filled_store(&path);
    let mut refused = 0;
    for file in files_in(&path) {
        let len = fs::read(&file).expect("its bytes").len();
        for at in (0..len).step_by(len / 100 + 1).chain((0..len).rev().take(24)) {
            let what = format!("byte {at} of {}", file.display());
            refused += u32::from(is_refused(&path, &file, |bytes| bytes[at] ^= 0x55, &what));
        }
    }
    assert!(refused > 200, "{refused} refused");
}

#[test]
fn a_file_that_was_cut_is_refused_or_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    filled_store(&path);
    let mut refused = 0;
    for file in files_in(&path) {
        let len = fs::read(&file).expect("its bytes").len();
        for cut in (0..len).step_by(len / 12 + 1) {
            let what = format!("{} cut to {cut} bytes", file.display());
            refused += u32::from(is_refused(&path, &file, |bytes| bytes.truncate(cut), &what));
        }
    }
    assert!(refused > 20, "{refused} refused");
}

#[test]
fn a_file_that_is_missing_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    filled_store(&path);
    let mut refused = 0;
    for file in files_in(&path) {
        // What is left from before goes when the store is opened.
        let Ok(bytes) = fs::read(&file) else { continue };
        fs::remove_file(&file).expect("it is removed");
        match DiskStore::open(&path) {
            Ok(store) => assert!(is_whole(&store), "without {}", file.display()),
            Err(StoreError::Corrupt { path, .. }) => {
                assert_eq!(path, file);
                refused += 1;
                fs::write(&file, bytes).expect("it is there again");
            }
            Err(error) => panic!("without {}: {error}", file.display()),
        }
    }
    assert!(refused >= 6, "{refused} refused");
}

/// A block is checked whenever it is read, and so is a long value.
#[cfg(unix)]
#[test]
fn damage_after_the_opening_is_noticed_by_who_reads_it() {
    damage_is_noticed_in("runs/tables", 100);
    damage_is_noticed_in("values", 60);
}

/// Damages the files of a folder, and reads; at least so many values are refused.
#[cfg(unix)]
fn damage_is_noticed_in(damaged: &str, least: u32) {
    use std::os::unix::fs::FileExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    filled_store(&path);
    let store = DiskStore::open(&path).expect("a store");
    for file in files_in(&path.join(damaged)) {
        let bytes = fs::read(&file).expect("its bytes");
        let open = fs::OpenOptions::new().write(true).open(&file).expect("a file");
        for at in (0..bytes.len() as u64).step_by(100) {
            open.write_all_at(&[bytes[at as usize] ^ 0x55], at)
                .expect("a byte");
        }
    }
    let (mut refused, mut right) = (0, 0);
    for number in 0..200_u32 {
        match store.get(&number.to_be_bytes()) {
            Ok(value) => {
                assert_eq!(value, Some(value_of(number)));
                right += 1;
            }
            Err(StoreError::Corrupt { path: named, .. }) => {
                assert!(named.starts_with(path.join(damaged)), "{}", named.display());
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > least, "{refused} refused, {right} right");
    let scanned = store.scan(&[], &[0xff], 1000);
    assert!(matches!(scanned, Err(StoreError::Corrupt { .. })));
}
