//! Answers the HTTP requests to a service by RPC, as it does in sessions of the mesh.

use alloc::sync::Arc;
use core::net::IpAddr;
use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http::header::UPGRADE;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use selfsame_codec::Code;
use tower_service::Service;

use super::answer::{Served, answer};
use super::{EXCHANGE, message};
use crate::body::{AnyBody, Body, any_body};
use crate::error::BoxError;
use crate::message::decode_request;
use crate::options::ServeOptions;
use crate::rpc::answering::{AnswerFuture, Handler, RpcRequest, handler_of};
use crate::rpc::procedures::{Failure, ItemFormat, RpcContext, StreamTable, answer_with};
use crate::rpc::serving::{MAX_HELD_BYTES, SOURCE_HELD_BYTES};
use crate::rpc::ticket::{Carries, RpcTicketService, TICKET_PATH};
use crate::serve::Offer;
use crate::shares::Shares;
use crate::transport::network_of;
use crate::uploads::Uploads;

/// A service of HTTP.
#[derive(Clone)]
pub(in crate::rpc) struct HttpService {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    offer: Offer,
    /// Whether it decides who may call.
    is_gated: bool,
    streams: Arc<StreamTable>,
    held: Arc<Shares<IpAddr>>,
    uploads: Arc<Uploads>,
}

impl HttpService {
    pub(in crate::rpc) fn new<S, B>(name: &str, options: &ServeOptions, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        Self {
            shared: Arc::new(Shared {
                name: name.into(),
                offer: Offer::new(options, service),
                is_gated: !options.access().is_everyone(),
                streams: StreamTable::new(ItemFormat::Bytes),
                held: Shares::new(SOURCE_HELD_BYTES, MAX_HELD_BYTES),
                uploads: Arc::default(),
            }),
        }
    }

    /// What the tickets of the service are for.
    pub(in crate::rpc) fn carries(&self) -> Carries {
        Carries::Http {
            is_gated: self.shared.is_gated,
        }
    }

    /// What answers requests that come by RPC.
    pub(in crate::rpc) fn handler(&self) -> Handler {
        let shared = Arc::clone(&self.shared);
        handler_of(move |request| shared.answer(request))
    }
}

/// Answers requests of HTTP in sessions of the mesh, and issues the tickets for those that come by RPC; a service for
/// [`Node::serve`](crate::Node::serve).
#[derive(Clone, Debug)]
pub struct RpcFetchService {
    tickets: RpcTicketService,
    service: HttpService,
}

impl RpcFetchService {
    pub(in crate::rpc) fn new(tickets: RpcTicketService, service: HttpService) -> Self {
        Self { tickets, service }
    }

    async fn answer(mut self, request: Request<Body>) -> Result<Response<AnyBody>, BoxError> {
        if is_reserved(request.uri().path()) {
            let issued = self.tickets.call(request).await;
            return Ok(issued.map_err(|never| match never {})?.map(any_body));
        }
        self.service.shared.offer.answer(request).await
    }
}

impl Service<Request<Body>> for RpcFetchService {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

impl Shared {
    fn answer(&self, request: RpcRequest) -> AnswerFuture {
        let (len, is_idempotent) = (request.payload.len(), request.is_idempotent);
        answer_with(&self.streams, request, |name, value, context| {
            self.begin(name, value, context, len, is_idempotent)
        })
    }

    fn begin(
        &self,
        name: &[u8],
        value: &[u8],
        context: RpcContext,
        len: usize,
        is_idempotent: bool,
    ) -> Result<AnswerFuture, Failure> {
        if name != EXCHANGE.as_bytes() {
            let text = "the service carries HTTP and has no procedures";
            return Err(Failure::of(Code::NoService, text));
        }
        let malformed = || {
            let text = "the request does not follow the specification of HTTP by RPC";
            Failure::of(Code::BadMessage, text)
        };
        let (head, body) = message::read(value).ok_or_else(malformed)?;
        let request = decode_request(&self.name, head).map_err(|_| malformed())?;
        if is_idempotent && !message::is_idempotent(request.method()) {
            let text = format!("a request of {} is not idempotent", request.method());
            return Err(Failure::of(Code::BadMessage, &text));
        }
        if request.headers().contains_key(UPGRADE) {
            let text = "a WebSocket needs a session of the mesh";
            return Err(Failure::of(Code::BadMessage, text));
        }
        if is_reserved(request.uri().path()) {
            let text = "what the mesh itself asks for comes in its sessions";
            return Err(Failure::of(Code::NoService, text));
        }
        let held = self.held.take(network_of(context.source.ip()), len);
        let held =
            held.ok_or_else(|| Failure::of(Code::TooManyRequests, "there is no room for the request"))?;
        let served = Served {
            service: self.name.clone(),
            caller: context.caller,
            head: Bytes::copy_from_slice(head),
            body: Bytes::copy_from_slice(body),
            held,
        };
        let (offer, uploads) = (self.offer.clone(), Arc::clone(&self.uploads));
        let streams = Arc::clone(&self.streams);
        Ok(Box::pin(async move {
            let items = answer(offer, &uploads, served);
            streams.answer(context, items).await
        }))
    }
}

impl core::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HttpService(..)")
    }
}

/// Whether the mesh itself asks for a path.
fn is_reserved(path: &str) -> bool {
    let rest = path.strip_prefix(TICKET_PATH);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
