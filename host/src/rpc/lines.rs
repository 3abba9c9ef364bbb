//! The threads of a client: one each for UDP, HTTP and WebSocket, begun with the first call over it. Tickets are of one of them: two instances
//! that shared one would seal different bytes with one nonce.

use alloc::sync::Arc;
use core::net::SocketAddr;
use std::io;
use std::sync::Mutex;

use selfsame_codec::rpc::{ClientConfig, Input};
use tokio::runtime::Handle as Runtime;
use zeroize::Zeroizing;

use super::address::RpcAddress;
use super::calling::{ClientOrder, ClientRole};
use super::engine::{Engine, unix_us};
use super::http_service::HTTP_DATAGRAM_BYTES;
use super::http_way::HttpWay;
use super::posts::Posts;
use super::socket::{DATAGRAM_BYTES, Socket};
use super::thread::{OrderSender, RpcThread};
use super::url_calls::UrlCalls;
use super::way::Way;
use super::websocket_way::{Sockets, WebSocketWay};
use crate::error::Error;
use crate::lock::lock;
use crate::transport::{Connector, post_client};

/// Asks for another ticket for the service of a number, and gives it to the thread that wants one.
pub(super) type RequestTicket = Arc<dyn Fn(u32, OrderSender<ClientOrder>) + Send + Sync>;

/// The calls of a client, by what carries them.
pub(super) struct Lines {
    udp: Mutex<Line>,
    http: Mutex<Line>,
    posts: Arc<Posts>,
    websocket: Mutex<Line>,
    sockets: Arc<Sockets>,
    allows_private: bool,
    request_ticket: RequestTicket,
    runtime: Runtime,
}

/// A thread, once there is one
#[derive(Default)]
struct Line {
    thread: Option<RpcThread<ClientOrder>>,
    /// Tickets that came before it, the oldest first.
    kept: Vec<KeptTicket>,
}

/// A ticket of the service of a number. Its age counts from when it came.
struct KeptTicket {
    service: u32,
    grant: Zeroizing<Vec<u8>>,
    came_us: u64,
}

impl Lines {
    /// Lines without threads: a client whose calls travel in sessions needs none.
    pub(super) fn new(allows_private: bool, request_ticket: RequestTicket) -> Self {
        Self {
            udp: Mutex::default(),
            http: Mutex::default(),
            posts: Arc::default(),
            websocket: Mutex::default(),
            sockets: Arc::default(),
            allows_private,
            request_ticket,
            runtime: Runtime::current(),
        }
    }

    /// Uses a ticket for the service of a number, from its first call at the address on.
    pub(super) fn use_ticket(&self, address: &RpcAddress, service: u32, grant: Zeroizing<Vec<u8>>) {
        let line = match address {
            RpcAddress::Udp(_) => &self.udp,
            RpcAddress::Http(_) => &self.http,
            RpcAddress::WebSocket(_) => &self.websocket,
        };
        lock(line).use_ticket(service, grant);
    }

    /// Returns the thread whose calls reach an address, and the endpoint that this has there.
    pub(super) fn way_to(
        &self,
        address: &RpcAddress,
    ) -> Result<(OrderSender<ClientOrder>, SocketAddr), Error> {
        match address {
            RpcAddress::Udp(address) => Ok((self.udp()?, *address)),
            RpcAddress::Http(url) => Ok((self.http()?, self.posts.endpoint_of(url))),
            RpcAddress::WebSocket(url) => Ok((self.websocket()?, self.sockets.endpoint_of(url))),
        }
    }

    fn udp(&self) -> Result<OrderSender<ClientOrder>, Error> {
        let mut line = lock(&self.udp);
        if let Some(thread) = &line.thread {
            return Ok(thread.sender().clone());
        }
        let socket = Socket::bind_any().map_err(failed)?;
        self.start(&mut line, socket, DATAGRAM_BYTES, None)
    }

    fn http(&self) -> Result<OrderSender<ClientOrder>, Error> {
        let mut line = lock(&self.http);
        if let Some(thread) = &line.thread {
            return Ok(thread.sender().clone());
        }
        let posts = Arc::clone(&self.posts);
        let client = post_client(Connector::new(self.allows_private, &[])?);
        let way = HttpWay::new(client, Arc::clone(&posts)).map_err(failed)?;
        let sender = self.start(&mut line, way, HTTP_DATAGRAM_BYTES, Some(posts))?;
        self.posts.set_orders(sender.clone());
        Ok(sender)
    }

    fn websocket(&self) -> Result<OrderSender<ClientOrder>, Error> {
        let mut line = lock(&self.websocket);
        if let Some(thread) = &line.thread {
            return Ok(thread.sender().clone());
        }
        let sockets = Arc::clone(&self.sockets);
        let connector = Connector::new(self.allows_private, &[])?;
        let way = WebSocketWay::new(connector, Arc::clone(&sockets)).map_err(failed)?;
        let sender = self.start(&mut line, way, HTTP_DATAGRAM_BYTES, Some(sockets))?;
        self.sockets.set_orders(sender.clone());
        Ok(sender)
    }

