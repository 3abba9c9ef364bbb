//! The workloads on each store: as many threads as are wanted, each with items of its own, in batches.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use bench_pair::Outcome;

use crate::backend::{Backend, Durability, Observer};
use crate::library::Functions;
use crate::rocks::{Asking, Database, Rocks};
use crate::server::{Channel, beside};
use crate::table::{Kind, Table};
use crate::workload::{Operation, Random, Values, Workload};

/// Items that each thread has loaded before it begins.
const LOADED: u32 = 2000;
/// Operations that are handed over together.
const BATCH: usize = 100;
/// Batches under way of a client that is alone with a server: so that neither waits for the other. Where there are many clients,
/// each has one.
pub(crate) const UNDER_WAY: usize = 2;
/// Items of a thread are numbered from its number times this.
const OF_THREAD: u32 = 1 << 24;

/// What is run
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    store: String,
    workload: Workload,
    value_len: usize,
    durability: Durability,
    threads: u32,
}

/// How long it took, and how long each batch
struct Took {
    whole: Duration,
    batches: Vec<Duration>,
}

impl Plan {
    /// Reads `STORE/WORKLOAD/VALUE BYTES/DURABILITY/THREADS`.
    ///
    /// # Errors
    /// When it says something else.
    pub(crate) fn read(text: &str) -> Outcome<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [store, workload, value_len, durability, threads] = parts[..] else {
            return Err(format!("no plan {text}"));
        };
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{text} is no number"));
        Ok(Self {
            store: store.to_owned(),
            workload: Workload::named(workload)?,
            value_len: number(value_len)? as usize,
            durability: Durability::named(durability)?,
            threads: number(threads)?.max(1),
        })
    }

    /// Runs so many operations on a new store, and says how long they took.
    ///
    /// # Errors
    /// When the store fails, or gives another value than was written.
    pub(crate) fn run(&self, library: Option<&Path>, folder: &Path, count: u64) -> Outcome<String> {
        let folder = Folder::create(folder)?;
        let took = match self.store.as_str() {
            "rocksdb" | "rocksdb-singly" => {
                let asking = match self.store.as_str() {
                    "rocksdb" => Asking::Together,
                    _ => Asking::Singly,
                };
                let functions = Functions::load(library.ok_or("no library of RocksDB was named")?)?;
                let database = Arc::new(Database::create(functions, &folder.0, self.durability)?);
                self.on_threads(count, &|_| Ok(Rocks::new(Arc::clone(&database), asking)))?
            }
            "capsule" => self.beside_a_server(Kind::Records, &folder.0, count)?,
            "subrecords" => self.beside_a_server(Kind::Subrecords, &folder.0, count)?,
            other => return Err(format!("no store {other}")),
        };
        Ok(to_json(took))
    }

    /// The server of the capsules has a thread of its own, as RocksDB has for what it does in the background.
    fn beside_a_server(&self, kind: Kind, folder: &Path, count: u64) -> Outcome<Vec<Took>> {
        let under_way = if self.threads == 1 { UNDER_WAY } else { 1 };
        beside(folder, self.durability, |server| {
            self.on_threads(count, &|thread| {
                Table::create(
                    kind,
                    (thread, thread * OF_THREAD),
                    under_way,
                    Channel::new(server),
                )
            })
        })
    }

    fn on_threads<B: Backend>(
        &self,
        count: u64,
        open: &(impl Fn(u32) -> Outcome<B> + Sync),
    ) -> Outcome<Vec<Took>> {
        let together = Barrier::new(self.threads as usize);
        let together = &together;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let share = count / u64::from(self.threads);
                    scope.spawn(move || self.work(&mut open(thread)?, thread, share, together))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread panicked")?)
                .collect()
        })
    }

    /// One thread's part.
    fn work(&self, store: &mut impl Backend, thread: u32, count: u64, together: &Barrier) -> Outcome<Took> {
        let mut random = Random::new(u64::from(thread) + 1);
        let values = Values::new(&mut random, self.value_len);
        let operations = self.workload.operations(&mut random, LOADED, count);
        let mut written = Written::new(&values, thread * OF_THREAD);
        let load: Vec<Operation> = (0..LOADED).map(Operation::Write).collect();
        for batch in load.chunks(BATCH) {
            written.carry_out(store, batch)?;
        }
        // What is read is signed first, and so all that was loaded.
        written.carry_out(store, &[Operation::Read(LOADED - 1)])?;
        store.settle(&mut written)?;
        written.took.clear();
        store.forget()?;
        together.wait();
        let begin = Instant::now();
        for batch in operations.chunks(BATCH) {
            written.carry_out(store, batch)?;
        }
        store.settle(&mut written)?;
        let whole = begin.elapsed();
        written.end(operations.len().div_ceil(BATCH))?;
        Ok(Took {
            whole,
            batches: written.took,
        })
    }
}

