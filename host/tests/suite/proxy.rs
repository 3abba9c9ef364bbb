//! The sidecar: what programs that know nothing of the mesh see of it.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::future::pending;
use core::net::SocketAddr;
use std::process::Output;

use axum::Router;
use axum::body::Body as ServerBody;
use axum::extract::ws::{Message as Reply, WebSocketUpgrade};
use axum::extract::{Request as ServerRequest, State};
use axum::routing::{any, get as on_get};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use selfsame_host::{Body, BoxError, ServeOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::common::command;
use crate::common::nodes::says;
use crate::common::sidecar::{beside, json, read, send};
use crate::common::{text, within};

const EMPTY: &[u8] = b"";

/// A request to a URL as programs write it to their proxy.
fn to(url: &str) -> Request<&'static [u8]> {
    Request::get(url)
        .header("host", "ignored.example")
        .body(EMPTY)
        .expect("a request")
}

/// A request with a path alone, which names its host in a field.
fn at(host: &str, path: &str) -> Request<&'static [u8]> {
    Request::get(path)
        .header("host", host)
        .body(EMPTY)
        .expect("a request")
}

/// A server of this machine that knows nothing of the mesh.
async fn server(application: Router) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("its address");
    tokio::spawn(async move { axum::serve(socket, application).await });
    address
}

/// Says what it was asked, and sends the body back.
async fn describe(request: ServerRequest) -> axum::response::Response {
    let (head, body) = request.into_parts();
    let mut response = Response::builder().header("x-asked", format!("{} {}", head.method, head.uri));
    for (name, value) in &head.headers {
        response = response.header(format!("x-got-{name}"), value);
    }
    response.body(body).expect("a response")
}

