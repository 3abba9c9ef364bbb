//! What a server of this machine gets of the requests to its service, and what becomes of its answers.

use core::net::SocketAddr;

use alloc::sync::Arc;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use selfsame_codec::http::MAX_HEADERS;
use selfsame_host::{Body, BoxError, Code, Node};
use tokio::sync::{Notify, mpsc};

use crate::common::raw::{Raw, server, values};
use crate::common::sidecar::{Sidecar, beside};
use crate::common::{get, text, within};

/// A server that tells the head of each request, and answers it with bytes.
async fn telling(answer: &'static [u8]) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (told, heads) = mpsc::unbounded_channel();
    let address = server(move |mut connection: Raw| {
        let told = told.clone();
        async move {
            loop {
                let head = connection.text_head().await;
                if head.is_empty() {
                    return;
                }
                let length = values(&head, "content-length").first().copied().unwrap_or("0");
                connection.bytes(length.parse().expect("a length")).await;
                _ = told.send(head);
                connection.send(answer).await;
            }
        }
    })
    .await;
    (address, heads)
}

/// A node, and a sidecar beside it that exposes this server as the service `server`.
async fn exposing(address: SocketAddr) -> (Node, Sidecar) {
    beside(&[format!("server=http://{address}")]).await
}

fn request(method: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::builder().method(method).uri("https://server.mesh/");
    request.body(body.into()).expect("a request")
}

