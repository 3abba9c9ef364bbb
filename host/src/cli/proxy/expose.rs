//! A service that passes its requests on to an HTTP server of this machine.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};

use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use selfsame_host::{Body, Caller};
use tower_service::Service;

use super::problem::Problem;
use super::{AnyBody, settings};

/// Tells the server who called; what a caller sends under this name is dropped.
const CALLER: HeaderName = HeaderName::from_static("selfsame-caller");
/// Tells the server under which name it was called.
const SERVICE: HeaderName = HeaderName::from_static("selfsame-service");

/// Passes the requests for a name on to one server
#[derive(Clone)]
pub(crate) struct Exposed {
    client: Client<HttpConnector, AnyBody>,
    name: HeaderValue,
    to: Authority,
}

impl Exposed {
    pub(crate) fn new(name: &str, to: Authority) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build_http();
        // A name that is no field's value is no service's either, which the core will say.
        let name = HeaderValue::from_str(name).unwrap_or(HeaderValue::from_static(""));
        Self { client, name, to }
    }

    /// The request as the server gets it.
    fn request(&self, request: Request<Body>) -> Result<Request<AnyBody>, http::Error> {
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
        let has_length = has_length(&mut head.headers);
        // A body of unknown length would be sent in chunks, which servers do not expect with these methods.
        let is_bare = matches!(
            head.method,
            Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE
        ) && !has_length;
        let body = if is_bare {
            nothing()
        } else {
            body.map_err(Into::into).boxed_unsync()
        };
        Ok(Request::from_parts(head, body))
    }
}

/// Whether a request has one length; several would mean one thing here and another to the server.
fn has_length(headers: &mut HeaderMap) -> bool {
    let lengths = headers.get_all(CONTENT_LENGTH).iter().count();
    if lengths > 1 {
        headers.remove(CONTENT_LENGTH);
    }
    lengths == 1
}

impl Service<Request<Body>> for Exposed {
    type Response = Response<AnyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let upgrade = hyper::upgrade::on(&mut request);
        let request = self.request(request);
        let client = self.client.clone();
        let to = self.to.clone();
        Box::pin(async move {
            let answered = match request {
                Ok(request) => client.request(request).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            Ok(match answered {
                Ok(response) => answer(response, upgrade),
                Err(error) => {
                    tracing::warn!(%to, error, "server does not answer");
                    Problem::no_server().response("selfsame")
                }
            })
        })
    }
}

/// The server's answer as it goes into the mesh.
fn answer(mut response: Response<hyper::body::Incoming>, upgrade: OnUpgrade) -> Response<AnyBody> {
    settings::remove(response.headers_mut());
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return response.map(|body| body.map_err(Into::into).boxed_unsync());
    }
    let server = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        if let Err(error) = connect(upgrade, server).await {
            tracing::debug!(%error, "a connection broke");
        }
    });
    response.map(|_| nothing())
}

/// Carries bytes between a caller and the server until both have ended.
async fn connect(caller: OnUpgrade, server: OnUpgrade) -> std::io::Result<()> {
    let mut caller = TokioIo::new(caller.await.map_err(std::io::Error::other)?);
    let mut server = TokioIo::new(server.await.map_err(std::io::Error::other)?);
    tokio::io::copy_bidirectional(&mut caller, &mut server)
        .await
        .map(drop)
}

/// No body.
fn nothing() -> AnyBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}
