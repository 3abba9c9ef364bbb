//! The workloads on each store: as many threads as are wanted, each with items of its own, in batches.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use bench_pair::Outcome;
use tokio::runtime::Handle;

use crate::backend::{Backend, Durability, Observer};
use crate::clock::Clock;
use crate::library::Functions;
use crate::rocks::{Asking, Database, Rocks};
use crate::server::{Server, Way};
use crate::session::Owner;
use crate::table::{Kind, Table};
use crate::workload::{Operation, Random, Values, Workload};

/// Items that each thread has loaded before it begins.
const LOADED: u32 = 2000;
/// Operations that are handed over together.
const BATCH: usize = 100;
/// Batches under way of a client that is alone with a server: so that neither waits for the other. Where there are many clients,
/// each has one.
const UNDER_WAY: usize = 2;
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
    way: Way,
}

/// When a thread began and ended, and how long each batch took
struct Took {
    begin: Clock,
    end: Clock,
    batches: Vec<Duration>,
}

impl Plan {
    /// Reads `STORE/WORKLOAD/VALUE BYTES/DURABILITY/THREADS/WAY`.
    ///
    /// # Errors
    /// When it says something else.
    pub(crate) fn read(text: &str) -> Outcome<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [store, workload, value_len, durability, threads, way] = parts[..] else {
            return Err(format!("no plan {text}"));
        };
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{text} is no number"));
        Ok(Self {
            store: store.to_owned(),
            workload: Workload::named(workload)?,
            value_len: number(value_len)? as usize,
            durability: Durability::named(durability)?,
            threads: number(threads)?.max(1),
            way: Way::named(way)?,
        })
    }

    /// Runs so many operations on a new store, and says how long they took.
    ///
    /// # Errors
    /// When the store fails, or gives another value than was written.
    pub(crate) fn run(
        &self,
        runtime: &Handle,
        library: Option<&Path>,
        folder: &Path,
        count: u64,
    ) -> Outcome<String> {
        let folder = Folder::create(folder)?;
        let asking = match self.store.as_str() {
            "rocksdb" => Asking::Together,
            "rocksdb-singly" => Asking::Singly,
            "capsule" => return self.on_capsules(Kind::Records, runtime, &folder.0, count),
            "subrecords" => return self.on_capsules(Kind::Subrecords, runtime, &folder.0, count),
            other => return Err(format!("no store {other}")),
        };
        let functions = Functions::load(library.ok_or("no library of RocksDB was named")?)?;
        let database = Arc::new(Database::create(functions, &folder.0, self.durability)?);
        let open = async |_| Ok(Rocks::new(Arc::clone(&database), asking));
        self.on_threads(runtime, count, &open).map(to_json)
    }

    /// Each thread has a capsule, all at one server. Where a writer's words are to survive, so is what it must not forget.
    fn on_capsules(&self, kind: Kind, runtime: &Handle, folder: &Path, count: u64) -> Outcome<String> {
        let server = runtime.block_on(Server::start(folder, self.durability, self.way))?;
        let under_way = if self.threads == 1 { UNDER_WAY } else { 1 };
        let open = async |thread: u32| {
            let keeping =
                (self.durability == Durability::Synced).then(|| folder.join(format!("writer-{thread}")));
            let opened = Owner::create(thread, server.way(), keeping).await?;
            Ok(Table::new(kind, opened, thread * OF_THREAD, under_way))
        };
        let took = self.on_threads(runtime, count, &open);
        runtime.block_on(server.end());
        took.map(to_json)
    }

    fn on_threads<B: Backend>(
        &self,
        runtime: &Handle,
        count: u64,
        open: &(impl AsyncFn(u32) -> Outcome<B> + Sync),
    ) -> Outcome<Vec<Took>> {
        let together = &Barrier::new(self.threads as usize);
        let share = count / u64::from(self.threads);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    scope.spawn(move || {
                        runtime.block_on(async {
                            self.work(&mut open(thread).await?, thread, share, together).await
                        })
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread panicked")?)
                .collect()
        })
    }

    /// One thread's part.
    async fn work(
        &self,
        store: &mut impl Backend,
        thread: u32,
        count: u64,
        together: &Barrier,
    ) -> Outcome<Took> {
        let mut random = Random::new(u64::from(thread) + 1);
        let values = Values::new(&mut random, self.value_len);
        let operations = self.workload.operations(&mut random, LOADED, count);
        let mut written = Written::new(&values, thread * OF_THREAD);
        let load: Vec<Operation> = (0..LOADED).map(Operation::Write).collect();
        for batch in load.chunks(BATCH) {
            written.carry_out(store, batch).await?;
        }
        // What is read is signed first, and so all that was loaded.
        written.carry_out(store, &[Operation::Read(LOADED - 1)]).await?;
        store.settle(&mut written).await?;
        written.took.clear();
        store.forget().await?;
        together.wait();
        let begin = Clock::now();
        for batch in operations.chunks(BATCH) {
            written.carry_out(store, batch).await?;
        }
        store.settle(&mut written).await?;
        let end = Clock::now();
        written.end(operations.len().div_ceil(BATCH))?;
        Ok(Took {
            begin,
            end,
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

    async fn carry_out(&mut self, store: &mut impl Backend, batch: &[Operation]) -> Outcome<()> {
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
        store.batch(&writes, &reads, self).await
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

/// As the harness reads it: from when the first thread began until the last one was done, and quantiles of all batches.
fn to_json(took: Vec<Took>) -> String {
    let begin = took.iter().map(|took| took.begin).reduce(Clock::earlier);
    let end = took.iter().map(|took| took.end).reduce(Clock::later);
    let spent = begin
        .zip(end)
        .map(|(begin, end)| end.since(begin))
        .unwrap_or_default();
    let mut batches: Vec<Duration> = took.into_iter().flat_map(|took| took.batches).collect();
    batches.sort_unstable();
    let quantile = |percent: usize| {
        let place = batches.len().saturating_sub(1) * percent / 100;
        batches.get(place).copied().unwrap_or_default().as_nanos() as f64 / 1000.0
    };
    format!(
        r#"{{"ns":{},"cpu_ns":{},"p50_us":{},"p99_us":{},"requests":{}}}"#,
        spent.elapsed.as_nanos(),
        spent.cpu.as_nanos(),
        quantile(50),
        quantile(99),
        batches.len()
    )
}
