//! The server's side of the RPC over HTTP (docs/specification/rpc.md, "Over HTTP").

use alloc::sync::Arc;
use core::convert::Infallible;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER,
};
use http::{Extensions, HeaderName, HeaderValue, Method, Request, Response, StatusCode, request};
use http_body_util::{BodyExt as _, Full};
use tokio::time::timeout;
use tower_service::Service;

use super::arrivals::ArrivalSender;
use super::binding::{Arrival, Begun, Exchanges};
use super::datagram::RequestHead;
use super::engine::MAX_MESSAGE_BYTES;
use super::websocket_service::WebSockets;
use crate::error::BoxError;
use crate::shares::{Share, Shares};
use crate::transport::network_of;
use crate::upgrade;

/// What bodies are to HTTP.
pub(super) const DATAGRAM_TYPE: &str = "application/octet-stream";
/// Largest datagram over HTTP: the longest message fits one.
pub(super) const HTTP_DATAGRAM_BYTES: u32 = (16 << 20) + 1024;
/// Longest body that holds a datagram: the longest message, and all that precedes it.
pub(super) const MAX_BODY_BYTES: usize = MAX_MESSAGE_BYTES + 1024;
/// Time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// Most requests that are open, of all sources and of one: each waits for its answer.
const MAX_OPEN: usize = 4096;
const SOURCE_OPEN: usize = MAX_OPEN / 4;
/// Most bytes of bodies, of all sources and of one, until the instance has them.
const MAX_HELD_BYTES: usize = 4 * MAX_BODY_BYTES;
const SOURCE_HELD_BYTES: usize = MAX_BODY_BYTES;
/// What a body that has begun takes, however little has arrived.
const BEGUN_BYTES: usize = 64 * 1024;

/// Datagrams are sealed and say who sent them; a page of any origin may carry them.
static CORS: [(HeaderName, &str); 4] = [
    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (ACCESS_CONTROL_ALLOW_METHODS, "POST"),
    (ACCESS_CONTROL_ALLOW_HEADERS, "content-type"),
    (ACCESS_CONTROL_MAX_AGE, "86400"),
];

/// Why a request is not answered with a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused(pub(super) StatusCode, pub(super) &'static str);

pub(super) const CROWDED: &str = "too many requests are under way";
const TOO_LONG: Refused = Refused(
    StatusCode::PAYLOAD_TOO_LARGE,
    "a body is one datagram of at most 16 MiB",
);
pub(super) const ENDED: Refused = Refused(StatusCode::SERVICE_UNAVAILABLE, "the server has ended");

/// Answers calls over HTTP and WebSocket: a tower service for the URL that tickets name, at whatever path it is.
///
/// WebSockets need a server whose connections can become others, as those of hyper (`with_upgrades`) and axum can.
///
/// A server that puts a request's [`SocketAddr`] into its extensions lets it tell the networks of callers apart, of which each has a
/// quarter of all places at most; calls without one count among all only.
#[derive(Clone)]
pub struct RpcHttpService {
    shared: Arc<HttpServing>,
}

struct HttpServing {
    open: Arc<Shares<IpAddr>>,
    bodies: Arc<Shares<IpAddr>>,
    exchanges: Arc<Exchanges>,
    arrivals: ArrivalSender<Arrival>,
    sockets: WebSockets,
}

impl RpcHttpService {
    pub(super) fn new(exchanges: Arc<Exchanges>, arrivals: ArrivalSender<Arrival>) -> Self {
        let open = Shares::new(SOURCE_OPEN, MAX_OPEN);
        let bodies = Shares::new(SOURCE_HELD_BYTES, MAX_HELD_BYTES);
        let sockets = WebSockets::new(
            Arc::clone(&open),
            Arc::clone(&bodies),
            Arc::clone(&exchanges),
            arrivals.clone(),
        );
        Self {
            shared: Arc::new(HttpServing {
                open,
                bodies,
                exchanges,
                arrivals,
                sockets,
            }),
        }
    }

