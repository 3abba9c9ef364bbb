//! What a program is told in place of a service's answer: problem details (RFC 9457) and the proxy's status (RFC 9209),
//! by which they differ from answers of services.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use selfsame_codec::Class;
use selfsame_host::{Code, Error, Tried};
use serde_json::{Value, json};

use super::AnyBody;
use crate::retry;

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Why a request is not sent on
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not say clearly what it wants.
    Malformed(&'static str),
    /// Its body is encoded in a way that the proxy does not know.
    Encoding,
    /// One of the proxy's own fields has a value that means nothing.
    Option(String),
    /// It means something that is no service.
    Target(String),
    /// It came by here before.
    Loop,
}

/// A problem, and how it is told
pub(super) struct Problem {
    status: StatusCode,
    /// Type of error in the proxy's status.
    error: &'static str,
    detail: String,
    code: Option<Code>,
    more: Vec<(&'static str, Value)>,
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, error, detail) = match refusal {
            Refusal::Malformed(text) => (StatusCode::BAD_REQUEST, "http_request_error", text.into()),
            Refusal::Encoding => (
                StatusCode::NOT_IMPLEMENTED,
                "http_request_error",
                "the only transfer-encoding that this proxy knows is chunked".into(),
            ),
            Refusal::Option(text) => (StatusCode::BAD_REQUEST, "http_request_error", text),
            Refusal::Target(text) => (StatusCode::FORBIDDEN, "http_request_denied", text),
            Refusal::Loop => (
                StatusCode::LOOP_DETECTED,
                "proxy_loop_detected",
                "this request was sent by this proxy before: a service passes it back to where it came from"
                    .into(),
            ),
        };
        Self {
            status,
            error,
            detail,
            code: None,
            more: Vec::new(),
        }
    }
}

impl Problem {
    /// Why a request to a service has no answer.
    pub(super) fn unanswered(service: &str, error: &Error) -> Self {
        let (status, kind) = match error {
            Error::Input(_) | Error::Body(_) => (StatusCode::BAD_REQUEST, "http_request_error"),
            Error::Stopped | Error::Poisoned(_) => (StatusCode::SERVICE_UNAVAILABLE, "proxy_internal_error"),
            error => error.code().map_or(
                (StatusCode::INTERNAL_SERVER_ERROR, "proxy_internal_error"),
                status_of,
            ),
        };
        Self {
            status,
            error: kind,
            detail: error.to_string(),
            code: error.code(),
            more: vec![("service", json!(service)), ("tried", tried(error))],
        }
    }

    /// The proxy ends before the request has an answer.
    pub(super) fn ending() -> Self {
        Self {
            status: StatusCode::BAD_GATEWAY,
            error: "connection_terminated",
            detail: "this proxy was told to end, and the request had no answer within the time of --drain"
                .into(),
            code: None,
            more: Vec::new(),
        }
    }

    /// The server behind a service does not answer.
    pub(super) fn no_server() -> Self {
        Self {
            status: StatusCode::BAD_GATEWAY,
            error: "destination_unavailable",
            detail: "the server behind this service does not answer".into(),
            code: None,
            more: Vec::new(),
        }
    }

    /// The server behind a service sends what is no answer.
    pub(super) fn bad_server(why: &str) -> Self {
        Self {
            status: StatusCode::BAD_GATEWAY,
            error: "http_protocol_error",
            detail: why.into(),
            code: None,
            more: Vec::new(),
        }
    }

    /// The answer, by the name that the proxy has in the fields of messages.
    pub(super) fn response(self, pseudonym: &str) -> Response<AnyBody> {
        let Self {
            status,
            error,
            detail,
            code,
            more,
        } = self;
        let mut value = json!({
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": detail,
        });
        let code = code.map(|code| ("code", json!(code.name())));
        for (name, member) in code.into_iter().chain(more) {
            value[name] = member;
        }
        let text = Full::new(Bytes::from(format!("{value}\n")));
        let mut response = Response::new(text.map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Ok(told) = HeaderValue::try_from(format!("{pseudonym}; error={error}")) {
            headers.insert(PROXY_STATUS, told);
        }
        retry::soon(response)
    }
}

/// The providers that were tried.
fn tried(error: &Error) -> Value {
    let Error::Unanswered { tried, .. } = error else {
        return json!([]);
    };
    let each = tried.iter().map(|Tried { peer, code, .. }| {
        json!({ "peer": peer.to_string(), "code": code.name(), "reason": code.text() })
    });
    each.collect()
}

/// The status of an answer that a code stands in place of, and the type of error.
fn status_of(code: Code) -> (StatusCode, &'static str) {
    match code {
        Code::NoProvider | Code::NoService | Code::NotJoined | Code::NoBootstrap => {
            (StatusCode::SERVICE_UNAVAILABLE, "destination_not_found")
        }
        Code::Deadline => (StatusCode::GATEWAY_TIMEOUT, "http_response_timeout"),
        Code::Disconnected | Code::PeerClosed => (StatusCode::BAD_GATEWAY, "connection_terminated"),
        Code::BadName | Code::BadInput => (StatusCode::BAD_REQUEST, "http_request_error"),
        Code::TooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "http_request_error"),
        code => match code.class() {
            Class::Unreachable | Class::Limit => (StatusCode::SERVICE_UNAVAILABLE, "destination_unavailable"),
            Class::Usage | Class::Store => (StatusCode::INTERNAL_SERVER_ERROR, "proxy_internal_error"),
            Class::Malformed | Class::Misbehaved | Class::Incompatible => {
                (StatusCode::BAD_GATEWAY, "http_protocol_error")
            }
            Class::Service => (StatusCode::BAD_GATEWAY, "connection_terminated"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_that_break_off_are_bad_gateways_and_those_that_cannot_be_reached_are_unavailable() {
        for (code, status) in [
            (Code::Disconnected, 502),
            (Code::PeerClosed, 502),
            (Code::BadMessage, 502),
            (Code::DialFailed, 503),
            (Code::NoProvider, 503),
            (Code::Deadline, 504),
        ] {
            assert_eq!(status_of(code).0.as_u16(), status, "{code:?}");
        }
    }
}
