//! Orders, replies and outcomes as JSON; in texts each character is one byte.

use core::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use selfsame_host::BoxError;
use serde::{Deserialize, Serialize};

/// Time between two parts of a body whose length nobody knows
const PAUSE: Duration = Duration::from_millis(30);

/// A header
pub(crate) type Field = (String, String);
/// Any body
pub(crate) type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// A request as it is to be made
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Order {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<Field>,
    pub(crate) body: Option<String>,
    #[serde(default)]
    pub(crate) is_stream: bool,
}

/// An answer as it is to be given
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reply {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: Vec<Field>,
    pub(crate) body: Option<String>,
    #[serde(default)]
    pub(crate) is_stream: bool,
}

/// A request as it arrived
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Arrived {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<Field>,
    pub(crate) body: String,
    pub(crate) caller: String,
}

/// What came of a request
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    Answered {
        status: u16,
        headers: Vec<Field>,
        body: String,
    },
    Refused {
        error: String,
    },
}

pub(crate) fn text_of(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

pub(crate) fn bytes_of(text: &str) -> Result<Vec<u8>, BoxError> {
    text.chars()
        .map(|character| u8::try_from(character).map_err(Into::into))
        .collect()
}

pub(crate) fn fields_of(headers: &HeaderMap) -> Vec<Field> {
    let field =
        |(name, value): (&HeaderName, &HeaderValue)| (name.as_str().to_owned(), text_of(value.as_bytes()));
    headers.iter().map(field).collect()
}

pub(crate) fn headers_of(fields: &[Field]) -> Result<HeaderMap, BoxError> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        headers.append(name, HeaderValue::from_bytes(&bytes_of(value)?)?);
    }
    Ok(headers)
}

/// A body, whose length is known unless it comes as it is made.
pub(crate) fn body_of(text: Option<&str>, is_stream: bool) -> AnyBody {
    let bytes = Bytes::from(text.and_then(|text| bytes_of(text).ok()).unwrap_or_default());
    if !is_stream {
        return Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
    }
    let (first, second) = (bytes.slice(..bytes.len() / 2), bytes.slice(bytes.len() / 2..));
    let parts = futures_util::stream::iter([first, second]).then(async |part| {
        tokio::time::sleep(PAUSE).await;
        Ok::<_, BoxError>(Frame::data(part))
    });
    StreamBody::new(Box::pin(parts)).boxed_unsync()
}