/// A body of unknown length.
fn streamed(pieces: Vec<&'static str>) -> impl http_body::Body<Data = Bytes, Error = BoxError> + Send {
    let frames = pieces
        .into_iter()
        .map(|piece| Ok(Frame::data(Bytes::from(piece))));
    StreamBody::new(futures_util::stream::iter(frames))
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_whose_caller_left_releases_its_server() {
    let left = Arc::new(Notify::new());
    let tell = Arc::clone(&left);
    let address = server(move |mut connection: Raw| {
        let tell = Arc::clone(&tell);
        async move {
            connection.head().await;
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n";
            connection.send(head).await;
            // Nothing is sent any more: only the end of the connection can be noticed.
            connection.rest().await;
            tell.notify_one();
        }
    })
    .await;
    let (node, _sidecar) = exposing(address).await;
    let response = within(node.fetch(get("https://server.mesh/")))
        .await
        .expect("an answer");
    let mut body = response.into_body();
    within(body.frame()).await.expect("an event").expect("a frame");
    drop(body);
    within(left.notified()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_is_known_is_told_to_the_server() {
    let (address, mut heads) = telling(OK).await;
    let (node, _sidecar) = exposing(address).await;
    for (request, length) in [
        (request("POST", "hello"), Some("5")),
        (request("PUT", "hello"), Some("5")),
        (request("POST", ""), Some("0")),
        (request("PUT", ""), Some("0")),
        (request("PATCH", "x"), Some("1")),
        (request("DELETE", "x"), Some("1")),
        (request("DELETE", ""), None),
        (request("GET", ""), None),
    ] {
        let what = format!("{} {length:?}", request.method());
        within(node.fetch(request)).await.expect("an answer");
        let head = within(heads.recv()).await.expect("a request");
        assert_eq!(
            values(&head, "content-length"),
            Vec::from_iter(length),
            "{what}: {head}"
        );
        assert_eq!(values(&head, "transfer-encoding"), [""; 0], "{what}: {head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_unknown_length_is_passed_on_in_chunks_whatever_the_method() {
    let (told, mut requests) = mpsc::unbounded_channel();
    let address = server(move |mut connection: Raw| {
        let told = told.clone();
        async move {
            let head = connection.text_head().await;
            let mut body = Vec::new();
            if !values(&head, "transfer-encoding").is_empty() {
                while !body.ends_with(b"0\r\n\r\n") {
                    body.extend(connection.bytes(1).await);
                }
            }
            _ = told.send((head, String::from_utf8(body).expect("text")));
            connection
                .send(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
    })
    .await;
    let (node, _sidecar) = exposing(address).await;
    for method in ["DELETE", "OPTIONS", "POST", "PURGE"] {
        for (pieces, body) in [(vec!["abc", "de"], Some("abcde")), (vec![], None)] {
            let request = Request::builder().method(method).uri("https://server.mesh/");
            let request = request.body(streamed(pieces)).expect("a request");
            within(node.fetch(request)).await.expect("an answer");
            let (head, got) = within(requests.recv()).await.expect("a request");
            let what = format!("{method}: {head}{got}");
            // A POST has a body, if an empty one: the server cannot be kept waiting for whether there is more.
            let body = body.or_else(|| (method == "POST").then_some(""));
            assert_eq!(unchunked(&got), body.unwrap_or_default(), "{what}");
            let coding = Vec::from_iter(body.map(|_| "chunked"));
            assert_eq!(values(&head, "transfer-encoding"), coding, "{what}");
        }
    }
}

/// The bytes of a body in chunks, however they were cut (RFC 9112, section 7.1).
fn unchunked(mut body: &str) -> String {
    let mut bytes = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length");
        let (chunk, rest) = rest.split_at(length);
        bytes.push_str(chunk);
        body = rest.strip_prefix("\r\n").expect("the end of a chunk");
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn no_caller_sets_what_a_wsgi_server_takes_for_ours() {
    /// The variables that PEP 3333 makes of a request's fields.
    fn variables(head: &str) -> Vec<(String, String)> {
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields
            .map(|(name, value)| {
                let name = name.to_ascii_uppercase().replace('-', "_");
                (format!("HTTP_{name}"), value.to_owned())
            })
            .collect()
    }
    let (address, mut heads) = telling(OK).await;
    let (node, sidecar) = exposing(address).await;
    let forged = [
        "selfsame_caller",
        "SELFSAME_SERVICE",
        "selfsame-caller",
        "Selfsame_Trusted",
        "content_length",
        "transfer_encoding",
        "proxy_authorization",
        "x_kept",
    ];
    let mut request = get("https://server.mesh/");
    for name in forged {
        let name: http::HeaderName = name.parse().expect("a name");
        request
            .headers_mut()
            .append(name, "forged".parse().expect("a value"));
    }
    within(node.fetch(request)).await.expect("an answer");
    let mut program = Raw::connect(sidecar.address).await;
    let forged =
        "selfsame_caller: forged\r\nSELFSAME_service: forged\r\nx_kept: forged\r\nContent_Length: forged";
    let get = format!("GET http://server.mesh/ HTTP/1.1\r\nhost: server.mesh\r\n{forged}\r\n\r\n");
    program.send(get.as_bytes()).await;
    program.text_head().await;
    for caller in [node.id().to_string(), sidecar.id.clone()] {
        let head = within(heads.recv()).await.expect("a request");
        let told = variables(&head);
        let is_forged = |(_, value): &&(String, String)| value == "forged";
        let forged: Vec<_> = told
            .iter()
            .filter(is_forged)
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(forged, ["HTTP_X_KEPT"], "{head}");
        assert!(told.contains(&("HTTP_SELFSAME_CALLER".into(), caller)), "{head}");
        assert!(
            told.contains(&("HTTP_SELFSAME_SERVICE".into(), "server".into())),
            "{head}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_can_be_read_in_two_ways_is_502() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok!",
    ] {
        let (address, _heads) = telling(answer).await;
        let (node, _sidecar) = exposing(address).await;
        let response = within(node.fetch(request("POST", "x"))).await.expect("an answer");
        let what = String::from_utf8_lossy(answer);
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_as_many_headers_as_a_head_may() {
    for (count, status) in [
        (MAX_HEADERS - 1, StatusCode::OK),
        (MAX_HEADERS, StatusCode::INTERNAL_SERVER_ERROR),
    ] {
        let cookies = "set-cookie: a=1\r\n".repeat(count);
        let answer = format!("HTTP/1.1 200 OK\r\n{cookies}content-length: 2\r\n\r\nok");
        let (address, _heads) = telling(answer.leak().as_bytes()).await;
        let (node, _sidecar) = exposing(address).await;
        let response = within(node.fetch(get("https://server.mesh/")))
            .await
            .expect("an answer");
        assert_eq!(response.status(), status, "{count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_shorter_than_its_length_is_broken() {
    let address = server(|mut connection: Raw| async move {
        connection.head().await;
        connection
            .send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort")
            .await;
    })
    .await;
    let (node, _sidecar) = exposing(address).await;
    let error = match within(node.fetch(get("https://server.mesh/"))).await {
        Ok(response) => within(response.into_body().collect())
            .await
            .expect_err("a broken body"),
        // The reset may overtake the head.
        Err(error) => error,
    };
    assert_eq!(
        error.code().map(Code::class),
        Some(Code::HandlerFailed.class()),
        "{error}"
    );
}

/// What a server answers that does not read the body, and how often it is asked.
const REFUSED: &[u8] = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 7\r\n\r\nrefused";
const TIMES: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_arrives_although_its_server_resets_the_connection() {
    let address = server(|mut connection: Raw| async move {
        connection.head().await;
        connection.send(REFUSED).await;
        connection.reset();
    })
    .await;
    let (node, _sidecar) = exposing(address).await;
    for number in 0..TIMES {
        // Some of the bodies are more than a socket holds.
        let body = Body::from(vec![b'x'; [0, 1000, 100_000, 2_000_000][number % 4]]);
        let response = within(node.fetch(request("POST", body)))
            .await
            .expect("an answer");
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE, "{number}");
        assert_eq!(text(response).await, "refused", "{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_its_server_closes_is_not_used_again() {
    let address = server(|mut connection: Raw| async move {
        connection.head().await;
        // Nothing says that no other request is taken on this connection.
        connection.send(OK).await;
    })
    .await;
    let (node, _sidecar) = exposing(address).await;
    for number in 0..TIMES {
        let method = ["GET", "POST", "PUT", "PATCH", "DELETE"][number % 5];
        let response = within(node.fetch(request(method, ""))).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK, "{method} {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_the_server_as_a_whole_reach_it() {
    let (address, mut heads) = telling(OK).await;
    let (node, sidecar) = exposing(address).await;
    let url = http::Uri::builder()
        .scheme("https")
        .authority("server.mesh")
        .path_and_query("*");
    let mut request = request("OPTIONS", "");
    *request.uri_mut() = url.build().expect("a URL");
    within(node.fetch(request)).await.expect("an answer");
    let mut program = Raw::connect(sidecar.address).await;
    program
        .send(b"OPTIONS * HTTP/1.1\r\nhost: SERVER.mesh\r\n\r\n")
        .await;
    assert!(program.text_head().await.starts_with("HTTP/1.1 200"));
    for _ in 0..2 {
        let head = within(heads.recv()).await.expect("a request");
        assert!(head.starts_with("OPTIONS * HTTP/1.1\r\n"), "{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_bytes_both_ways() {
    let told = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let answer = b"HTTP/1.1 200 OK\r\nx-answer: caf\xe9 \xc3\xa9\xff\r\ncontent-length: 0\r\n\r\n";
    let address = server(move |mut connection: Raw| {
        let tell = Arc::clone(&tell);
        async move {
            *tell.lock().await = connection.head().await;
            connection.send(answer).await;
        }
    })
    .await;
    let (node, sidecar) = exposing(address).await;
    let bytes = b"caf\xe9 \xc3\xa9\xff";
    let holds = |head: &[u8], field: &[u8]| head.windows(field.len()).any(|part| part == field);
    let asked = [&b"x-asked: "[..], bytes, b"\r\n"].concat();

    let mut request = get("https://server.mesh/");
    let value = http::HeaderValue::from_bytes(bytes).expect("a value");
    request.headers_mut().insert("x-asked", value);
    let response = within(node.fetch(request)).await.expect("an answer");
    assert_eq!(response.headers()["x-answer"].as_bytes(), bytes);
    assert!(holds(&told.lock().await, &asked));

    let mut program = Raw::connect(sidecar.address).await;
    program
        .send(
            &[
                &b"GET http://server.mesh/ HTTP/1.1\r\nhost: server.mesh\r\n"[..],
                &asked,
                b"\r\n",
            ]
            .concat(),
        )
        .await;
    let head = program.head().await;
    assert!(holds(&head, &[&b"x-answer: "[..], bytes, b"\r\n"].concat()));
    assert!(holds(&told.lock().await, &asked));
}
