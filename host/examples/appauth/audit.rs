//! The audit log: what this node checks becomes records of a capsule, of which it holds a replica, and what it has verified of
//! the capsule it tells.
//!
//! Each node that writes goes on with a branch of its own, and merges those of the others from time to time. One signature is
//! for all records before it.

use alloc::sync::Arc;
use core::error::Error;
use core::future;
use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use selfsame_host::capsule::{
    Capsule, CapsuleKey, CapsuleServer, RecordHeader, RecordKind, RecordName, WriteOptions,
};
use selfsame_host::{Body, BoxError, Node, Replica, Seed};
use serde_json::{Value, json as value};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

/// Of three replicas: what two have stored survives any one of them.
const QUORUM: u32 = 2;
/// Records that are written together.
const MAX_BATCH: usize = 64;
/// Records that wait while nobody can store them; beyond that they are lost.
const MAX_WAITING: usize = 1024;
/// One signature is made after so many records, or so long after the first of them.
const SIGN_AFTER: usize = 16;
const SIGN_AFTER_TIME: Duration = Duration::from_secs(1);
/// A writer goes on with its own branch for so many records before it merges those of the others.
const MERGE_AFTER: usize = 8;
/// Branches that one record merges, at most.
const MAX_MERGED: usize = 31;
/// Records that are verified for an overview: the newest.
const MAX_RECORDS: usize = 1000;
/// Where the service gives proofs.
const PROOF_PATH: &str = "/proof/";

/// Which capsule, and who writes it
#[derive(Debug)]
pub(crate) struct Settings {
    /// Its signed metadata.
    pub(crate) metadata: Vec<u8>,
    /// The seed of this node's key as a writer.
    pub(crate) seed: Seed,
    /// Folder of the replica and of what the writer must not forget.
    pub(crate) data: PathBuf,
}

/// The log as this node writes and reads it
#[derive(Clone, Debug)]
pub(crate) struct Log {
    opener: Arc<Opener>,
    entries: mpsc::Sender<Value>,
}

impl Log {
    /// Holds a replica of the capsule, which is still to be served, and begins to write what is noted.
    pub(crate) async fn open(node: &Node, settings: Settings) -> Result<(Self, Replica), Box<dyn Error>> {
        let replica = Replica::open(&settings.data)?;
        replica.hold(&settings.metadata).await?;
        let opener = Arc::new(Opener {
            node: node.clone(),
            replica: replica.clone(),
            settings,
            opened: Mutex::default(),
        });
        let (entries, waiting) = mpsc::channel(MAX_WAITING);
        let writer = Writer::new(Arc::clone(&opener));
        tokio::spawn(writer.run(waiting));
        Ok((Self { opener, entries }, replica))
    }

    /// Writes that a password was compared.
    pub(crate) fn note(&self, user: &str, status: StatusCode) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(now.as_millis()).unwrap_or_default();
        let entry = value!({ "time_ms": time, "user": user, "status": status.as_u16(), "checkedBy": crate::SERVED_BY });
        if self.entries.try_send(entry).is_err() {
            tracing::error!("a login is not in the audit log: too much waits");
        }
    }

    /// The service `audit`: `GET /` tells what was verified, `GET /proof/RECORD` proves a record to whoever has nothing else.
    pub(crate) async fn answer(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let path = request.uri().path().to_owned();
        let mut response = match (request.method(), path.as_str()) {
            (&Method::GET, "/") => told(self.opener.overview().await),
            (&Method::GET, path) if path.starts_with(PROOF_PATH) => {
                let record = path.trim_start_matches(PROOF_PATH).parse();
                let Ok(record) = record else {
                    return Ok(crate::refuse(
                        StatusCode::BAD_REQUEST,
                        "a record's name has 64 hexadecimal digits",
                    ));
                };
                match self.prove(record).await {
                    Ok(file) => Response::new(Body::from(file)),
                    Err(error) => told(Err(error)),
                }
            }
            _ => crate::refuse(StatusCode::NOT_FOUND, "there are GET / and GET /proof/RECORD"),
        };
        let headers = response.headers_mut();
        headers.insert("served-by", HeaderValue::from_static(crate::SERVED_BY));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    async fn prove(&self, record: RecordName) -> Result<Vec<u8>, selfsame_host::Error> {
        self.opener.capsule().await?.prove(record, true).await
    }
}

