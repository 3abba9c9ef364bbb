//! When a request that was refused may come again.

use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};

/// Adds to a refusal for want of room that it may pass in a second (RFC 9110, 10.2.3).
pub(crate) fn soon<B>(mut response: Response<B>) -> Response<B> {
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        let second = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, second);
    }
    response
}
