//! HTTP by RPC between clients and a service of the host.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use axum::Router;
use axum::body::Body as AxumBody;
use axum::extract::Request as AxumRequest;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use selfsame_host::rpc::{RpcClient, RpcOptions, RpcServer, RpcServerBuilder, TICKET_PATH};
use selfsame_host::{Assurance, Body, BoxError, Caller, Code, Error, Node, Seed, ServeOptions};
use tokio::sync::mpsc;

use crate::common::nodes::ring;
use crate::common::within;

const LONG: usize = 3_000_000;
/// Longest answer that comes at once, about.
const BATCH: usize = 64 * 1024;

/// Says how it was reached and what it got; `/long` has more than a batch, `/endless` no end.
fn app(dropped: mpsc::UnboundedSender<()>) -> Router {
    Router::new().fallback(move |request: AxumRequest| {
        let dropped = dropped.clone();
        async move {
            let (head, body) = request.into_parts();
            let caller = *head.extensions.get::<Caller>().expect("a caller");
            let body = body.collect().await.expect("a body").to_bytes();
            let told = format!(
                "{} {} {:?} {}",
                head.method,
                head.uri,
                caller.assurance,
                body.len()
            );
            match head.uri.path() {
                "/long" => Response::new(AxumBody::from(pattern())),
                "/endless" => {
                    let guard = Dropped(dropped);
                    Response::new(AxumBody::new(StreamBody::new(stream::unfold(
                        guard,
                        async |guard| {
                            let chunk = Bytes::from(vec![7; BATCH]);
                            Some((Ok::<_, BoxError>(Frame::data(chunk)), guard))
                        },
                    ))))
                }
                "/broken" => {
                    let frames = [
                        Ok(Frame::data(Bytes::from(vec![7; 2 * BATCH]))),
                        Err(BoxError::from("broken")),
                    ];
                    Response::new(AxumBody::new(StreamBody::new(stream::iter(frames))))
                }
                "/panic" => panic!("as the test says"),
                "/silent" => core::future::pending().await,
                "/teapot" => {
                    let mut response = Response::new(AxumBody::from(told));
                    *response.status_mut() = StatusCode::IM_A_TEAPOT;
                    response
                }
                _ => Response::new(AxumBody::from(told)),
            }
        }
    })
}

struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

fn pattern() -> Vec<u8> {
    (0..LONG).map(|at| (at * 7 + (at >> 8)) as u8).collect()
}

fn builder() -> RpcServerBuilder {
    RpcServer::builder("test", "check", Seed::from_bytes([7; 32])).idempotent()
}

struct Setting {
    nodes: Vec<Node>,
    _server: RpcServer,
    client: RpcClient,
    dropped: mpsc::UnboundedReceiver<()>,
}

async fn setting() -> Setting {
    let nodes = ring(2).await;
    let (dropping, dropped) = mpsc::unbounded_channel();
    let server = builder()
        .start_service(loopback(), &ServeOptions::new(), app(dropping))
        .expect("a server");
    let service = server.service([server.local_addr()]).expect("addresses");
    within(nodes[0].serve("check", service.expect("a service of HTTP")))
        .await
        .expect("it is served");
    let client = RpcClient::new(nodes[1].clone());
    Setting {
        nodes,
        _server: server,
        client,
        dropped,
    }
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::builder()
        .method(method)
        .uri(format!("https://check.mesh{path}"));
    request.body(Full::new(body.into())).expect("a request")
}

async fn fetch(client: &RpcClient, request: Request<Full<Bytes>>) -> Result<Response<Body>, Error> {
    within(client.fetch(request, RpcOptions::new())).await
}

