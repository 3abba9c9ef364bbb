//! HTTP on a stream: how hosts write requests and answers.
//!
//! The head of a request travels as the `head` of the stream's opening, its body as the stream's bytes. An answer
//! is a `u32` length, a head of that many bytes, then its body.
//!
//! ```cddl
//! request-head  = [method: text, path: text, headers: [* [name: text, value: bytes]]]
//! response-head = [status: 101 / 200..599, headers: [* [name: text, value: bytes]]]
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use crate::cbor::{Decoder, Encoder};
use crate::field::Malformed;

mod grammar;
use grammar::Fields;

/// Longest head of a request or answer, in bytes: what common servers take, and one frame of a stream.
pub const MAX_HEAD: usize = 16 * 1024;
/// Most headers of one message, as in common servers.
pub const MAX_HEADERS: usize = 128;
/// The one informational status that ends a head: what follows is the protocol that was asked for.
const SWITCHING_PROTOCOLS: u16 = 101;

/// Longest method.
const MAX_METHOD: usize = 32;
/// Longest name of a header.
const MAX_NAME: usize = 256;

/// Headers in their order, names in lower case, values as the bytes that HTTP sends
pub type Headers = Vec<(String, Vec<u8>)>;

/// Head of a request
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Method, such as `GET`.
    pub method: String,
    /// Path and query, from the first slash on.
    pub path: String,
    /// Headers.
    pub headers: Headers,
}

/// Head of an answer
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code: 200 to 599, or 101 where the request asked for an upgrade, which the host knows.
    pub status: u16,
    /// Headers.
    pub headers: Headers,
}

impl RequestHead {
    /// Encodes the head.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(&mut out)
            .array(3)
            .text(&self.method)
            .text(&self.path);
        encode_headers(&self.headers, &mut out);
        out
    }

    /// Decodes a head.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are none, are longer than [`MAX_HEAD`], or say what HTTP does not allow.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut headers = Headers::new();
        let (method, path) = read_request(bytes, &mut |name, value| {
            headers.push((name.into(), value.into()));
        })?;
        Ok(Self {
            method: method.into(),
            path: path.into(),
            headers,
        })
    }

    /// Checks a head without keeping anything of it.
    ///
    /// # Errors
    /// As [`RequestHead::decode`].
    pub fn check(bytes: &[u8]) -> Result<(), Malformed> {
        read_request(bytes, &mut |_, _| {}).map(drop)
    }
}

impl ResponseHead {
    /// Encodes the head with its `u32` length before it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from([0; 4]);
        Encoder::new(&mut out).array(2).uint(u64::from(self.status));
        encode_headers(&self.headers, &mut out);
        let len = u32::try_from(out.len() - 4).expect("a head is shorter than 4 GiB");
        out[..4].copy_from_slice(&len.to_le_bytes());
        out
    }

    /// Decodes a head at the start of an answer's bytes: the head and how many bytes it took, or `None` while there
    /// are too few.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no head, are longer than [`MAX_HEAD`], or say what HTTP does not allow.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let Some((len, rest)) = bytes.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| Malformed)?;
        if len > MAX_HEAD {
            return Err(Malformed);
        }
        let Some(head) = rest.get(..len) else {
            return Ok(None);
        };
        let mut decoder = bounded(head)?;
        decoder.array_of(2)?;
        let status = u16::try_from(decoder.uint_max(599)?).map_err(|_| Malformed)?;
        if status < 200 && status != SWITCHING_PROTOCOLS {
            return Err(Malformed);
        }
        let mut headers = Headers::new();
        read_headers(decoder, Fields::new(None), &mut |name, value| {
            headers.push((name.into(), value.into()));
        })?;
        Ok(Some((Self { status, headers }, 4 + len)))
    }
}

/// The status at the start of an answer's bytes, without the rest of its head; `None` when there are too few or it is none.
#[must_use]
pub fn status_of(bytes: &[u8]) -> Option<u16> {
    let mut decoder = Decoder::new(bytes.get(4..)?);
    decoder.array_of(2).ok()?;
    u16::try_from(decoder.uint_max(599).ok()?).ok()
}

fn bounded(bytes: &[u8]) -> Result<Decoder<'_>, Malformed> {
    if bytes.len() <= MAX_HEAD {
        Ok(Decoder::new(bytes))
    } else {
        Err(Malformed)
    }
}

fn encode_headers(headers: &Headers, out: &mut Vec<u8>) {
    let mut encoder = Encoder::new(out);
    encoder.array(headers.len());
    for (name, value) in headers {
        encoder.array(2).text(name).bytes(value);
    }
}

/// Hears of each header.
type Visit<'v, 'a> = &'v mut dyn FnMut(&'a str, &'a [u8]);

/// Reads the head of a request: its method and its path.
fn read_request<'a>(bytes: &'a [u8], visit: Visit<'_, 'a>) -> Result<(&'a str, &'a str), Malformed> {
    let mut decoder = bounded(bytes)?;
    decoder.array_of(3)?;
    let (method, path) = (decoder.text(MAX_METHOD)?, decoder.text(MAX_HEAD)?);
    grammar::check_target(method, path)?;
    read_headers(decoder, Fields::new(Some(method)), visit)?;
    Ok((method, path))
}

/// Reads the headers, with which a head ends.
fn read_headers<'a>(
    mut decoder: Decoder<'a>,
    mut fields: Fields<'_>,
    visit: Visit<'_, 'a>,
) -> Result<(), Malformed> {
    for _ in 0..decoder.array(MAX_HEADERS)? {
        decoder.array_of(2)?;
        let (name, value) = (decoder.text(MAX_NAME)?, decoder.bytes(MAX_HEAD)?);
        fields.check(name, value)?;
        visit(name, value);
    }
    decoder.finish()
}
