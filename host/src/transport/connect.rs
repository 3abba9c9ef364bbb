use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::error::Error as StdError;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{Address, is_public};
use super::udp;
use crate::error::Error;

/// Time for one IP address to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for name, connection and TLS together.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most IP addresses of one name that are tried.
const MAX_TRIED: usize = 4;

/// A connection to a peer, with or without TLS
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Where nobody is talked into connecting to
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrivateAddress;

impl PrivateAddress {
    /// Whether a connection was refused for this, which led to another error.
    pub(crate) fn is_cause_of(error: &(dyn StdError + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            let cause = error.downcast_ref().and_then(io::Error::get_ref);
            if cause.is_some_and(|cause| cause.is::<Self>()) {
                return true;
            }
            next = error.source();
        }
        false
    }
}

impl fmt::Display for PrivateAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a private address: allow private addresses if that is meant")
    }
}

impl StdError for PrivateAddress {}

/// Opens connections, and refuses those that a peer must not talk us into
#[derive(Clone)]
pub(crate) struct Connector {
    tls: Arc<ClientConfig>,
    allow_private: bool,
    /// Schemes, hosts and ports of the bootstraps: whoever configured them means them, wherever they lead.
    trusted: Arc<BTreeSet<String>>,
}

impl Connector {
    pub(crate) fn new(allow_private: bool, bootstraps: &[String]) -> Result<Self, Error> {
        let trusted = bootstraps
            .iter()
            .map(|url| Address::parse(url).map(|address| place(&address)));
        Ok(Self {
            tls: Arc::new(tls_config()?),
            allow_private,
            trusted: Arc::new(trusted.collect::<Result<_, _>>()?),
        })
    }

    /// Connects to an address.
    pub(crate) async fn connect(&self, address: &Address) -> io::Result<Box<dyn Io>> {
        let connected = timeout(TIMEOUT, self.connect_unbounded(address)).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Connects to an address of bare TCP.
    pub(crate) async fn connect_tcp(&self, address: &Address) -> io::Result<TcpStream> {
        let connected = timeout(TIMEOUT, self.tcp(address)).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Connects to an address of UDP.
    pub(crate) async fn connect_udp(&self, address: &Address) -> io::Result<DuplexStream> {
        let connected = timeout(TIMEOUT, self.at_first(address, udp::dial)).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn connect_unbounded(&self, address: &Address) -> io::Result<Box<dyn Io>> {
        let tcp = self.tcp(address).await?;
        if !address.scheme.is_tls() {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        let tls = TlsConnector::from(Arc::clone(&self.tls))
            .connect(name, tcp)
            .await?;
        Ok(Box::new(tls))
    }

    async fn tcp(&self, address: &Address) -> io::Result<TcpStream> {
        let stream = self.at_first(address, TcpStream::connect).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// What the first IP address gives that answers.
    async fn at_first<T>(
        &self,
        address: &Address,
        open: impl AsyncFn(SocketAddr) -> io::Result<T>,
    ) -> io::Result<T> {
        let any = self.allow_private || self.trusted.contains(&place(address));
        let mut failure = io::Error::other("the name has no address");
        for place in lookup_host((address.host.as_str(), address.port))
            .await?
            .take(MAX_TRIED)
        {
            // A public name may lead inside: what counts is where the connection would go.
            if !any && !is_public(place.ip()) {
                failure = io::Error::other(PrivateAddress);
                continue;
            }
            match timeout(ANSWER_TIMEOUT, open(place)).await {
                Ok(Ok(opened)) => return Ok(opened),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failure)
    }
}

fn place(address: &Address) -> String {
    format!("{}://{}:{}", address.scheme.name(), address.host, address.port)
}

fn tls_config() -> Result<ClientConfig, Error> {
    let roots = rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::io("TLS", io::Error::other(error)))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// What comes of connecting to a port of this machine under a name.
    async fn connect(
        host: &str,
        port: u16,
        allow_private: bool,
        bootstraps: &[String],
    ) -> Result<(), String> {
        let connector = Connector::new(allow_private, bootstraps).expect("a connector");
        let address = Address::parse(&format!("ws://{host}:{port}")).expect("an address");
        let connected = connector.connect(&address).await;
        connected.map(drop).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn nobody_is_talked_into_a_private_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its number").port();
        // An address, other ways to write it, and a name that leads to it.
        for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0", "localhost"] {
            let bootstraps = [format!("ws://{host}:1")];
            let refused = connect(host, port, false, &bootstraps).await;
            assert!(refused.is_err_and(|error| error.contains("private")), "{host}");
        }
        assert_eq!(connect("127.0.0.1", port, true, &[]).await, Ok(()));
        let bootstrap = format!("ws://127.0.0.1:{port}/path");
        assert_eq!(connect("127.0.0.1", port, false, &[bootstrap]).await, Ok(()));
    }
}
