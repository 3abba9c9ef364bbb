//! A service that passes its requests on to an HTTP server.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use selfsame_host::{Body, BoxError, Caller};
use tower_service::Service;

/// Tells the server who called; what a caller sends under this name is dropped.
const CALLER: HeaderName = HeaderName::from_static("selfsame-caller");

type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// Passes requests on to one server
#[derive(Clone)]
pub(crate) struct Proxy {
    client: Client<HttpConnector, AnyBody>,
    to: Authority,
}

impl Proxy {
    pub(crate) fn new(to: Authority) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build_http();
        Self { client, to }
    }

    fn request(&self, request: Request<Body>) -> Result<Request<AnyBody>, http::Error> {
        let (mut head, body) = request.into_parts();
        let path = head
            .uri
            .path_and_query()
            .cloned()
            .unwrap_or_else(|| PathAndQuery::from_static("/"));
        head.uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.to.clone())
            .path_and_query(path)
            .build()?;
        head.headers.remove(CALLER);
        if let Some(caller) = head.extensions.get::<Caller>() {
            head.headers
                .insert(CALLER, HeaderValue::try_from(caller.peer.to_string())?);
        }
        // A body of unknown length would be sent in chunks, which servers do not expect with these methods.
        let is_bare = matches!(
            head.method,
            Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE
        ) && !head.headers.contains_key(CONTENT_LENGTH);
        let body = if is_bare {
            Empty::new().map_err(|never| match never {}).boxed_unsync()
        } else {
            body.map_err(Into::into).boxed_unsync()
        };
        Ok(Request::from_parts(head, body))
    }
}

impl Service<Request<Body>> for Proxy {
    type Response = Response<AnyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let request = self.request(request);
        let client = self.client.clone();
        let to = self.to.clone();
        Box::pin(async move {
            let answered = match request {
                Ok(request) => client.request(request).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            Ok(match answered {
                Ok(response) => response.map(|body| body.map_err(Into::into).boxed_unsync()),
                Err(error) => {
                    tracing::warn!(%to, error, "server does not answer");
                    bad_gateway()
                }
            })
        })
    }
}

fn bad_gateway() -> Response<AnyBody> {
    let text = Full::new(Bytes::from_static(
        b"the server behind this service does not answer\n",
    ));
    let mut response = Response::new(text.map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
