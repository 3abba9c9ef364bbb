//! A store on disk beside a map in memory, under random commits, scans, restarts and crashes, with journals that were torn or
//! damaged. `STORE_SEED` repeats a run, `STORE_STEPS` says how long one is.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use selfsame_codec::Operation;
use selfsame_write_batch::WriteBatch;

use super::folder::{journals_of, runs_of, values_of};
use super::{DiskStore, Storage as _, StoreError};

/// A table is full after a few commits.
const ROOM: usize = 6000;
const KEYS: u64 = 60;

/// A child that is begun holds for a moment what is open in its parent, and so the locks of stores that are opened again: one test
/// at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A test that failed leaves nothing behind.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// SplitMix64
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key {}", self.below(KEYS)).into_bytes()
    }

    fn changes(&mut self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let count = self.below(12);
        let change = |_| {
            let longest = [200, 1000][usize::from(self.below(8) == 0)];
            let value = vec![self.below(256) as u8; self.below(longest) as usize];
            (self.key(), (self.below(4) > 0).then_some(value))
        };
        (0..count).map(change).collect()
    }
}

/// A store that is used, what it holds, and what it may hold after a crash
struct World {
    random: Random,
    folder: tempfile::TempDir,
    lives: u32,
    store: Option<DiskStore>,
    /// After each commit since the last durable one, that included.
    states: Vec<Map>,
    /// Which of them is on its way to the disk.
    begun: Option<usize>,
}

fn all(store: &DiskStore) -> Map {
    let entries = store.scan(&[], &[0xff], usize::MAX).expect("a scan");
    entries.into_iter().collect()
}

fn read_journals(path: &Path) -> Vec<Vec<u8>> {
    let read = |path| fs::read(path).expect("a journal");
    journals_of(path).iter().map(read).collect()
}

