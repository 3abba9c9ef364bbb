//! Requests to procedures and their answers, as bytes.

use selfsame_codec::Code;
use serde::{Deserialize, Serialize};

use super::json;
use super::limits::{MAX_FAILURE, MAX_ISSUE_TEXT, MAX_NAME};
use crate::error::Error;
use crate::rpc::RpcRefusal;

const VERSION: u8 = 1;
/// The beginning of a request, so that no other service takes it for one of its own.
const REQUEST: [u8; 3] = *b"spq";
/// The beginning of an answer.
const ANSWER: [u8; 3] = *b"spa";

const BEGIN: u8 = 0;
const ASK: u8 = 1;
const END: u8 = 2;

const OUTPUT: u8 = 0;
const FAILURE: u8 = 1;
const BATCH: u8 = 2;
const LAST_BATCH: u8 = 3;

/// The id of a stream.
pub(in crate::rpc) type StreamId = [u8; 16];

/// A request of a caller.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::rpc) enum Request<'a> {
    Begin { name: &'a [u8], value: &'a [u8] },
    Ask { stream: StreamId, number: u32 },
    End { stream: StreamId },
}

impl<'a> Request<'a> {
    pub(in crate::rpc) fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Begin { name, value } => message(REQUEST, BEGIN, &[&[name.len() as u8], name, value]),
            Self::Ask { stream, number } => message(REQUEST, ASK, &[&stream, &number.to_le_bytes()]),
            Self::End { stream } => message(REQUEST, END, &[&stream]),
        }
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, RpcRefusal> {
        let malformed = RpcRefusal(Code::BadMessage);
        let (version, rest) = version_of(bytes, REQUEST).ok_or(malformed)?;
        if version != VERSION {
            return Err(RpcRefusal(Code::WrongVersion));
        }
        let (&kind, body) = rest.split_first().ok_or(malformed)?;
        let request = match kind {
            BEGIN => begin_in(body),
            ASK => body.split_first_chunk().and_then(|(&stream, number)| {
                let number = u32::from_le_bytes(number.try_into().ok()?);
                Some(Self::Ask { stream, number })
            }),
            END => body.try_into().ok().map(|stream| Self::End { stream }),
            _ => None,
        };
        request.ok_or(malformed)
    }
}

fn begin_in(body: &[u8]) -> Option<Request<'_>> {
    let (&length, rest) = body.split_first()?;
    let length = usize::from(length);
    let (name, value) = rest.split_at_checked(length)?;
    (1..=MAX_NAME)
        .contains(&length)
        .then_some(Request::Begin { name, value })
}

/// An answer to a request.
#[derive(Debug)]
pub(in crate::rpc) enum Answer<'a> {
    Output(&'a [u8]),
    Failure(&'a Failure),
    Batch(Batch<'a>),
}

/// Items of a stream.
#[derive(Clone, Copy, Debug)]
pub(in crate::rpc) struct Batch<'a> {
    pub(in crate::rpc) stream: StreamId,
    /// Its number in the stream, from 0.
    pub(in crate::rpc) number: u32,
    pub(in crate::rpc) is_last: bool,
    /// An array in JSON, or bytes.
    pub(in crate::rpc) items: &'a [u8],
}

impl<'a> Answer<'a> {
    pub(in crate::rpc) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Output(value) => message(ANSWER, OUTPUT, &[value]),
            Self::Failure(failure) => {
                let json = serde_json::to_vec(failure).unwrap_or_default();
                message(ANSWER, FAILURE, &[&json])
            }
            Self::Batch(batch) => {
                let kind = if batch.is_last { LAST_BATCH } else { BATCH };
                let number = batch.number.to_le_bytes();
                message(ANSWER, kind, &[&batch.stream, &number, batch.items])
            }
        }
    }

    /// Reads an answer; a failure is the error that it tells.
    pub(in crate::rpc) fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        let foreign = || {
            let text = "the service has no procedures, or answers with what is no answer of one";
            Error::core(Code::BadMessage.as_u16(), text)
        };
        let (version, rest) = version_of(bytes, ANSWER).ok_or_else(foreign)?;
        if version != VERSION {
            let text = "the service's procedures are of another version";
            return Err(Error::core(Code::WrongVersion.as_u16(), text));
        }
        let (&kind, body) = rest.split_first().ok_or_else(foreign)?;
        match kind {
            OUTPUT => Ok(Self::Output(body)),
            FAILURE => Err(Failure::error_in(body).unwrap_or_else(foreign)),
            BATCH | LAST_BATCH => {
                let (&stream, rest) = body.split_first_chunk().ok_or_else(foreign)?;
                let (number, items) = rest.split_first_chunk().ok_or_else(foreign)?;
                Ok(Self::Batch(Batch {
                    stream,
                    number: u32::from_le_bytes(*number),
                    is_last: kind == LAST_BATCH,
                    items,
                }))
            }
            _ => Err(foreign()),
        }
    }
}

/// The reason for which a procedure has no output.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::rpc) struct Failure {
    code: u16,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    issues: Option<[Issue; 1]>,
}

#[derive(Debug, Serialize)]
struct Issue {
    message: String,
}

impl Failure {
    pub(in crate::rpc) fn of(code: Code, message: &str) -> Self {
        Self {
            code: code.as_u16(),
            message: cut(message),
            issues: None,
        }
    }

    /// An input that is JSON of another type.
    pub(super) fn of_input(issue: &str) -> Self {
        let message = cut(issue);
        let text = format!("the input is not what the contract says: {message}");
        Self {
            issues: Some([Issue { message }]),
            ..Self::of(Code::BadMessage, &text)
        }
    }

    fn error_in(json: &[u8]) -> Option<Error> {
        let failure: Self = (json.len() <= MAX_FAILURE).then(|| json::read(json).ok())??;
        Some(Error::core(failure.code, &cut(&failure.message)))
    }
}

/// Returns the beginning of a text that is told to the other side.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_ISSUE_TEXT)].into()
}

/// Whether a procedure may have this name.
pub(super) fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(is_part)
}

fn message(form: [u8; 3], kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    [&form[..], &[VERSION, kind], &parts.concat()].concat()
}

fn version_of(bytes: &[u8], form: [u8; 3]) -> Option<(u8, &[u8])> {
    let (&version, rest) = bytes.strip_prefix(&form)?.split_first()?;
    Some((version, rest))
}
