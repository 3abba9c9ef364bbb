//! Encrypted RPC over HTTP: what a server answers, and what a client does with answers.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Instant;

use axum::Router;
use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use selfsame_host::rpc::{RpcAddress, RpcClient, RpcHttpService, RpcOptions, RpcRequest, RpcServer};
use selfsame_host::{BoxError, Code, Node};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tower_service::Service as _;

use crate::common::nodes::ring;
use crate::common::sockets::{echo, server};
use crate::common::tickets::{PublicOnly, TicketsFirst};
use crate::common::within;

const DATAGRAM: &str = "application/octet-stream";
/// Longest body that holds a datagram.
const MAX_BODY: usize = (16 << 20) - (64 << 10) + 1024;
const CONTROL: u8 = 0b1_0000;

/// Answers POSTs on a free port of this machine; its URL.
async fn web<F>(answer: impl Fn(Bytes) -> F + Clone + Send + Sync + 'static) -> RpcAddress
where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/rpc", listener.local_addr().expect("its address"));
    let app = Router::new().fallback(move |request: axum::extract::Request| {
        let answer = answer.clone();
        async move {
            assert_eq!(request.method(), Method::POST);
            assert_eq!(request.headers()[CONTENT_TYPE], DATAGRAM);
            let body = request.into_body().collect().await.expect("a body");
            answer(body.to_bytes()).await
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    url.parse().expect("a URL")
}

/// Hands POSTs on a free port of this machine to a server; its URL.
async fn web_of(http: RpcHttpService) -> RpcAddress {
    web(move |body| {
        let http = http.clone();
        async move { post(&http, "", Full::new(body)).await }
    })
    .await
}

/// A client with tickets that name these addresses.
async fn client(nodes: &[Node], server: &RpcServer, addresses: &[RpcAddress]) -> RpcClient {
    let tickets = server.tickets(addresses.iter().cloned()).expect("tickets");
    within(nodes[0].serve("check", tickets))
        .await
        .expect("it is served");
    RpcClient::with_tickets(TicketsFirst(nodes[1].clone()))
}

/// Sends a POST from an address.
async fn post<B>(service: &RpcHttpService, from: &str, body: B) -> Response<Full<Bytes>>
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let mut request = Request::post("/rpc").header(CONTENT_TYPE, DATAGRAM);
    if !from.is_empty() {
        let from: SocketAddr = format!("{from}:1").parse().expect("an address");
        request = request.extension(from);
    }
    let request = request.body(body).expect("a request");
    service.clone().call(request).await.expect("an answer")
}

async fn status(service: &RpcHttpService, from: &str, body: Vec<u8>) -> u16 {
    within(post(service, from, Full::new(Bytes::from(body))))
        .await
        .status()
        .as_u16()
}

async fn bytes(response: Response<Full<Bytes>>) -> Bytes {
    response.into_body().collect().await.expect("bytes").to_bytes()
}

/// A body that never ends.
fn stalled() -> impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static {
    StreamBody::new(stream::pending::<Result<Frame<Bytes>, BoxError>>())
}

/// What looks like a request.
fn forged(form: u8, flags: u8) -> Vec<u8> {
    let mut datagram = vec![9; 200];
    datagram[..2].copy_from_slice(&[form, flags]);
    datagram
}

fn idempotent() -> RpcOptions {
    RpcOptions::new().idempotent()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_at_the_first_address_of_the_ticket() {
    let nodes = ring(2).await;
    let (server, http) = echo();
    let url = web_of(http).await;
    let udp = RpcAddress::from(server.local_addr());
    let client = client(&nodes, &server, &[url.clone(), udp.clone()]).await;
    let long: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 7) as u8).collect();
    for payload in [&b""[..], b"ping", &long] {
        for options in [idempotent(), RpcOptions::new()] {
            let answer = within(client.call("check", payload, options)).await;
            let answer = answer.expect("an answer");
            assert!(answer.payload == payload);
            assert_eq!(answer.server, url);
        }
    }
    let named = within(client.call("check", b"ping", idempotent().server(udp.clone()))).await;
    assert_eq!(named.expect("an answer").server, udp);
}

#[tokio::test(flavor = "multi_thread")]
async fn longest_messages_pass_and_longer_ones_are_refused() {
    const LONGEST: usize = (16 << 20) - (64 << 10);
    let nodes = ring(2).await;
    let (server, http) = server(async |request: RpcRequest| vec![7; request.payload.len() * 2]);
    let url = web_of(http).await;
    let client = client(&nodes, &server, &[url]).await;
    let answer = within(client.call("check", &vec![1; LONGEST / 2], idempotent())).await;
    assert_eq!(answer.expect("an answer").payload.len(), LONGEST);
    let long = within(client.call("check", &vec![1; LONGEST], idempotent())).await;
    assert_eq!(long.expect_err("no answer").code(), Some(Code::HandlerFailed));
    let longer = within(client.call("check", &vec![1; LONGEST + 1], idempotent())).await;
    assert_eq!(longer.expect_err("no call").code(), Some(Code::TooLarge));
    within(client.call("check", b"ping", idempotent()))
        .await
        .expect("both still run");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_messages_at_once_are_given_to_the_module_one_by_one() {
    let nodes = ring(2).await;
    let (server, http) = echo();
    let url = web_of(http).await;
    let client = client(&nodes, &server, &[url]).await;
    let calls = [1, 2, 3].map(|byte| {
        let client = client.clone();
        async move {
            // Two of them are longer than the module's largest buffer.
            let payload = vec![byte; 9 << 20];
            let answer = client.call("check", &payload, idempotent()).await;
            assert!(answer.expect("an answer").payload == payload);
        }
    });
    within(futures_util::future::join_all(calls)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_requests_of_one_source_leave_room_to_others() {
    let nodes = ring(2).await;
    let (begun, mut calls) = mpsc::unbounded_channel();
    let (answer, answered) = tokio::sync::watch::channel(false);
    let (server, http) = server(move |request| {
        begun.send(()).expect("the test waits");
        let mut answered = answered.clone();
        async move {
            _ = answered.wait_for(|answered| *answered).await;
            request.payload
        }
    });
    let from = Arc::new(Mutex::new("1.1.1.1"));
    let source = Arc::clone(&from);
    let url = web(move |body| {
        let (http, from) = (http.clone(), *source.lock().expect("an address"));
        async move { post(&http, from, Full::new(body)).await }
    })
    .await;
    let client = client(&nodes, &server, &[url]).await;
    let call = |len| {
        let client = client.clone();
        tokio::spawn(async move { client.call("check", &vec![0; len], idempotent()).await })
    };
    let half = MAX_BODY / 2;
    let mut under_way = Vec::new();
    for address in ["1.1.1.1", "1.1.1.1", "1.1.1.2"] {
        *from.lock().expect("an address") = address;
        under_way.push(call(half));
        within(calls.recv()).await.expect("it is carried out");
    }
    let refused = within(call(half + 1024)).await.expect("it ends");
    assert_eq!(refused.expect_err("no room").code(), Some(Code::TooManyRequests));
    for (address, len) in [("1.1.1.1", 1024), ("1.1.2.1", half)] {
        *from.lock().expect("an address") = address;
        under_way.push(call(len));
        within(calls.recv()).await.expect("it is carried out");
    }
    answer.send(true).expect("the handler waits");
    for call in under_way {
        within(call).await.expect("it ends").expect("an answer");
    }
    *from.lock().expect("an address") = "1.1.1.1";
    within(call(half + 1024))
        .await
        .expect("it ends")
        .expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_no_datagram_of_a_client_are_refused() {
    let (_server, http) = echo();
    for len in [0, 1, 17, 100, 4096] {
        assert_eq!(status(&http, "", vec![0; len]).await, 400, "{len} bytes");
    }
    assert_eq!(
        status(&http, "", forged(0x60, 0b1000)).await,
        400,
        "a packet of many"
    );
    assert_eq!(
        status(&http, "", forged(0x64, 0)).await,
        400,
        "what routers pass on"
    );
    assert_eq!(status(&http, "", vec![0x60; MAX_BODY]).await, 204, "wrong flags");
    assert_eq!(status(&http, "", vec![0x60; MAX_BODY + 1]).await, 413);
    let endless = stream::repeat_with(|| Ok::<_, BoxError>(Frame::data(Bytes::from(vec![0x60; 1 << 20]))));
    let response = within(post(&http, "", StreamBody::new(endless))).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let broken = stream::iter([
        Ok(Frame::data(Bytes::from(forged(0x60, 0)))),
        Err(BoxError::from("gone")),
    ]);
    let response = within(post(&http, "", StreamBody::new(broken))).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_may_ask_and_other_methods_and_types_are_refused() {
    let (_server, http) = echo();
    for (method, kind, status) in [
        (Method::OPTIONS, "", 204),
        (Method::GET, DATAGRAM, 405),
        (Method::PUT, DATAGRAM, 405),
        (Method::POST, "application/json", 415),
        (Method::POST, "", 415),
    ] {
        let mut request = Request::builder().method(&method).uri("/rpc");
        if !kind.is_empty() {
            request = request.header(CONTENT_TYPE, kind);
        }
        let request = request.body(Full::new(Bytes::from_static(b"{}")));
        let response = within(http.clone().call(request.expect("a request"))).await;
        let response = response.expect("an answer");
        assert_eq!(response.status().as_u16(), status, "{method} {kind}");
        assert_eq!(response.headers()["access-control-allow-origin"], "*");
        let allow = response.headers().get("allow");
        assert_eq!(allow.is_some_and(|allow| allow == "POST, OPTIONS"), status == 405);
    }
}

#[tokio::test(start_paused = true)]
async fn body_that_does_not_come_is_given_up() {
    let (_server, http) = echo();
    let response = post(&http, "", stalled()).await;
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test(flavor = "multi_thread")]
async fn ticket_that_does_not_open_is_rejected_with_fewer_bytes_than_came() {
    let (_server, http) = echo();
    for form in [0x60, 0x61] {
        let request = forged(form, 0);
        let response = within(post(&http, "", Full::new(Bytes::from(request.clone())))).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], DATAGRAM);
        let answer = bytes(response).await;
        assert_eq!(answer[0], 0x63);
        assert!(answer.len() < request.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn source_leaves_room_to_others() {
    let (_server, http) = echo();
    let mut held = tokio::task::JoinSet::new();
    for _ in 0..400 {
        let http = http.clone();
        held.spawn(async move { post(&http, "1.1.1.1", stalled()).await.status() });
    }
    // Those beyond its share are refused at once.
    let refused = within(held.join_next())
        .await
        .expect("an answer")
        .expect("its end");
    assert_eq!(refused, StatusCode::SERVICE_UNAVAILABLE);
    let of_its_network = within(post(&http, "1.1.1.2", Full::new(Bytes::new()))).await;
    assert_eq!(of_its_network.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(of_its_network.headers()[RETRY_AFTER], "1");
    assert_eq!(
        status(&http, "1.1.2.1", Vec::new()).await,
        400,
        "another source is heard"
    );
    within(held.shutdown()).await;
    assert_eq!(
        status(&http, "1.1.1.2", Vec::new()).await,
        400,
        "what it held is given back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_carried_out_once_and_its_copy_gets_the_same_answer() {
    let nodes = ring(2).await;
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    let (server, http) = server(move |request| {
        *counted.lock().expect("a count") += 1;
        async { request.payload }
    });
    let posts = Arc::new(Mutex::new(Vec::new()));
    let (seen, answering) = (Arc::clone(&posts), http.clone());
    let url = web(move |body| {
        let (seen, http) = (Arc::clone(&seen), answering.clone());
        async move {
            let answer = bytes(post(&http, "", Full::new(body.clone())).await).await;
            seen.lock().expect("posts").push((body, answer.clone()));
            Response::new(Full::new(answer))
        }
    })
    .await;
    let client = client(&nodes, &server, &[url]).await;
    within(client.call("check", b"once", idempotent()))
        .await
        .expect("an answer");
    // A server that has just begun binds the first request.
    let (request, answer) = posts.lock().expect("posts").pop().expect("a request");
    let copy = within(post(&http, "", Full::new(request.clone()))).await;
    assert_eq!(bytes(copy).await, answer);
    assert_eq!(*calls.lock().expect("a count"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_goes_to_each_connection_that_brought_the_request() {
    let nodes = ring(2).await;
    let (begun, mut begins) = mpsc::unbounded_channel();
    let (answer, answered) = tokio::sync::watch::channel(false);
    let (server, http) = server(move |request| {
        begun.send(()).expect("the test waits");
        let mut answered = answered.clone();
        async move {
            _ = answered.wait_for(|answered| *answered).await;
            request.payload
        }
    });
    let (seen, mut posts) = mpsc::unbounded_channel();
    let answering = http.clone();
    let url = web(move |body| {
        seen.send(body.clone()).expect("the test waits");
        let http = answering.clone();
        async move { post(&http, "", Full::new(body)).await }
    })
    .await;
    let client = client(&nodes, &server, &[url]).await;
    let call = client.call("check", b"late", idempotent());
    let copy = async {
        begins.recv().await.expect("a call");
        // A server that has just begun binds the first request.
        let mut request = Bytes::new();
        while let Ok(later) = posts.try_recv() {
            request = later;
        }
        let mut copy = pin!(post(&http, "", Full::new(request.clone())));
        // The server has had the copy before it rejects what comes behind it.
        for behind in [false, true] {
            let polled = core::future::poll_fn(|context| Poll::Ready(copy.as_mut().poll(context)));
            assert!(polled.await.is_pending(), "behind: {behind}");
            assert_eq!(status(&http, "", forged(0x60, 0)).await, 200);
        }
        // A stranger who knows the tag has a request of its own, which is none.
        let mut stranger = forged(0x60, 0);
        stranger[184..].copy_from_slice(&request[request.len() - 16..]);
        let rejection = bytes(within(post(&http, "", Full::new(Bytes::from(stranger)))).await).await;
        assert_eq!(rejection[0], 0x63);
        // One whose connection breaks keeps the answer from nobody.
        assert!(post(&http, "", Full::new(request)).now_or_never().is_none());
        answer.send(true).expect("the handler waits");
        copy.await.status()
    };
    let (outcome, copied) = within(async { tokio::join!(call, copy) }).await;
    assert_eq!(outcome.expect("an answer").payload, b"late");
    assert_eq!(copied, StatusCode::OK);
    assert!(begins.try_recv().is_err(), "it is carried out once");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_is_given_up_ends_its_request_at_the_server() {
    let nodes = ring(2).await;
    let (begun, mut begins) = mpsc::unbounded_channel();
    let (server, http) = server(move |_| {
        begun.send(()).expect("the test waits");
        core::future::pending()
    });
    let (seen, mut posts) = mpsc::unbounded_channel();
    let answering = http.clone();
    let url = web(move |body| {
        let (seen, http) = (seen.clone(), answering.clone());
        async move {
            seen.send((body.clone(), None)).expect("the test waits");
            let response = post(&http, "", Full::new(body.clone())).await;
            // The client has closed the connection of the request that it gives up, and nothing comes of it here.
            seen.send((body, Some(response.status())))
                .expect("the test waits");
            response
        }
    })
    .await;
    let client = client(&nodes, &server, &[url]).await;
    tokio::select! {
        _ = client.call("check", b"never", idempotent()) => panic!("nobody answers"),
        begun = begins.recv() => begun.expect("a call"),
    }
    let mut request = Bytes::new();
    let answered = loop {
        match within(posts.recv()).await.expect("a control packet") {
            (body, Some(status)) if body[1] & CONTROL != 0 => break status,
            (body, None) if body[1] & CONTROL == 0 => request = body,
            _ => {}
        }
    };
    assert_eq!(answered, StatusCode::NO_CONTENT);
    let copy = within(post(&http, "", Full::new(request))).await;
    assert_eq!(copy.status(), StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_posts_a_request_once_however_long_its_call_takes() {
    let nodes = ring(2).await;
    let (server, http) = server(|_| core::future::pending());
    let posts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&posts);
    let url = web(move |body| {
        seen.lock().expect("posts").push(body.clone());
        let http = http.clone();
        async move { post(&http, "", Full::new(body)).await }
    })
    .await;
    let client = client(&nodes, &server, &[url]).await;
    // A client of UDP sends its request again after 250 ms, and then after twice as long.
    let options = idempotent().timeout(Duration::from_secs(1));
    let failed = within(client.call("check", b"", options)).await;
    let code = failed.expect_err("no answer").code();
    assert!(matches!(code, Some(Code::Deadline | Code::TimedOut)), "{code:?}");
    let posts = posts.lock().expect("posts");
    let different: HashSet<_> = posts.iter().collect();
    assert_eq!(posts.len(), different.len());
}

/// Answers the first POST with this, and others as a server does.
async fn web_after(wrong: Response<Full<Bytes>>, http: RpcHttpService) -> RpcAddress {
    let wrong = Arc::new(Mutex::new(Some(wrong)));
    web(move |body| {
        let first = wrong.lock().expect("an answer").take();
        let http = http.clone();
        async move {
            match first {
                Some(response) => response,
                None => post(&http, "", Full::new(body)).await,
            }
        }
    })
    .await
}

/// Calls servers that begin with these answers, all at once; how long each call took.
async fn call_after(wrong: Vec<Response<Full<Bytes>>>) -> Vec<Duration> {
    let nodes = ring(2).await;
    let (server, http) = echo();
    let mut urls = Vec::new();
    for response in wrong {
        urls.push(web_after(response, http.clone()).await);
    }
    let client = client(&nodes, &server, &urls[..1]).await;
    let calls = urls.into_iter().map(|url| {
        let client = client.clone();
        async move {
            let begun = Instant::now();
            let called = client.call("check", b"ping", idempotent().server(url)).await;
            assert_eq!(called.expect("an answer").payload, b"ping");
            begun.elapsed()
        }
    });
    within(futures_util::future::join_all(calls)).await
}

fn answer(status: u16, field: (&str, &str), body: &[u8]) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .header(field.0, field.1)
        .body(Full::new(Bytes::copy_from_slice(body)))
        .expect("a response")
}

#[tokio::test(flavor = "multi_thread")]
async fn client_takes_nothing_that_is_none_from_a_server() {
    let kind = ("content-type", DATAGRAM);
    let (followed, mut follows) = mpsc::unbounded_channel();
    let elsewhere = web(move |_| {
        followed.send(()).expect("the test waits");
        async { answer(404, ("content-type", DATAGRAM), b"") }
    });
    let elsewhere = elsewhere.await.to_string();
    let wrong = vec![
        answer(200, kind, b""),
        answer(200, kind, &[0x62; 100]),
        answer(200, kind, &[0x66; 100]),
        answer(200, kind, &vec![0x62; MAX_BODY + 1]),
        answer(404, kind, b""),
        answer(307, ("location", &elsewhere), b""),
    ];
    assert_eq!(call_after(wrong).await.len(), 6);
    assert!(follows.try_recv().is_err(), "a redirect was followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_waits_as_long_as_a_server_asks() {
    let wrong = [429, 503].map(|status| answer(status, ("retry-after", "1"), b""));
    for took in call_after(wrong.into()).await {
        assert!(took >= Duration::from_secs(1), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_is_talked_into_no_private_address() {
    let nodes = ring(2).await;
    let (server, http) = echo();
    let plain = web_after(answer(404, ("content-type", DATAGRAM), b""), http).await;
    let tickets = server.tickets(["https://echo.example/rpc".parse::<RpcAddress>().expect("a URL")]);
    within(nodes[0].serve("check", tickets.expect("tickets")))
        .await
        .expect("it is served");
    let client = RpcClient::with_tickets(PublicOnly(nodes[1].clone()));
    let named = "https://localhost:9/rpc".parse::<RpcAddress>().expect("a URL");
    let inside = "https://127.0.0.1:9/rpc".parse().expect("a URL");
    for server in [plain, inside, named] {
        let options = idempotent().server(server.clone());
        let failed = within(client.call("check", b"ping", options)).await;
        let code = failed.expect_err("no answer").code();
        assert_eq!(code, Some(Code::ForbiddenAddress), "{server}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_has_ended_says_so() {
    let (server, http) = echo();
    drop(server);
    let response = within(post(&http, "", Full::new(Bytes::from(forged(0x60, 0))))).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[RETRY_AFTER], "1");
}
