//! Calls in sessions of the mesh: requests of HTTP, each to a provider of the service.

use core::pin::Pin;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use selfsame_codec::Code;
use tokio::time::{Instant, timeout_at};

use super::ticket::RpcKeys;
use crate::error::Error;
use crate::message::name_of;
use crate::node::Node;
use crate::options::FetchOptions;

/// Where a service takes calls in sessions of the mesh.
pub(super) const CALL_PATH: &str = "/.well-known/selfsame-rpc/call";
/// Says how long the caller waits, in milliseconds.
pub(super) const TIMEOUT_FIELD: &str = "selfsame-rpc-timeout";
/// Says in a request that its caller takes a ticket; holds that in the answer.
pub(super) const TICKET_FIELD: &str = "selfsame-rpc-ticket";
/// Value of that field in a request.
pub(super) const TAKES_TICKET: &str = "1";
/// Type of requests and answers.
pub(super) const PAYLOAD_TYPE: &str = "application/octet-stream";
/// Holds the code of a refusal.
pub(super) const REFUSAL_FIELD: &str = "selfsame-rpc-refusal";
/// Longest request and answer.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024 - 64 * 1024;

/// A future of what comes of a call.
pub type SessionAnswer<'a> = Pin<Box<dyn Future<Output = Result<SessionOutcome, Error>> + Send + 'a>>;

/// What came of a call in a session that did not fail.
#[derive(Debug)]
pub enum SessionOutcome {
    /// The call was answered.
    Answered {
        /// The answer.
        payload: Vec<u8>,
        /// What came with it for later calls, if this one takes a ticket.
        keys: Option<RpcKeys>,
    },
    /// The provider takes no calls in sessions, or has no room for one: it has carried nothing out.
    NotTaken(Error),
}

/// A call in a session of the mesh.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionCall {
    /// The service.
    pub service: String,
    /// The request.
    pub payload: Bytes,
    /// Whether carrying the call out twice does no harm.
    pub is_idempotent: bool,
    /// When its caller gives up.
    pub deadline: std::time::Instant,
    /// Whether its caller has no ticket and takes one with the answer.
    pub takes_ticket: bool,
}

/// Makes a call with a provider of the service: keys are agreed by Diffie-Hellman, and forward secret.
pub(super) async fn call_in_session(node: &Node, call: SessionCall) -> Result<SessionOutcome, Error> {
    // Of what is wrong with the call it is certain that nothing was sent.
    node.owner()?;
    name_of(request(&call, Method::POST)?.uri())?;
    // The mesh repeats a PUT where that is safe, and never a POST.
    if call.is_idempotent
        && let Some(outcome) = attempt(node, &call, Method::PUT).await?
    {
        return Ok(outcome);
    }
    let outcome = attempt(node, &call, Method::POST).await?;
    let not_served = || not_served(&call.service, StatusCode::METHOD_NOT_ALLOWED);
    Ok(outcome.unwrap_or_else(|| SessionOutcome::NotTaken(not_served())))
}

/// Returns what came of the call, or nothing if the service does not take the method.
async fn attempt(node: &Node, call: &SessionCall, method: Method) -> Result<Option<SessionOutcome>, Error> {
    let may_repeat = method == Method::PUT;
    let deadline = Instant::from_std(call.deadline);
    let sending = async {
        let response = node.fetch(request(call, method)?).await?;
        if !is_answer(&response) {
            return Ok(response.map(|_| None));
        }
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_MESSAGE_BYTES).collect().await;
        let payload = body.map_err(Error::Body)?.to_bytes().to_vec();
        Ok(Response::from_parts(head, Some(payload)))
    };
    let response = match timeout_at(deadline, sending).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(failure(error, may_repeat)),
        Err(_) => return Err(failure(Error::from_code(Code::Deadline), may_repeat)),
    };
    let (head, payload) = response.into_parts();
    if let Some(payload) = payload {
        let keys = call
            .takes_ticket
            .then(|| RpcKeys::in_answer(&call.service, &head.headers));
        let keys = keys.flatten();
        return Ok(Some(SessionOutcome::Answered { payload, keys }));
    }
    if head.status == StatusCode::METHOD_NOT_ALLOWED {
        return Ok(None);
    }
    match refusal(&call.service, head.status, &head.headers) {
        Some(error) if is_not_taken(&head) => Ok(Some(SessionOutcome::NotTaken(error))),
        Some(error) => Err(error),
        None => {
            let text = format!("a provider of {} answers {} to a call", call.service, head.status);
            Err(failure(Error::core(Code::BadMessage.as_u16(), &text), may_repeat))
        }
    }
}

/// Whether a response is that of a service of the RPC: other programs may answer any path.
fn is_answer<B>(response: &Response<B>) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    response.status() == StatusCode::OK && content_type.is_some_and(|value| value == PAYLOAD_TYPE)
}

/// Whether the provider takes no calls in sessions, or has no room for one.
fn is_not_taken(head: &Parts) -> bool {
    let statuses = [StatusCode::NOT_FOUND, StatusCode::SERVICE_UNAVAILABLE];
    statuses.contains(&head.status) && !head.headers.contains_key(REFUSAL_FIELD)
}

