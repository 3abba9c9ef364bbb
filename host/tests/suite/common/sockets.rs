//! Servers and clients of the RPC over WebSocket, and sockets that a test speaks over.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use axum::Router;
use axum::extract::Request as AxumRequest;
use bytes::Bytes;
use futures_util::{SinkExt as _, Stream, StreamExt as _};
use http::{HeaderValue, Request};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use selfsame_host::rpc::{RpcAddress, RpcClient, RpcHttpService, RpcOptions, RpcRequest, RpcServer};
use selfsame_host::{Node, Seed};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::server::{Request as Opening, Response as Opened};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async, client_async};
use tower_service::Service as _;

use super::tickets::TicketsFirst;
use super::within;

const PROTOCOL: &str = "selfsame-rpc.1";
/// Longest message that holds a datagram.
pub(crate) const MAX_MESSAGE: usize = (16 << 20) - (64 << 10) + 1024;
pub(crate) const MIB: usize = 1 << 20;
pub(crate) const ANSWER: u8 = 0x62;
pub(crate) const REJECTION: u8 = 0x63;
pub(crate) const KIND: u8 = 0b11;
const ACKNOWLEDGEMENT: u8 = 1;
pub(crate) const BIND: u8 = 3;
const CONTROL: u8 = 0b1_0000;

/// A server of `check` whose calls a handler answers, and what takes POSTs and sockets.
pub(crate) fn server<F>(
    handler: impl Fn(RpcRequest) -> F + Send + Sync + 'static,
) -> (RpcServer, RpcHttpService)
where
    F: Future<Output = Vec<u8>> + Send + 'static,
{
    let server = RpcServer::builder("test", "check", Seed::from_bytes([7; 32]))
        .idempotent()
        .http()
        .start(SocketAddr::from(([127, 0, 0, 1], 0)), move |request| {
            let answer = handler(request);
            async move { Ok(answer.await) }
        })
        .expect("a server");
    let http = server.http().expect("calls over HTTP and WebSocket");
    (server, http)
}

pub(crate) fn echo() -> (RpcServer, RpcHttpService) {
    server(async |request| request.payload)
}

/// A server whose calls are answered when the test says so, with more bytes than came.
pub(crate) struct Held {
    pub(crate) server: RpcServer,
    pub(crate) http: RpcHttpService,
    pub(crate) begun: mpsc::UnboundedReceiver<RpcRequest>,
    pub(crate) answer: watch::Sender<bool>,
    pub(crate) calls: Arc<AtomicUsize>,
}

pub(crate) fn held(more: usize) -> Held {
    let (begin, begun) = mpsc::unbounded_channel();
    let (answer, answered) = watch::channel(false);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let (server, http) = server(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        let payload = [&request.payload[..], &vec![0; more]].concat();
        // A test that has ended waits for nothing.
        _ = begin.send(request);
        let mut answered = answered.clone();
        async move {
            _ = answered.wait_for(|answered| *answered).await;
            payload
        }
    });
    Held {
        server,
        http,
        begun,
        answer,
        calls,
    }
}

/// A connection to a server in memory, from an address.
pub(crate) fn connect(http: &RpcHttpService, from: &str) -> DuplexStream {
    let (near, far) = duplex(64 * 1024);
    let from: SocketAddr = format!("{from}:1").parse().expect("an address");
    let http = http.clone();
    let service = service_fn(move |mut request: Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(from);
        http.clone().call(request)
    });
    let serving = http1::Builder::new()
        .serve_connection(TokioIo::new(far), service)
        .with_upgrades();
    tokio::spawn(async move { _ = serving.await });
    near
}

