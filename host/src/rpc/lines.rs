//! The threads of a client: one for UDP and one for HTTP. Tickets are of one of them: two instances that share one would seal
//! different bytes with one nonce.

use alloc::sync::Arc;
use core::net::SocketAddr;
use std::io;
use std::sync::{Mutex, PoisonError};

use selfsame_codec::rpc::ClientConfig;
use tokio::runtime::Handle as Runtime;

use super::address::RpcAddress;
use super::calling::{ClientOrder, ClientRole};
use super::engine::Engine;
use super::http_service::HTTP_DATAGRAM_BYTES;
use super::http_way::HttpWay;
use super::posts::Posts;
use super::socket::{DATAGRAM_BYTES, Socket};
use super::thread::{OrderSender, RpcThread};
use super::way::Way;
use crate::error::Error;
use crate::transport::{Connector, post_client};

/// Asks for another ticket for the service of a number, and gives it to the thread that wants one.
pub(super) type RequestTicket = Arc<dyn Fn(u32, OrderSender<ClientOrder>) + Send + Sync>;

/// The calls of a client, by what carries them.
pub(super) struct Lines {
    udp: RpcThread<ClientOrder>,
    /// Begun with the first call over HTTP.
    http: Mutex<Option<HttpLine>>,
    allows_private: bool,
    request_ticket: RequestTicket,
    runtime: Runtime,
}

struct HttpLine {
    thread: RpcThread<ClientOrder>,
    posts: Arc<Posts>,
}

impl Lines {
    /// Binds the socket of a client.
    pub(super) fn open(allows_private: bool, request_ticket: RequestTicket) -> Result<Self, Error> {
        let socket = Socket::bind_any().map_err(failed)?;
        let role = role(allows_private, None, &request_ticket);
        Ok(Self {
            udp: start(socket, DATAGRAM_BYTES, role)?,
            http: Mutex::default(),
            allows_private,
            request_ticket,
            runtime: Runtime::current(),
        })
    }

    /// Returns the thread whose calls reach an address, and the endpoint that this has there.
    pub(super) fn way_to(
        &self,
        address: &RpcAddress,
    ) -> Result<(OrderSender<ClientOrder>, SocketAddr), Error> {
        let url = match address {
            RpcAddress::Udp(address) => return Ok((self.udp.sender().clone(), *address)),
            RpcAddress::Http(url) => url,
        };
        // Nothing panics between two changes of the line.
        let mut http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        let line = match &mut *http {
            Some(line) => line,
            none => none.insert(self.open_http()?),
        };
        Ok((line.thread.sender().clone(), line.posts.endpoint_of(url)))
    }

    fn open_http(&self) -> Result<HttpLine, Error> {
        let _entered = self.runtime.enter();
        let posts = Arc::<Posts>::default();
        let client = post_client(Connector::new(self.allows_private, &[])?);
        let way = HttpWay::new(client, Arc::clone(&posts)).map_err(failed)?;
        let role = role(
            self.allows_private,
            Some(Arc::clone(&posts)),
            &self.request_ticket,
        );
        let thread = start(way, HTTP_DATAGRAM_BYTES, role)?;
        posts.set_orders(thread.sender().clone());
        Ok(HttpLine { thread, posts })
    }
}

/// Makes the role of a thread that is about to start.
fn role(
    allows_private: bool,
    posts: Option<Arc<Posts>>,
    request_ticket: &RequestTicket,
) -> impl FnOnce(OrderSender<ClientOrder>) -> ClientRole {
    let request_ticket = Arc::clone(request_ticket);
    move |sender| {
        ClientRole::new(allows_private, posts, move |number| {
            request_ticket(number, sender.clone());
        })
    }
}

fn start(
    way: impl Way,
    datagram_bytes: u32,
    role: impl FnOnce(OrderSender<ClientOrder>) -> ClientRole,
) -> Result<RpcThread<ClientOrder>, Error> {
    let engine = Engine::new(ClientConfig { datagram_bytes }.encode())?;
    RpcThread::start(way, engine, role).map_err(failed)
}

fn failed(error: io::Error) -> Error {
    Error::io("the socket of the RPC", error)
}
