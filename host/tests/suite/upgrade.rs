//! Connections through the mesh: requests that ask for a WebSocket, and what becomes of them.

use core::convert::Infallible;

use axum::Router;
use axum::extract::ws::{Message as Reply, WebSocketUpgrade};
use axum::routing::get as on_get;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use selfsame_host::{Body, Caller, Node, ServeOptions, Upgraded};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Message, handshake::derive_accept_key};

use crate::common::nodes::{ring, says};
use crate::common::{get, text, within};

/// A request as clients of WebSocket make it.
fn asking(url: &str) -> Request<Body> {
    url.into_client_request()
        .expect("a request")
        .map(|()| Body::empty())
}

async fn connect(node: &Node, url: &str) -> Upgraded {
    let response = within(node.fetch(asking(url))).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    response.into_body().into_upgraded().expect("a connection")
}

/// A service that takes connections, of whatever protocol, and answers each byte with its successor until the end.
fn successors() -> impl tower::Service<
    Request<Body>,
    Response = Response<Body>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Body>, Infallible>> + Send,
> + Clone
+ Send
+ 'static {
    tower::service_fn(async |mut request: Request<Body>| {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut connection = TokioIo::new(upgrade.await.expect("a connection"));
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = connection.read(&mut bytes).await {
                let answer: Vec<u8> = bytes[..len].iter().map(|byte| byte.wrapping_add(1)).collect();
                connection.write_all(&answer).await.expect("a caller that reads");
            }
            connection.write_all(b"end").await.expect("a caller that reads");
        });
        let response = Response::builder()
            .status(101)
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("x-kept", "yes")
            .body(Body::empty());
        Ok(response.expect("a response"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_pass_both_ways_and_either_side_ends() {
    let nodes = ring(2).await;
    let (closed, mut was_closed) = mpsc::channel(1);
    let application = Router::new().route(
        "/chat/{who}",
        on_get(async move |upgrade: WebSocketUpgrade| {
            upgrade.on_upgrade(async move |mut socket| {
                while let Some(Ok(message)) = socket.recv().await {
                    if message.to_text().is_ok_and(|text| text == "bye") {
                        return drop(socket.send(Reply::Close(None)).await);
                    }
                    if !matches!(message, Reply::Close(_)) {
                        socket.send(message).await.expect("a caller");
                    }
                }
                closed.send(()).await.expect("the test waits");
            })
        }),
    );
    within(nodes[0].serve("chat", application))
        .await
        .expect("a service");
    for node in &nodes {
        let request = asking("wss://chat.mesh/chat/ada");
        let key = request.headers()["sec-websocket-key"].clone();
        let response = within(node.fetch(request)).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(response.headers()["upgrade"], "websocket");
        assert_eq!(response.headers()["connection"], "upgrade");
        assert_eq!(
            response.headers()["sec-websocket-accept"],
            derive_accept_key(key.as_bytes())
        );
        let connection = response.into_body().into_upgraded().expect("a connection");
        let mut socket = WebSocketStream::from_raw_socket(connection, Role::Client, None).await;
        for text in ["a", &"large".repeat(100_000)] {
            within(socket.send(Message::text(text))).await.expect("a service");
            let answer = within(socket.next()).await.expect("more").expect("a message");
            assert_eq!(answer.to_text().expect("text"), text);
        }
        within(socket.send(Message::text("bye")))
            .await
            .expect("a service");
        let last = within(socket.next()).await.expect("more").expect("a message");
        assert!(last.is_close());
        while within(socket.next()).await.is_some() {}
    }
    let connection = connect(&nodes[1], "wss://chat.mesh/chat/eve").await;
    let mut socket = WebSocketStream::from_raw_socket(connection, Role::Client, None).await;
    within(socket.close(None)).await.expect("an end");
    while within(socket.next()).await.is_some() {}
    within(was_closed.recv()).await.expect("the service was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_pass_untouched_and_each_way_ends_by_itself() {
    let nodes = ring(2).await;
    within(nodes[0].serve("next", successors()))
        .await
        .expect("a service");
    let (mut reader, mut writer) = tokio::io::split(connect(&nodes[1], "wss://next.mesh/").await);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let expected: Vec<u8> = sent
        .iter()
        .map(|byte| byte.wrapping_add(1))
        .chain(*b"end")
        .collect();
    let sending = tokio::spawn(async move {
        writer.write_all(&sent).await.expect("a service that reads");
        writer.shutdown().await.expect("an end");
    });
    let mut received = Vec::new();
    within(reader.read_to_end(&mut received)).await.expect("an end");
    assert!(received == expected, "{} bytes", received.len());
    within(sending).await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_dropped_ends_at_the_other_side() {
    let nodes = ring(2).await;
    let (read, mut was_read) = mpsc::channel(1);
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let read = read.clone();
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut connection = TokioIo::new(upgrade.await.expect("a connection"));
            let mut byte = [0];
            connection.write_all(b"hello").await.expect("a caller");
            let ended = matches!(connection.read(&mut byte).await, Ok(0) | Err(_));
            read.send(ended).await.expect("the test waits");
        });
        let response = Response::builder().status(101).header("upgrade", "websocket");
        let response = response.header("connection", "upgrade").body(Body::empty());
        async move { response }
    });
    within(nodes[0].serve("reads", service)).await.expect("a service");
    let mut hello = [0; 5];
    let mut connection = connect(&nodes[1], "wss://reads.mesh/").await;
    within(connection.read_exact(&mut hello)).await.expect("bytes");
    drop(connection);
    assert_eq!(within(was_read.recv()).await, Some(true));
    let mut connection = connect(&nodes[1], "wss://reads.mesh/").await;
    within(connection.read_exact(&mut hello)).await.expect("bytes");
    within(nodes[0].clone().stop()).await;
    let mut rest = Vec::new();
    // The caller's node finds out that the other one is gone.
    _ = within(connection.read_to_end(&mut rest)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_knows_no_websocket_answers_as_ever() {
    let nodes = ring(2).await;
    within(nodes[0].serve("hello", says("hello")))
        .await
        .expect("a service");
    let response = within(nodes[1].fetch(asking("wss://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(text(response).await, "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_allowed_gets_no_connection() {
    let nodes = ring(2).await;
    let nobody = ServeOptions::new().allow([]);
    within(nodes[0].serve_with("next", &nobody, successors()))
        .await
        .expect("a service");
    let response = within(nodes[1].fetch(asking("wss://next.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert!(response.into_body().into_upgraded().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_upgrades_do_not_travel() {
    let nodes = ring(2).await;
    let describe = tower::service_fn(async |request: Request<Body>| {
        let upgrade = request.headers().get("upgrade").cloned();
        let caller = request.extensions().get::<Caller>().is_some();
        Ok::<_, Infallible>(Response::new(Body::from(format!("{upgrade:?} {caller}"))))
    });
    within(nodes[0].serve("describe", describe))
        .await
        .expect("a service");
    let with = |method: &str, protocol: &str| {
        Request::builder()
            .method(method)
            .uri("https://describe.mesh/")
            .header("connection", "upgrade")
            .header("upgrade", protocol)
            .body(Body::empty())
            .expect("a request")
    };
    for (request, expected) in [
        (with("GET", "h2c"), "None true"),
        (with("POST", "websocket"), "None true"),
        (with("GET", "WebSocket"), "Some(\"websocket\") true"),
        (get("https://describe.mesh/"), "None true"),
    ] {
        let response = within(nodes[1].fetch(request)).await.expect("an answer");
        assert_eq!(text(response).await, expected);
    }
}
