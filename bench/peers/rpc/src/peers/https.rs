//! HTTP/1.1 over TLS with a connection that is kept.

use core::convert::Infallible;
use std::net::TcpListener as StdListener;
use std::sync::Arc;

use bench_pair::Outcome;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::identity::{Identity, NAME};
use super::{serve_on_thread, told};
use crate::echo::{Echo, four, within};

/// A connection that is kept
pub(crate) struct Https {
    sender: SendRequest<Full<Bytes>>,
}

impl Https {
    pub(crate) async fn start() -> Outcome<Self> {
        let identity = Identity::new()?;
        let connector = TlsConnector::from(Arc::new(identity.client()?));
        let address = serve_on_thread(move || {
            let acceptor = TlsAcceptor::from(Arc::new(identity.server()?));
            let listener = StdListener::bind("127.0.0.1:0").map_err(told)?;
            listener.set_nonblocking(true).map_err(told)?;
            let address = listener.local_addr().map_err(told)?;
            let listener = TcpListener::from_std(listener).map_err(told)?;
            Ok((address, serve(listener, acceptor)))
        })?;
        let stream = TcpStream::connect(address).await.map_err(told)?;
        stream.set_nodelay(true).map_err(told)?;
        let name = ServerName::try_from(NAME).map_err(told)?;
        let stream = connector.connect(name, stream).await.map_err(told)?;
        let (sender, connection) = client::handshake(TokioIo::new(stream)).await.map_err(told)?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }
}

impl Echo for Https {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        let request = Request::post("/echo")
            .header("host", NAME)
            .body(Full::from(Bytes::copy_from_slice(&payload)))
            .map_err(told)?;
        let answer = within(async {
            self.sender.ready().await?;
            let response = self.sender.send_request(request).await?;
            response.into_body().collect().await
        });
        four(&answer.await?.map_err(told)?.to_bytes())
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if stream.set_nodelay(true).is_err() {
                return;
            }
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            // A connection that fails ends, and its client says so.
            _ = server::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await;
    let payload = body.map(|body| body.to_bytes()).unwrap_or_default();
    Ok(Response::new(Full::from(payload)))
}
