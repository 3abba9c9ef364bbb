//! Carries the datagrams of a client as messages of WebSockets: one for each server, which is dialled when it is called.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, OnceLock};

use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderValue, Uri};
use mio::Waker;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::address::RpcAddress;
use super::arrivals::{ArrivalSender, Arrivals, Datagram};
use super::calling::ClientOrder;
use super::datagram::RequestHead;
use super::dialled_socket::DialledSocket;
use super::engine::Engine;
use super::frame_parts::FrameParts;
use super::pauses::Pauses;
use super::thread::OrderSender;
use super::url_calls::UrlCalls;
use super::url_endpoints::UrlEndpoints;
use super::way::Way;
use super::websocket;
use crate::error::{BoxError, root_cause};
use crate::lock::lock;
use crate::transport::{Address, Connector, Io, PrivateAddress};

/// The number of this way in endpoints that stand for URLs.
const WAY: u16 = 1;
/// Sockets at a time, one for each server.
const MAX_SOCKETS: usize = 1024;
/// How long a server is left alone that has let no socket be opened, or has closed one without a word.
const PAUSE: Duration = Duration::from_secs(1);
/// Time for the opening handshake on a connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the calls of a client over WebSocket share: its thread, its tasks and its callers use it.
pub(super) struct Sockets {
    table: Mutex<Table>,
    orders: OnceLock<OrderSender<ClientOrder>>,
}

struct Table {
    endpoints: UrlEndpoints,
    by_endpoint: HashMap<SocketAddr, Arc<DialledSocket>>,
    pauses: Pauses,
}

impl Default for Sockets {
    fn default() -> Self {
        Self {
            table: Mutex::new(Table {
                endpoints: UrlEndpoints::new(WAY),
                by_endpoint: HashMap::new(),
                pauses: Pauses::default(),
            }),
            orders: OnceLock::new(),
        }
    }
}

impl Sockets {
    /// Sets where the thread takes orders.
    pub(super) fn set_orders(&self, orders: OrderSender<ClientOrder>) {
        // It is started once.
        _ = self.orders.set(orders);
    }

    /// Returns the endpoint that stands for a URL.
    pub(super) fn endpoint_of(&self, url: &Uri) -> SocketAddr {
        lock(&self.table).endpoints.endpoint_of(url)
    }

    /// Returns the socket to a server, which `dial` opens if there is none.
    fn socket_to(
        &self,
        target: SocketAddr,
        dial: impl FnOnce(Uri, Arc<DialledSocket>),
    ) -> Option<Arc<DialledSocket>> {
        let mut table = lock(&self.table);
        if let Some(socket) = table.by_endpoint.get(&target).filter(|socket| !socket.is_over()) {
            return Some(Arc::clone(socket));
        }
        table.by_endpoint.remove(&target);
        if table.pauses.includes(target) || table.by_endpoint.len() >= MAX_SOCKETS {
            return None;
        }
        let url = table.endpoints.url_of(target)?.clone();
        let socket = Arc::new(DialledSocket::new());
        table.by_endpoint.insert(target, Arc::clone(&socket));
        dial(url, Arc::clone(&socket));
        Some(socket)
    }

    /// Forgets a socket that has ended.
    fn forget(&self, target: SocketAddr, socket: &Arc<DialledSocket>) {
        let mut table = lock(&self.table);
        if !socket.has_heard() {
            table.pauses.begin(target, PAUSE);
        }
        if table
            .by_endpoint
            .get(&target)
            .is_some_and(|known| Arc::ptr_eq(known, socket))
        {
            table.by_endpoint.remove(&target);
        }
    }

    /// Ends the calls to a server that may not be dialled.
    fn forbid(&self, target: SocketAddr, why: String) {
        if let Some(orders) = self.orders.get() {
            orders.send(ClientOrder::Forbid { target, why });
        }
    }

    fn close(&self) {
        for socket in lock(&self.table).by_endpoint.values() {
            socket.close();
        }
    }
}

