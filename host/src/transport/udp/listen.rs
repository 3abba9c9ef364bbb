//! The listening side: one socket, and the connections on it.

use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::{DuplexStream, duplex};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::carry::{BUFFER, DATAGRAMS, Heard, Outlet, carry};
use super::connection::{Connection, Ids};
use super::cookie::Cookies;
use super::packet::{Cookie, Datagram, Id, MAX_DATAGRAM};
use crate::error::Error;
use crate::keys::random_bytes;
use crate::shares::{Share, Shares};
use crate::transport::network::network_of;
use crate::transport::server::{ACCEPT_PAUSE, MAX_CONNECTIONS, MAX_FROM_SOURCE};

/// A connection on the socket
#[derive(Debug)]
struct Entry {
    from: SocketAddr,
    dialling: Id,
    heard: mpsc::Sender<Heard>,
}

/// Connections by the ids that they were given here, and by who asked for them
#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Id, Entry>,
    asked: HashMap<(SocketAddr, Id), Id>,
}

/// Forgets a connection when it is dropped
#[derive(Debug)]
struct Place {
    table: Arc<Mutex<Table>>,
    id: Id,
    _share: Share<IpAddr>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        if let Some(entry) = table.entries.remove(&self.id) {
            table.asked.remove(&(entry.from, entry.dialling));
        }
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // Nothing panics between two changes of the table.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts connections and hands each over with the address of who opened it, until it is dropped: then those that are
/// open break off.
pub(in crate::transport) async fn accept(socket: UdpSocket, opened: impl Fn(DuplexStream, SocketAddr)) {
    let listener = match Listener::new(socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot accept connections over UDP"),
    };
    let mut buffer = [0; MAX_DATAGRAM + 1];
    loop {
        match listener.socket.recv_from(&mut buffer).await {
            Ok((len, from)) => {
                let Some(datagram) = Datagram::parse(&buffer[..len]) else {
                    continue;
                };
                let answer = listener.answer(&datagram, &buffer[..len], from, &opened);
                if let Some(answer) = answer {
                    let mut out = Vec::new();
                    answer.write(&mut out);
                    // Whoever does not get it asks again.
                    _ = listener.socket.send_to(&out, from).await;
                }
            }
            // The system tells of an answer that nobody took: that is its receiver's.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => {
                tracing::warn!(%error, "cannot receive datagrams");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Listener {
    socket: Arc<UdpSocket>,
    cookies: Cookies,
    table: Arc<Mutex<Table>>,
    shares: Arc<Shares<IpAddr>>,
}

impl Listener {
    fn new(socket: UdpSocket) -> Result<Self, Error> {
        Ok(Self {
            socket: Arc::new(socket),
            cookies: Cookies::new(Instant::now())?,
            table: Arc::default(),
            shares: Shares::new(MAX_FROM_SOURCE, MAX_CONNECTIONS),
        })
    }

    /// Takes a datagram, and says what is answered at once.
    fn answer(
        &self,
        datagram: &Datagram<'_>,
        bytes: &[u8],
        from: SocketAddr,
        opened: &impl Fn(DuplexStream, SocketAddr),
    ) -> Option<Datagram<'static>> {
        match *datagram {
            Datagram::Open { id, cookie } => self.asked(id, &cookie, from, opened),
            Datagram::Packet(ref packet) => {
                let id = packet.id;
                let table = lock(&self.table);
                match table.entries.get(&id) {
                    Some(entry) if entry.from == from => hand_in(entry, bytes),
                    // One of somebody else is none of theirs.
                    Some(_) => {}
                    None => return Some(Datagram::Reset { id }),
                }
                None
            }
            Datagram::Reset { id } => {
                let table = lock(&self.table);
                let accepting = table.asked.get(&(from, id));
                if let Some(entry) = accepting.and_then(|accepting| table.entries.get(accepting)) {
                    hand_in(entry, bytes);
                }
                None
            }
            Datagram::Retry { .. } | Datagram::Accept { .. } => None,
        }
    }

    /// Somebody asks for a connection: they get one once a cookie proves that they are where they say.
    fn asked(
        &self,
        id: Id,
        cookie: &Cookie,
        from: SocketAddr,
        opened: &impl Fn(DuplexStream, SocketAddr),
    ) -> Option<Datagram<'static>> {
        let now = Instant::now();
        if !self.cookies.proves(cookie, from, id, now) {
            let cookie = self.cookies.make(from, id, now);
            return Some(Datagram::Retry { id, cookie });
        }
        let known = lock(&self.table).asked.get(&(from, id)).copied();
        let accepting = known.or_else(|| self.open(id, from, opened))?;
        Some(Datagram::Accept { id, accepting })
    }

    /// Makes a connection; `None` when there are too many.
    fn open(&self, dialling: Id, from: SocketAddr, opened: &impl Fn(DuplexStream, SocketAddr)) -> Option<Id> {
        let share = self.shares.take(network_of(from.ip()), 1)?;
        let id: Id = random_bytes().ok()?;
        let (sender, heard) = mpsc::channel(DATAGRAMS);
        {
            let mut table = lock(&self.table);
            if table.entries.contains_key(&id) {
                return None;
            }
            let entry = Entry {
                from,
                dialling,
                heard: sender,
            };
            table.entries.insert(id, entry);
            table.asked.insert((from, dialling), id);
        }
        let place = Place {
            table: Arc::clone(&self.table),
            id,
            _share: share,
        };
        let outlet = Outlet {
            socket: Arc::clone(&self.socket),
            to: Some(from),
        };
        let (near, far) = duplex(BUFFER);
        tokio::spawn(async move {
            let ids = Ids {
                own: id,
                peer: dialling,
            };
            let connection = Connection::new(ids, Instant::now());
            if let Err(error) = carry(connection, outlet, heard, far).await {
                tracing::debug!(%from, %error, "connection broke off");
            }
            drop(place);
        });
        opened(near, from);
        Some(id)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Without anybody to hand datagrams in, connections break off.
        lock(&self.table).entries.clear();
    }
}

/// Hands a datagram to its connection; a full queue loses it, as a network would.
fn hand_in(entry: &Entry, bytes: &[u8]) {
    _ = entry
        .heard
        .try_send(Heard::Datagram(Bytes::copy_from_slice(bytes)));
}