/// Copies a folder in place of another one.
fn copy(from: &Path, to: &Path) {
    _ = fs::remove_dir_all(to);
    fs::create_dir(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("its entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("a copy");
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: Random(seed),
            folder: tempfile::tempdir().expect("a folder"),
            lives: 0,
            store: None,
            states: vec![Map::new()],
            begun: None,
        };
        world.store = Some(DiskStore::open_with_write_buffer(&world.path(), ROOM).expect("a store"));
        world
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(self.lives.to_string())
    }

    fn store(&mut self) -> &mut DiskStore {
        self.store.as_mut().expect("it is open")
    }

    fn now(&self) -> &Map {
        self.states.last().expect("there is one")
    }

    fn commit(&mut self) {
        let changes = self.random.changes();
        let durable = self.random.below(4) == 0;
        let mut map = self.now().clone();
        let operation = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        };
        changes.iter().for_each(operation);
        let operations: Vec<Operation<'_>> = changes
            .iter()
            .map(|(key, value)| match value {
                Some(value) => Operation::Put { key, value },
                None => Operation::Delete { key },
            })
            .collect();
        self.store()
            .commit(&WriteBatch::of(&operations), durable)
            .expect("a commit");
        if durable {
            self.states.clear();
            self.begun = None;
        }
        self.states.push(map);
        match self.random.below(4) {
            0 => self.begin_sync(),
            1 => self.end_sync(),
            _ => {}
        }
    }

    fn begin_sync(&mut self) {
        let is_begun = self.store().begin_sync(Box::new(|| {})).expect("a sync");
        self.take_synced();
        self.begun = Some(self.states.len() - 1);
        if !is_begun {
            self.take_synced();
        }
    }

    fn end_sync(&mut self) {
        self.store().end_sync().expect("an end");
        self.take_synced();
    }

    /// What was begun has ended: what was before is not what a crash leaves any more.
    fn take_synced(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.states.drain(..begun);
        }
    }

    fn read(&mut self) {
        let (key, end, limit) = (
            self.random.key(),
            self.random.key(),
            self.random.below(20) as usize,
        );
        let store = self.store.as_ref().expect("it is open");
        assert_eq!(store.get(&key).expect("a read").as_ref(), self.now().get(&key));
        let keys: Vec<Vec<u8>> = (0..limit).map(|_| self.random.key()).collect();
        let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let found = store.get_all(&refs).expect("reads");
        let expected = keys.iter().map(|key| self.now().get(key).map(Vec::as_slice));
        assert!(found.iter().map(Option::as_deref).eq(expected), "several");
        let found = store.scan(&key, &end, limit).expect("a scan");
        let expected: Vec<_> = match key < end {
            true => self.now().range(key.clone()..end.clone()).take(limit).collect(),
            false => Vec::new(),
        };
        let keys = store.keys(&key, &end, limit).expect("a scan of keys");
        assert!(keys.iter().eq(expected.iter().map(|(key, _)| *key)), "keys");
        assert!(
            found.iter().map(|(key, value)| (key, value)).eq(expected),
            "a scan"
        );
    }

    /// Ends the store as it should be ended.
    fn restart(&mut self) {
        self.store = None;
        let path = self.path();
        self.store = Some(DiskStore::open_with_write_buffer(&path, ROOM).expect("the store again"));
        let map = all(self.store());
        assert_eq!(map, *self.now(), "after a restart");
        self.states = vec![map];
        self.begun = None;
    }

    /// Goes on with what is in the files now, as if the process had ended.
    fn crash(&mut self) {
        // Files that are copied while one of them is written are of no time.
        self.store().rest().expect("a rest");
        let before = self.path();
        self.lives += 1;
        copy(&before, &self.path());
        self.go_on();
    }

    fn go_on(&mut self) {
        let store = DiskStore::open_with_write_buffer(&self.path(), ROOM).expect("the store after a crash");
        let map = all(&store);
        assert!(self.states.contains(&map), "after a crash something is lost");
        self.store = Some(store);
        self.states = vec![map];
        self.begun = None;
    }

    /// The power fails while a frame is written: of what came last only the beginning is there.
    fn tear(&mut self) {
        self.store().rest().expect("a rest");
        let path = self.path();
        let before = read_journals(&path);
        let states = self.states.clone();
        self.commit();
        self.store().rest().expect("a rest");
        self.lives += 1;
        copy(&path, &self.path());
        let files = journals_of(&self.path());
        let mut may_be = states;
        may_be.push(self.now().clone());
        let after = read_journals(&self.path());
        let torn: Vec<_> = (0..2).filter(|file| after[*file] != before[*file]).collect();
        if let [file] = torn[..] {
            let mut bytes = fs::read(&files[file]).expect("a file");
            let old = &before[file];
            let first = bytes
                .iter()
                .zip(old)
                .position(|(new, old)| new != old)
                .unwrap_or(old.len());
            let cut = first + self.random.below((bytes.len() - first) as u64 + 1) as usize;
            bytes.truncate(cut);
            bytes.extend_from_slice(old.get(cut..).unwrap_or_default());
            fs::write(&files[file], bytes).expect("a file");
            self.states = may_be;
        }
        self.go_on();
    }

    /// A byte of a journal is another one: that is noticed, or what was durable is there.
    fn damage(&mut self) -> bool {
        self.store().rest().expect("a rest");
        let aside = self.folder.path().join("aside");
        copy(&self.path(), &aside);
        let journal = &journals_of(&aside)[self.random.below(2) as usize];
        let mut bytes = fs::read(journal).expect("a journal");
        // What is behind was not written yet.
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let Some(byte) = bytes.get_mut(self.random.below(used as u64 + 1) as usize) else {
            return false;
        };
        *byte ^= 1 << self.random.below(8);
        fs::write(journal, bytes).expect("a file");
        match DiskStore::open(&aside) {
            Ok(store) => {
                let map = all(&store);
                assert!(self.states.contains(&map), "damage loses something");
                false
            }
            Err(StoreError::Corrupt { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn it_is_a_map_whatever_happens_to_it() {
    let _alone = alone();
    let seeds = number("STORE_SEED").map_or(1..9, |seed| seed..seed + 1);
    for seed in seeds {
        let mut world = World::new(seed);
        let mut noticed = 0;
        for step in 0..number("STORE_STEPS").unwrap_or(600) {
            println!("seed {seed}, step {step}");
            match world.random.below(60) {
                0 => world.restart(),
                1 => world.crash(),
                2 | 3 => world.tear(),
                4..=6 => noticed += u32::from(world.damage()),
                7..=30 => world.read(),
                _ => world.commit(),
            }
        }
        assert!(noticed > 0, "seed {seed}: no damage was noticed");
    }
}

#[test]
fn a_journal_that_is_missing_or_another_store_s_is_refused() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let mut store = DiskStore::open(&path).expect("a store");
    let put = Operation::Put {
        key: b"a",
        value: b"1",
    };
    store.commit(&WriteBatch::of(&[put]), true).expect("a commit");
    store.rest().expect("a rest");
    let aside = folder.path().join("aside");
    copy(&path, &aside);
    let [first, _] = journals_of(&aside);
    let bytes = fs::read(&first).expect("a journal");
    fs::remove_file(&first).expect("it is removed");
    let refused = |what: &str| {
        let error = DiskStore::open(&aside).expect_err(what).to_string();
        assert!(error.contains("journal-0") && error.contains(what), "{error}");
    };
    refused("it is missing");
    fs::write(&first, bytes).expect("a file");
    let other = folder.path().join("other");
    drop(DiskStore::open(&other).expect("another store"));
    fs::remove_dir_all(runs_of(&aside)).expect("they are removed");
    copy(&runs_of(&other), &runs_of(&aside));
    let store = DiskStore::open(&aside).expect("frames of another store are none");
    assert_eq!(all(&store), Map::new());
}

/// What is in no journal is in the tree before what follows it is acknowledged.
#[test]
fn a_durable_commit_makes_durable_what_is_on_its_way_into_the_tree() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (path, aside) = (folder.path().join("store"), folder.path().join("aside"));
    let mut store = DiskStore::open_with_write_buffer(&path, ROOM).expect("a store");
    let keys: Vec<[u8; 4]> = (0..20_000_u32).map(u32::to_be_bytes).collect();
    let put = |key| Operation::Put {
        key,
        value: &[7; 200],
    };
    let changes: Vec<Operation<'_>> = keys.iter().map(|key| put(key)).collect();
    store.commit(&WriteBatch::of(&changes), false).expect("a commit");
    store
        .commit(&WriteBatch::of(&[put(b"later")]), true)
        .expect("a commit");
    store.rest().expect("a rest");
    copy(&path, &aside);
    let copied = DiskStore::open(&aside).expect("the store after a crash");
    assert_eq!(all(&copied).len(), keys.len() + 1);
}

/// Zeros are written behind frames while others are, and never over them.
#[test]
fn a_journal_that_grows_while_it_is_written_keeps_every_frame() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (path, aside) = (folder.path().join("store"), folder.path().join("aside"));
    let mut store = DiskStore::open(&path).expect("a store");
    let value = |number: u32| vec![number as u8 | 1; 100_000];
    for number in 0..150_u32 {
        let (key, value) = (number.to_be_bytes(), value(number));
        let put = Operation::Put {
            key: &key,
            value: &value,
        };
        store.commit(&WriteBatch::of(&[put]), true).expect("a commit");
    }
    store.rest().expect("a rest");
    copy(&path, &aside);
    let copied = all(&DiskStore::open(&aside).expect("the store after a crash"));
    let expected = (0..150_u32).map(|number| (number.to_be_bytes().to_vec(), value(number)));
    assert!(copied.into_iter().eq(expected));
}

fn values_len(path: &Path) -> (usize, u64) {
    let files = fs::read_dir(values_of(path)).expect("a folder");
    let lens: Vec<u64> = files
        .map(|file| file.expect("a file").metadata().expect("its length").len())
        .collect();
    (lens.len(), lens.iter().sum())
}

/// What is replaced or removed again and again does not fill the disk, and what stays meanwhile stays.
#[test]
fn long_values_that_are_not_needed_any_more_are_removed() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let mut store = DiskStore::open_with_write_buffer(&path, ROOM).expect("a store");
    let key = |number: u32| number.to_be_bytes();
    let value = |number: u32, round: u32| vec![(number + round) as u8; 600];
    let last = |number: u32, rounds: u32| if number.is_multiple_of(10) { 0 } else { rounds - 1 };
    let (keys, rounds) = (100_u32, 40_u32);
    let mut most = 0;
    for round in 0..rounds {
        for number in (0..keys).filter(|number| round == 0 || !number.is_multiple_of(10)) {
            let put = Operation::Put {
                key: &key(number),
                value: &value(number, round),
            };
            store.commit(&WriteBatch::of(&[put]), false).expect("a commit");
        }
        most = most.max(values_len(&path).1);
    }
    let live = u64::from(keys) * 600;
    assert!(most < 5 * live, "{most} bytes for {live}");
    drop(store);
    let mut store = DiskStore::open_with_write_buffer(&path, ROOM).expect("the store again");
    let expected: Map = (0..keys)
        .map(|number| (key(number).to_vec(), value(number, last(number, rounds))))
        .collect();
    assert_eq!(all(&store), expected);
    let removed: Vec<_> = (0..keys).map(key).collect();
    let deletes: Vec<_> = removed.iter().map(|key| Operation::Delete { key }).collect();
    store.commit(&WriteBatch::of(&deletes), false).expect("a commit");
    for _ in 0..20 {
        drop(store);
        store = DiskStore::open_with_write_buffer(&path, ROOM).expect("the store again");
        let put = Operation::Put {
            key: b"one",
            value: &[1; 600],
        };
        store.commit(&WriteBatch::of(&[put]), false).expect("a commit");
    }
    drop(store);
    let (files, bytes) = values_len(&path);
    assert!(files <= 10 && bytes < live / 2, "{files} files, {bytes} bytes");
}

