//! How clients get their first ticket: a request in a session of the mesh, to the service itself.

use alloc::sync::{Arc, Weak};
use core::convert::Infallible;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed};
use tokio::sync::oneshot;
use tower_service::Service;
use zeroize::Zeroizing;

use super::key_sharing::{KEYS_PATH, SharedTicketKeys};
use super::serving::ServerOrder;
use super::session_call::{SessionAnswer, SessionCall, call_in_session};
use super::session_service::SessionCalls;
use super::thread::OrderSender;
use crate::body::Body;
use crate::caller::Caller;
use crate::error::Error;
use crate::id::PeerId;
use crate::node::Node;

/// Where a service issues tickets (RFC 8615).
pub const TICKET_PATH: &str = "/.well-known/selfsame-rpc";
const VERSION: u64 = 1;
/// Longest answer to a request for a ticket.
const MAX_ANSWER_BYTES: usize = 1024;
const MAX_ADDRESS_BYTES: usize = 64;

/// A ticket with its secret, and the server that it was issued by. It is for one client: two that have the same would seal different
/// requests with the same key and nonce.
#[non_exhaustive]
pub struct RpcTicket {
    pub(super) grant: Zeroizing<Vec<u8>>,
    /// Where the server is reached.
    pub address: SocketAddr,
}

impl RpcTicket {
    /// Returns the encoding, `[version: 1, grant: bytes, address: text]`. Secret.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let address = self.address.to_string();
        Encoder::new(&mut out)
            .array(3)
            .uint(VERSION)
            .bytes(&self.grant)
            .text(&address);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(3)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        let grant = Zeroizing::new(decoder.bytes(MAX_ANSWER_BYTES)?.to_vec());
        let address = decoder.text(MAX_ADDRESS_BYTES)?.parse().map_err(|_| Malformed)?;
        decoder.finish()?;
        Ok(Self { grant, address })
    }
}

impl core::fmt::Debug for RpcTicket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RpcTicket")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The keys that the calls of a service are sealed with.
#[derive(Debug)]
pub enum RpcKeys {
    /// Those of a ticket.
    Ticket(RpcTicket),
    /// The service gives out no tickets: each session of the mesh agrees on keys of its own.
    Session,
}

impl RpcKeys {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes == encode_session() {
            return Ok(Self::Session);
        }
        RpcTicket::decode(bytes).map(Self::Ticket)
    }
}

/// Returns `[version: 1, null]`, which stands in place of a ticket.
pub(super) fn encode_session() -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out).array(2).uint(VERSION).null();
    out
}

/// Where a client gets tickets.
pub trait RpcTickets: Send + Sync + 'static {
    /// Asks for a ticket for a service, or learns that it takes calls in sessions of the mesh alone.
    fn ticket(&self, service: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>>;

    /// Makes a call in a session of the mesh; fails where there is no mesh, as it does unless this says otherwise.
    fn call_in_session(&self, call: SessionCall) -> SessionAnswer<'_> {
        let text = format!(
            "calls of {} travel in a mesh: make the client with a node",
            call.service
        );
        Box::pin(async { Err(Error::Input(text)) })
    }

    /// Whether tickets, servers and routers may lead to private addresses, which they may unless this says otherwise.
    fn allows_private(&self) -> bool {
        true
    }
}

/// Tickets from the providers of a service in the mesh.
impl RpcTickets for Node {
    fn ticket(&self, service: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>> {
        let url = format!("https://{service}.mesh{TICKET_PATH}");
        Box::pin(async move {
            let request = Request::post(url).body(Body::empty());
            let response = self
                .fetch(request.map_err(|error| Error::Input(error.to_string()))?)
                .await?;
            let status = response.status();
            if status != StatusCode::OK {
                let text =
                    format!("the provider answers {status} to a request for a ticket: does it serve RPC?");
                return Err(Error::core(Code::NoService.as_u16(), &text));
            }
            let body = http_body_util::Limited::new(response.into_body(), MAX_ANSWER_BYTES);
            let bytes = Zeroizing::new(body.collect().await.map_err(Error::Body)?.to_bytes().to_vec());
            RpcKeys::decode(&bytes).map_err(|Malformed| Error::from_code(Code::BadMessage))
        })
    }

    fn call_in_session(&self, call: SessionCall) -> SessionAnswer<'_> {
        Box::pin(call_in_session(self, call))
    }

    fn allows_private(&self) -> bool {
        self.dials_private()
    }
}

/// Issues tickets at [`TICKET_PATH`] to callers from the mesh, answers their calls that are to be forward secret, and gives ticket keys that
/// are shared to other replicas; a service for [`Node::serve`] or a route of another one.
#[derive(Clone, Debug)]
pub struct RpcTicketService {
    sender: OrderSender<ServerOrder>,
    address: SocketAddr,
    keys: Option<SharedTicketKeys>,
    /// Those of the server, while it is there.
    session_calls: Weak<SessionCalls>,
}

impl RpcTicketService {
    pub(super) fn new(
        sender: OrderSender<ServerOrder>,
        address: SocketAddr,
        keys: Option<SharedTicketKeys>,
        session_calls: &Arc<SessionCalls>,
    ) -> Self {
        Self {
            sender,
            address,
            keys,
            session_calls: Arc::downgrade(session_calls),
        }
    }

    async fn answer(self, request: Request<Body>) -> Response<Body> {
        // Whom secrets are for must be proven.
        let Some(caller) = request.extensions().get::<Caller>() else {
            return status(StatusCode::FORBIDDEN);
        };
        match (&self.keys, request.uri().path()) {
            (Some(keys), KEYS_PATH) => keys.answer(request.method(), caller.peer).await,
            (_, TICKET_PATH) => self.issue(request.method(), caller.peer).await,
            _ => match self.session_calls.upgrade() {
                Some(calls) => calls.answer(request).await,
                None => status(StatusCode::SERVICE_UNAVAILABLE),
            },
        }
    }

    async fn issue(&self, method: &Method, caller: PeerId) -> Response<Body> {
        if *method != Method::POST {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let (answer, issued) = oneshot::channel();
        self.sender.send(ServerOrder::IssueTicket { caller, answer });
        let Ok(grant) = issued.await else {
            return status(StatusCode::SERVICE_UNAVAILABLE);
        };
        let ticket = RpcTicket {
            grant: Zeroizing::new(grant),
            address: self.address,
        };
        Response::new(Body::from(ticket.encode()))
    }
}

impl Service<Request<Body>> for RpcTicketService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { Ok(this.answer(request).await) })
    }
}

pub(super) fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
