//! Sockets at which programs of this machine, or others, call this one.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use selfsame_host::{ConnectionLimit, TrustedProxies};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::output::Failure;

/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause when the system gives no connection, such as when all its files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes an address, and says which it is when the system chose the port.
pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    };
    bound
        .await
        .map_err(|error| Failure::usage(format!("cannot listen on {address}: {error}")))
}

/// Serves connections, at most so many at a time, until the task ends; more wait in the system's queue.
pub(crate) async fn accept<F>(listener: TcpListener, most: usize, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
    // Nobody closes the semaphore.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        if let Some((socket, _)) = next(&listener).await {
            hold(place, serve(socket));
        }
    }
}

/// Serves the connections of strangers until the task ends, as many as the limit lets in; others are closed at once.
pub(crate) async fn accept_strangers<F>(
    listener: TcpListener,
    limit: &ConnectionLimit,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let Some((socket, from)) = next(&listener).await else {
            continue;
        };
        match limit.take(from.ip()) {
            Some(place) => hold(place, serve(socket)),
            None => tracing::debug!(%from, "too many connections: refused"),
        }
    }
}

/// The next connection, or none after a pause.
async fn next(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok((socket, from)) => {
            // Small answers are not held back for more; a socket that cannot say so is closed already.
            _ = socket.set_nodelay(true);
            Some((socket, from))
        }
        Err(error) => {
            tracing::warn!(%error, "no connection");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

/// Serves a connection in a task of its own, which gives its place back when it ends.
fn hold(place: impl Send + 'static, served: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(async move {
        served.await;
        drop(place);
    });
}

/// Answers the requests of one connection, each with the address that it comes from as an extension.
pub(crate) async fn answer_from<S, B>(socket: TcpStream, service: S, proxies: Arc<TrustedProxies>)
where
    S: tower_service::Service<Request<Incoming>, Response = Response<B>> + Clone,
    S::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    let address = socket.peer_addr().ok();
    let service = service_fn(move |mut request: Request<Incoming>| {
        // By it a service tells sources apart.
        if let Some(address) = address {
            let source = proxies.source(address.ip(), request.headers());
            request
                .extensions_mut()
                .insert(SocketAddr::new(source, address.port()));
        }
        service.clone().call(request)
    });
    answer(socket, service).await;
}

/// Answers the requests of one connection.
pub(crate) async fn answer<S, B>(socket: TcpStream, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a program's connection broke");
    }
}