/// What could not be written is written with the next try, and nothing that was committed is lost meanwhile.
#[test]
fn a_table_whose_long_values_cannot_be_written_is_tried_again() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (path, aside) = (folder.path().join("store"), folder.path().join("aside"));
    let mut store = DiskStore::open_with_write_buffer(&path, ROOM).expect("a store");
    let mut expected = Map::new();
    let mut commit = |store: &mut DiskStore, number: u32| {
        let (key, value) = (number.to_be_bytes(), vec![number as u8; 600]);
        let put = Operation::Put {
            key: &key,
            value: &value,
        };
        let committed = store.commit(&WriteBatch::of(&[put]), false);
        if committed.is_ok() {
            expected.insert(key.to_vec(), value);
        }
        committed
    };
    (0..30).for_each(|number| commit(&mut store, number).expect("a commit"));
    store.rest().expect("a rest");
    fs::rename(values_of(&path), &aside).expect("it is moved away");
    let refused = (30..90).find_map(|number| commit(&mut store, number).err());
    assert!(matches!(refused, Some(StoreError::Io { .. })), "{refused:?}");
    fs::rename(&aside, values_of(&path)).expect("it is moved back");
    (90..150).for_each(|number| commit(&mut store, number).expect("a commit"));
    assert_eq!(all(&store), expected);
    drop(store);
    let store = DiskStore::open_with_write_buffer(&path, ROOM).expect("the store again");
    assert_eq!(all(&store), expected);
}