impl UrlCalls for Sockets {
    fn address_of(&self, endpoint: SocketAddr) -> Option<RpcAddress> {
        let table = lock(&self.table);
        table
            .endpoints
            .url_of(endpoint)
            .cloned()
            .map(RpcAddress::WebSocket)
    }

    fn give_up(&self) {
        for socket in lock(&self.table).by_endpoint.values() {
            socket.rest();
        }
    }
}

/// Carries the datagrams of a client over WebSocket.
pub(super) struct WebSocketWay {
    connector: Connector,
    sockets: Arc<Sockets>,
    arrivals: Arrivals<Datagram>,
}

impl WebSocketWay {
    pub(super) fn new(connector: Connector, sockets: Arc<Sockets>) -> io::Result<Self> {
        Ok(Self {
            connector,
            sockets,
            arrivals: Arrivals::new()?,
        })
    }
}

impl Way for WebSocketWay {
    fn waker(&self) -> Arc<Waker> {
        self.arrivals.waker()
    }

    fn receive(&mut self, engine: &mut Engine) -> io::Result<()> {
        self.arrivals.give(engine);
        Ok(())
    }

    fn send(&mut self, target: SocketAddr, datagram: &[u8]) {
        let Some(head) = RequestHead::of(datagram) else {
            return;
        };
        let dial = |url, socket| {
            let dialling = Dialling {
                connector: self.connector.clone(),
                sockets: Arc::clone(&self.sockets),
                arrivals: self.arrivals.sender().clone(),
                url,
                target,
                socket,
            };
            tokio::spawn(dialling.run());
        };
        if let Some(socket) = self.sockets.socket_to(target, dial) {
            socket.send(head, datagram);
        }
    }

    fn flush(&mut self) {}

    fn wait(&mut self, longest: Option<Duration>) -> io::Result<()> {
        self.arrivals.wait(longest)
    }
}

impl Drop for WebSocketWay {
    fn drop(&mut self) {
        self.sockets.close();
    }
}

/// A socket from when it is dialled to its end.
struct Dialling {
    connector: Connector,
    sockets: Arc<Sockets>,
    arrivals: ArrivalSender<Datagram>,
    url: Uri,
    target: SocketAddr,
    socket: Arc<DialledSocket>,
}

impl Dialling {
    async fn run(self) {
        let opened = tokio::select! {
            opened = self.open() => opened,
            _ = self.socket.ended() => return self.forget(),
        };
        match opened {
            Ok(socket) => {
                // A thread that has ended needs none.
                let receive = |datagram| _ = self.arrivals.send((self.target, datagram));
                self.socket.carry(socket, receive).await;
            }
            Err(error) => self.failed(&*error),
        }
        self.forget();
    }

    async fn open(&self) -> Result<WebSocketStream<FrameParts<Box<dyn Io>>>, BoxError> {
        let address = Address::parse(&self.url.to_string())?;
        let io = FrameParts::after_head(self.connector.connect(&address).await?);
        let mut request = self.url.clone().into_client_request()?;
        request.headers_mut().insert(
            SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(websocket::SUBPROTOCOL),
        );
        // Tungstenite refuses an answer that does not name the protocol.
        let opening = client_async_with_config(request, io, Some(websocket::config()));
        Ok(timeout(HANDSHAKE_TIMEOUT, opening).await??.0)
    }

    /// Datagrams of a socket that does not open are lost, unless it may not be dialled at all.
    fn failed(&self, error: &(dyn core::error::Error + 'static)) {
        let url = &self.url;
        if PrivateAddress::is_cause_of(error) {
            self.sockets
                .forbid(self.target, format!("{url} leads to {PrivateAddress}"));
        } else {
            tracing::debug!(%url, error = root_cause(error), "a WebSocket did not open");
        }
    }

    fn forget(&self) {
        self.socket.end();
        self.sockets.forget(self.target, &self.socket);
    }
}