fn told(outcome: Result<Value, selfsame_host::Error>) -> Response<Body> {
    match outcome {
        Ok(value) => crate::answer(StatusCode::OK, &value),
        Err(error) => crate::refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("the audit log cannot be read: {error}"),
        ),
    }
}

/// Opens the capsule when it is first needed, and anew when something failed: then the replicas are looked for again
#[derive(Debug)]
struct Opener {
    node: Node,
    replica: Replica,
    settings: Settings,
    opened: Mutex<Option<Capsule>>,
}

impl Opener {
    /// The client; [`Self::done`] is told what came of what it was asked.
    async fn capsule(&self) -> Result<Capsule, selfsame_host::Error> {
        let mut opened = self.opened.lock().await;
        if let Some(capsule) = &*opened {
            return Ok(capsule.clone());
        }
        let Settings { metadata, seed, data } = &self.settings;
        let builder = Capsule::builder()
            .metadata(metadata.clone())
            // The mesh finds those of other nodes.
            .server(CapsuleServer::new(
                CapsuleKey(self.replica.key()),
                self.replica.peer(),
            ))
            .mesh(&self.node)
            .seed(seed.clone())
            .storage(data)
            .write_quorum(QUORUM)
            .read_quorum(QUORUM);
        // While a capsule is opened it stays in one thread.
        let runtime = Handle::current();
        let opening = spawn_blocking(move || runtime.block_on(builder.open()));
        let capsule = opening.await.map_err(|_| selfsame_host::Error::Stopped)??;
        *opened = Some(capsule.clone());
        Ok(capsule)
    }

    /// Forgets the client if it failed.
    async fn done<T>(&self, outcome: Result<T, selfsame_host::Error>) -> Result<T, selfsame_host::Error> {
        if outcome.is_err()
            && let Some(capsule) = self.opened.lock().await.take()
        {
            capsule.close().await;
        }
        outcome
    }

    async fn overview(&self) -> Result<Value, selfsame_host::Error> {
        let capsule = self.capsule().await?;
        self.done(overview(&capsule).await).await
    }
}

/// Writes records one after the other
struct Writer {
    opener: Arc<Opener>,
    /// The last record of this writer, once it has begun.
    last: Option<RecordName>,
    unsigned: usize,
    unmerged: usize,
    /// When what is not signed is to be signed.
    due: Option<Instant>,
}

impl Writer {
    fn new(opener: Arc<Opener>) -> Self {
        Self {
            opener,
            last: None,
            unsigned: 0,
            unmerged: 0,
            due: None,
        }
    }

    /// Writes what comes, until nobody can note anything any more.
    async fn run(mut self, mut waiting: mpsc::Receiver<Value>) {
        loop {
            let mut batch = Vec::new();
            let due = self.due;
            let signing = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => future::pending().await,
                }
            };
            let outcome = tokio::select! {
                received = waiting.recv_many(&mut batch, MAX_BATCH) => match received {
                    0 => return,
                    _ => self.store(batch).await,
                },
                () = signing => self.sign().await,
            };
            if let Err(error) = outcome {
                tracing::error!(%error, "logins are not in the audit log");
                (self.last, self.unsigned, self.due) = (None, 0, None);
            }
        }
    }

    async fn store(&mut self, batch: Vec<Value>) -> Result<(), selfsame_host::Error> {
        let contents: Vec<Vec<u8>> = batch.iter().map(|entry| entry.to_string().into_bytes()).collect();
        self.unsigned += contents.len();
        self.unmerged += contents.len();
        let capsule = self.opener.capsule().await?;
        let appended = self.append(&capsule, contents).await;
        self.opener.done(appended).await?;
        if self.unsigned >= SIGN_AFTER {
            return self.sign().await;
        }
        self.due.get_or_insert_with(|| Instant::now() + SIGN_AFTER_TIME);
        Ok(())
    }

    async fn append(
        &mut self,
        capsule: &Capsule,
        mut contents: Vec<Vec<u8>>,
    ) -> Result<(), selfsame_host::Error> {
        self.last = begin(capsule, self.last).await?;
        let merged = if self.unmerged > MERGE_AFTER {
            branches(capsule, self.last).await?
        } else {
            Vec::new()
        };
        if !merged.is_empty() {
            // What merges has no shortcuts, so only the first one does.
            let options = WriteOptions::new().unsigned().merge(merged);
            let names = capsule.append([contents.remove(0)], options).await?;
            (self.last, self.unmerged) = (names.last().copied(), 0);
        }
        if !contents.is_empty() {
            let names = capsule.append(contents, WriteOptions::new().unsigned()).await?;
            self.last = names.last().copied();
        }
        Ok(())
    }

    async fn sign(&mut self) -> Result<(), selfsame_host::Error> {
        (self.unsigned, self.due) = (0, None);
        let capsule = self.opener.capsule().await?;
        self.opener.done(capsule.sign().await).await
    }
}

