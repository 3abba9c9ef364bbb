//! What HTTP allows in a head: one reading of RFC 9110 for all hosts, so that none of them takes for a field, a path or an end of the
//! body what another one does not.

use crate::field::Malformed;

/// Fields that mean one hop (RFC 9110, 7.6.1), the host, which the service's name stands for, and what bodies may be compressed with,
/// since they travel as they are: no head has them.
const OF_ONE_HOP: [&str; 11] = [
    "accept-encoding",
    "connection",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
];
/// Digits of a length that every host can count to.
const MAX_LENGTH_DIGITS: usize = 15;

/// Checks a method, and the path that goes with it.
pub(super) fn check_target(method: &str, path: &str) -> Result<(), Malformed> {
    let capitals = method.to_ascii_uppercase();
    let is_allowed = match &*capitals {
        // They mean the connection or the way, not the service (RFC 9110, 9.3.6 and 9.3.8): Fetch forbids them too, in any spelling.
        "CONNECT" | "TRACE" | "TRACK" => false,
        // Fetch writes these in capitals: a host that does not takes another spelling for another method.
        "DELETE" | "GET" | "HEAD" | "OPTIONS" | "POST" | "PUT" => capitals == method,
        _ => true,
    };
    let is_method = is_token(method) && is_allowed;
    expect(is_method && (is_path(path.as_bytes()) || path == "*" && method == "OPTIONS"))
}

/// The fields of one head, each checked as it is read
pub(super) struct Fields<'a> {
    /// The method of a request; nothing in an answer.
    method: Option<&'a str>,
    has_length: bool,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(method: Option<&'a str>) -> Self {
        Self {
            method,
            has_length: false,
        }
    }

    pub(super) fn check(&mut self, name: &str, value: &[u8]) -> Result<(), Malformed> {
        let is_name = is_token(name) && !name.bytes().any(|byte| byte.is_ascii_uppercase());
        expect(is_name && is_value(value) && !OF_ONE_HOP.contains(&name))?;
        match name {
            "upgrade" => expect(self.method == Some("GET") && value == b"websocket"),
            "content-length" => {
                let is_bodiless = matches!(self.method, Some("GET" | "HEAD"));
                let is_first = !core::mem::replace(&mut self.has_length, true);
                expect(is_first && is_length(value) && (!is_bodiless || value == b"0"))
            }
            _ => Ok(()),
        }
    }
}

fn expect(holds: bool) -> Result<(), Malformed> {
    if holds { Ok(()) } else { Err(Malformed) }
}

/// RFC 9110, 5.6.2.
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

/// RFC 9110, 5.5: no control characters but tabs, no space at either end.
fn is_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_part = |byte: &u8| *byte >= b' ' && *byte != 0x7f || *byte == b'\t';
    value.iter().all(is_part) && !is_space(value.first()) && !is_space(value.last())
}

/// RFC 9110, 8.6.
fn is_length(value: &[u8]) -> bool {
    (1..=MAX_LENGTH_DIGITS).contains(&value.len()) && value.iter().all(u8::is_ascii_digit)
}

/// Path and query as the URL standard of WHATWG writes them: whoever parses them again finds the same.
fn is_path(path: &[u8]) -> bool {
    let end = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
    let (path, query) = path.split_at(end);
    path.first() == Some(&b'/')
        && is_visible_without(path, b"\"#<>\\^`{}")
        && is_visible_without(query, b"\"#'<>")
        && !path.split(|byte| *byte == b'/').any(is_dots)
}

fn is_visible_without(text: &[u8], others: &[u8]) -> bool {
    let is_part = |byte: &u8| matches!(byte, b'!'..=b'~') && !others.contains(byte);
    text.iter().all(is_part)
}

/// Whether a segment means this or the one above it, which a parser of URLs resolves.
fn is_dots(segment: &[u8]) -> bool {
    let mut rest = segment;
    let mut dots = 0;
    while let [b'.', after @ ..] | [b'%', b'2', b'e' | b'E', after @ ..] = rest {
        rest = after;
        dots += 1;
    }
    rest.is_empty() && matches!(dots, 1 | 2)
}
