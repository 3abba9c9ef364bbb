//! The listening side: one port takes WebSockets and exchanges and says that it lives, another bare TCP or UDP.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CONNECTION, CONTENT_TYPE, UPGRADE,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use selfsame_codec::PathKind;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::address::{Address, Scheme};
use super::deadline::WriteDeadline;
use super::exchange::{Answer, CONTENT, Exchanges, Refused};
use super::forwarded::TrustedProxies;
use super::handshake::{BadHandshake, accept_key, switching};
use super::keep_alive::Side;
use super::network::network_of;
use super::{tcp, udp, websocket};
use crate::error::Error;
use crate::handle::{Handle, Inbound};
use crate::link::LinkEnd;
use crate::retry;
use crate::shares::{Share, Shares};

/// Time for the head of a request, and for the opening of a WebSocket.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most connections of one listener; each may hold up to a frame of memory.
pub(super) const MAX_CONNECTIONS: usize = 2048;
/// Most of them from one source.
pub(super) const MAX_FROM_SOURCE: usize = MAX_CONNECTIONS / 4;
/// A client that takes no byte of an answer for this long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest head of an HTTP request.
const MAX_REQUEST_HEAD: usize = 16 * 1024;
/// The answer to a WebSocket that came through a proxy from a source that has its share.
const FULL: Refused = Refused(
    StatusCode::SERVICE_UNAVAILABLE,
    "too many connections are open from this address",
);
/// Pause after the system refuses to accept, as it does when files run out.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that is bound
#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

/// A port that is bound and not served yet
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    /// Where it listens; the port is the one the system gave when 0 was asked for.
    pub(crate) local: SocketAddr,
    address: Address,
}

impl Listener {
    /// Checks that a URL can be listened on.
    pub(crate) fn check(url: &str) -> Result<Address, Error> {
        let address = Address::parse(url)?;
        if address.scheme.is_tls() {
            return Err(Error::Input(format!(
                "cannot listen on \"{url}\": listen on ws:// and let a proxy in front of it speak TLS"
            )));
        }
        Ok(address)
    }

    /// Binds the port of a URL such as `ws://0.0.0.0:7000` or `tcp://0.0.0.0:7001`.
    pub(crate) async fn bind(url: &str) -> Result<Self, Error> {
        let address = Self::check(url)?;
        let failed = |error| Error::io(format_args!("cannot listen on {url}"), error);
        let place = (address.host.as_str(), address.port);
        let (socket, local) = if address.scheme == Scheme::Udp {
            let udp = UdpSocket::bind(place).await.map_err(failed)?;
            let local = udp.local_addr();
            (Socket::Udp(udp), local)
        } else {
            let tcp = TcpListener::bind(place).await.map_err(failed)?;
            let local = tcp.local_addr();
            (Socket::Tcp(tcp), local)
        };
        let local = local.map_err(failed)?;
        Ok(Self {
            socket,
            local,
            address,
        })
    }
}

/// Serves one port until it is dropped
#[derive(Debug)]
pub(crate) struct Server {
    task: JoinHandle<()>,
}

impl Server {
    /// Begins to accept connections.
    pub(crate) fn start(
        listener: Listener,
        driver: &Handle,
        exchanges: &Arc<Exchanges>,
        proxies: &Arc<TrustedProxies>,
        health: &Bytes,
    ) -> Self {
        let Listener { socket, address, .. } = listener;
        let driver = driver.clone();
        let tcp = match socket {
            Socket::Tcp(tcp) => tcp,
            Socket::Udp(udp) => {
                let task = tokio::spawn(udp::accept(udp, move |stream, remote| {
                    let (reader, writer) = tokio::io::split(stream);
                    tokio::spawn(carry_frames(reader, writer, remote.ip(), driver.clone()));
                }));
                return Self { task };
            }
        };
        let speaker = if address.scheme == Scheme::Tcp {
            Speaker::Frames {
                driver,
                shares: Shares::new(MAX_FROM_SOURCE, MAX_CONNECTIONS),
            }
        } else {
            Speaker::Http(Arc::new(Site {
                driver,
                exchanges: Arc::clone(exchanges),
                proxies: Arc::clone(proxies),
                shares: Shares::new(MAX_FROM_SOURCE, MAX_CONNECTIONS),
                path: address.path_or_default().into(),
                health: health.clone(),
            }))
        };
        Self {
            task: tokio::spawn(accept(tcp, speaker)),
        }
    }
}

