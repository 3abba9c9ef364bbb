use core::net::SocketAddr;
use core::time::Duration;

use alloc::sync::Arc;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use selfsame_host::capsule::{CapsuleKey, Peer};
use selfsame_host::{Replica, ReplicateOptions};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_service::Service as _;

use super::REPLICA;
use crate::cli::args::ServeCommand;
use crate::cli::output::{Failure, Output};
use crate::cli::signals::interrupted;

/// Connections at a time; more wait in the system's queue.
const MAX_CONNECTIONS: usize = 1024;
/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause when the system gives no connection, such as when all its files are open.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn run(command: ServeCommand, output: Output) -> Result<(), Failure> {
    let interrupted = interrupted(command.end_with_input)?;
    let replica = Replica::open(&command.data.folder.join(REPLICA))?;
    let (listener, address) = bind(command.listen).await?;
    let key = CapsuleKey(replica.key());
    output.print(
        format_args!("replica at http://{address}/#{key}"),
        &json!({
            "event": "serving",
            "url": format!("http://{address}/"),
            "key": key.to_string(),
            "capsules": replica.capsules().len(),
        }),
    )?;
    let mut others = ReplicateOptions::new().keep(command.keep);
    for url in &command.replica {
        others = others.peer(Peer::at(url)?);
    }
    let replicating = (!command.replica.is_empty()).then(|| replica.replicate(others));
    let joined = async {
        if let Some(replicating) = &replicating {
            replicating.joined().await;
            output.print(
                "joined",
                &json!({ "event": "joined", "capsules": replica.capsules().len() }),
            )?;
        }
        core::future::pending().await
    };
    let ended = tokio::select! {
        () = accept(listener, &replica) => Ok(()),
        () = interrupted => Ok(()),
        failed = joined => failed,
    };
    drop(replicating);
    replica.close().await;
    ended
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    };
    bound
        .await
        .map_err(|error| Failure::usage(format!("cannot listen on {address}: {error}")))
}

async fn accept(listener: TcpListener, replica: &Replica) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Nobody closes the semaphore.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((socket, _)) => _ = tokio::spawn(serve(socket, replica.clone(), place)),
            Err(error) => {
                tracing::warn!(%error, "no connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(socket: TcpStream, replica: Replica, _place: OwnedSemaphorePermit) {
    // Small answers are not held back to be sent with others.
    _ = socket.set_nodelay(true);
    let service = replica.service();
    let service = service_fn(move |request| service.clone().call(request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(socket), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a client's connection broke");
    }
}
