//! Heads of requests and answers.

use selfsame_codec::cbor::Encoder;
use selfsame_codec::http::{MAX_HEADERS, RequestHead, ResponseHead};

use super::json::{Json, hex, number, text};

pub(super) fn vectors() -> Json {
    let list = |names: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = names
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        owned.collect()
    };
    let requests = [
        ("GET", "/", list(&[])),
        (
            "POST",
            "/login?next=%2F",
            list(&[("content-type", "application/json"), ("accept", "*/*")]),
        ),
        ("GET", "/x", list(&[("cookie", "a=1"), ("cookie", "b=2")])),
        (
            "GET",
            "/chat",
            list(&[
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ]),
        ),
    ];
    let answers = [
        (200, list(&[("content-type", "text/plain")])),
        (204, list(&[])),
        (
            101,
            list(&[("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")]),
        ),
        (599, list(&[("set-cookie", "a=1"), ("set-cookie", "b=2")])),
    ];
    Json::Object(vec![
        (
            "requests",
            Json::List(requests.into_iter().map(request).collect()),
        ),
        ("answers", Json::List(answers.into_iter().map(answer).collect())),
        ("refused_requests", refused_requests()),
        ("refused_answers", refused_answers()),
    ])
}

fn headers(list: &[(String, String)]) -> Json {
    let pair = |(name, value): &(String, String)| Json::List(vec![text(name), text(value)]);
    Json::List(list.iter().map(pair).collect())
}

fn request((method, path, list): (&str, &str, Vec<(String, String)>)) -> Json {
    let head = RequestHead {
        method: method.into(),
        path: path.into(),
        headers: list,
    };
    let encoded = head.encode();
    assert_eq!(RequestHead::decode(&encoded).as_ref(), Ok(&head));
    Json::Object(vec![
        ("method", text(method)),
        ("path", text(path)),
        ("headers", headers(&head.headers)),
        ("encoded", hex(&encoded)),
    ])
}

/// The encoding has the length before the head.
fn answer((status, list): (u16, Vec<(String, String)>)) -> Json {
    let head = ResponseHead {
        status,
        headers: list,
    };
    let encoded = head.encode();
    Json::Object(vec![
        ("status", number(status)),
        ("headers", headers(&head.headers)),
        ("encoded", hex(&encoded)),
    ])
}

fn refused(cases: Vec<(&str, Vec<u8>)>, is_refused: impl Fn(&[u8]) -> bool) -> Json {
    let list = cases.into_iter().map(|(why, bytes)| {
        assert!(is_refused(&bytes), "{why}");
        Json::Object(vec![("why", text(why)), ("encoded", hex(&bytes))])
    });
    Json::List(list.collect())
}

fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Encoder::new(&mut out));
    out
}

fn refused_requests() -> Json {
    let many = encoded(|e| {
        e.array(3).text("GET").text("/").array(MAX_HEADERS + 1);
        for _ in 0..=MAX_HEADERS {
            e.array(2).text("a").text("b");
        }
    });
    let cases = vec![
        (
            "a path that does not begin with a slash",
            encoded(|e| _ = e.array(3).text("GET").text("x").array(0)),
        ),
        ("too many headers", many),
        (
            "too long a method",
            encoded(|e| _ = e.array(3).text(&"M".repeat(33)).text("/").array(0)),
        ),
        (
            "bytes after the head",
            encoded(|e| _ = e.array(3).text("GET").text("/").array(0).null()),
        ),
        ("another shape", encoded(|e| _ = e.array(2).text("GET").text("/"))),
        ("nothing", Vec::new()),
    ];
    refused(cases, |bytes| RequestHead::decode(bytes).is_err())
}

fn refused_answers() -> Json {
    let with_length = |head: Vec<u8>| [&(head.len() as u32).to_le_bytes()[..], &head].concat();
    let cases = vec![
        (
            "an informational status",
            with_length(encoded(|e| _ = e.array(2).uint(100).array(0))),
        ),
        (
            "another informational status",
            with_length(encoded(|e| _ = e.array(2).uint(103).array(0))),
        ),
        (
            "a status that is none",
            with_length(encoded(|e| _ = e.array(2).uint(600).array(0))),
        ),
        ("too long a head", 16_385_u32.to_le_bytes().to_vec()),
        (
            "bytes after the head",
            with_length(encoded(|e| _ = e.array(2).uint(200).array(0).null())),
        ),
    ];
    refused(cases, |bytes| ResponseHead::decode(bytes).is_err())
}
