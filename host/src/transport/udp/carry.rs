//! A connection on its socket: what is written to a stream goes out as datagrams, what they bring is read from it.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::connection::Connection;
use super::packet::{Datagram, MAX_DATAGRAM};

/// Datagrams that wait for their connection; what comes beyond is lost, as it would be in the network.
pub(super) const DATAGRAMS: usize = 1024;
/// Bytes that a stream takes ahead of its reader.
pub(super) const BUFFER: usize = 64 * 1024;
/// Bytes that wait to be sent for the first time; whoever writes more waits.
const QUEUE: usize = 256 * 1024;
/// Room for what is read at once.
const PIECE: usize = 32 * 1024;
/// How long a connection whose own end was acknowledged waits for the peer's, and acknowledges what comes again.
const LINGER: Duration = Duration::from_secs(2);

/// Sends datagrams to one peer
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) socket: Arc<UdpSocket>,
    /// `None` when the socket is connected.
    pub(super) to: Option<SocketAddr>,
}

impl Outlet {
    /// Sends a datagram.
    pub(super) async fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match self.to {
            Some(to) => self.socket.send_to(datagram, to).await,
            None => self.socket.send(datagram).await,
        }
        .map(drop)
    }
}

/// What a socket hears
#[derive(Debug)]
pub(super) enum Heard {
    Datagram(Bytes),
    /// The network says that nobody listens there. Anybody could have said so: it counts when the peer is silent, too.
    Refused,
}

/// What happened to a connection
enum Event {
    Heard(Option<Heard>),
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    Woken,
}

/// Carries both streams until they have ended or the peer is gone; dropping its end then tells the reader.
pub(super) async fn carry(
    mut connection: Connection,
    outlet: Outlet,
    mut heard: mpsc::Receiver<Heard>,
    stream: DuplexStream,
) -> io::Result<()> {
    let result = run(&mut connection, &outlet, &mut heard, stream).await;
    if result.is_err() {
        let mut out = Vec::new();
        let id = connection.ids().own;
        Datagram::Reset { id }.write(&mut out);
        // The peer notices by itself, only later.
        _ = outlet.send(&out).await;
    }
    result
}

async fn run(
    connection: &mut Connection,
    outlet: &Outlet,
    heard: &mut mpsc::Receiver<Heard>,
    stream: DuplexStream,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut out = Vec::with_capacity(MAX_DATAGRAM);
    let (mut reads, mut tells_end) = (true, true);
    let mut is_refused = false;
    let mut until = None;
    loop {
        let now = Instant::now();
        if connection.woken(now).map_err(|_| ErrorKind::TimedOut)? && is_refused {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        is_refused |= send_all(connection, outlet, now, &mut out).await;
        if connection.incoming.has_ended() && connection.incoming.ready().is_empty() && tells_end {
            tells_end = false;
            // Who reads no more need not be told.
            _ = writer.shutdown().await;
        }
        if connection.outgoing.is_done() && now >= *until.get_or_insert(now + LINGER) {
            return Ok(());
        }
        let wake_at = connection.wake_at().into_iter().chain(until).min();
        let Connection {
            outgoing, incoming, ..
        } = connection;
        let event = tokio::select! {
            heard = heard.recv() => Event::Heard(heard),
            read = { outgoing.queue().reserve(PIECE); reader.read_buf(outgoing.queue()) },
                if reads && outgoing.queued() < QUEUE => Event::Read(read),
            written = writer.write(incoming.ready()), if !incoming.ready().is_empty() => Event::Written(written),
            () = sleep_until(wake_at.unwrap_or(now)), if wake_at.is_some() => Event::Woken,
        };
        let now = Instant::now();
        match event {
            Event::Heard(first) => {
                is_refused = receive(connection, first.ok_or(ErrorKind::NotConnected)?, now)?;
                while let Ok(next) = heard.try_recv() {
                    is_refused = receive(connection, next, now)?;
                }
            }
            Event::Read(Ok(1..)) | Event::Woken => {}
            Event::Read(_) => {
                reads = false;
                connection.outgoing.end();
            }
            Event::Written(Ok(count)) => connection.incoming.taken(count, now),
            // Nobody reads any more: what comes is acknowledged and dropped.
            Event::Written(Err(_)) => connection.incoming.taken(connection.incoming.ready().len(), now),
        }
    }
}

/// Sends all that may be sent now; whether the network says that nobody listens there. Whatever else is wrong with the way,
/// a datagram is lost.
async fn send_all(connection: &mut Connection, outlet: &Outlet, now: Instant, out: &mut Vec<u8>) -> bool {
    let mut is_refused = false;
    loop {
        out.clear();
        if !connection.write_next(now, out) {
            return is_refused;
        }
        let sent = outlet.send(out).await;
        is_refused |= sent.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    }
}

/// Takes what was heard; whether it was that nobody listens there.
fn receive(connection: &mut Connection, heard: Heard, now: Instant) -> io::Result<bool> {
    let Heard::Datagram(datagram) = heard else {
        return Ok(true);
    };
    match Datagram::parse(&datagram) {
        Some(Datagram::Packet(packet)) => connection.received(&packet, now),
        Some(Datagram::Reset { id }) if id == connection.ids().peer => {
            return Err(ErrorKind::ConnectionReset.into());
        }
        _ => {}
    }
    Ok(false)
}
