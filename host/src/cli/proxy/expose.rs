//! A service that passes its requests on to an HTTP server of this machine.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};

use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use selfsame_host::{Body, BoxError, Caller};
use tower_service::Service;

use super::problem::Problem;
use super::server::Server;
use super::{AnyBody, nothing, settings};

/// Tells the server who called; what a caller sends under this name is dropped.
const CALLER: HeaderName = HeaderName::from_static("selfsame-caller");
/// Tells the server under which name it was called.
const SERVICE: HeaderName = HeaderName::from_static("selfsame-service");

/// Passes the requests for a name on to one server
#[derive(Clone)]
pub(crate) struct Exposed {
    server: Server,
    name: HeaderValue,
    to: Authority,
}

impl Exposed {
    pub(crate) fn new(name: &str, to: Authority) -> Self {
        // A name that is no field's value is no service's either, which the core will say.
        let name = HeaderValue::from_str(name).unwrap_or(HeaderValue::from_static(""));
        Self {
            server: Server::new(),
            name,
            to,
        }
    }

    async fn answer(&self, mut request: Request<Body>) -> Result<Response<AnyBody>, Problem> {
        let upgrade = hyper::upgrade::on(&mut request);
        let no_server = |error: BoxError| {
            tracing::warn!(to = %self.to, error, "server does not answer");
            Problem::no_server()
        };
        let request = self.outgoing(request).await.map_err(no_server)?;
        let answered = self.server.ask(request).await;
        let response = answered.map_err(|error| no_server(error.into()))?;
        self.incoming(response, upgrade)
    }

    /// The request as the server gets it.
    async fn outgoing(&self, request: Request<Body>) -> Result<Request<AnyBody>, BoxError> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        head.uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.to.clone())
            .path_and_query(path)
            .build()?;
        settings::remove(&mut head.headers);
        if let Some(caller) = head.extensions.get::<Caller>() {
            let id = HeaderValue::try_from(caller.peer.to_string())?;
            head.headers.insert(CALLER, id);
        }
        head.headers.insert(SERVICE, self.name.clone());
        let body = begun(&head, body).await?;
        Ok(Request::from_parts(head, body))
    }

    /// The server's answer as it goes into the mesh.
    fn incoming(
        &self,
        mut response: Response<hyper::body::Incoming>,
        upgrade: OnUpgrade,
    ) -> Result<Response<AnyBody>, Problem> {
        check_framing(response.headers_mut()).map_err(|why| {
            tracing::warn!(to = %self.to, why, "server sends what is no answer");
            Problem::bad_server(why)
        })?;
        settings::remove(response.headers_mut());
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
        }
        let server = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            if let Err(error) = connect(upgrade, server).await {
                tracing::debug!(%error, "a connection broke");
            }
        });
        Ok(response.map(|_| nothing()))
    }
}

/// The body of a request as the server gets it. Methods that rarely have a body get one only if there is one: servers do
/// not expect chunks with them.
async fn begun(head: &Parts, mut body: Body) -> Result<AnyBody, BoxError> {
    if matches!(head.method, Method::GET | Method::HEAD) {
        return Ok(nothing());
    }
    let is_common = matches!(head.method, Method::POST | Method::PUT | Method::PATCH);
    let is_empty = body.size_hint().exact() == Some(0);
    if !is_empty && (is_common || head.headers.contains_key(CONTENT_LENGTH)) {
        // The caller may send nothing before it has seen the head of the answer.
        return Ok(body.map_err(Into::into).boxed_unsync());
    }
    Ok(match body.frame().await {
        Some(first) => after(first?, body),
        None => nothing(),
    })
}

/// A body with the frame that was taken of it.
fn after(first: Frame<bytes::Bytes>, rest: Body) -> AnyBody {
    let first = stream::once(core::future::ready(Ok(first)));
    let frames = first.chain(BodyStream::new(rest));
    StreamBody::new(frames).map_err(Into::into).boxed_unsync()
}

/// Checks what an answer says about its length: two readings of it would be two answers (RFC 9112, section 6.3).
fn check_framing(headers: &mut HeaderMap) -> Result<(), &'static str> {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
        if !settings::is_chunked_alone(headers) {
            return Err("the server behind this service answers with a transfer-encoding other than chunked");
        }
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let is_number = |value: &HeaderValue| value.as_bytes().iter().all(u8::is_ascii_digit);
    match (lengths.next().map(is_number), lengths.next()) {
        (None | Some(true), None) => Ok(()),
        _ => Err("the server behind this service answers with a content-length that is not one number"),
    }
}

impl Service<Request<Body>> for Exposed {
    type Response = Response<AnyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let exposed = self.clone();
        Box::pin(async move {
            let answered = exposed.answer(request).await;
            Ok(answered.unwrap_or_else(|problem| problem.response("selfsame")))
        })
    }
}

/// Carries bytes between a caller and the server until both have ended.
async fn connect(caller: OnUpgrade, server: OnUpgrade) -> std::io::Result<()> {
    let mut caller = TokioIo::new(caller.await.map_err(std::io::Error::other)?);
    let mut server = TokioIo::new(server.await.map_err(std::io::Error::other)?);
    tokio::io::copy_bidirectional(&mut caller, &mut server)
        .await
        .map(drop)
}