async fn text(response: Response<Body>) -> String {
    let bytes = within(response.into_body().collect())
        .await
        .expect("a body")
        .to_bytes();
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_as_in_sessions() {
    let Setting { nodes, client, .. } = &setting().await;
    for (method, path, body) in [
        (Method::GET, "/a?b=c", Bytes::new()),
        (Method::POST, "/", Bytes::from_static(b"body")),
        (Method::PUT, "/", Bytes::from(vec![1; LONG])),
        (Method::DELETE, "/", Bytes::new()),
        (Method::OPTIONS, "/", Bytes::new()),
        (Method::PATCH, "/", Bytes::from_static(b"patch")),
        (Method::GET, "/teapot", Bytes::new()),
    ] {
        let by_rpc = fetch(client, request(method.clone(), path, body.clone())).await;
        let mut by_rpc = by_rpc.expect("an answer");
        let in_session = within(nodes[1].fetch(request(method.clone(), path, body.clone()))).await;
        let mut in_session = in_session.expect("an answer");
        assert_eq!(by_rpc.status(), in_session.status());
        for answer in [&mut by_rpc, &mut in_session] {
            let length = answer.headers_mut().remove(CONTENT_LENGTH);
            assert!(length.is_some());
        }
        assert_eq!(by_rpc.headers(), in_session.headers());
        let told = text(by_rpc).await;
        assert_eq!(
            told,
            format!(
                "{method} https://check.mesh{path} {:?} {}",
                Assurance::Ticket,
                body.len()
            )
        );
        assert_eq!(text(in_session).await, told.replace("Ticket", "Session"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_longer_than_a_batch_are_pulled() {
    let Setting { client, .. } = &setting().await;
    for method in [Method::GET, Method::POST] {
        let answer = fetch(client, request(method, "/long", ""))
            .await
            .expect("an answer");
        assert_eq!(answer.headers()[CONTENT_LENGTH], LONG.to_string());
        let bytes = within(answer.into_body().collect())
            .await
            .expect("a body")
            .to_bytes();
        assert!(bytes == pattern());
    }
    let answer = fetch(client, request(Method::HEAD, "/long", ""))
        .await
        .expect("an answer");
    assert_eq!(answer.headers()[CONTENT_LENGTH], LONG.to_string());
    assert_eq!(text(answer).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_that_is_given_up_ends_at_the_service() {
    let mut setting = setting().await;
    for _ in 0..40 {
        // Each takes a place, of which a caller has 32.
        let answer = fetch(&setting.client, request(Method::GET, "/endless", "")).await;
        let mut body = answer.expect("an answer").into_body();
        for _ in 0..4 {
            let frame = within(body.frame()).await.expect("more").expect("bytes");
            assert!(
                frame
                    .into_data()
                    .is_ok_and(|data| data.iter().all(|byte| *byte == 7))
            );
        }
        drop(body);
        within(setting.dropped.recv())
            .await
            .expect("its handler has ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_answers_of_a_caller_are_bounded() {
    let setting = setting().await;
    let mut open = Vec::new();
    for _ in 0..32 {
        let answer = fetch(&setting.client, request(Method::GET, "/endless", "")).await;
        open.push(answer.expect("an answer"));
    }
    let refused = fetch(&setting.client, request(Method::GET, "/endless", "")).await;
    assert_eq!(refused.expect_err("no place").code(), Some(Code::TooManyStreams));
    fetch(&setting.client, request(Method::GET, "/short", ""))
        .await
        .expect("a short one takes none");
}

#[tokio::test(flavor = "multi_thread")]
async fn handlers_that_fail_are_told() {
    let Setting { client, .. } = &setting().await;
    let panicked = fetch(client, request(Method::GET, "/panic", ""))
        .await
        .expect("an answer");
    assert_eq!(panicked.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let broken = fetch(client, request(Method::GET, "/broken", "")).await;
    let body = within(broken.expect("an answer").into_body().collect()).await;
    assert_eq!(body.expect_err("it breaks off").code(), Some(Code::HandlerFailed));
    let options = RpcOptions::new().timeout(Duration::from_millis(500));
    let late = within(client.fetch(request(Method::GET, "/silent", ""), options)).await;
    let code = late.expect_err("no answer").code();
    assert!(matches!(code, Some(Code::Deadline | Code::TimedOut)), "{code:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_by_rpc_is_refused_by_the_client() {
    let Setting { client, .. } = &setting().await;
    let mut socket = request(Method::GET, "/", "");
    socket
        .headers_mut()
        .insert(UPGRADE, "websocket".parse().expect("a value"));
    let elsewhere = Request::get("https://example.com/")
        .body(Full::default())
        .expect("a request");
    for wrong in [socket, elsewhere, request(Method::GET, "/", "body")] {
        let refused = fetch(client, wrong).await;
        assert!(matches!(refused, Err(Error::Input(_))), "{refused:?}");
    }
    let reserved = fetch(client, request(Method::POST, TICKET_PATH, "")).await;
    assert_eq!(reserved.expect_err("no ticket").code(), Some(Code::NoService));
    let long = fetch(client, request(Method::PUT, "/", vec![0; 16 << 20])).await;
    assert_eq!(long.expect_err("too long").code(), Some(Code::TooLarge));
}

/// The bytes of a request to the procedure of a name.
fn begin(name: &str, value: &[u8]) -> Vec<u8> {
    [&b"spq\x01\x00"[..], &[name.len() as u8], name.as_bytes(), value].concat()
}

/// A value with a head of a method, a path and a field.
fn value(method: &str, path: &str, field: Option<(&str, &[u8])>) -> Vec<u8> {
    let head = selfsame_codec::http::RequestHead {
        method: method.into(),
        path: path.into(),
        headers: field
            .map(|(name, value)| (name.into(), value.into()))
            .into_iter()
            .collect(),
    };
    let head = head.encode();
    [&(head.len() as u32).to_le_bytes()[..], &head].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_request_are_refused_by_the_service() {
    let Setting { client, .. } = &setting().await;
    let get = value("GET", "/", None);
    for (request, code) in [
        (b"ping".to_vec(), Code::BadMessage),
        (begin("http", b""), Code::BadMessage),
        (begin("http", &[0xff; 8]), Code::BadMessage),
        (begin("http", &get[..get.len() - 1]), Code::BadMessage),
        (begin("http", &value("GET", "no path", None)), Code::BadMessage),
        (
            begin("http", &value("GET", "/", Some(("upgrade", b"websocket")))),
            Code::BadMessage,
        ),
        (
            begin("http", &value("GET", "/", Some(("a", b"\r\nb: c")))),
            Code::BadMessage,
        ),
        (begin("http", &value("GET", TICKET_PATH, None)), Code::NoService),
        (
            begin("http", &value("GET", &format!("{TICKET_PATH}/keys"), None)),
            Code::NoService,
        ),
        (begin("other", &get), Code::NoService),
    ] {
        let options = RpcOptions::new().idempotent().names_replica();
        let told = match within(client.call("check", &request, options)).await {
            Ok(answer) => {
                let json = answer.payload.strip_prefix(b"spa\x01\x01");
                let json = json.unwrap_or_else(|| panic!("{request:?} is taken"));
                let failure: serde_json::Value = serde_json::from_slice(json).expect("JSON");
                failure["code"].as_u64()
            }
            Err(error) => error.code().map(|code| u64::from(code.as_u16())),
        };
        assert_eq!(told, Some(u64::from(code.as_u16())), "{request:?}");
    }
    // Bound to the replica at first, and then such as others may carry out, too.
    let post = begin("http", &value("POST", "/", None));
    within(async {
        loop {
            let answer = client.call("check", &post, RpcOptions::new().idempotent().names_replica());
            if answer
                .await
                .expect("an answer")
                .payload
                .starts_with(b"spa\x01\x01")
            {
                break;
            }
        }
    })
    .await;
    let whole = fetch(client, request(Method::GET, "/", "")).await;
    assert_eq!(whole.expect("it goes on").status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_is_not_idempotent_is_carried_out_once() {
    let nodes = ring(2).await;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let service = tower::service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, BoxError>(Response::new(Body::empty())) }
    });
    let server = builder()
        .start_service(loopback(), &ServeOptions::new(), service)
        .expect("a server");
    let service = server.service([server.local_addr()]).expect("addresses");
    within(nodes[0].serve("check", service.expect("a service of HTTP")))
        .await
        .expect("it is served");
    let client = RpcClient::new(nodes[1].clone());
    for _ in 0..3 {
        fetch(&client, request(Method::POST, "/", ""))
            .await
            .expect("an answer");
    }
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_calls_carry_no_http() {
    let nodes = ring(2).await;
    let server = builder()
        .start(loopback(), async |request| Ok(request.payload))
        .expect("a server");
    assert!(
        server
            .service([server.local_addr()])
            .expect("addresses")
            .is_none()
    );
    let tickets = server.tickets([server.local_addr()]).expect("tickets");
    within(nodes[0].serve("check", tickets))
        .await
        .expect("it is served");
    let client = RpcClient::new(nodes[1].clone());
    let refused = fetch(&client, request(Method::GET, "/", "")).await;
    assert_eq!(refused.expect_err("no HTTP").code(), Some(Code::NoService));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_call_is_decided_by_rpc_as_in_sessions() {
    let (dropping, _dropped) = mpsc::unbounded_channel();
    for (in_sessions, by_rpc, allowed) in [
        // Tickets would lead past those who decide.
        (ServeOptions::new().allow_if(|_| true), ServeOptions::new(), None),
        (
            ServeOptions::new(),
            ServeOptions::new().allow([]),
            Some(StatusCode::FORBIDDEN),
        ),
        (
            ServeOptions::new().allow_if(|_| true),
            ServeOptions::new().allow_if(|caller| caller.assurance == Assurance::Ticket),
            Some(StatusCode::OK),
        ),
    ] {
        let nodes = ring(2).await;
        let server = builder()
            .start_service(loopback(), &by_rpc, app(dropping.clone()))
            .expect("a server");
        let service = server.service([server.local_addr()]).expect("addresses");
        within(nodes[0].serve_with("check", &in_sessions, service.expect("a service of HTTP")))
            .await
            .expect("it is served");
        let client = RpcClient::new(nodes[1].clone());
        let outcome = fetch(&client, request(Method::GET, "/", "")).await;
        match allowed {
            Some(status) => assert_eq!(outcome.expect("an answer").status(), status),
            None => assert_eq!(outcome.expect_err("no ticket").code(), Some(Code::NoService)),
        }
    }
}
