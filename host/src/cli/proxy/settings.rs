//! How a program says more about a request: in fields that the proxy takes out before it sends the request on.

use http::header::{HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use selfsame_host::{FetchOptions, ParseIdError};

use super::problem::Refusal;
use crate::cli::args::Span;

/// Fields that begin so are between a program and its proxy, and never travel.
pub(super) const PREFIX: &str = "selfsame-";
/// Longest time until the answer begins.
const TIMEOUT: &str = "selfsame-timeout";
/// Equal keys go to the same provider.
const KEY: &str = "selfsame-key";
/// The one provider that is to answer.
const PEER: &str = "selfsame-peer";
/// Whether the request may be tried again.
const RETRY: &str = "selfsame-retry";

/// Fields with a hyphen that the proxy sets itself or takes out of every message.
const OF_THE_PROXY: [&str; 7] = [
    "accept-encoding",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "transfer-encoding",
];

/// What holds for a request that does not say otherwise
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub(super) timeout: Span,
}

/// Takes what a program says about its request.
pub(super) fn take(headers: &mut HeaderMap, defaults: &Defaults) -> Result<FetchOptions, Refusal> {
    let mut options = FetchOptions::new().timeout(defaults.timeout.0);
    for (name, value) in headers.iter().filter(|(name, _)| is_ours(name)) {
        let text = value.to_str().unwrap_or_default().trim();
        let wrong = |why: &str| Refusal::Option(format!("{name}: {text}: {why}"));
        options = match name.as_str() {
            TIMEOUT => {
                let timeout: Span = text.parse().map_err(wrong)?;
                options.timeout(timeout.0)
            }
            KEY => options.key(value.as_bytes()),
            PEER => options.peer(
                text.parse()
                    .map_err(|error: ParseIdError| wrong(&error.to_string()))?,
            ),
            RETRY => match text {
                "on" => options.retry(true),
                "off" => options.retry(false),
                _ => return Err(wrong("it is on or off")),
            },
            _ => {
                return Err(wrong(&format!(
                    "there is no such option; there are {TIMEOUT}, {KEY}, {PEER} and {RETRY}"
                )));
            }
        };
    }
    remove(headers);
    Ok(options)
}

/// Removes all fields that are between a program and its proxy, and those that a server takes for one of them or for a
/// field of one hop when it makes variables of names, as CGI, WSGI and Rack do: in these `-` and `_` are the same.
pub(super) fn remove(headers: &mut HeaderMap<HeaderValue>) {
    let ours: Vec<_> = headers
        .keys()
        .filter(|name| is_ours(name) || is_disguised(name))
        .cloned()
        .collect();
    for name in ours {
        headers.remove(name);
    }
}

/// Whether the body of a message is in chunks and nothing else (RFC 9112, section 6.1).
pub(super) fn is_chunked_alone(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_some_and(is_chunked) && codings.next().is_none()
}

fn is_ours(name: &HeaderName) -> bool {
    name.as_str().starts_with(PREFIX)
}

/// Whether a name with underscores is that of a field which the proxy sets or takes out, but for its hyphens.
fn is_disguised(name: &HeaderName) -> bool {
    if !name.as_str().contains('_') {
        return false;
    }
    let name = name.as_str().replace('_', "-");
    name.starts_with(PREFIX) || OF_THE_PROXY.contains(&name.as_str())
}