fn request(call: &SessionCall, method: Method) -> Result<Request<Full<Bytes>>, Error> {
    let left = call.deadline.saturating_duration_since(std::time::Instant::now());
    let timeout_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1);
    let mut request = Request::builder()
        .method(method)
        .uri(format!("https://{}.mesh{CALL_PATH}", call.service))
        .header(CONTENT_TYPE, PAYLOAD_TYPE)
        .header(TIMEOUT_FIELD, timeout_ms)
        .extension(FetchOptions::new().timeout(left));
    if call.takes_ticket {
        request = request.header(TICKET_FIELD, TAKES_TICKET);
    }
    request
        .body(Full::new(call.payload.clone()))
        .map_err(|error| Error::Input(error.to_string()))
}

/// Returns why a call was refused, or nothing if the answer does not say whether it was carried out.
fn refusal(service: &str, status: StatusCode, headers: &HeaderMap) -> Option<Error> {
    if let Some(code) = headers.get(REFUSAL_FIELD) {
        let code = code.to_str().ok()?.parse().ok().and_then(Code::from_u16)?;
        return Some(Error::from_code(code));
    }
    let error = match status {
        StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
            not_served(service, status)
        }
        StatusCode::REQUEST_TIMEOUT => {
            Error::core(Code::TimedOut.as_u16(), "the request did not arrive in time")
        }
        StatusCode::PAYLOAD_TOO_LARGE => too_large(),
        StatusCode::INTERNAL_SERVER_ERROR => Error::from_code(Code::HandlerFailed),
        StatusCode::SERVICE_UNAVAILABLE => {
            let text = format!("a provider of {service} has no room");
            Error::core(Code::TooManyRequests.as_u16(), &text)
        }
        _ => return None,
    };
    Some(error)
}

pub(super) fn too_large() -> Error {
    let text = format!("a request has at most {MAX_MESSAGE_BYTES} bytes");
    Error::core(Code::TooLarge.as_u16(), &text)
}

fn not_served(service: &str, status: StatusCode) -> Error {
    let question = match status {
        StatusCode::FORBIDDEN => "may this peer call it?",
        _ => "does it serve RPC?",
    };
    let text = format!("a provider of {service} answers {status} to a call: {question}");
    Error::core(Code::NoService.as_u16(), &text)
}

/// Returns the error of a call that has no answer: of one that must not be repeated it may be unknown whether it was carried out.
fn failure(error: Error, may_repeat: bool) -> Error {
    if error.code().is_some_and(is_before_sending) {
        return error;
    }
    if !may_repeat {
        return Error::core(Code::OutcomeUnknown.as_u16(), &error.to_string());
    }
    match error.code() {
        Some(Code::Deadline) => Error::core(Code::TimedOut.as_u16(), "there was no answer in time"),
        _ => error,
    }
}

/// Whether an error of the mesh says that no provider has got the request. Any other one may hide that a call was carried out.
fn is_before_sending(code: Code) -> bool {
    matches!(
        code,
        Code::NoProvider
            | Code::NoService
            | Code::NoRoute
            | Code::DialFailed
            | Code::RetryBudget
            | Code::NotJoined
    )
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn codes(error: fn() -> Error) -> [Option<Code>; 2] {
        [false, true].map(|may_repeat| failure(error(), may_repeat).code())
    }

    #[test]
    fn outcome_is_unknown_unless_the_error_says_that_nothing_was_sent() {
        let unknown = Some(Code::OutcomeUnknown);
        let of = |code| [Some(code), Some(code)];
        assert_eq!(codes(|| Error::from_code(Code::NoProvider)), of(Code::NoProvider));
        assert_eq!(codes(|| Error::from_code(Code::DialFailed)), of(Code::DialFailed));
        assert_eq!(
            codes(|| Error::from_code(Code::Disconnected)),
            [unknown, Some(Code::Disconnected)]
        );
        assert_eq!(
            codes(|| Error::from_code(Code::StreamRefused)),
            [unknown, Some(Code::StreamRefused)]
        );
        assert_eq!(
            codes(|| Error::from_code(Code::Deadline)),
            [unknown, Some(Code::TimedOut)]
        );
        assert_eq!(codes(|| Error::Body("it broke off".into())), [unknown, None]);
        assert_eq!(
            codes(|| Error::Input("a malformed answer".into())),
            [unknown, None]
        );
        assert_eq!(codes(|| Error::Stopped), [unknown, None]);
    }

    #[test]
    fn refusals_have_the_code_of_their_field_or_of_their_status() {
        let refused = |status: u16, field: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.extend(field.map(|field| {
                (
                    http::HeaderName::from_static(REFUSAL_FIELD),
                    HeaderValue::from_static(field),
                )
            }));
            let status = StatusCode::from_u16(status).expect("a status");
            refusal("check", status, &headers).and_then(|error| error.code())
        };
        assert_eq!(refused(422, Some("2051")), Some(Code::NotGranted));
        assert_eq!(refused(500, Some("2053")), Some(Code::HandlerFailed));
        for malformed in ["", "none", "-1", "65536", "0"] {
            assert_eq!(refused(422, Some(malformed)), None, "{malformed}");
        }
        assert_eq!(refused(404, None), Some(Code::NoService));
        assert_eq!(refused(413, None), Some(Code::TooLarge));
        assert_eq!(refused(500, None), Some(Code::HandlerFailed));
        assert_eq!(refused(503, None), Some(Code::TooManyRequests));
        for silent in [201, 302, 418, 422, 502, 504] {
            assert_eq!(refused(silent, None), None, "{silent}");
        }
    }
}
