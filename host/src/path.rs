//! Paths of requests, as the URL standard of WHATWG writes them.

use http::uri::PathAndQuery;
use http::{Method, Uri};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::error::Error;

/// The path of an OPTIONS request that means the service as a whole (RFC 9110, section 7.1).
pub(crate) const ASTERISK: &str = "*";
/// The query percent-encode set of special schemes (URL standard, section 1.3).
const QUERY: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\'');
/// The path percent-encode set.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// Path and query of a URL as a browser sends them.
pub(crate) fn path_of(method: &Method, url: &Uri) -> Result<String, Error> {
    let written = url.path_and_query().map_or("/", PathAndQuery::as_str);
    if written == ASTERISK {
        return match *method {
            Method::OPTIONS => Ok(ASTERISK.into()),
            _ => Err(Error::Input(format!("{method} *: only OPTIONS has the path *"))),
        };
    }
    let (path, query) = match written.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (written, None),
    };
    let mut out = String::with_capacity(written.len());
    for segment in resolve(path) {
        out.push('/');
        out.extend(utf8_percent_encode(segment, PATH));
    }
    if let Some(query) = query {
        out.push('?');
        out.extend(utf8_percent_encode(query, QUERY));
    }
    Ok(out)
}

/// The segments of a path without those that mean this one or the one above; there is at least one.
fn resolve(path: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    let written = path.strip_prefix(['/', '\\']).unwrap_or(path);
    let mut parts = written.split(['/', '\\']).peekable();
    while let Some(part) = parts.next() {
        match dots(part) {
            None => {
                segments.push(part);
                continue;
            }
            Some(2) => _ = segments.pop(),
            Some(_) => {}
        }
        // The slash before the dots stays.
        if parts.peek().is_none() {
            segments.push("");
        }
    }
    segments
}

/// How many dots a segment consists of, one or two, each also written `%2e`.
fn dots(segment: &str) -> Option<u8> {
    let mut rest = segment;
    let mut dots = 0;
    while !rest.is_empty() {
        let encoded = rest.get(..3).filter(|dot| dot.eq_ignore_ascii_case("%2e"));
        rest = rest.strip_prefix(encoded.unwrap_or("."))?;
        dots += 1;
    }
    matches!(dots, 1 | 2).then_some(dots)
}
