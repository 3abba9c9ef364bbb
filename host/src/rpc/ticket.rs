//! How clients get their first ticket: a request in a session of the mesh, to the service itself.

use alloc::sync::{Arc, Weak};
use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};

use data_encoding::BASE64URL_NOPAD;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed};
use tokio::sync::oneshot;
use tower_service::Service;
use zeroize::Zeroizing;

use super::address::{MAX_ADDRESS_BYTES, RpcAddress};
use super::key_sharing::{KEYS_PATH, SharedTicketKeys};
use super::serving::ServerOrder;
use super::session_call::{SessionAnswer, SessionCall, TAKES_TICKET, TICKET_FIELD, call_in_session};
use super::session_service::SessionCalls;
use super::thread::OrderSender;
use crate::body::Body;
use crate::caller::Caller;
use crate::error::Error;
use crate::id::PeerId;
use crate::node::Node;
use crate::options::Gated;

/// Where a service issues tickets (RFC 8615).
pub const TICKET_PATH: &str = "/.well-known/selfsame-rpc";
const VERSION: u64 = 2;
/// Says that the tickets of a service are for HTTP.
const CARRIES_FIELD: &str = "selfsame-rpc-carries";
const HTTP: &str = "http";
const GRANT_BYTES: usize = 92 + 32 + 4;
const MAX_ADDRESSES: usize = 4;
/// Longest answer to a request for a ticket: the grant, the addresses, and what frames them.
const MAX_ANSWER_BYTES: usize = GRANT_BYTES + MAX_ADDRESSES * (MAX_ADDRESS_BYTES + 3) + 16;
/// The same as base64url.
const MAX_FIELD_BYTES: usize = (MAX_ANSWER_BYTES * 4).div_ceil(3);

/// A ticket with its secret, and the server that it was issued by. It is for one client: two that have the same would seal different
/// requests with the same key and nonce.
#[non_exhaustive]
pub struct RpcTicket {
    pub(super) grant: Zeroizing<Vec<u8>>,
    /// Where the server is reached, the address first that it prefers.
    pub addresses: Vec<RpcAddress>,
    /// Whether the service carries HTTP, where that is known.
    pub(super) carries_http: Option<bool>,
}

impl RpcTicket {
    /// Returns the encoding, `[version: 2, grant: bytes, addresses: [1*4 text]]`. Secret.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder
            .array(3)
            .uint(VERSION)
            .bytes(&self.grant)
            .array(self.addresses.len());
        for address in &self.addresses {
            encoder.text(&address.to_string());
        }
        out
    }

    /// Returns the field of an answer that brings it. Secret.
    fn field(&self) -> HeaderValue {
        let bytes = Zeroizing::new(self.encode());
        let text = Zeroizing::new(BASE64URL_NOPAD.encode(&bytes));
        let mut field = HeaderValue::from_str(&text).expect("base64url is visible ASCII");
        field.set_sensitive(true);
        field
    }

    /// Returns the first address that can be used.
    pub(super) fn usable_address(&self, allows_private: bool) -> Result<&RpcAddress, Error> {
        let mut refused = None;
        for address in &self.addresses {
            match address.check_permitted(allows_private) {
                Ok(()) => return Ok(address),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let unknown = || {
            let text = "the ticket names no address of a form that is known here";
            Error::core(Code::BadAddress.as_u16(), text)
        };
        Err(refused.unwrap_or_else(unknown))
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        decoder.array_of(3)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        let grant = Zeroizing::new(decoder.fixed::<GRANT_BYTES>()?.to_vec());
        let count = decoder.array(MAX_ADDRESSES)?;
        if count == 0 {
            return Err(Malformed);
        }
        let mut addresses = Vec::new();
        for _ in 0..count {
            // Later versions may know other forms.
            addresses.extend(decoder.text(MAX_ADDRESS_BYTES)?.parse());
        }
        decoder.finish()?;
        Ok(Self {
            grant,
            addresses,
            carries_http: None,
        })
    }
}

impl core::fmt::Debug for RpcTicket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RpcTicket")
            .field("addresses", &self.addresses)
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

    /// Returns what came with the answer to a call. The call was carried out whatever that is.
    pub(super) fn in_answer(service: &str, headers: &HeaderMap) -> Option<Self> {
        let mut fields = headers.get_all(TICKET_FIELD).iter();
        let field = fields.next()?;
        if fields.next().is_none()
            && let Ok(keys) = Self::decode_field(field.as_bytes())
        {
            return Some(keys);
        }
        tracing::warn!(service, "an answer brought what is no ticket");
        None
    }

    fn decode_field(field: &[u8]) -> Result<Self, Malformed> {
        if field.len() > MAX_FIELD_BYTES {
            return Err(Malformed);
        }
        let bytes = Zeroizing::new(BASE64URL_NOPAD.decode(field).map_err(|_| Malformed)?);
        Self::decode(&bytes)
    }
}

