//! A server: threads that open requests, ask the handler and seal the answers.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;

#[cfg(feature = "procedures")]
use http::{Request, Response};
use selfsame_codec::rpc::ServerConfig;
#[cfg(feature = "procedures")]
use tower_service::Service;

use super::address::RpcAddress;
use super::answering::{Handler, RpcRefusal, RpcRequest, handler_of};
use super::binding::{Exchanges, HttpPort};
use super::engine::{Engine, unix_us};
#[cfg(feature = "procedures")]
use super::fetch::{HttpService, RpcFetchService};
use super::held_keys::{HeldKeys, RpcTicketKey};
use super::http_service::{HTTP_DATAGRAM_BYTES, RpcHttpService};
use super::keys::TicketKeys;
use super::network::network_bytes;
use super::serving::{ServerOrder, ServerRole};
use super::session_service::SessionCalls;
use super::socket::{DATAGRAM_BYTES, Socket};
use super::thread::RpcThread;
use super::ticket::{Carries, RpcTicketService};
use super::way::Way;
#[cfg(feature = "procedures")]
use crate::body::Body;
#[cfg(feature = "procedures")]
use crate::error::BoxError;
use crate::error::Error;
use crate::keys::{Seed, random_bytes};
#[cfg(feature = "procedures")]
use crate::options::ServeOptions;

/// How long a ticket is good unless the builder says otherwise.
const TICKET_LIFE: Duration = Duration::from_secs(3600);

/// What a server is made of.
#[derive(Clone)]
pub struct RpcServerBuilder {
    network: String,
    service: String,
    ticket_key: RpcTicketKey,
    router_key: Option<Seed>,
    ticket_life: Duration,
    is_idempotent: bool,
    threads: usize,
    serves_http: bool,
}

impl RpcServerBuilder {
    /// Calls may be carried out by each replica once: no round trip before the first one, and a copy of a datagram may be carried out by
    /// another replica for some seconds. Without this each call is bound to one replica.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }

    /// Takes requests from routers that have this key, too.
    #[must_use]
    pub fn router_key(mut self, key: Seed) -> Self {
        self.router_key = Some(key);
        self
    }

    /// How long tickets are good; an hour unless this says otherwise.
    #[must_use]
    pub fn ticket_life(mut self, life: Duration) -> Self {
        self.ticket_life = life;
        self
    }

    /// Threads, each with a socket and an instance of its own; one unless this says otherwise. Each sender's datagrams go to one of them.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Answers calls over HTTP and WebSocket, too, as [`RpcServer::http`] gets them: with a thread and an instance of its own.
    #[must_use]
    pub fn http(mut self) -> Self {
        self.serves_http = true;
        self
    }

    /// Binds the address and answers calls until it is dropped. A handler that is ready at once is carried out by the thread that has the
    /// socket: it must not block. Others go on in the Tokio runtime that this is called in.
    ///
    /// # Errors
    /// [`Error::Io`] when the address cannot be bound, [`Error::Poisoned`] when a name is not usable, [`Error::Input`] when tickets
    /// would outlive the keys that replicas share.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start<H, F>(self, address: SocketAddr, handler: H) -> Result<RpcServer, Error>
    where
        H: Fn(RpcRequest) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<u8>, RpcRefusal>> + Send + 'static,
    {
        let handler = handler_of(handler);
        let session_calls = SessionCalls::new(Arc::clone(&handler), self.is_idempotent);
        let mut server = self.begin(address, &handler)?;
        server.session_calls = Some(Arc::new(session_calls));
        Ok(server)
    }

    /// As [`Self::start`], for a service that answers HTTP by RPC: requests of GET, HEAD, OPTIONS, PUT and DELETE are the calls that
    /// [`Self::idempotent`] is about. Of the options those count that say who may call.
    ///
    /// # Errors
    /// As [`Self::start`].
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[cfg(feature = "procedures")]
    pub fn start_service<S, B>(
        self,
        address: SocketAddr,
        options: &ServeOptions,
        service: S,
    ) -> Result<RpcServer, Error>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let service = HttpService::new(&self.service, options, service);
        let mut server = self.begin(address, &service.handler())?;
        server.service = Some(service);
        Ok(server)
    }

    fn begin(self, address: SocketAddr, handler: &Handler) -> Result<RpcServer, Error> {
        let mut server = RpcServer {
            address,
            threads: Vec::new(),
            keys: HeldKeys::new(&self.ticket_key, self.ticket_life)?,
            session_calls: None,
            http: None,
            #[cfg(feature = "procedures")]
            service: None,
        };
        let secrets = server.keys.encode();
        let failed_at = |error| Error::io(address, error);
        let first = Socket::bind(address).map_err(failed_at)?;
        server.address = first.local_addr().map_err(failed_at)?;
        let beside = (1..self.threads).map(|_| first.bind_beside());
        let beside = beside.collect::<io::Result<Vec<_>>>().map_err(failed_at)?;
        for socket in core::iter::once(first).chain(beside) {
            let config = self.config(&secrets, DATAGRAM_BYTES, false)?;
            server.start_thread(socket, config, handler)?;
        }
        if self.serves_http {
            let exchanges = Arc::<Exchanges>::default();
            let port = HttpPort::new(Arc::clone(&exchanges)).map_err(failed)?;
            server.http = Some(RpcHttpService::new(exchanges, port.sender()));
            let config = self.config(&secrets, HTTP_DATAGRAM_BYTES, true)?;
            server.start_thread(port, config, handler)?;
        }
        let senders = server.threads.iter().map(|thread| thread.sender().clone());
        server.keys.follow(senders.collect());
        Ok(server)
    }

    fn config(&self, ticket_secrets: &[u8], datagram_bytes: u32, streams: bool) -> Result<Vec<u8>, Error> {
        // Routers pass on datagrams of UDP.
        let router_key = self.router_key.as_ref().filter(|_| !streams);
        let network = network_bytes(&self.network)?;
        let config = ServerConfig {
            network: &network,
            service: self.service.as_bytes(),
            ticket_secrets,
            entropy: random_bytes()?,
            datagram_bytes,
            streams,
            ticket_life_s: u32::try_from(self.ticket_life.as_secs()).unwrap_or(u32::MAX),
            replay: u8::from(self.is_idempotent),
            not_before_ms: unix_us() / 1000,
            router_secret: router_key.map_or(&[], |key| &key.bytes()[..]),
        };
        Ok(config.encode())
    }
}