    fn start(
        &self,
        line: &mut Line,
        way: impl Way,
        datagram_bytes: u32,
        urls: Option<Arc<dyn UrlCalls>>,
    ) -> Result<OrderSender<ClientOrder>, Error> {
        let mut engine = Engine::new(ClientConfig { datagram_bytes }.encode())?;
        use_kept(line.kept.drain(..), &mut engine)?;
        let (allows_private, request_ticket) = (self.allows_private, Arc::clone(&self.request_ticket));
        let role = move |sender: OrderSender<ClientOrder>| {
            ClientRole::new(allows_private, urls, move |number| {
                request_ticket(number, sender.clone());
            })
        };
        let _entered = self.runtime.enter();
        let thread = RpcThread::start(way, engine, role).map_err(failed)?;
        Ok(line.thread.insert(thread).sender().clone())
    }
}

impl Line {
    fn use_ticket(&mut self, service: u32, grant: Zeroizing<Vec<u8>>) {
        if let Some(thread) = &self.thread {
            return thread.sender().send(ClientOrder::UseTicket(service, grant));
        }
        self.kept.retain(|ticket| ticket.service != service);
        self.kept.push(KeptTicket {
            service,
            grant,
            came_us: unix_us(),
        });
    }
}

/// Gives a new instance tickets as of when they came.
fn use_kept(kept: impl Iterator<Item = KeptTicket>, engine: &mut Engine) -> Result<(), Error> {
    for ticket in kept {
        engine.give(&Input::UseTicket {
            service: ticket.service,
            grant: &ticket.grant,
        });
        // It has no calls yet that something is to be sent for.
        _ = engine.step_at(ticket.came_us)?;
    }
    Ok(())
}

fn failed(error: io::Error) -> Error {
    Error::io("the socket of the RPC", error)
}

#[cfg(test)]
mod tests {
    use selfsame_codec::BatchReader;
    use selfsame_codec::rpc::{IDEMPOTENT, Output, ServerConfig};

    use super::*;

    const MINUTE_US: u64 = 60_000_000;
    const ENDPOINT: [u8; 18] = [1; 18];

    fn server() -> Engine {
        let config = ServerConfig {
            network: b"test",
            service: b"check",
            ticket_secrets: &[7; 32],
            entropy: [1; 32],
            datagram_bytes: DATAGRAM_BYTES,
            streams: false,
            ticket_life_s: 3600,
            replay: 1,
            not_before_ms: 0,
            router_secret: &[],
        };
        Engine::new(config.encode()).expect("a server")
    }

    /// Steps an engine; what `find` makes of the first output that it knows.
    fn step<T>(engine: &mut Engine, now_us: u64, find: impl Fn(&Output<'_>) -> Option<T>) -> T {
        let outputs = engine.step_at(now_us).expect("a step");
        let mut items = BatchReader::new(&outputs).expect("outputs");
        let found = items.find_map(|item| find(&Output::decode(item).expect("an output")));
        found.expect("what is looked for")
    }

    #[test]
    fn age_of_a_kept_ticket_counts_from_when_it_came() {
        let now_us = unix_us();
        let came_us = now_us - MINUTE_US;
        let (mut server, config) = (
            server(),
            ClientConfig {
                datagram_bytes: DATAGRAM_BYTES,
            },
        );
        let mut client = Engine::new(config.encode()).expect("a client");
        server.give(&Input::IssueTicket {
            tag: 0,
            caller: [2; 32],
            endpoint: ENDPOINT,
        });
        let grant = step(&mut server, came_us, |output| match output {
            Output::Issued { grant, .. } => Some(Zeroizing::new(grant.to_vec())),
            _ => None,
        });
        let kept = KeptTicket {
            service: 0,
            grant,
            came_us,
        };
        use_kept([kept].into_iter(), &mut client).expect("it is used");
        client.give(&Input::Call {
            call: 1,
            service: 0,
            target: ENDPOINT,
            options: IDEMPOTENT,
            timeout_ms: 1000,
            payload: b"ping",
        });
        let bytes = step(&mut client, now_us, |output| match output {
            Output::Send { bytes, .. } => Some(bytes.to_vec()),
            _ => None,
        });
        server.give(&Input::Datagram {
            source: ENDPOINT,
            bytes: &bytes,
        });
        // It is early data of a moment ago: no round trip comes before.
        step(&mut server, now_us, |output| {
            matches!(output, Output::Serve { payload: b"ping", .. }).then_some(())
        });
    }
}
