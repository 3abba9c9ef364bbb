//! A process that ends at any moment. By itself: a child that is begun holds for a moment what is open in its parent, and so the
//! locks of stores that other tests open again.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use selfsame_codec::Operation;
use selfsame_store::{DiskStore, Storage as _};
use selfsame_write_batch::WriteBatch;

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
        let put = Operation::Put {
            key: &number.to_be_bytes(),
            value: &value,
        };
        store.commit(&WriteBatch::of(&[put]), durable).expect("a commit");
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
    let path = folder.path().join("store");
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
