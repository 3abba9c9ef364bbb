//! Requests that ask for an upgrade get to their handler through a connection of HTTP/1.1 in memory, so that whatever the
//! handler uses to accept them works as behind any server.

use core::convert::Infallible;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use selfsame_codec::http::MAX_HEADERS;

use crate::body::{AnyBody, Body};
use crate::error::BoxError;
use crate::task::Task;
use crate::upgrade::Upgraded;

/// Bytes between the mesh and a handler: one chunk of a stream, each way.
const BETWEEN: usize = 16 * 1024;
/// Those of a head, and those of one hop that are added to it.
const MOST_HEADERS: usize = MAX_HEADERS + 8;

/// A request that a handler has answered
pub(crate) struct Handled {
    /// The handler's answer.
    pub(crate) response: Response<Incoming>,
    /// Ends both sides of the connection.
    pub(crate) tasks: [Task; 2],
}

/// Gives a request to a handler through a connection, as a server of HTTP/1.1 would.
pub(crate) async fn handle<H, F>(request: Request<()>, handler: H) -> Result<Handled, BoxError>
where
    H: Fn(Request<Body>) -> F + Send + 'static,
    F: Future<Output = Response<AnyBody>> + Send + 'static,
{
    let (near, far) = tokio::io::duplex(BETWEEN);
    let (mut head, ()) = request.into_parts();
    let url = head.uri.clone();
    let extensions = core::mem::take(&mut head.extensions);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (mut head, _) = request.into_parts();
        head.uri = url.clone();
        head.headers.remove(HOST);
        head.extensions.extend(extensions.clone());
        let answer = handler(Request::from_parts(head, Body::empty()));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let server = hyper::server::conn::http1::Builder::new()
        .auto_date_header(false)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(far), service)
        .with_upgrades();
    let server = Task::spawn(server);
    let (mut sender, client) = hyper::client::conn::http1::Builder::new()
        .max_headers(MOST_HEADERS)
        .handshake(TokioIo::new(near))
        .await?;
    let client = Task::spawn(client.with_upgrades());
    let tasks = [server, client];
    if let Some(host) = head.uri.host() {
        head.headers.insert(HOST, HeaderValue::from_str(host)?);
    }
    let path = head.uri.path_and_query().cloned();
    head.uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    let request = Request::from_parts(head, Empty::<Bytes>::new());
    let response = sender.send_request(request).await?;
    Ok(Handled { response, tasks })
}

/// Carries bytes between an upgraded stream and a handler's connection until both ways have ended.
pub(crate) async fn carry(mut mesh: Upgraded, response: Response<Incoming>) -> Result<(), BoxError> {
    let connection = hyper::upgrade::on(response).await?;
    tokio::io::copy_bidirectional(&mut mesh, &mut TokioIo::new(connection)).await?;
    Ok(())
}
