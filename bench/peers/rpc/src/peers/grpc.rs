//! gRPC with tonic. Messages are bytes as they are, without the encoding of protocol buffers, which so costs nothing.

use core::convert::Infallible;
use core::task::{Context, Poll};
use std::net::TcpListener as StdListener;

use bench_pair::Outcome;
use bytes::{Buf as _, BufMut as _, Bytes};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::client::Grpc as Client;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc as Server, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity as Pem, ServerTlsConfig};
use tonic::{Request, Response, Status};

use super::identity::{Identity, NAME};
use super::{serve_on_thread, told};
use crate::echo::{Echo, four, within};

const PATH: &str = "/bench.Echo/Echo";

/// A channel to a server
pub(crate) struct Grpc {
    client: Client<Channel>,
}

impl Grpc {
    pub(crate) async fn start(with_tls: bool) -> Outcome<Self> {
        let identity = if with_tls { Some(Identity::new()?) } else { None };
        let trusted = identity.as_ref().map(|identity| {
            let authority = Certificate::from_pem(&identity.certificate_pem);
            ClientTlsConfig::new().ca_certificate(authority).domain_name(NAME)
        });
        let address = serve_on_thread(move || {
            let mut server = tonic::transport::Server::builder();
            if let Some(identity) = identity {
                let pem = Pem::from_pem(identity.certificate_pem, identity.key_pem);
                server = server
                    .tls_config(ServerTlsConfig::new().identity(pem))
                    .map_err(told)?;
            }
            let listener = StdListener::bind("127.0.0.1:0").map_err(told)?;
            listener.set_nonblocking(true).map_err(told)?;
            let address = listener.local_addr().map_err(told)?;
            let listener = TcpListener::from_std(listener).map_err(told)?;
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let serving = async move {
                // A server that fails ends its connections, and clients say so.
                _ = server.serve_with_incoming(EchoService, incoming).await;
            };
            Ok((address, serving))
        })?;
        let scheme = if with_tls { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(told)?;
        if let Some(trusted) = trusted {
            endpoint = endpoint.tls_config(trusted).map_err(told)?;
        }
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| format!("gRPC: {error:?}"))?;
        Ok(Self {
            client: Client::new(channel),
        })
    }
}

impl Echo for Grpc {
    async fn echo(&mut self, payload: [u8; 4]) -> Outcome<[u8; 4]> {
        let request = Request::new(Bytes::copy_from_slice(&payload));
        let answer = within(async {
            self.client
                .ready()
                .await
                .map_err(|error| Status::unavailable(error.to_string()))?;
            let path = PathAndQuery::from_static(PATH);
            self.client.unary(request, path, RawCodec).await
        });
        four(&answer.await?.map_err(told)?.into_inner())
    }
}

/// What generated code would be: a service with one method
#[derive(Clone)]
struct EchoService;

impl Service<http::Request<Body>> for EchoService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async { Ok(Server::new(RawCodec).unary(EchoMethod, request).await) })
    }
}

struct EchoMethod;

impl UnaryService<Bytes> for EchoMethod {
    type Response = Bytes;
    type Future = core::future::Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        core::future::ready(Ok(Response::new(request.into_inner())))
    }
}

/// Bytes as they are
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        Ok(Some(bytes))
    }
}
