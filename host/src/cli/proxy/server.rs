//! The way to the server behind a service.

use core::error::Error as _;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, ErrorKind, IoSlice};

use http::header::UPGRADE;
use http::{Method, Request, Response, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use selfsame_codec::http::MAX_HEADERS;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower_service::Service;

use super::{AnyBody, nothing};

/// Fields of an answer: those that travel, and those of one hop.
const MOST_FIELDS: usize = MAX_HEADERS + 16;

/// Connections to one server
#[derive(Clone)]
pub(super) struct Server {
    /// For requests that may be sent again: a server may close a connection just when it is used once more.
    kept: Client<Connector, AnyBody>,
    /// For all others, each with a connection of its own.
    fresh: Client<Connector, AnyBody>,
}

impl Server {
    pub(super) fn new() -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .http1_max_headers(MOST_FIELDS);
        let kept = builder.build(Connector(HttpConnector::new()));
        let fresh = builder
            .pool_max_idle_per_host(0)
            .build(Connector(HttpConnector::new()));
        Self { kept, fresh }
    }

    /// Sends a request. One that may be sent again is, if the server closed the connection.
    pub(super) async fn ask(&self, request: Request<AnyBody>) -> Result<Response<Incoming>, Error> {
        if !may_repeat(&request) {
            return self.fresh.request(request).await;
        }
        let (head, _) = request.into_parts();
        let again = Request::from_parts(head.clone(), nothing());
        match self.kept.request(Request::from_parts(head, nothing())).await {
            Err(error) if was_lost(&error) => {
                tracing::debug!(%error, "a server closed a connection, the request is sent over another one");
                self.fresh.request(again).await
            }
            answered => answered,
        }
    }
}

/// Whether a request is idempotent (RFC 9110, section 9.2.2) and has no body.
fn may_repeat(request: &Request<AnyBody>) -> bool {
    let is_idempotent = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
    );
    is_idempotent && request.body().is_end_stream() && !request.headers().contains_key(UPGRADE)
}

/// Whether the connection ended before the answer.
fn was_lost(error: &Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref());
    !error.is_connect() && cause.is_none_or(|cause: &hyper::Error| !cause.is_parse())
}

#[derive(Clone)]
struct Connector(HttpConnector);

impl Service<Uri> for Connector {
    type Response = TokioIo<Answering>;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let connecting = self.0.call(url);
        Box::pin(async move {
            let socket = connecting.await?.into_inner();
            Ok(TokioIo::new(Answering {
                socket,
                is_deaf: false,
            }))
        })
    }
}

/// A connection whose answer is read although the server takes no more of the request: it may answer and reset the
/// connection before it has read the body
struct Answering {
    socket: TcpStream,
    /// Whether a write has failed; what is written is dropped from then on.
    is_deaf: bool,
}

impl Answering {
    fn write(
        &mut self,
        len: usize,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.is_deaf {
            return Poll::Ready(Ok(len));
        }
        match ready!(write(Pin::new(&mut self.socket))) {
            Err(error) if is_reset(&error) => {
                self.is_deaf = true;
                Poll::Ready(Ok(len))
            }
            written => Poll::Ready(written),
        }
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

impl AsyncRead for Answering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        if self.is_deaf && buffer.filled().len() == before && buffer.remaining() > 0 {
            // The write was told of the reset in place of this: an answer whose end is the connection's is not whole.
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Answering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(bytes.len(), |socket| socket.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = parts.iter().map(|part| part.len()).sum();
        self.write(len, |socket| socket.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl Connection for Answering {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