/// A replica of a service; ends when it is dropped.
#[derive(Debug)]
pub struct RpcServer {
    address: SocketAddr,
    threads: Vec<RpcThread<ServerOrder>>,
    keys: HeldKeys,
    /// `None` where calls carry HTTP.
    session_calls: Option<Arc<SessionCalls>>,
    http: Option<RpcHttpService>,
    #[cfg(feature = "procedures")]
    service: Option<HttpService>,
}

impl RpcServer {
    /// A server of a service in a network, whose replicas share the ticket key.
    #[must_use]
    pub fn builder(network: &str, service: &str, ticket_key: impl Into<RpcTicketKey>) -> RpcServerBuilder {
        RpcServerBuilder {
            network: network.into(),
            service: service.into(),
            ticket_key: ticket_key.into(),
            router_key: None,
            ticket_life: TICKET_LIFE,
            is_idempotent: false,
            threads: 1,
            serves_http: false,
        }
    }

    fn start_thread(&mut self, way: impl Way, config: Vec<u8>, handler: &Handler) -> Result<(), Error> {
        let engine = Engine::new(config)?;
        let handler = Arc::clone(handler);
        let thread = RpcThread::start(way, engine, |sender| ServerRole::new(handler, sender));
        self.threads.push(thread.map_err(failed)?);
        Ok(())
    }

    /// The address that it is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What answers calls over HTTP and WebSocket; `None` unless [`RpcServerBuilder::http`] has asked for it.
    #[must_use]
    pub fn http(&self) -> Option<RpcHttpService> {
        self.http.clone()
    }

    /// What issues tickets to callers from the mesh, and answers calls that are to be forward secret, to be served under the service's
    /// name. The addresses, up to four, are where they reach this server, the preferred one first; a caller takes the first that it can use.
    ///
    /// # Errors
    /// [`Error::Input`] when there is no address, are too many, or is one that nobody can use.
    pub fn tickets(
        &self,
        addresses: impl IntoIterator<Item = impl Into<RpcAddress>>,
    ) -> Result<RpcTicketService, Error> {
        RpcTicketService::new(
            self.threads[0].sender().clone(),
            addresses,
            self.keys.shared().cloned(),
            &self
                .session_calls
                .as_ref()
                .map(Arc::downgrade)
                .unwrap_or_default(),
            self.carries(),
        )
    }

    #[cfg(feature = "procedures")]
    fn carries(&self) -> Carries {
        self.service.as_ref().map_or(Carries::Calls, HttpService::carries)
    }

    #[cfg(not(feature = "procedures"))]
    fn carries(&self) -> Carries {
        Carries::Calls
    }

    /// What answers requests of HTTP in sessions of the mesh, too, beside that which [`Self::tickets`] does; `None` unless the server was
    /// started with a service of HTTP.
    ///
    /// # Errors
    /// As [`Self::tickets`].
    #[cfg(feature = "procedures")]
    pub fn service(
        &self,
        addresses: impl IntoIterator<Item = impl Into<RpcAddress>>,
    ) -> Result<Option<RpcFetchService>, Error> {
        let Some(service) = &self.service else {
            return Ok(None);
        };
        let tickets = self.tickets(addresses)?;
        Ok(Some(RpcFetchService::new(tickets, service.clone())))
    }

    /// Replaces all ticket keys: tickets that are out open nothing any more.
    ///
    /// # Errors
    /// [`Error::Input`] when they are shared over the mesh.
    pub fn set_ticket_key(&self, key: &Seed) -> Result<(), Error> {
        self.change_keys(|keys| *keys = TicketKeys::new(key.clone()))
    }

    /// Makes the next ticket key the current one, and erases the one before the current one: what was sealed under it is secret from then
    /// on even if this replica is captured. All replicas should do so at the same time, no more often than tickets live.
    ///
    /// # Errors
    /// [`Error::Input`] when they are shared over the mesh.
    pub fn rotate_ticket_keys(&self) -> Result<(), Error> {
        self.change_keys(TicketKeys::rotate)
    }

    fn change_keys(&self, change: impl FnOnce(&mut TicketKeys)) -> Result<(), Error> {
        let secrets = self.keys.change(change)?;
        for thread in &self.threads {
            let order = ServerOrder::SetTicketKeys(secrets.clone());
            thread.sender().send(order);
        }
        Ok(())
    }
}

fn failed(error: io::Error) -> Error {
    Error::io("a thread of the RPC", error)
}