impl Server {
    /// Stops; another one can take its port afterwards.
    pub(crate) async fn close(mut self) {
        self.task.abort();
        // That it was aborted is what was asked for.
        _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(tcp: TcpListener, speaker: Speaker) {
    // Dropped with the server, which ends every connection that is not a path yet.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = tcp.accept() => match accepted {
                Ok((stream, remote)) => {
                    let Some(place) = speaker.share(remote.ip()) else {
                        tracing::debug!(%remote, "too many connections: refused");
                        continue;
                    };
                    // A connection that cannot be told to send at once is only slower.
                    _ = stream.set_nodelay(true);
                    match &speaker {
                        Speaker::Http(site) => {
                            connections.spawn(serve(stream, remote, Arc::clone(site), place));
                        }
                        Speaker::Frames { driver, .. } => {
                            let (reader, writer) = stream.into_split();
                            let carried = carry_frames(reader, writer, remote.ip(), driver.clone());
                            tokio::spawn(async move {
                                // It holds its place until it closes.
                                let _place = place;
                                carried.await;
                            });
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// What is spoken on a port
enum Speaker {
    /// HTTP, and WebSocket through it.
    Http(Arc<Site>),
    /// Frames and nothing else.
    Frames {
        driver: Handle,
        shares: Arc<Shares<IpAddr>>,
    },
}

impl Speaker {
    /// A connection's share of those of its source; `None` when that has too many. What comes through a trusted proxy counts for
    /// its own source once its headers are read.
    fn share(&self, remote: IpAddr) -> Option<Share<IpAddr>> {
        match self {
            Self::Http(site) if site.proxies.trusts(remote) => site.shares.take(None, 1),
            Self::Http(site) => site.shares.take(network_of(remote), 1),
            Self::Frames { shares, .. } => shares.take(network_of(remote), 1),
        }
    }
}

/// Among all connections, and among those of its source
type Place = Share<IpAddr>;

/// Carries the frames of a connection that is a path from the beginning.
async fn carry_frames<R, W>(reader: R, writer: W, source: IpAddr, driver: Handle)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let Some((path, link)) = opened(&driver, source, PathKind::Direct).await else {
        return;
    };
    tcp::run(reader, writer, Side::Accepted, path, &driver, link).await;
    // A node that was stopped has closed its paths.
    _ = driver.send(Inbound::Closed { path }).await;
}

/// Tells the driver of a path that a peer has opened; `None` when it takes no more.
async fn opened(driver: &Handle, source: IpAddr, kind: PathKind) -> Option<(u32, LinkEnd)> {
    let Some(path) = driver.next_path() else {
        tracing::error!("all path numbers are used up: start the node again");
        return None;
    };
    let (link, end) = driver.link();
    let opened = Inbound::Opened {
        path,
        dial: None,
        kind,
        remote: source.to_string(),
        link,
    };
    driver.send(opened).await.ok().map(|()| (path, end))
}

async fn serve(stream: TcpStream, remote: SocketAddr, site: Arc<Site>, place: Place) {
    let place = Arc::new(place);
    let service = service_fn(|request| {
        let (site, place) = (Arc::clone(&site), Arc::clone(&place));
        async move { Ok::<_, Infallible>(site.answer(request, remote, place).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIMEOUT)
        .max_buf_size(MAX_REQUEST_HEAD)
        .serve_connection(TokioIo::new(WriteDeadline::new(stream, WRITE_TIMEOUT)), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(%remote, %error, "connection failed");
    }
}

/// What answers requests
struct Site {
    driver: Handle,
    exchanges: Arc<Exchanges>,
    proxies: Arc<TrustedProxies>,
    /// Connections, and WebSockets that came through a proxy, by source.
    shares: Arc<Shares<IpAddr>>,
    path: String,
    health: Bytes,
}

impl Site {
    async fn answer(
        &self,
        request: Request<Incoming>,
        remote: SocketAddr,
        place: Arc<Place>,
    ) -> Response<Answer> {
        let is_mesh = request.uri().path() == self.path;
        match (request.method(), is_mesh) {
            (&Method::GET, true) => self.upgrade(request, remote, place),
            (&Method::OPTIONS, true) => {
                let mut response = Response::new(Answer::Text(Bytes::new()));
                *response.status_mut() = StatusCode::NO_CONTENT;
                with_any_origin(response)
            }
            (&Method::POST, true) => {
                let (head, body) = request.into_parts();
                let source = self.proxies.source(remote.ip(), &head.headers);
                let answered = self.exchanges.post(&head.headers, source, body).await;
                with_any_origin(answered.map_or_else(refuse, |answer| with_type(answer, CONTENT)))
            }
            (_, true) => {
                let mut response = refuse(Refused(StatusCode::METHOD_NOT_ALLOWED, "GET or POST"));
                response
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static("GET, OPTIONS, POST"));
                response
            }
            (&Method::GET | &Method::HEAD, false) if request.uri().path() == "/" => {
                with_type(Answer::Text(self.health.clone()), "application/json")
            }
            _ => refuse(Refused(StatusCode::NOT_FOUND, "there is nothing at this path")),
        }
    }

    /// The share of a WebSocket that came through a trusted proxy; the connection's own share is enough for others.
    fn proxied_share(&self, remote: IpAddr, source: IpAddr) -> Result<Option<Share<IpAddr>>, Refused> {
        if !self.proxies.trusts(remote) {
            return Ok(None);
        }
        self.shares.take(network_of(source), 1).map(Some).ok_or(FULL)
    }

    /// Answers the opening handshake of a WebSocket (RFC 6455, section 4.2).
    fn upgrade(
        &self,
        mut request: Request<Incoming>,
        remote: SocketAddr,
        place: Arc<Place>,
    ) -> Response<Answer> {
        let source = self.proxies.source(remote.ip(), request.headers());
        let accept = accept_key(request.headers(), websocket::PROTOCOL).map_err(refused);
        let accepted = accept.and_then(|accept| {
            self.proxied_share(remote.ip(), source)
                .map(|share| (accept, share))
        });
        let (accept, share) = match accepted {
            Ok(accepted) => accepted,
            Err(refused) => return refuse(refused),
        };
        let upgrade = hyper::upgrade::on(&mut request);
        let driver = self.driver.clone();
        tokio::spawn(async move {
            // The path holds its place among the connections until it closes.
            let _place = share.map_or(place, Arc::new);
            match timeout(HANDSHAKE_TIMEOUT, upgrade).await {
                Ok(Ok(upgraded)) => carry(TokioIo::new(upgraded), source, &driver).await,
                Ok(Err(error)) => tracing::debug!(%remote, %error, "upgrade failed"),
                Err(_) => tracing::debug!(%remote, "upgrade took too long"),
            }
        });
        switching(accept, websocket::PROTOCOL, Answer::Text(Bytes::new()))
    }
}

async fn carry(io: TokioIo<hyper::upgrade::Upgraded>, source: IpAddr, driver: &Handle) {
    let Some((path, link)) = opened(driver, source, PathKind::Ordered).await else {
        return;
    };
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(websocket::config())).await;
    websocket::run(socket, Side::Accepted, path, driver, link).await;
    // A node that was stopped has closed its paths.
    _ = driver.send(Inbound::Closed { path }).await;
}

fn refused(wrong: BadHandshake) -> Refused {
    let bad = |why| Refused(StatusCode::BAD_REQUEST, why);
    match wrong {
        BadHandshake::NotAsked => Refused(
            StatusCode::UPGRADE_REQUIRED,
            "this is the address of a selfsame node: use a WebSocket",
        ),
        BadHandshake::Version => bad("the version of the WebSocket has to be 13"),
        BadHandshake::Subprotocol => bad("the subprotocol of the WebSocket has to be selfsame.1"),
        BadHandshake::Key => bad("the WebSocket has no key, or none that is usable"),
    }
}

fn with_type(answer: Answer, content: &'static str) -> Response<Answer> {
    let mut response = Response::new(answer);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content));
    response
}

/// Lets pages of any site read the answer: frames are sealed, and no cookie or address gives a right to anything.
fn with_any_origin(mut response: Response<Answer>) -> Response<Answer> {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("content-type, selfsame-path"),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

fn refuse(Refused(status, why): Refused) -> Response<Answer> {
    let mut response = with_type(
        Answer::Text(Bytes::from_static(why.as_bytes())),
        "text/plain; charset=utf-8",
    );
    *response.status_mut() = status;
    if status == StatusCode::UPGRADE_REQUIRED {
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    retry::soon(response)
}
