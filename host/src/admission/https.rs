//! Queries over HTTPS (RFC 8484).

use bytes::Bytes;
use http::header::{ACCEPT, AGE, CONTENT_TYPE};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};

use super::error::ResolveError;
use super::module::{Module, Outcome, Query};
use super::plain::wrong;
use crate::error::root_cause;
use crate::transport::PostClient;

const MESSAGE_TYPE: &str = "application/dns-message";
/// Longest message of DNS.
const MAX_MESSAGE_BYTES: usize = 65_535;
/// The connection knows which response is whose, and equal bodies can be cached (RFC 8484, section 4.1).
const ID: u16 = 0;

/// Asks the resolver at a URL for a name.
pub(super) async fn ask(
    module: &Module,
    client: &PostClient,
    url: &Uri,
    name: &str,
) -> Result<Outcome, ResolveError> {
    let query = Query { id: ID, name };
    let request = Request::post(url)
        .header(CONTENT_TYPE, MESSAGE_TYPE)
        .header(ACCEPT, MESSAGE_TYPE)
        .body(Full::new(Bytes::from(module.message(query)?)))
        .map_err(|error| ResolveError::unreachable(url, error))?;
    let response = client.request(request).await;
    let response = response.map_err(|error| ResolveError::unreachable(url, root_cause(&error)))?;
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(ResolveError::unreachable(
            url,
            format_args!("it answers {}", head.status),
        ));
    }
    if !is_message(&head.headers) {
        let reason = format_args!("what it answers is no {MESSAGE_TYPE}: is it a resolver?");
        return Err(ResolveError::unreachable(url, reason));
    }
    let body = Limited::new(body, MAX_MESSAGE_BYTES).collect().await;
    let body = body.map_err(|error| ResolveError::unreachable(url, root_cause(&*error)))?;
    let outcome = module.outcome(query, false, &body.to_bytes())?;
    let outcome = outcome.map_err(|code| wrong(url, code))?;
    Ok(aged(outcome, age_s(&head.headers)))
}

fn is_message(headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    text.and_then(|text| text.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case(MESSAGE_TYPE))
}

/// Returns how long caches have held the response (RFC 8484, section 5.1).
fn age_s(headers: &HeaderMap) -> u32 {
    let text = headers.get(AGE).and_then(|value| value.to_str().ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn aged(outcome: Outcome, age_s: u32) -> Outcome {
    match outcome {
        Outcome::Found {
            values,
            ttl_s,
            is_authentic,
        } => Outcome::Found {
            values,
            ttl_s: ttl_s.saturating_sub(age_s),
            is_authentic,
        },
        Outcome::Absent { ttl_s } => Outcome::Absent {
            ttl_s: ttl_s.saturating_sub(age_s),
        },
        Outcome::Truncated => Outcome::Truncated,
    }
}
