//! Heads of requests and answers.

use selfsame_codec::cbor::Encoder;
use selfsame_codec::http::{Headers, MAX_HEADERS, RequestHead, ResponseHead};

use super::json::{Json, hex, number, text};

const METHODS: [(&str, &str); 13] = [
    ("no method", ""),
    ("too long a method", "MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM"),
    ("a method with a space", "GET /"),
    ("a method that is no token", "G\u{e9}T"),
    ("CONNECT", "CONNECT"),
    ("TRACE", "TRACE"),
    ("TRACK", "TRACK"),
    ("CONNECT in small letters", "connect"),
    ("TRACE in small letters", "trace"),
    ("TRACK with one capital", "Track"),
    ("GET in small letters", "get"),
    ("POST with one capital", "Post"),
    ("DELETE in small letters", "delete"),
];
const PATHS: [(&str, &str); 15] = [
    ("no path", ""),
    ("a path that does not begin with a slash", "x"),
    ("a query without a path", "?x"),
    ("an asterisk in a GET", "*"),
    ("a space in a path", "/a b"),
    ("a line break in a path", "/a\r\nb: c"),
    ("a control character in a path", "/\u{7f}"),
    ("a path outside ASCII", "/\u{e9}"),
    ("a fragment", "/a#b"),
    ("a backslash", "/a\\b"),
    ("a quote in a query", "/?'"),
    ("a segment of one dot", "/./a"),
    ("a segment of two dots", "/a/.."),
    ("a segment of two dots, one of them escaped", "/a/.%2E/b?c"),
    ("a URL", "https://other.mesh/"),
];
/// Malformed in requests and in answers.
const FIELDS: [(&str, &str, &[u8]); 25] = [
    ("no name", "", b"a"),
    ("a name with an upper-case letter", "X-a", b"a"),
    ("a name with a space", "x a", b"a"),
    ("a name with a colon", ":path", b"/"),
    ("a name outside ASCII", "\u{e9}", b"a"),
    ("a value with a line break", "a", b"a\r\nb: c"),
    ("a value with a line feed", "a", b"a\nb"),
    ("a value with a zero", "a", b"a\0"),
    ("a value with a control character", "a", b"a\x7fb"),
    ("a value that begins with a space", "a", b" a"),
    ("a value that ends with a tab", "a", b"a\t"),
    ("accept-encoding", "accept-encoding", b"gzip"),
    ("connection", "connection", b"close"),
    ("expect", "expect", b"100-continue"),
    ("host", "host", b"a.mesh"),
    ("keep-alive", "keep-alive", b"timeout=5"),
    ("proxy-authenticate", "proxy-authenticate", b"Basic"),
    ("proxy-authorization", "proxy-authorization", b"Basic YTpi"),
    ("proxy-connection", "proxy-connection", b"close"),
    ("te", "te", b"trailers"),
    ("trailer", "trailer", b"a"),
    ("transfer-encoding", "transfer-encoding", b"chunked"),
    ("a length with a sign", "content-length", b"+5"),
    ("a list of lengths", "content-length", b"5, 5"),
    ("an empty length", "content-length", b""),
];
/// Malformed in a GET.
const REQUEST_FIELDS: [(&str, &str, &[u8]); 3] = [
    ("another protocol", "upgrade", b"h2c"),
    ("a protocol in another case", "upgrade", b"WebSocket"),
    ("the length of a body that a GET has not", "content-length", b"5"),
];

pub(super) fn vectors() -> Json {
    let list = |names: &[(&str, &str)]| -> Headers {
        let bytes = |value: &str| value.chars().map(|c| u8::try_from(c).expect("a byte")).collect();
        let owned = names.iter().map(|(name, value)| ((*name).into(), bytes(value)));
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
            "PUT",
            "/a%20b/[c]|~?d={e}^`\\&f/../g?h",
            list(&[
                ("x-opaque", "caf\u{e9} \u{80}\u{ff}"),
                ("x-empty", ""),
                ("x-tab", "a\tb"),
                ("content-length", "0"),
            ]),
        ),
        ("OPTIONS", "*", list(&[])),
        (
            "x-method",
            "//a//",
            list(&[("content-length", "123456789012345")]),
        ),
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

/// Each character of a value is one byte.
fn headers(list: &Headers) -> Json {
    let pair = |(name, value): &(String, Vec<u8>)| {
        let characters: String = value.iter().copied().map(char::from).collect();
        Json::List(vec![text(name), text(&characters)])
    };
    Json::List(list.iter().map(pair).collect())
}

fn request((method, path, list): (&str, &str, Headers)) -> Json {
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
fn answer((status, list): (u16, Headers)) -> Json {
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
            e.array(2).text("a").bytes(b"b");
        }
    });
    let mut cases = vec![
        ("too many headers", many),
        (
            "bytes after the head",
            encoded(|e| _ = e.array(3).text("GET").text("/").array(0).null()),
        ),
        ("another shape", encoded(|e| _ = e.array(2).text("GET").text("/"))),
        ("nothing", Vec::new()),
        (
            "a value that is text",
            encoded(|e| {
                _ = e
                    .array(3)
                    .text("GET")
                    .text("/")
                    .array(1)
                    .array(2)
                    .text("a")
                    .text("b")
            }),
        ),
    ];
    let bare = |method: &str, path: &str| encoded(|e| _ = e.array(3).text(method).text(path).array(0));
    let targets = METHODS.iter().map(|(why, method)| (*why, bare(method, "/")));
    cases.extend(targets.chain(PATHS.iter().map(|(why, path)| (*why, bare("GET", path)))));
    let fields = FIELDS.iter().chain(&REQUEST_FIELDS);
    cases.extend(fields.map(|(why, name, value)| {
        let head = encoded(|e| {
            let e = e.array(3).text("GET").text("/").array(1).array(2);
            e.text(name).bytes(value);
        });
        (*why, head)
    }));
    cases.push((
        "two lengths",
        encoded(|e| {
            e.array(3).text("POST").text("/").array(2);
            for _ in 0..2 {
                e.array(2).text("content-length").bytes(b"3");
            }
        }),
    ));
    refused(cases, |bytes| RequestHead::decode(bytes).is_err())
}

fn refused_answers() -> Json {
    let with_length = |head: Vec<u8>| [&(head.len() as u32).to_le_bytes()[..], &head].concat();
    let mut cases = vec![
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
        (
            "a switch that names its protocol",
            with_length(encoded(|e| {
                let e = e.array(2).uint(101).array(1).array(2);
                e.text("upgrade").bytes(b"websocket");
            })),
        ),
        ("too long a head", 16_385_u32.to_le_bytes().to_vec()),
        (
            "bytes after the head",
            with_length(encoded(|e| _ = e.array(2).uint(200).array(0).null())),
        ),
    ];
    cases.extend(FIELDS.iter().map(|(why, name, value)| {
        let head = encoded(|e| _ = e.array(2).uint(200).array(1).array(2).text(name).bytes(value));
        (*why, with_length(head))
    }));
    refused(cases, |bytes| ResponseHead::decode(bytes).is_err())
}