/// Goes on where this writer was; a new one begins after what it finds.
async fn begin(
    capsule: &Capsule,
    last: Option<RecordName>,
) -> Result<Option<RecordName>, selfsame_host::Error> {
    if last.is_some() {
        return Ok(last);
    }
    let position = capsule.begin(None).await?;
    if position.after.is_some() {
        return Ok(position.after);
    }
    match capsule.heads().await?.heads.first() {
        Some(head) => Ok(capsule.begin(Some(head.name)).await?.after),
        None => Ok(None),
    }
}

/// The heads of other branches than the one that this writer goes on with.
async fn branches(
    capsule: &Capsule,
    last: Option<RecordName>,
) -> Result<Vec<RecordName>, selfsame_host::Error> {
    let heads = capsule.heads().await?.heads.into_iter().map(|head| head.name);
    Ok(heads
        .filter(|name| Some(*name) != last)
        .take(MAX_MERGED)
        .collect())
}

/// Reads the capsule back from its heads; each record was proven with a signature of its writer.
async fn overview(capsule: &Capsule) -> Result<Value, selfsame_host::Error> {
    let heads: Vec<RecordName> = capsule
        .heads()
        .await?
        .heads
        .iter()
        .map(|head| head.name)
        .collect();
    let mut records: HashMap<RecordName, RecordHeader> = HashMap::new();
    let mut next = heads.clone();
    while !next.is_empty() && records.len() < MAX_RECORDS {
        next.truncate(MAX_RECORDS - records.len());
        for record in capsule.read_all(&next).await? {
            let record = record?;
            records.insert(record.name, record.header);
        }
        let pointers = next.iter().filter_map(|name| records.get(name));
        let mut further: Vec<RecordName> = pointers.flat_map(|header| header.backpointers.clone()).collect();
        further.retain(|name| !records.contains_key(name));
        further.sort_unstable();
        further.dedup();
        next = further;
    }
    let mut writers: BTreeMap<String, u64> = BTreeMap::new();
    for header in records.values() {
        *writers.entry(header.writer.to_string()).or_default() += 1;
    }
    let merges = records
        .values()
        .filter(|header| is_merge(header, &records))
        .count();
    let epoch = records.values().map(|header| header.epoch).max();
    Ok(value!({
        "verifiedBy": crate::SERVED_BY,
        "capsule": capsule.name().to_string(),
        "verified": records.len(),
        "isWhole": next.is_empty(),
        "heads": heads.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "merges": merges,
        "epoch": epoch.unwrap_or_default(),
        "writers": writers,
    }))
}

/// Whether a record follows more than one branch; what else it points to of its own writer are shortcuts.
fn is_merge(header: &RecordHeader, records: &HashMap<RecordName, RecordHeader>) -> bool {
    let is_other = |name: &RecordName| {
        let pointed = records.get(name);
        header.kind == RecordKind::Epoch || pointed.is_some_and(|pointed| pointed.writer != header.writer)
    };
    header.backpointers.iter().skip(1).any(is_other)
}

/// The settings from a metadata in hexadecimal and a file with a seed of 64 digits.
pub(crate) fn settings(metadata: &str, seed: &Path, data: &Path) -> Result<Settings, Box<dyn Error>> {
    let wrong = |why: &dyn core::fmt::Display| format!("--audit-seed {}: {why}", seed.display());
    let digits = std::fs::read_to_string(seed).map_err(|error| wrong(&error))?;
    let bytes = data_encoding::HEXLOWER.decode(digits.trim().as_bytes()).ok();
    let key = bytes.and_then(|bytes| bytes.try_into().ok());
    Ok(Settings {
        metadata: data_encoding::HEXLOWER.decode(metadata.as_bytes())?,
        seed: key
            .map(Seed::from_bytes)
            .ok_or_else(|| wrong(&"expected a seed of 64 hexadecimal digits"))?,
        data: data.to_owned(),
    })
}
