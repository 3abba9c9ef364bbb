//! The socket that local programs use as their proxy.

use alloc::sync::Arc;
use core::future::pending;
use core::net::SocketAddr;
use core::pin::pin;
use core::time::Duration;

use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use selfsame_codec::http::MAX_HEADERS;
use tokio::net::TcpListener;

use super::gateway::Gateway;
use super::socket::{Socket, Watched};
use super::stages::Stage;
use crate::cli::listen::accept;
use crate::cli::output::Failure;

/// Connections at a time; more wait in the system's queue.
const MAX_CONNECTIONS: usize = 4096;
/// Time for the head of a request, also of the next one on a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Fields of a request: those that travel, and those of one hop.
const MOST_FIELDS: usize = MAX_HEADERS + 16;

/// Takes the address, or says why it cannot be had.
pub(super) async fn bind(address: SocketAddr, allow_remote: bool) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() && !allow_remote {
        return Err(Failure::usage(format!(
            "--listen {address} lets other machines call services as this node: listen on 127.0.0.1, or say --allow-remote \
             if that is meant"
        )));
    }
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::usage(format!("--listen {address}: {error}")))
}

/// Takes connections until the gateway drains.
pub(super) async fn run(listener: TcpListener, gateway: Arc<Gateway>) {
    let mut stages = gateway.stages();
    let serve = |stream| {
        let (socket, watched) = Socket::new(stream);
        serve(TokioIo::new(socket), Arc::clone(&gateway), Some(watched))
    };
    tokio::select! {
        () = accept(listener, MAX_CONNECTIONS, serve) => {}
        () = stages.reached(Stage::Draining) => {}
    }
}

/// Answers the requests of one connection, until the program is gone where that can be noticed.
pub(super) async fn serve(
    connection: impl Read + Write + Unpin + Send + 'static,
    gateway: Arc<Gateway>,
    watched: Option<Arc<Watched>>,
) {
    let mut stages = gateway.stages();
    let is_watched = watched.is_some();
    let answering = watched.clone();
    let service = service_fn(move |request| {
        let (gateway, watched) = (Arc::clone(&gateway), answering.clone());
        async move {
            let says = |has_begun| _ = watched.as_ref().map(|watched| watched.set_begun(has_begun));
            says(false);
            let answered = gateway.serve(request).await;
            says(true);
            answered
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MOST_FIELDS)
        .half_close(is_watched)
        .serve_connection(connection, service)
        .with_upgrades();
    let mut served = pin!(served);
    let mut gone = pin!(async {
        match watched {
            Some(watched) => watched.gone().await,
            None => pending().await,
        }
    });
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = &mut gone => return,
        () = stages.reached(Stage::Draining) => {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                ended = &mut served => ended,
                () = &mut gone => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a program's connection broke");
    }
}