    async fn answer<B>(self, mut request: Request<B>) -> Response<Full<Bytes>>
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        if upgrade::is_asked(request.method(), request.headers()) {
            let ip = ip_of(request.extensions());
            let accepted = self.shared.sockets.accept(&mut request, ip);
            return accepted.unwrap_or_else(refuse);
        }
        let (head, body) = request.into_parts();
        if head.method == Method::OPTIONS {
            return respond(StatusCode::NO_CONTENT, Bytes::new());
        }
        match self.shared.exchange(&head, body).await {
            Ok(Some(datagram)) => {
                let mut response = respond(StatusCode::OK, datagram);
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(DATAGRAM_TYPE));
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                response
            }
            Ok(None) => respond(StatusCode::NO_CONTENT, Bytes::new()),
            Err(refused) => refuse(refused),
        }
    }
}

impl HttpServing {
    /// Returns the datagram that answers a request, if there is one.
    async fn exchange<B>(&self, head: &request::Parts, body: B) -> Result<Option<Bytes>, Refused>
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        check_head(head)?;
        let ip = ip_of(&head.extensions);
        let network = network_of(ip);
        let _open = self
            .open
            .take(network, 1)
            .ok_or(Refused(StatusCode::TOO_MANY_REQUESTS, CROWDED))?;
        if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
            return Err(TOO_LONG);
        }
        let held = self.bodies.take(network, BEGUN_BYTES).ok_or_else(crowded)?;
        let read = timeout(BODY_TIMEOUT, read(held, body)).await;
        let late = Refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 20 s");
        let (bytes, held) = read.unwrap_or(Err(late))?;
        let wrong = |why| Refused(StatusCode::BAD_REQUEST, why);
        let request = RequestHead::of(&bytes).ok_or_else(|| wrong("the body is no request"))?;
        if request.is_part {
            return Err(wrong("a message over HTTP is one datagram"));
        }
        let answered = match self.exchanges.begin(request.id).ok_or_else(crowded)? {
            Begun::Again(answered) => answered,
            Begun::New(port, answered) => {
                let source = SocketAddr::new(ip, port);
                if !self.arrivals.send(Arrival { source, bytes, held }) {
                    self.exchanges.end();
                    return Err(ENDED);
                }
                answered
            }
        };
        answered.await.map_err(|_| ENDED)
    }
}

impl<B> Service<Request<B>> for RpcHttpService
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

impl core::fmt::Debug for RpcHttpService {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("RpcHttpService(..)")
    }
}

/// Returns where a request comes from.
fn ip_of(extensions: &Extensions) -> IpAddr {
    let address = extensions.get::<SocketAddr>();
    address.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), SocketAddr::ip)
}

fn crowded() -> Refused {
    Refused(StatusCode::SERVICE_UNAVAILABLE, CROWDED)
}

fn check_head(head: &request::Parts) -> Result<(), Refused> {
    if head.method != Method::POST {
        return Err(Refused(StatusCode::METHOD_NOT_ALLOWED, "datagrams come by POST"));
    }
    if head
        .headers
        .get(CONTENT_TYPE)
        .is_none_or(|kind| kind != DATAGRAM_TYPE)
    {
        return Err(Refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send application/octet-stream",
        ));
    }
    Ok(())
}

/// Reads a body, which is counted while it is read: a length that is announced takes no more from others.
async fn read<B>(mut held: Share<IpAddr>, body: B) -> Result<(Bytes, Share<IpAddr>), Refused>
where
    B: http_body::Body<Error: Into<BoxError>>,
{
    let mut body = core::pin::pin!(body);
    let mut bytes = BytesMut::new();
    let mut counted = BEGUN_BYTES;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refused(StatusCode::BAD_REQUEST, "the body broke off"))?;
        // What is no data are trailers, of which a datagram has none.
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        let len = bytes.len() + data.remaining();
        if len > MAX_BODY_BYTES {
            return Err(TOO_LONG);
        }
        if !held.grow(len.saturating_sub(counted)) {
            return Err(crowded());
        }
        counted = counted.max(len);
        while data.has_remaining() {
            let chunk = data.chunk();
            bytes.extend_from_slice(chunk);
            let read = chunk.len();
            data.advance(read);
        }
    }
    Ok((bytes.freeze(), held))
}

fn respond(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    for (name, value) in &CORS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refuse(Refused(status, why): Refused) -> Response<Full<Bytes>> {
    let mut response = respond(status, Bytes::from_static(why.as_bytes()));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    response
}