/// A batch that is under way: since when, and which values its reads are to give
struct Expected {
    since: Instant,
    versions: Vec<u64>,
    seen: usize,
}

/// Which value each item was given last, so that what is read can be compared, and how long each batch took
struct Written<'a> {
    values: &'a Values,
    first: u32,
    versions: Vec<u64>,
    next: u64,
    expected: VecDeque<Expected>,
    wrong: u64,
    took: Vec<Duration>,
}

impl<'a> Written<'a> {
    fn new(values: &'a Values, first: u32) -> Self {
        Self {
            values,
            first,
            versions: Vec::new(),
            next: 0,
            expected: VecDeque::new(),
            wrong: 0,
            took: Vec::new(),
        }
    }

    fn carry_out(&mut self, store: &mut impl Backend, batch: &[Operation]) -> Outcome<()> {
        let since = Instant::now();
        let (mut writes, mut reads) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for operation in batch {
            match *operation {
                Operation::Read(item) => reads.push(self.first + item),
                Operation::Write(item) => {
                    let place = item as usize;
                    self.versions.resize(self.versions.len().max(place + 1), 0);
                    self.versions[place] = self.next;
                    writes.push((self.first + item, self.values.of(self.next)));
                    self.next += 1;
                }
            }
        }
        let version = |item: &u32| self.versions[(item - self.first) as usize];
        self.expected.push_back(Expected {
            since,
            versions: reads.iter().map(version).collect(),
            seen: 0,
        });
        store.batch(&writes, &reads, self)
    }

    /// Checks that so many batches were done, and that all that was read is what was written.
    fn end(&self, batches: usize) -> Outcome<()> {
        match (self.wrong, self.took.len() == batches) {
            (0, true) => Ok(()),
            (0, false) => Err("a batch was not done".into()),
            (wrong, _) => Err(format!(
                "{wrong} reads did not give the value that was written last"
            )),
        }
    }
}

impl Observer for Written<'_> {
    fn value(&mut self, place: usize, value: &[u8]) {
        let expected = self.expected.front_mut().filter(|expected| {
            let version = expected.versions.get(place);
            version.is_some_and(|version| value == self.values.of(*version))
        });
        match expected {
            Some(expected) => expected.seen += 1,
            None => self.wrong += 1,
        }
    }

    fn done(&mut self) {
        if let Some(expected) = self.expected.pop_front() {
            self.wrong += expected.versions.len().abs_diff(expected.seen) as u64;
            self.took.push(expected.since.elapsed());
        }
    }
}

/// A folder that is gone when this is
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Creates it, empty, in another one.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn create(within: &Path) -> Outcome<Self> {
        let path = within.join(format!("ycsb-{}", std::process::id()));
        let created = std::fs::create_dir_all(&path);
        created.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays; the next run uses another name.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// As the harness reads it: the time until the last thread was done, and quantiles of all batches.
fn to_json(took: Vec<Took>) -> String {
    let whole = took.iter().map(|took| took.whole).max().unwrap_or_default();
    let mut batches: Vec<Duration> = took.into_iter().flat_map(|took| took.batches).collect();
    batches.sort_unstable();
    let quantile = |percent: usize| {
        let place = batches.len().saturating_sub(1) * percent / 100;
        batches.get(place).copied().unwrap_or_default().as_nanos() as f64 / 1000.0
    };
    format!(
        r#"{{"ns":{},"p50_us":{},"p99_us":{},"requests":{}}}"#,
        whole.as_nanos(),
        quantile(50),
        quantile(99),
        batches.len()
    )
}
