//! The opening handshake of a WebSocket, as a server reads and answers it (RFC 6455, section 4.2).

use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Why a request opens no WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHandshake {
    /// It does not ask for one.
    NotAsked,
    /// Of a version other than 13.
    Version,
    /// It does not offer the subprotocol.
    Subprotocol,
    /// It has no key, or one that is not usable.
    Key,
}

/// Checks the handshake and returns what proves that it was read.
pub(crate) fn accept_key(headers: &HeaderMap, protocol: &str) -> Result<HeaderValue, BadHandshake> {
    if !has_token(headers, &CONNECTION, "upgrade") || !has_token(headers, &UPGRADE, "websocket") {
        return Err(BadHandshake::NotAsked);
    }
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != "13")
    {
        return Err(BadHandshake::Version);
    }
    if !has_token(headers, &SEC_WEBSOCKET_PROTOCOL, protocol) {
        return Err(BadHandshake::Subprotocol);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or(BadHandshake::Key)?;
    let accept = derive_accept_key(key.as_bytes());
    HeaderValue::from_str(&accept).map_err(|_| BadHandshake::Key)
}

/// Returns the answer after which the connection is a WebSocket.
pub(crate) fn switching<B>(accept: HeaderValue, protocol: &'static str, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    response
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|value| value.trim().eq_ignore_ascii_case(token))
}
