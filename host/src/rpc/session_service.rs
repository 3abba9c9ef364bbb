//! How a service answers calls in sessions of the mesh.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use selfsame_codec::Code;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use super::answering::{Handler, Outcome, RpcRefusal, RpcRequest, handler_of};
use super::endpoint::{UNKNOWN, address_of};
use super::session_call::{CALL_PATH, MAX_MESSAGE_BYTES, PAYLOAD_TYPE, REFUSAL_FIELD, TIMEOUT_FIELD};
use super::ticket::{TICKET_PATH, encode_session, status};
use crate::body::Body;
use crate::caller::Caller;
use crate::id::PeerId;
use crate::retry;
use crate::shares::{Share, Shares};

/// Most calls that are carried out at a time, of all callers and of one.
const MAX_RUNNING: usize = 4096;
const CALLER_RUNNING: usize = MAX_RUNNING / 4;
/// Most bytes of requests until their calls end, of all callers and of one.
const MAX_HELD_BYTES: usize = 8 * CALLER_HELD_BYTES;
const CALLER_HELD_BYTES: usize = MAX_MESSAGE_BYTES;
/// Time for a request to arrive.
const BODY_TIME: Duration = Duration::from_secs(20);

/// Answers calls in sessions of the mesh, each with keys of its own, and no others; a service for [`Node::serve`](crate::Node::serve).
/// Callers that ask for a ticket learn so.
#[derive(Clone, Debug)]
pub struct RpcSessionService {
    calls: SessionCalls,
}

impl RpcSessionService {
    /// A service that carries each call out at most once. The handler must not block.
    #[must_use]
    pub fn new<H, F>(handler: H) -> Self
    where
        H: Fn(RpcRequest) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<u8>, RpcRefusal>> + Send + 'static,
    {
        Self {
            calls: SessionCalls::new(handler_of(handler), false),
        }
    }

    /// Calls that their callers declare idempotent may be carried out by several providers, once each.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.calls.is_idempotent = true;
        self
    }
}

impl Service<Request<Body>> for RpcSessionService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let calls = self.calls.clone();
        Box::pin(async move {
            Ok(match (request.uri().path(), request.method()) {
                (TICKET_PATH, &Method::POST) => Response::new(Body::from(encode_session())),
                (TICKET_PATH, _) => status(StatusCode::METHOD_NOT_ALLOWED),
                _ => calls.answer(request).await,
            })
        })
    }
}

/// The calls of a service that come in sessions of the mesh.
#[derive(Clone)]
pub(super) struct SessionCalls {
    handler: Handler,
    is_idempotent: bool,
    running: Arc<Shares<PeerId>>,
    bodies: Arc<Shares<PeerId>>,
}

impl SessionCalls {
    pub(super) fn new(handler: Handler, is_idempotent: bool) -> Self {
        Self {
            handler,
            is_idempotent,
            running: Shares::new(CALLER_RUNNING, MAX_RUNNING),
            bodies: Shares::new(CALLER_HELD_BYTES, MAX_HELD_BYTES),
        }
    }

    /// Answers a request of the mesh.
    pub(super) async fn answer(&self, request: Request<Body>) -> Response<Body> {
        match self.outcome(request).await {
            Ok(outcome) => response_of(outcome),
            Err(refused) => refused,
        }
    }

    async fn outcome(&self, request: Request<Body>) -> Result<Outcome, Response<Body>> {
        let refused = |code| retry::soon(status(code));
        if request.uri().path() != CALL_PATH {
            return Err(refused(StatusCode::NOT_FOUND));
        }
        // Whom the session is with must be proven.
        let Some(&Caller { peer, .. }) = request.extensions().get::<Caller>() else {
            return Err(refused(StatusCode::FORBIDDEN));
        };
        let is_idempotent = request.method() == Method::PUT;
        if request.method() != Method::POST && !(is_idempotent && self.is_idempotent) {
            return Err(self.method_not_allowed());
        }
        let timeout = timeout_of(request.headers()).ok_or_else(|| refused(StatusCode::BAD_REQUEST))?;
        let deadline = Instant::now() + timeout;
        let _place = self
            .running
            .take(Some(peer), 1)
            .ok_or_else(|| refused(StatusCode::SERVICE_UNAVAILABLE))?;
        let (payload, _held) = self
            .receive(peer, request.into_body(), deadline)
            .await
            .map_err(refused)?;
        let answering = (self.handler)(RpcRequest {
            payload,
            caller: peer,
            source: address_of(&UNKNOWN),
            is_idempotent,
            deadline: deadline.into_std(),
        });
        let late = Err(RpcRefusal(Code::Deadline));
        Ok(timeout_at(deadline, answering).await.unwrap_or(late))
    }

    fn method_not_allowed(&self) -> Response<Body> {
        let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
        let allowed = if self.is_idempotent { "POST, PUT" } else { "POST" };
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static(allowed));
        response
    }

    /// Receives a request, with its part of the memory for requests, or says with which status it is refused.
    async fn receive(
        &self,
        peer: PeerId,
        body: Body,
        deadline: Instant,
    ) -> Result<(Vec<u8>, Share<PeerId>), StatusCode> {
        let held = self
            .bodies
            .take(Some(peer), 0)
            .ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
        let deadline = deadline.min(Instant::now() + BODY_TIME);
        let received = timeout_at(deadline, collect(body, held)).await;
        received.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT))
    }
}

impl fmt::Debug for SessionCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCalls(..)")
    }
}

async fn collect(mut body: Body, mut held: Share<PeerId>) -> Result<(Vec<u8>, Share<PeerId>), StatusCode> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| StatusCode::BAD_REQUEST)?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > MAX_MESSAGE_BYTES {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        if !held.grow(data.len()) {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, held))
}

fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT_FIELD)?.to_str().ok()?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let timeout_ms = text
        .parse::<u32>()
        .ok()
        .filter(|timeout_ms| is_number && *timeout_ms > 0)?;
    Some(Duration::from_millis(u64::from(timeout_ms)))
}

/// Returns the response with the outcome of a call. A handler that fails counts against its provider, a refusal does not.
fn response_of(outcome: Outcome) -> Response<Body> {
    let failed = Err(RpcRefusal(Code::HandlerFailed));
    let outcome = match outcome {
        Ok(answer) if answer.len() > MAX_MESSAGE_BYTES => {
            tracing::error!(
                len = answer.len(),
                "the answer of an RPC handler is longer than {MAX_MESSAGE_BYTES} bytes"
            );
            failed
        }
        outcome => outcome,
    };
    let mut response = match outcome {
        Ok(answer) => {
            let mut response = Response::new(Body::from(answer));
            let bytes = HeaderValue::from_static(PAYLOAD_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, bytes);
            response
        }
        Err(RpcRefusal(code)) => {
            let mut response = status(match code {
                Code::HandlerFailed => StatusCode::INTERNAL_SERVER_ERROR,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            });
            let code = HeaderValue::from(code.as_u16());
            response.headers_mut().insert(REFUSAL_FIELD, code);
            response
        }
    };
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