/// Returns `[version: 2, null]`, which stands in place of a ticket.
pub(super) fn encode_session() -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(&mut out).array(2).uint(VERSION).null();
    out
}

/// Where a client gets tickets.
pub trait RpcTickets: Send + Sync + 'static {
    /// Asks for a ticket for a service, or learns that it takes calls in sessions of the mesh alone.
    fn ticket(&self, service: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>>;

    /// Whether calls can travel in sessions of a mesh, and bring tickets: the first call of a service then asks for none before it. They
    /// cannot unless this says otherwise.
    fn has_sessions(&self) -> bool {
        false
    }

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
            let carries_http = response
                .headers()
                .get(CARRIES_FIELD)
                .is_some_and(|carried| carried == HTTP);
            let body = http_body_util::Limited::new(response.into_body(), MAX_ANSWER_BYTES);
            let bytes = Zeroizing::new(body.collect().await.map_err(Error::Body)?.to_bytes().to_vec());
            let mut keys = RpcKeys::decode(&bytes).map_err(|Malformed| Error::from_code(Code::BadMessage))?;
            if let RpcKeys::Ticket(ticket) = &mut keys {
                ticket.carries_http = Some(carries_http);
            }
            Ok(keys)
        })
    }

    fn has_sessions(&self) -> bool {
        true
    }

    fn call_in_session(&self, call: SessionCall) -> SessionAnswer<'_> {
        Box::pin(call_in_session(self, call))
    }

    fn allows_private(&self) -> bool {
        self.dials_private()
    }
}

/// Issues tickets at [`TICKET_PATH`] to callers from the mesh, answers their calls in sessions, and gives ticket keys that are shared to
/// other replicas; a service for [`Node::serve`], or for all paths of another one that begin with [`TICKET_PATH`].
#[derive(Clone, Debug)]
pub struct RpcTicketService {
    sender: OrderSender<ServerOrder>,
    addresses: Arc<[RpcAddress]>,
    keys: Option<SharedTicketKeys>,
    /// Those of the server, while it is there.
    session_calls: Weak<SessionCalls>,
    carries: Carries,
}

/// What the calls of a service carry
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// Bytes, in sessions, too.
    Calls,
    /// HTTP; who may call it is decided, or everybody may.
    Http { is_gated: bool },
}

impl RpcTicketService {
    pub(super) fn new(
        sender: OrderSender<ServerOrder>,
        addresses: impl IntoIterator<Item = impl Into<RpcAddress>>,
        keys: Option<SharedTicketKeys>,
        session_calls: &Weak<SessionCalls>,
        carries: Carries,
    ) -> Result<Self, Error> {
        let addresses: Arc<[RpcAddress]> = addresses.into_iter().map(Into::into).collect();
        if !(1..=MAX_ADDRESSES).contains(&addresses.len()) {
            let text = format!("a ticket names 1 to {MAX_ADDRESSES} addresses of its server");
            return Err(Error::Input(text));
        }
        for address in &*addresses {
            // A URI need not be one that callers can use.
            address.to_string().parse::<RpcAddress>()?;
        }
        Ok(Self {
            sender,
            addresses,
            keys,
            session_calls: Weak::clone(session_calls),
            carries,
        })
    }

    async fn answer(self, request: Request<Body>) -> Response<Body> {
        // Whom secrets are for must be proven.
        let Some(caller) = request.extensions().get::<Caller>() else {
            return status(StatusCode::FORBIDDEN);
        };
        match (&self.keys, request.uri().path()) {
            (Some(keys), KEYS_PATH) => keys.answer(request.method(), caller.peer).await,
            (_, TICKET_PATH) if self.lacks_gate(&request) => {
                let text = "the service decides in sessions who may call it, and not by RPC: it gives out no tickets";
                tracing::error!("{text}");
                status(StatusCode::NOT_FOUND)
            }
            (_, TICKET_PATH) => self.issue(request.method(), caller.peer).await,
            _ if self.carries != Carries::Calls => status(StatusCode::NOT_FOUND),
            _ => match self.session_calls.upgrade() {
                Some(calls) => self.answer_call(&calls, caller.peer, request).await,
                None => status(StatusCode::SERVICE_UNAVAILABLE),
            },
        }
    }

