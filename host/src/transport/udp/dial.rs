//! The dialling side: asks for a connection until it has one.

use alloc::sync::Arc;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io;

use bytes::Bytes;
use tokio::io::{DuplexStream, duplex};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::carry::{BUFFER, DATAGRAMS, Heard, Outlet, carry};
use super::connection::{Connection, Ids};
use super::packet::{Cookie, Datagram, Id, MAX_DATAGRAM};
use crate::keys::random_bytes;

/// How long the first answer may take before it is asked again, and the longest pause it is doubled to.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Opens a connection, and carries it in tasks of its own. Whoever calls it decides how long it may take.
pub(in crate::transport) async fn dial(to: SocketAddr) -> io::Result<DuplexStream> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(to).await?;
    let own = random_bytes().map_err(io::Error::other)?;
    let peer = open(&socket, own).await?;
    let socket = Arc::new(socket);
    let (near, far) = duplex(BUFFER);
    let (sender, datagrams) = mpsc::channel(DATAGRAMS);
    let outlet = Outlet {
        socket: Arc::clone(&socket),
        to: None,
    };
    tokio::spawn(async move {
        let connection = Connection::new(Ids { own, peer }, Instant::now());
        tokio::select! {
            carried = carry(connection, outlet, datagrams, far) => {
                if let Err(error) = carried {
                    tracing::debug!(%to, %error, "connection broke off");
                }
            }
            error = hand_in(&socket, own, sender) => tracing::debug!(%to, %error, "connection failed"),
        }
    });
    Ok(near)
}

/// Asks until the peer accepts; its number of the connection.
async fn open(socket: &UdpSocket, id: Id) -> io::Result<Id> {
    let mut cookie: Cookie = [0; 16];
    let mut pause = FIRST_PAUSE;
    loop {
        let mut asked = Vec::with_capacity(MAX_DATAGRAM);
        Datagram::Open { id, cookie }.write(&mut asked);
        socket.send(&asked).await?;
        match timeout(pause, answer(socket, id, cookie)).await {
            Ok(Ok(Answer::Accepted(peer))) => return Ok(peer),
            Ok(Ok(Answer::Again(given))) => cookie = given,
            Ok(Err(error)) => return Err(error),
            Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

enum Answer {
    Accepted(Id),
    Again(Cookie),
}

/// The next answer that says something new.
async fn answer(socket: &UdpSocket, own: Id, known: Cookie) -> io::Result<Answer> {
    let mut buffer = [0; MAX_DATAGRAM + 1];
    loop {
        let len = socket.recv(&mut buffer).await?;
        match Datagram::parse(&buffer[..len]) {
            Some(Datagram::Accept { id, accepting }) if id == own => return Ok(Answer::Accepted(accepting)),
            Some(Datagram::Retry { id, cookie }) if id == own && cookie != known => {
                return Ok(Answer::Again(cookie));
            }
            _ => {}
        }
    }
}

/// Hands in what arrives for the connection, until the socket fails.
async fn hand_in(socket: &UdpSocket, own: Id, connection: mpsc::Sender<Heard>) -> io::Error {
    let mut buffer = [0; MAX_DATAGRAM + 1];
    loop {
        match socket.recv(&mut buffer).await {
            Ok(len) => {
                let is_ours = match Datagram::parse(&buffer[..len]) {
                    Some(Datagram::Packet(packet)) => packet.id == own,
                    Some(Datagram::Reset { .. }) => true,
                    _ => false,
                };
                if is_ours {
                    // A full queue loses it, as a network would.
                    _ = connection.try_send(Heard::Datagram(Bytes::copy_from_slice(&buffer[..len])));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                _ = connection.try_send(Heard::Refused);
            }
            Err(error) => return error,
        }
    }
}
