//! Queries over UDP, and over TCP where a response does not fit a datagram.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use std::io;

use selfsame_codec::Code;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use super::error::ResolveError;
use super::module::{Module, Outcome, Query};
use crate::keys::random_bytes;

/// One byte above the longest datagram that the module takes.
const DATAGRAM_BYTES: usize = 4097;
/// Datagrams that answer another query before TCP is asked: somebody guesses.
const MAX_STRAYS: usize = 16;

/// Asks a server for a name.
pub(super) async fn ask(
    module: &Module,
    server: SocketAddr,
    name: &str,
    strays: &AtomicU64,
) -> Result<Outcome, ResolveError> {
    match over_udp(module, server, name, strays).await? {
        Outcome::Truncated => over_tcp(module, server, name).await,
        outcome => Ok(outcome),
    }
}

/// Asks from a port of its own, which the system chooses at random, and takes datagrams of that server only.
async fn over_udp(
    module: &Module,
    server: SocketAddr,
    name: &str,
    strays: &AtomicU64,
) -> Result<Outcome, ResolveError> {
    let query = Query {
        id: random_id()?,
        name,
    };
    let message = module.message(query)?;
    let failed = |error: io::Error| ResolveError::unreachable(server, error);
    let local = match server {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(local).await.map_err(failed)?;
    socket.connect(server).await.map_err(failed)?;
    socket.send(&message).await.map_err(failed)?;
    let mut datagram = vec![0; DATAGRAM_BYTES];
    for _ in 0..MAX_STRAYS {
        let len = socket.recv(&mut datagram).await.map_err(failed)?;
        match module.outcome(query, true, &datagram[..len])? {
            Err(Code::WrongDnsAnswer) => {
                strays.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%server, "a datagram answers another query");
            }
            outcome => return outcome.map_err(|code| wrong(server, code)),
        }
    }
    Ok(Outcome::Truncated)
}

async fn over_tcp(module: &Module, server: SocketAddr, name: &str) -> Result<Outcome, ResolveError> {
    let query = Query {
        id: random_id()?,
        name,
    };
    let message = module.message(query)?;
    let exchanged = exchange(server, &message).await;
    let response =
        exchanged.map_err(|error| ResolveError::unreachable(format_args!("{server} over TCP"), error))?;
    let outcome = module.outcome(query, false, &response)?;
    outcome.map_err(|code| wrong(server, code))
}

/// Sends a message and receives one, each after its length (RFC 1035, section 4.2.2).
pub(super) async fn exchange(server: SocketAddr, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let len = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes(), message].concat()).await?;
    let len = stream.read_u16().await?;
    // Memory follows what arrives and not what was announced.
    let mut response = Vec::new();
    stream.take(u64::from(len)).read_to_end(&mut response).await?;
    if response.len() < usize::from(len) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(response)
}

pub(super) fn wrong(server: impl ToString, code: Code) -> ResolveError {
    ResolveError::Answer {
        server: server.to_string(),
        code,
    }
}

pub(super) fn random_id() -> Result<u16, ResolveError> {
    Ok(u16::from_be_bytes(random_bytes()?))
}
