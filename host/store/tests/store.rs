//! One contract for both stores, and what only the one on disk has to stand: crashes, damage, other versions.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use selfsame_codec::Operation;
use selfsame_store::{DiskStore, MemoryStore, Storage, StoreError};

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
    Operation::Put { key, value }
}

fn delete(key: &[u8]) -> Operation<'_> {
    Operation::Delete { key }
}

fn with_each_store(check: impl Fn(&mut dyn Storage)) {
    check(&mut MemoryStore::new());
    let folder = tempfile::tempdir().expect("a folder");
    check(&mut DiskStore::open(&folder.path().join("store.redb")).expect("a store"));
}

fn keys(store: &dyn Storage, start: &[u8], end: &[u8], limit: usize) -> Vec<Vec<u8>> {
    store
        .scan(start, end, limit)
        .expect("a scan")
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

#[test]
fn what_is_written_is_read() {
    with_each_store(|store| {
        assert_eq!(store.get(b"a").expect("a read"), None);
        store
            .commit(&[put(b"a", b"1"), put(b"b", b"")], false)
            .expect("a commit");
        assert_eq!(store.get(b"a").expect("a read"), Some(b"1".to_vec()));
        assert_eq!(
            store.get(b"b").expect("a read"),
            Some(vec![]),
            "an empty value is a value"
        );
        store
            .commit(&[put(b"a", b"2"), delete(b"b"), delete(b"never")], true)
            .expect("a commit");
        assert_eq!(store.get(b"a").expect("a read"), Some(b"2".to_vec()));
        assert_eq!(store.get(b"b").expect("a read"), None);
    });
}

#[test]
fn operations_of_a_commit_apply_in_their_order() {
    with_each_store(|store| {
        store
            .commit(&[put(b"a", b"1"), delete(b"a"), put(b"a", b"2")], true)
            .expect("a commit");
        assert_eq!(store.get(b"a").expect("a read"), Some(b"2".to_vec()));
        store
            .commit(&[put(b"a", b"3"), delete(b"a")], true)
            .expect("a commit");
        assert_eq!(store.get(b"a").expect("a read"), None);
    });
}

#[test]
fn a_scan_is_ordered_and_half_open() {
    with_each_store(|store| {
        let all: [&[u8]; 5] = [b"\xff", b"a", b"", b"ab", b"b"];
        let operations: Vec<_> = all.iter().map(|key| put(key, key)).collect();
        store.commit(&operations, false).expect("a commit");
        assert_eq!(
            keys(store, b"", b"\xff\xff", 10),
            [&b""[..], b"a", b"ab", b"b", b"\xff"]
        );
        assert_eq!(keys(store, b"a", b"b", 10), [&b"a"[..], b"ab"]);
        assert_eq!(keys(store, b"a", b"b", 1), [b"a"]);
        assert_eq!(keys(store, b"a", b"b", 0), [b""; 0]);
        assert_eq!(keys(store, b"b", b"a", 10), [b""; 0], "an empty range");
        assert_eq!(keys(store, b"b", b"b", 10), [b""; 0], "an empty range");
    });
}

#[test]
fn the_largest_commit_of_the_contract_fits() {
    with_each_store(|store| {
        let value = vec![7; 60 * 1024];
        let keys: Vec<[u8; 256]> = (0..8).map(|number| [number; 256]).collect();
        let operations: Vec<_> = keys.iter().map(|key| put(key, &value)).collect();
        store.commit(&operations, true).expect("a commit");
        assert_eq!(store.scan(&[0], &[255], 10).expect("a scan").len(), 8);
    });
}

#[test]
fn as_many_operations_as_a_commit_may_have_apply_as_one() {
    with_each_store(|store| {
        let keys: Vec<[u8; 4]> = (0..500_u32).map(u32::to_be_bytes).collect();
        let value = [9; 1000];
        let operations: Vec<_> = keys.iter().map(|key| put(key, &value)).collect();
        store.commit(&operations, false).expect("a commit");
        assert_eq!(store.scan(&[0], &[255], 1000).expect("a scan").len(), 500);
    });
}

#[test]
fn keys_are_bytes_with_zeros_and_high_bits() {
    with_each_store(|store| {
        let all: [&[u8]; 7] = [&[0], &[0, 0], &[0, 1], &[1], &[0x7f], &[0x80], &[0xfe, 0xff]];
        let operations: Vec<_> = all.iter().rev().map(|key| put(key, key)).collect();
        store.commit(&operations, false).expect("a commit");
        assert_eq!(keys(store, &[], &[0xff], 10), all);
        for key in all {
            assert_eq!(store.get(key).expect("a read"), Some(key.to_vec()));
        }
    });
}

#[test]
fn a_commit_of_nothing_keeps_what_was_written_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    let mut store = DiskStore::open(&path).expect("a store");
    store.commit(&[put(b"a", b"1")], false).expect("a commit");
    store.commit(&[], true).expect("a commit");
    drop(store);
    let store = DiskStore::open(&path).expect("the same store");
    assert_eq!(keys(&store, &[], &[0xff], 10), [b"a"]);
}

#[test]
fn a_store_on_disk_keeps_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    let mut store = DiskStore::open(&path).expect("a store");
    store.commit(&[put(b"a", b"1")], true).expect("a commit");
    drop(store);
    let store = DiskStore::open(&path).expect("the same store");
    assert_eq!(store.get(b"a").expect("a read"), Some(b"1".to_vec()));
}