/// The request that opens a socket, with other fields.
pub(crate) fn opening(fields: &[(&'static str, &'static str)]) -> Request<()> {
    let mut request = "ws://server/rpc".into_client_request().expect("a request");
    let headers = request.headers_mut();
    headers.insert("sec-websocket-protocol", HeaderValue::from_static(PROTOCOL));
    for (name, value) in fields {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    request
}

/// A socket that a test speaks over.
pub(crate) struct Talk<S = DuplexStream>(pub(crate) WebSocketStream<S>);

impl Talk {
    pub(crate) async fn try_open(http: &RpcHttpService, from: &str) -> Result<Self, WsError> {
        let opened = client_async(opening(&[]), connect(http, from)).await?;
        Ok(Self(opened.0))
    }

    pub(crate) async fn open(http: &RpcHttpService, from: &str) -> Self {
        within(Self::try_open(http, from)).await.expect("a socket")
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    pub(crate) async fn send(&mut self, message: impl Into<Message>) {
        // The server may have closed it before it has all.
        _ = within(self.0.send(message.into())).await;
    }

    pub(crate) async fn next(&mut self) -> Bytes {
        match within(self.0.next()).await {
            Some(Ok(Message::Binary(datagram))) => datagram,
            other => panic!("a datagram, not {other:?}"),
        }
    }

    /// The code with which it is closed.
    pub(crate) async fn closed(&mut self) -> Option<CloseCode> {
        within(close_in(&mut self.0)).await
    }
}

/// The code of the close frame that ends a stream of messages.
pub(crate) async fn close_in(
    messages: &mut (impl Stream<Item = Result<Message, WsError>> + Unpin),
) -> Option<CloseCode> {
    loop {
        match messages.next().await {
            Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return None,
        }
    }
}

pub(crate) fn status_of(error: WsError) -> u16 {
    match error {
        WsError::Http(response) => response.status().as_u16(),
        error => panic!("{error}"),
    }
}

/// Serves HTTP and WebSockets on a free port of this machine, and counts the connections; its URL.
pub(crate) async fn web(http: RpcHttpService) -> (RpcAddress, Arc<AtomicUsize>) {
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&opened);
    let app = Router::new()
        .fallback_service(http)
        .layer(axum::middleware::map_request(move |request: AxumRequest| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { request }
        }));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url_of(address), opened)
}

pub(crate) fn url_of(address: SocketAddr) -> RpcAddress {
    format!("ws://{address}/rpc").parse().expect("a URL")
}

/// A server of sockets each of which a test speaks over.
pub(crate) async fn fake() -> (RpcAddress, mpsc::UnboundedReceiver<Talk<TcpStream>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = url_of(listener.local_addr().expect("its address"));
    let (send, sockets) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            #[expect(clippy::result_large_err, reason = "the library's signature")]
            let agree = |_: &Opening, mut response: Opened| {
                let headers = response.headers_mut();
                headers.insert("sec-websocket-protocol", HeaderValue::from_static(PROTOCOL));
                Ok(response)
            };
            if let Ok(socket) = accept_hdr_async(io, agree).await {
                _ = send.send(Talk(socket));
            }
        }
    });
    (url, sockets)
}

/// A client with tickets that name these addresses.
pub(crate) async fn client(nodes: &[Node], server: &RpcServer, addresses: &[RpcAddress]) -> RpcClient {
    let tickets = server.tickets(addresses.iter().cloned()).expect("tickets");
    within(nodes[0].serve("check", tickets))
        .await
        .expect("it is served");
    RpcClient::with_tickets(TicketsFirst(nodes[1].clone()))
}

pub(crate) fn idempotent() -> RpcOptions {
    RpcOptions::new().idempotent()
}

/// Requests of one client that the server takes, none of which it has had: the calls themselves are given up.
pub(crate) async fn requests_of(
    nodes: &[Node],
    server: &RpcServer,
    http: &RpcHttpService,
    payload: &[u8],
    count: usize,
) -> Vec<Bytes> {
    let (url, mut sockets) = fake().await;
    let client = client(nodes, server, &[url]).await;
    // Not idempotent: they are bound to the server, whenever it began.
    let options = RpcOptions::new().timeout(Duration::from_secs(300));
    let calls = (0..count).map(|_| client.call("check", payload, options.clone()));
    let calling = futures_util::future::join_all(calls);
    let collecting = async {
        let mut fake = within(sockets.recv()).await.expect("a socket");
        let mut talk = Talk::open(http, "127.0.0.1").await;
        let mut requests = Vec::new();
        while requests.len() < count {
            let request = fake.next().await;
            if request[1] & CONTROL == 0 {
                requests.push(request);
                continue;
            }
            // Asks for what binds them.
            talk.send(request).await;
            fake.send(talk.next().await).await;
        }
        requests
    };
    tokio::select! {
        _ = calling => panic!("nobody answers"),
        requests = collecting => requests,
    }
}

pub(crate) async fn request_of(
    nodes: &[Node],
    server: &RpcServer,
    http: &RpcHttpService,
    payload: &[u8],
) -> Bytes {
    let mut requests = requests_of(nodes, server, http, payload, 1).await;
    requests.pop().expect("a request")
}

pub(crate) fn forged(form: u8, flags: u8) -> Vec<u8> {
    let mut datagram = vec![9; 200];
    datagram[..2].copy_from_slice(&[form, flags]);
    datagram
}

pub(crate) fn is_acknowledgement(datagram: &[u8]) -> bool {
    datagram[0] == ANSWER && datagram[1] & KIND == ACKNOWLEDGEMENT
}
