use core::time::Duration;
use std::io;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::DATE;
use http::{Method, Request};
use http_body_util::Full;
use tokio::time::timeout;

use super::address::{Address, Scheme};
use super::connect::Connector;
use super::poll;
use crate::error::Error;

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What time it is where a node can be dialled, such as `wss://node.example`, to the second; `None` when nothing there
/// says so, and at a bare `tcp` address.
///
/// # Errors
/// [`Error::Input`] when the URL is none of a node, [`Error::Io`] when nobody answers.
pub async fn clock_at(url: &str) -> Result<Option<SystemTime>, Error> {
    let address = Address::parse(url)?;
    let scheme = match address.scheme {
        Scheme::Tcp => return Ok(None),
        scheme if scheme.is_tls() => "https",
        _ => "http",
    };
    let failed = |error| Error::io(format_args!("the time at {url}"), error);
    // Whoever asks names the address: it may be a private one.
    let client = poll::client(Connector::new(true, &[])?);
    let request = Request::builder()
        .method(Method::HEAD)
        .uri(format!("{scheme}://{}/", address.authority()))
        .body(Full::<Bytes>::default());
    let request = request.map_err(|error| failed(io::Error::other(error)))?;
    let answered = timeout(TIMEOUT, client.request(request)).await;
    let response = answered
        .map_err(|_| failed(io::ErrorKind::TimedOut.into()))?
        .map_err(|error| failed(io::Error::other(error)))?;
    let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
    Ok(date.and_then(|date| httpdate::parse_http_date(date).ok()))
}