#[test]
fn a_store_that_is_open_is_not_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    let _store = DiskStore::open(&path).expect("a store");
    assert!(matches!(DiskStore::open(&path), Err(StoreError::InUse { path: named }) if named == path));
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    drop(DiskStore::open(&path).expect("a store"));
    let database = redb::Database::open(&path).expect("a database");
    let write = database.begin_write().expect("a transaction");
    let host = redb::TableDefinition::<&str, u64>::new("host");
    write
        .open_table(host)
        .expect("a table")
        .insert("schema", 3)
        .expect("a schema");
    write.commit().expect("a commit");
    drop(database);
    for _ in 0..2 {
        let error = DiskStore::open(&path).expect_err("a newer schema");
        assert!(matches!(error, StoreError::TooNew { found: 3, .. }), "{error}");
        assert!(error.to_string().contains("run the newer version"), "{error}");
    }
}

/// Every way in which a file can be no store of ours: refused by its path, with the remedy, and not touched.
#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = folder.path().join("other.redb");
    drop(redb::Database::create(&other).expect("a database of another program"));
    let other = fs::read(other).expect("its bytes");
    let cases: [(&str, &[u8]); 4] = [
        ("empty", b""),
        ("text", b"not a store"),
        ("zeros", &[0; 65_536]),
        ("another program's", &other),
    ];
    for (what, bytes) in cases {
        let path = folder.path().join("store.redb");
        fs::write(&path, bytes).expect("a file");
        let error = DiskStore::open(&path).expect_err(what);
        assert!(matches!(error, StoreError::Corrupt { .. }), "{what}: {error}");
        let text = error.to_string();
        assert!(
            text.contains("store.redb") && text.contains("move it away"),
            "{what}: {text}"
        );
        if what != "another program's" {
            assert_eq!(fs::read(&path).expect("the file"), bytes, "{what}: its bytes");
        }
    }
}

fn filled_store(path: &Path) {
    let mut store = DiskStore::open(path).expect("a store");
    for number in 0..200_u32 {
        let value = [number as u8; 300];
        store
            .commit(&[put(&number.to_be_bytes(), &value)], number % 20 == 0)
            .expect("a commit");
    }
    store.commit(&[], true).expect("a commit");
}

fn is_whole(store: &dyn Storage) -> bool {
    let entries = store.scan(&[], &[0xff], 1000).expect("a scan");
    entries.len() == 200
        && entries.iter().enumerate().all(|(number, (key, value))| {
            *key == (number as u32).to_be_bytes() && *value == [number as u8; 300]
        })
}

/// A byte that changes anywhere in the file is either of no consequence or noticed when the store is opened.
#[test]
fn damage_is_noticed_wherever_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    filled_store(&path);
    let whole = fs::read(&path).expect("its bytes");
    let (mut refused, mut harmless) = (0, 0);
    for at in (0..whole.len()).step_by(whole.len() / 400).chain(0..64) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        fs::write(&path, damaged).expect("a file");
        match DiskStore::open(&path) {
            Ok(store) => {
                assert!(is_whole(&store), "byte {at} changed what is read");
                harmless += 1;
            }
            Err(StoreError::Corrupt { .. }) => refused += 1,
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert!(
        refused > 20 && harmless > 20,
        "{refused} refused, {harmless} harmless"
    );
}

#[test]
fn a_file_that_was_cut_is_refused_or_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    filled_store(&path);
    let whole = fs::read(&path).expect("its bytes");
    for len in (0..whole.len()).step_by(whole.len() / 50) {
        fs::write(&path, &whole[..len]).expect("a file");
        match DiskStore::open(&path) {
            Ok(store) => assert!(is_whole(&store), "cut to {len} bytes"),
            Err(StoreError::Corrupt { .. }) => {}
            Err(error) => panic!("cut to {len} bytes: {error}"),
        }
    }
}

const CHILD: &str = "SELFSAME_TEST_STORE";

/// Not a test by itself: the process that the next test kills. It commits numbers and says which ones are durable.
#[test]
fn child_that_commits_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let mut store = DiskStore::open(Path::new(&path)).expect("a store");
    let mut out = std::io::stdout();
    let begin = store.scan(&[], &[0xff], usize::MAX).expect("a scan").len() as u32;
    for number in begin.. {
        let durable = number % 3 == 0;
        let value = number.to_le_bytes().repeat(100);
        store
            .commit(&[put(&number.to_be_bytes(), &value)], durable)
            .expect("a commit");
        if durable {
            writeln!(out, "durable {number}").expect("somebody listens");
            out.flush().expect("somebody listens");
        }
    }
}

/// A process is killed in the middle of its commits, again and again: what it called durable is there, what is there
/// is whole, and no commit is there without those before it.
#[test]
fn kill_9_loses_nothing_that_was_durable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.redb");
    let mut most = 0;
    for round in 1..=12_u32 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["child_that_commits_until_it_is_killed", "--exact", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut acknowledged = 0;
        for _ in 0..round * 7 {
            let line = lines
                .by_ref()
                .map_while(Result::ok)
                .find(|line| line.contains("durable "));
            let line = line.expect("the child runs until it is killed");
            let number = line.rsplit(' ').next().expect("a number");
            acknowledged = number.parse::<u32>().expect("a number");
        }
        child.kill().expect("a kill");
        child.wait().expect("an end");
        let store = DiskStore::open(&path).expect("the store after a kill");
        let entries = store.scan(&[], &[0xff], usize::MAX).expect("a scan");
        assert!(
            entries.len() as u32 > acknowledged,
            "{acknowledged} was durable, {} are left",
            entries.len()
        );
        for (number, (key, value)) in entries.iter().enumerate() {
            let number = number as u32;
            assert_eq!(
                *key,
                number.to_be_bytes(),
                "a commit is there without one before it"
            );
            assert_eq!(*value, number.to_le_bytes().repeat(100));
        }
        most = acknowledged;
    }
    assert!(most > 200, "{most}");
}