const CHILD: &str = "SELFSAME_TEST_DRAIN";

/// Not a test by itself: the process that the next test kills, while tables go into the tree all the time.
#[test]
fn child_that_drains_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let mut store = DiskStore::open_with_write_buffer(Path::new(&path), ROOM).expect("a store");
    let begin = all(&store).len() as u32;
    for number in begin.. {
        let put = Operation::Put {
            key: &number.to_be_bytes(),
            value: &number.to_le_bytes().repeat(50),
        };
        store
            .commit(&WriteBatch::of(&[put]), number % 4 == 1)
            .expect("a commit");
        let say = |number| writeln!(std::io::stdout(), "durable {number}").expect("somebody listens");
        match number % 4 {
            1 => say(number),
            2 => _ = store.begin_sync(Box::new(|| {})).expect("a sync"),
            3 => {
                store.end_sync().expect("an end");
                say(number - 1);
            }
            _ => {}
        }
    }
}

#[test]
fn kill_9_while_a_table_goes_into_the_tree_loses_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    for round in 1..=15 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["child_that_drains_until_it_is_killed", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let durable = lines
            .map_while(Result::ok)
            .filter(|line| line.contains("durable "));
        let line = durable
            .take(round * 23)
            .last()
            .expect("the child runs until it is killed");
        child.kill().expect("a kill");
        child.wait().expect("an end");
        let acknowledged: usize = line
            .rsplit(' ')
            .next()
            .expect("a number")
            .parse()
            .expect("a number");
        let store = DiskStore::open(&path).expect("the store after a kill");
        let map = all(&store);
        assert!(
            map.len() > acknowledged,
            "{acknowledged} was durable, {} are left",
            map.len()
        );
        for (number, (key, value)) in (0_u32..).zip(map) {
            assert_eq!(
                (key, value),
                (number.to_be_bytes().to_vec(), number.to_le_bytes().repeat(50))
            );
        }
    }
}