fn problem_is(headers: &HeaderMap, error: &str) {
    assert_eq!(headers["content-type"], "application/problem+json");
    let status = headers["proxy-status"].to_str().expect("text");
    assert!(
        status.starts_with("selfsame-") && status.ends_with(error),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_reached_by_url_by_host_and_through_a_tunnel() {
    let (node, sidecar) = beside(&[]).await;
    let path = tower::service_fn(async |request: Request<Body>| {
        let text = format!("{} {}", request.method(), request.uri());
        Ok::<_, Infallible>(Response::new(Body::from(text)))
    });
    within(node.serve("check", path)).await.expect("a service");
    for request in [
        to("http://check.mesh/a?b=c"),
        to("http://CHECK.mesh:80/a?b=c"),
        at("check.mesh", "/a?b=c"),
    ] {
        let response = sidecar.ask(request).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(
            response.headers()["via"]
                .to_str()
                .expect("text")
                .starts_with("1.1 selfsame-")
        );
        assert_eq!(read(response).await, "GET https://check.mesh/a?b=c");
    }
    let mut tunnel = Request::new(EMPTY);
    *tunnel.method_mut() = Method::CONNECT;
    *tunnel.uri_mut() = Uri::from_static("check.mesh:80");
    let response = sidecar.ask(tunnel).await;
    assert_eq!(response.status(), StatusCode::OK);
    let tunnel = TokioIo::new(within(hyper::upgrade::on(response)).await.expect("a tunnel"));
    let response = send(tunnel, at("check.mesh", "/in/a/tunnel")).await;
    assert_eq!(read(response).await, "GET https://check.mesh/in/a/tunnel");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_service_is_refused_with_a_hint() {
    let (_node, sidecar) = beside(&[]).await;
    let tunnel = |authority: &'static str| {
        let mut request = Request::new(EMPTY);
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = Uri::from_static(authority);
        request
    };
    let own = sidecar.address.to_string();
    for (request, hint) in [
        (to("http://example.com/"), "http://NAME.mesh"),
        (to("http://127.0.0.1:1/"), "http://NAME.mesh"),
        (to("http://check.mesh.example.com/"), "http://NAME.mesh"),
        (at(&own, "/"), "http://NAME.mesh"),
        (at("check.mesh:8080", "/"), "no port"),
        (to("https://check.mesh/"), "http://"),
        (tunnel("check.mesh:443"), "say http://check.mesh"),
        (tunnel("check.mesh:22"), "no port"),
        (tunnel("example.com:443"), "http://NAME.mesh"),
    ] {
        let what = format!("{request:?}");
        let response = sidecar.ask(request).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{what}");
        problem_is(response.headers(), "error=http_request_denied");
        let detail = json(response).await["detail"].to_string();
        assert!(detail.contains(hint), "{what}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_an_answer_is_told_why() {
    let (node, sidecar) = beside(&[]).await;
    let response = sidecar.ask(to("http://nobody.mesh/")).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "1");
    problem_is(response.headers(), "error=destination_not_found");
    let told = json(response).await;
    assert_eq!(told["code"], "NoProvider");
    assert_eq!(told["service"], "nobody");
    assert_eq!(told["tried"], serde_json::json!([]));

    let (dropped, mut was_dropped) = mpsc::channel::<()>(1);
    let waits = tower::service_fn(move |_: Request<Body>| {
        let dropped = dropped.clone();
        async move {
            pending::<()>().await;
            drop(dropped);
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    within(node.serve("waits", waits)).await.expect("a service");
    let mut request = to("http://waits.mesh/");
    request
        .headers_mut()
        .insert("selfsame-timeout", "300ms".parse().expect("a value"));
    let response = sidecar.ask(request).await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    problem_is(response.headers(), "error=http_response_timeout");
    let told = json(response).await;
    assert_eq!(told["code"], "Deadline");
    assert_eq!(told["tried"][0]["peer"], node.id().to_string());
    within(node.serve("waits", says("another")))
        .await
        .expect("a service");
    assert_eq!(within(was_dropped.recv()).await, None, "the handler was cut");

    let response = sidecar.ask(to("http://a_b.mesh/")).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(json(response).await["code"], "BadName");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_services_are_passed_on_whatever_they_say() {
    let (node, sidecar) = beside(&[]).await;
    let nobody = ServeOptions::new().allow([]);
    within(node.serve_with("closed", &nobody, says("secret")))
        .await
        .expect("a service");
    let fails = tower::service_fn(async |_: Request<Body>| Err::<Response<Body>, BoxError>("broken".into()));
    within(node.serve("fails", fails)).await.expect("a service");
    for (url, status) in [
        ("http://closed.mesh/", StatusCode::FORBIDDEN),
        ("http://fails.mesh/", StatusCode::INTERNAL_SERVER_ERROR),
    ] {
        let response = sidecar.ask(to(url)).await;
        assert_eq!(response.status(), status);
        assert!(!response.headers().contains_key("proxy-status"), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_taken_out_and_wrong_ones_named() {
    let (node, sidecar) = beside(&[]).await;
    let fields = tower::service_fn(async |request: Request<Body>| {
        let mut names: Vec<_> = request.headers().keys().map(ToString::to_string).collect();
        names.sort_unstable();
        let response = Response::builder().header("selfsame-caller", "forged");
        response.body(Body::from(names.join(" ")))
    });
    within(node.serve("fields", fields)).await.expect("a service");
    let peer = node.id().to_string();
    let mut request = to("http://fields.mesh/");
    for (name, value) in [
        ("selfsame-timeout", "5s"),
        ("selfsame-key", "ada"),
        ("selfsame-peer", &peer),
        ("selfsame-retry", "off"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("te", "trailers"),
        ("x-kept", "1"),
    ] {
        request
            .headers_mut()
            .insert(name, value.parse().expect("a value"));
    }
    let response = sidecar.ask(request).await;
    assert!(!response.headers().contains_key("selfsame-caller"));
    assert_eq!(read(response).await, "via x-kept");
    for (name, value, hint) in [
        ("selfsame-timeout", "soon", "30d"),
        ("selfsame-peer", "me", "64 hexadecimal digits"),
        ("selfsame-retry", "maybe", "on or off"),
        ("selfsame-timout", "1s", "selfsame-timeout"),
        ("selfsame-caller", &peer, "no such option"),
    ] {
        let mut request = to("http://fields.mesh/");
        request
            .headers_mut()
            .insert(name, value.parse().expect("a value"));
        let response = sidecar.ask(request).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let detail = json(response).await["detail"].to_string();
        assert!(detail.contains(name) && detail.contains(hint), "{detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_this_machine_becomes_a_service() {
    let address = server(Router::new().fallback(any(describe))).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let nobody = gone.local_addr().expect("its address");
    drop(gone);
    let (node, sidecar) = beside(&[format!("files=http://{address}"), format!("gone=http://{nobody}")]).await;
    let forged = Request::put("https://files.mesh/a?b")
        .header("selfsame-caller", "forged")
        .header("selfsame-trusted", "yes")
        .header("x-kept", "1")
        .body(Body::from("ping"))
        .expect("a request");
    let response = within(node.fetch(forged)).await.expect("an answer");
    let headers = response.headers();
    assert_eq!(headers["x-asked"], "PUT /a?b");
    assert_eq!(headers["x-got-host"], address.to_string());
    assert_eq!(headers["x-got-selfsame-caller"], node.id().to_string());
    assert_eq!(headers["x-got-selfsame-service"], "files");
    assert_eq!(headers["x-got-x-kept"], "1");
    assert!(!headers.contains_key("x-got-selfsame-trusted"));
    assert_eq!(text(response).await, "ping");

    let large = Bytes::from(vec![7; 5_000_000]);
    let request = Request::post("http://files.mesh/large")
        .header("host", "files.mesh")
        .body(large.clone())
        .expect("a request");
    let response = sidecar.ask(request).await;
    assert_eq!(response.headers()["x-got-selfsame-caller"], sidecar.id);
    assert!(read(response).await == large);

    let response = within(node.fetch(crate::common::get("https://gone.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert!(text(response).await.contains("does not answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_stream_both_ways() {
    let address = server(Router::new().fallback(any(describe))).await;
    let (_node, sidecar) = beside(&[format!("echo=http://{address}")]).await;
    let (pieces, mut taken) = mpsc::channel::<Bytes>(1);
    let body = futures_util::stream::poll_fn(move |context| {
        let piece = taken.poll_recv(context);
        piece.map(|piece| piece.map(|piece| Ok::<_, Infallible>(http_body::Frame::data(piece))))
    });
    let socket = within(TcpStream::connect(sidecar.address))
        .await
        .expect("the sidecar");
    let connected = hyper::client::conn::http1::handshake(TokioIo::new(socket));
    let (mut sender, connection) = within(connected).await.expect("a connection");
    tokio::spawn(connection);
    let request = Request::post("http://echo.mesh/")
        .header("host", "echo.mesh")
        .body(http_body_util::StreamBody::new(body))
        .expect("a request");
    let response = within(sender.send_request(request)).await.expect("an answer");
    let mut answer = response.into_body();
    for number in 0..20 {
        let piece = Bytes::from(format!("piece {number}"));
        within(pieces.send(piece.clone())).await.expect("a reader");
        let echoed = within(answer.frame()).await.expect("more").expect("a frame");
        assert_eq!(echoed.into_data().expect("data"), piece);
    }
    drop(pieces);
    assert!(within(answer.frame()).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_goes_away_ends_its_request() {
    let (node, sidecar) = beside(&[]).await;
    let (started, mut was_started) = mpsc::channel(1);
    let (dropped, mut was_dropped) = mpsc::channel::<()>(1);
    let service = tower::service_fn(move |_: Request<Body>| {
        let (started, dropped) = (started.clone(), dropped.clone());
        async move {
            started.send(()).await.expect("the test waits");
            pending::<()>().await;
            drop(dropped);
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    within(node.serve("waits", service)).await.expect("a service");
    tokio::select! {
        _ = sidecar.ask(to("http://waits.mesh/")) => panic!("it never answers"),
        begun = within(was_started.recv()) => begun.expect("the handler began"),
    }
    within(node.serve("waits", says("another")))
        .await
        .expect("a service");
    assert_eq!(within(was_dropped.recv()).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_back_is_a_loop() {
    /// Passes each request on to where it came from, as a reverse proxy with a wrong configuration does.
    async fn back(
        State(proxy): State<Arc<std::sync::OnceLock<SocketAddr>>>,
        request: ServerRequest,
    ) -> axum::response::Response {
        let proxy = *proxy.get().expect("an address");
        let mut again = to("http://loops.mesh/");
        for via in request.headers().get_all("via") {
            again.headers_mut().append("via", via.clone());
        }
        let socket = TcpStream::connect(proxy).await.expect("the sidecar");
        send(socket, again).await.map(ServerBody::new)
    }
    let proxy = Arc::default();
    let address = server(Router::new().fallback(any(back)).with_state(Arc::clone(&proxy))).await;
    let (_node, sidecar) = beside(&[format!("loops=http://{address}")]).await;
    proxy.set(sidecar.address).expect("it is set once");
    let response = sidecar.ask(to("http://loops.mesh/")).await;
    assert_eq!(response.status(), StatusCode::LOOP_DETECTED);
    problem_is(response.headers(), "error=proxy_loop_detected");
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_pass_between_programs() {
    async fn chat(upgrade: WebSocketUpgrade, headers: HeaderMap) -> axum::response::Response {
        let caller = headers["selfsame-caller"].to_str().expect("text").to_owned();
        upgrade.protocols(["mesh"]).on_upgrade(async move |mut socket| {
            while let Some(Ok(Reply::Text(text))) = socket.recv().await {
                let answer = Reply::Text(format!("{caller}: {text}").into());
                socket.send(answer).await.expect("a caller");
            }
        })
    }
    let address = server(Router::new().route("/chat", on_get(chat))).await;
    let (_node, sidecar) = beside(&[format!("chat=http://{address}")]).await;
    let direct = within(TcpStream::connect(sidecar.address))
        .await
        .expect("the sidecar");
    let (mut socket, response) = within(client_async("ws://chat.mesh/chat", direct))
        .await
        .expect("a connection");
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    for word in ["one", &"large".repeat(100_000)] {
        within(socket.send(Message::text(word))).await.expect("a server");
        let answer = within(socket.next()).await.expect("more").expect("a message");
        assert_eq!(answer.to_text().expect("text"), format!("{}: {word}", sidecar.id));
    }
    within(socket.close(None)).await.expect("an end");
    while within(socket.next()).await.is_some() {}

    let mut tunnel = Request::new(EMPTY);
    *tunnel.method_mut() = Method::CONNECT;
    *tunnel.uri_mut() = Uri::from_static("chat.mesh:80");
    let response = sidecar.ask(tunnel).await;
    let tunnel = TokioIo::new(within(hyper::upgrade::on(response)).await.expect("a tunnel"));
    let (mut socket, _) = within(client_async("ws://chat.mesh/chat", tunnel))
        .await
        .expect("a connection");
    within(socket.send(Message::text("tunnelled")))
        .await
        .expect("a server");
    let answer = within(socket.next()).await.expect("more").expect("a message");
    assert!(answer.to_text().expect("text").ends_with(": tunnelled"));

    let direct = within(TcpStream::connect(sidecar.address))
        .await
        .expect("the sidecar");
    let refused = within(client_async("ws://chat.mesh/elsewhere", direct)).await;
    assert!(refused.is_err(), "there is no such path");
}

#[test]
fn where_it_listens_is_checked_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address").to_string();
    let run = |arguments: &[&str]| -> Output {
        let mut command = command::selfsame(folder.path());
        command.args(["proxy", "--network", "test"]).args(arguments);
        command.output().expect("the program runs")
    };
    for (arguments, hint) in [
        (&["--unowned", "--listen", "0.0.0.0:0"][..], "--allow-remote"),
        (&["--unowned", "--listen", "localhost"], "--listen"),
        (&["--unowned", "--listen", &taken], &taken),
        (&["--listen", "127.0.0.1:0"], "--unowned"),
        (&["--unowned", "--expose", "check"], "NAME=http://"),
        (&["--unowned", "--expose", "check=http://a:1,weight=x"], "0 to 1"),
        (
            &["--unowned", "--expose", "check=http://a:1,alow=x"],
            "allow=PEER-ID",
        ),
    ] {
        let output = run(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(
            told.contains(hint) && told.lines().count() == 1,
            "{arguments:?}: {told}"
        );
    }
}
