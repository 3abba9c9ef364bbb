//! A server of capsules: the replica of the host, asked within the process or over HTTP.

use std::borrow::Cow;
use std::path::Path;

use bench_pair::Outcome;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use selfsame_host::capsule::{CapsuleKey, CapsuleServer, Peer};
use selfsame_host::{DiskStore, Ended, Entry, Replica, Seed, Storage, StoreError};
use selfsame_write_batch::WriteBatch;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::backend::Durability;

/// Bytes of what was written lately in memory: what a million operations with short values write, as RocksDB's 64 MiB are of what
/// they write there, where a record is not sealed and has no name. With as many RocksDB is no faster, and slower with long values.
const WRITE_BUFFER: usize = 256 << 20;
/// The folder of the store in the server's.
const STORE: &str = "store";

/// How a server is asked
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By a client in its process.
    Call,
    /// Over HTTP, through a socket.
    Http,
}

impl Way {
    /// That of a word.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn named(word: &str) -> Outcome<Self> {
        match word {
            "call" => Ok(Self::Call),
            "http" => Ok(Self::Http),
            _ => Err(format!("no way {word}")),
        }
    }
}

/// A replica over a store on disk
#[derive(Debug)]
pub(crate) struct Server {
    replica: Replica,
    way: CapsuleServer,
    listening: Option<AbortHandle>,
}

impl Server {
    /// Starts one in an empty folder; it acknowledges what is as durable as this.
    ///
    /// # Errors
    /// When the store, the module or the socket cannot be used.
    pub(crate) async fn start(folder: &Path, durability: Durability, way: Way) -> Outcome<Self> {
        let store = DiskStore::open_with_write_buffer(&folder.join(STORE), WRITE_BUFFER).map_err(said)?;
        let seed = Seed::from_bytes([2; 32]);
        let replica = match durability {
            Durability::Synced => Replica::start(&seed, store),
            Durability::None => Replica::start(&seed, Unsynced(store)),
            Durability::Logged => return Err("capsules have no log that is not synced".into()),
        };
        let replica = replica.map_err(said)?;
        let (peer, listening) = match way {
            Way::Call => (replica.peer(), None),
            Way::Http => {
                let (url, listening) = listen(&replica).await?;
                (Peer::at(&url).map_err(said)?, Some(listening))
            }
        };
        Ok(Self {
            way: CapsuleServer::new(CapsuleKey(replica.key()), peer),
            replica,
            listening,
        })
    }

    /// How clients ask it.
    pub(crate) fn way(&self) -> &CapsuleServer {
        &self.way
    }

    /// Ends it, and closes its store.
    pub(crate) async fn end(self) {
        if let Some(listening) = self.listening {
            listening.abort();
        }
        drop(self.way);
        self.replica.close().await;
    }
}

/// Serves a replica at a port of this machine; its URL.
async fn listen(replica: &Replica) -> Outcome<(String, AbortHandle)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(said)?;
    let url = format!("http://{}/", listener.local_addr().map_err(said)?);
    let service = replica.service();
    let serving = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            _ = socket.set_nodelay(true);
            let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    eprintln!("a connection failed: {error}");
                }
            });
        }
    });
    Ok((url, serving.abort_handle()))
}

/// An error in words.
pub(crate) fn said(error: impl core::fmt::Display) -> String {
    error.to_string()
}

/// A store that has nobody wait for the disk
struct Unsynced(DiskStore);

impl Storage for Unsynced {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(key)
    }

    fn get_all<'a>(&'a self, keys: &[&[u8]]) -> Result<Vec<Option<Cow<'a, [u8]>>>, StoreError> {
        self.0.get_all(keys)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.0.scan(start, end, limit)
    }

    fn keys(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        self.0.keys(start, end, limit)
    }

    fn commit(&mut self, batch: &WriteBatch, _durable: bool) -> Result<(), StoreError> {
        self.0.commit(batch, false)
    }

    fn begin_sync(&mut self, ended: Ended) -> Result<bool, StoreError> {
        drop(ended);
        Ok(false)
    }
}
