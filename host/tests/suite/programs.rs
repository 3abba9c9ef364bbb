//! What programs write to the sidecar by hand, and what becomes of it.

use core::convert::Infallible;
use core::future::pending;
use core::net::SocketAddr;

use alloc::sync::Arc;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use selfsame_host::{Body, BoxError, Node};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Notify, mpsc};

use crate::common::nodes::says;
use crate::common::raw::Raw;
use crate::common::sidecar::beside;
use crate::common::within;

/// Serves a name with a handler that tells of each request.
async fn describing(node: &Node) {
    let describe = tower::service_fn(async |request: Request<Body>| {
        let mut names: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
        names.sort_unstable();
        let said = format!("{} {} {}", request.method(), request.uri(), names.join(" "));
        Ok::<_, Infallible>(Response::new(Body::from(said)))
    });
    within(node.serve("echo", describe)).await.expect("a service");
}

/// The whole answer to one request, after which the program ends its direction.
async fn answer(proxy: SocketAddr, request: &str) -> String {
    let mut program = Raw::connect(proxy).await;
    program.send(request.as_bytes()).await;
    within(program.0.shutdown()).await.expect("an end");
    String::from_utf8(program.rest().await).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_are_read_as_the_url_standard_reads_them() {
    let (node, sidecar) = beside(&[]).await;
    describing(&node).await;
    for (line, said) in [
        ("GET http://echo.mesh?x=1", "GET https://echo.mesh/?x=1"),
        ("GET http://ECHO.mesh/", "GET https://echo.mesh/"),
        ("GET http://echo.mesh./", "GET https://echo.mesh/"),
        ("GET http://echo.mesh/a/../b", "GET https://echo.mesh/b"),
        ("GET http://echo.mesh/a/%2e%2E/b/.", "GET https://echo.mesh/b/"),
        (
            "GET http://echo.mesh//admin.mesh/x",
            "GET https://echo.mesh//admin.mesh/x",
        ),
        (
            "GET http://echo.mesh/a\\..\\b?c\\d",
            "GET https://echo.mesh/b?c\\d",
        ),
        (
            "GET http://echo.mesh/{a}?{b}",
            "GET https://echo.mesh/%7Ba%7D?{b}",
        ),
        ("GET http://echo.mesh/\u{e9}", "GET https://echo.mesh/%C3%A9"),
        ("OPTIONS *", "OPTIONS *"),
        ("patch http://echo.mesh/", "patch https://echo.mesh/"),
    ] {
        let request = format!("{line} HTTP/1.1\r\nhost: echo.mesh\r\n\r\n");
        let answer = answer(sidecar.address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{line}: {answer}");
        assert!(answer.contains(&format!("\r\n\r\n{said} ")), "{line}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cannot_be_passed_on_are_refused_by_name() {
    let (node, sidecar) = beside(&[]).await;
    describing(&node).await;
    let long = "x".repeat(300);
    for (line, fields, status, hint) in [
        (
            "POST http://echo.mesh/",
            "transfer-encoding: gzip, chunked",
            501,
            "transfer-encoding",
        ),
        ("POST http://echo.mesh/", "content-length: +0", 400, ""),
        ("POST http://echo.mesh/", "content-length: 0, 0", 400, ""),
        (
            "POST http://echo.mesh/",
            "content-length: 0\r\ncontent-length: 1",
            400,
            "",
        ),
        (
            "GET http://echo.mesh/",
            "transfer-encoding: chunked",
            400,
            "has no body",
        ),
        ("TRACE http://echo.mesh/", "x: y", 400, "TRACE"),
        ("TRACK http://echo.mesh/", "x: y", 400, "TRACK"),
        ("GET *", "x: y", 400, "OPTIONS"),
        ("GET http://echo.mesh/", &format!("{long}: y"), 400, "xxxxx"),
    ] {
        let request = format!("{line} HTTP/1.1\r\nhost: echo.mesh\r\n{fields}\r\n\r\n0\r\n\r\n");
        let answer = answer(sidecar.address, &request).await;
        let begins = format!("HTTP/1.1 {status} ");
        assert!(
            answer.starts_with(&begins) && answer.contains(hint),
            "{line} {fields}: {answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_means_one_hop_does_not_travel() {
    let (node, sidecar) = beside(&[]).await;
    describing(&node).await;
    let fields = [
        "connection: x-hop, close",
        "x-hop: 1",
        "proxy-authorization: Basic YTpi",
        "proxy-connection: keep-alive",
        "te: trailers",
        "trailer: x",
        "accept-encoding: gzip",
        "x-kept: \t padded \t ",
    ];
    let request = format!(
        "GET http://echo.mesh/ HTTP/1.1\r\nhost: x\r\n{}\r\n\r\n",
        fields.join("\r\n")
    );
    let answer = answer(sidecar.address, &request).await;
    assert!(answer.ends_with("GET https://echo.mesh/ via x-kept"), "{answer}");
}

/// A service that sends the head of its answer and one event when it is told to, and then nothing; and what tells when
/// a request of it has begun and when it is given up.
async fn idling(node: &Node) -> (Arc<Notify>, mpsc::UnboundedReceiver<&'static str>) {
    struct GivenUp(mpsc::UnboundedSender<&'static str>);
    impl Drop for GivenUp {
        fn drop(&mut self) {
            _ = self.0.send("given up");
        }
    }
    let (tell, told) = mpsc::unbounded_channel();
    let begin = Arc::new(Notify::new());
    let begins = Arc::clone(&begin);
    let idles = tower::service_fn(move |_: Request<Body>| {
        let begins = Arc::clone(&begins);
        let tell = tell.clone();
        async move {
            let given_up = GivenUp(tell.clone());
            _ = tell.send("began");
            begins.notified().await;
            let event =
                futures_util::stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from("data: 1\n\n")))]);
            let nothing = futures_util::stream::once(async move {
                let _given_up = given_up;
                pending().await
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(futures_util::StreamExt::chain(
                event, nothing,
            ))))
        }
    });
    within(node.serve("idle", idles)).await.expect("a service");
    (begin, told)
}

/// A request whose call does not end by itself.
const ENDLESS: &[u8] = b"GET http://idle.mesh/ HTTP/1.1\r\nhost: x\r\nselfsame-timeout: 1h\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_its_direction_is_answered() {
    let (node, sidecar) = beside(&[]).await;
    let (begin, mut told) = idling(&node).await;
    let mut program = Raw::connect(sidecar.address).await;
    program.send(ENDLESS).await;
    within(program.0.shutdown()).await.expect("an end");
    assert_eq!(within(told.recv()).await, Some("began"));
    begin.notify_one();
    assert!(program.text_head().await.starts_with("HTTP/1.1 200"));
    let mut event = Vec::new();
    while !event.ends_with(b"data: 1\n\n") {
        event.extend(program.bytes(1).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_whose_body_does_not_come_is_told_at_its_deadline() {
    let (node, sidecar) = beside(&[]).await;
    describing(&node).await;
    let mut program = Raw::connect(sidecar.address).await;
    let head = b"POST http://echo.mesh/ HTTP/1.1\r\nhost: x\r\nselfsame-timeout: 300ms\r\ncontent-length: 10\r\n\r\nab";
    program.send(head).await;
    assert!(program.text_head().await.starts_with("HTTP/1.1 504"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_gone_ends_its_call() {
    let (node, sidecar) = beside(&[]).await;
    let (begin, mut told) = idling(&node).await;

    // It breaks the connection before there is an answer.
    let mut program = Raw::connect(sidecar.address).await;
    program.send(ENDLESS).await;
    assert_eq!(within(told.recv()).await, Some("began"));
    program.reset();
    assert_eq!(within(told.recv()).await, Some("given up"));

    // It closes the connection, which is noticed with the answer.
    let mut program = Raw::connect(sidecar.address).await;
    program.send(ENDLESS).await;
    assert_eq!(within(told.recv()).await, Some("began"));
    drop(program);
    begin.notify_one();
    assert_eq!(within(told.recv()).await, Some("given up"));

    // It closes the connection while an answer pauses.
    let mut program = Raw::connect(sidecar.address).await;
    program.send(ENDLESS).await;
    assert_eq!(within(told.recv()).await, Some("began"));
    begin.notify_one();
    program.head().await;
    program.bytes("9\r\ndata: 1\n\n\r\n".len()).await;
    drop(program);
    assert_eq!(within(told.recv()).await, Some("given up"));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_is_told_to_end_finishes_what_is_under_way() {
    let (node, mut sidecar) = beside(&[]).await;
    let (begin, mut told) = idling(&node).await;
    within(node.serve("quick", says("quick")))
        .await
        .expect("a service");
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let slow = tower::service_fn(move |_: Request<Body>| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            Ok::<_, Infallible>(Response::new(Body::from("finished")))
        }
    });
    within(node.serve("slow", slow)).await.expect("a service");
    let mut finishes = Raw::connect(sidecar.address).await;
    finishes
        .send(b"GET http://slow.mesh/ HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let mut hangs = Raw::connect(sidecar.address).await;
    hangs.send(ENDLESS).await;
    assert_eq!(within(told.recv()).await, Some("began"));
    // Kept open, with nothing under way: it ends at once.
    let mut idle = Raw::connect(sidecar.address).await;
    idle.send(b"GET http://quick.mesh/ HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    idle.head().await;
    idle.bytes("quick".len()).await;

    sidecar.signal("-TERM");
    assert_eq!(idle.rest().await, b"");
    go.notify_one();
    let answer = String::from_utf8(finishes.rest().await).expect("text");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("finished"),
        "{answer}"
    );
    let answer = String::from_utf8(hangs.rest().await).expect("text");
    assert!(
        answer.starts_with("HTTP/1.1 502") && answer.contains("--drain"),
        "{answer}"
    );
    assert_eq!(within(told.recv()).await, Some("given up"));
    drop(begin);
    let left = tokio::task::spawn_blocking(move || sidecar.told("left"));
    within(left).await.expect("it leaves");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_is_told_twice_ends_at_once() {
    let (node, mut sidecar) = beside(&[]).await;
    let (_begin, mut told) = idling(&node).await;
    let mut hangs = Raw::connect(sidecar.address).await;
    hangs.send(ENDLESS).await;
    assert_eq!(within(told.recv()).await, Some("began"));
    let mut idle = Raw::connect(sidecar.address).await;
    sidecar.signal("-TERM");
    // That it drains shows in that it ends this connection.
    assert_eq!(idle.rest().await, b"");
    sidecar.signal("-TERM");
    let stopped = tokio::task::spawn_blocking(move || sidecar.told("stopped"));
    within(stopped).await.expect("it stops");
    assert_eq!(hangs.rest().await, b"");
}