    /// Whether a ticket would lead past those who decide about requests in sessions.
    fn lacks_gate(&self, request: &Request<Body>) -> bool {
        let is_gated = request.extensions().get::<Gated>().is_some();
        is_gated && self.carries == Carries::Http { is_gated: false }
    }

    async fn issue(&self, method: &Method, caller: PeerId) -> Response<Body> {
        if *method != Method::POST {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        match self.ticket(caller).await {
            Some(ticket) => {
                let mut response = Response::new(Body::from(ticket.encode()));
                if self.carries != Carries::Calls {
                    let http = HeaderValue::from_static(HTTP);
                    response.headers_mut().insert(CARRIES_FIELD, http);
                }
                response
            }
            None => status(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    /// Answers a call, and adds a ticket to the answer if the caller takes one. It is issued last: its age counts from when it comes.
    async fn answer_call(
        &self,
        calls: &SessionCalls,
        caller: PeerId,
        request: Request<Body>,
    ) -> Response<Body> {
        let takes_ticket = request
            .headers()
            .get(TICKET_FIELD)
            .is_some_and(|value| value == TAKES_TICKET);
        let mut response = calls.answer(request).await;
        if takes_ticket
            && response.status() == StatusCode::OK
            && let Some(ticket) = self.ticket(caller).await
        {
            response.headers_mut().insert(TICKET_FIELD, ticket.field());
        }
        response
    }

    /// Issues a ticket, unless the server has ended.
    async fn ticket(&self, caller: PeerId) -> Option<RpcTicket> {
        let (answer, issued) = oneshot::channel();
        self.sender.send(ServerOrder::IssueTicket { caller, answer });
        Some(RpcTicket {
            grant: Zeroizing::new(issued.await.ok()?),
            addresses: self.addresses.to_vec(),
            carries_http: None,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(addresses: &[&str]) -> RpcTicket {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address"));
        RpcTicket {
            grant: Zeroizing::new(vec![7; GRANT_BYTES]),
            addresses: addresses.collect(),
            carries_http: None,
        }
    }

    /// An encoding with any version, grant and addresses.
    fn encoding(version: u64, grant: &[u8], addresses: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.array(3).uint(version).bytes(grant).array(addresses.len());
        for address in addresses {
            encoder.text(address);
        }
        out
    }

    #[test]
    fn addresses_of_unknown_forms_are_skipped() {
        let whole = ticket(&["192.0.2.1:7400", "https://echo.example/rpc"]);
        let decoded = RpcTicket::decode(&whole.encode()).expect("a ticket");
        assert_eq!(decoded.addresses, whole.addresses);
        assert_eq!(decoded.grant, whole.grant);
        let later = encoding(VERSION, &[7; GRANT_BYTES], &["carrier:pigeon", "192.0.2.1:7400"]);
        let decoded = RpcTicket::decode(&later).expect("a ticket");
        assert_eq!(decoded.addresses, ticket(&["192.0.2.1:7400"]).addresses);
    }

    #[test]
    fn malformed_tickets_are_refused() {
        let grant = [7; GRANT_BYTES];
        let long = "x".repeat(MAX_ADDRESS_BYTES + 1);
        let whole = encoding(VERSION, &grant, &["192.0.2.1:7400"]);
        let wrong = [
            Vec::new(),
            whole[..whole.len() - 1].to_vec(),
            [&whole[..], &[0]].concat(),
            encoding(1, &grant, &["192.0.2.1:7400"]),
            encoding(VERSION, &grant[1..], &["192.0.2.1:7400"]),
            encoding(VERSION, &grant, &[]),
            encoding(VERSION, &grant, &["192.0.2.1:7400"; MAX_ADDRESSES + 1]),
            encoding(VERSION, &grant, &[&long]),
        ];
        for bytes in wrong {
            assert!(RpcTicket::decode(&bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn first_usable_address_is_taken() {
        let inside = ticket(&["10.0.0.1:7400", "http://10.0.0.1/", "https://echo.example/rpc"]);
        let taken = |ticket: &RpcTicket, allows_private| {
            ticket
                .usable_address(allows_private)
                .map(ToString::to_string)
                .map_err(|error| error.code())
        };
        assert_eq!(taken(&inside, true), Ok("10.0.0.1:7400".into()));
        assert_eq!(taken(&inside, false), Ok("https://echo.example/rpc".into()));
        let private = ticket(&["10.0.0.1:7400"]);
        assert_eq!(taken(&private, false), Err(Some(Code::ForbiddenAddress)));
        assert_eq!(taken(&ticket(&[]), true), Err(Some(Code::BadAddress)));
    }
}
