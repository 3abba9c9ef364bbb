//! Calls of the encrypted RPC in sessions of the mesh, whose keys are agreed by Diffie-Hellman.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use selfsame_host::rpc::{
    RpcClient, RpcOptions, RpcRefusal, RpcRequest, RpcServer, RpcSessionService, TICKET_PATH,
};
use selfsame_host::{Body, Code, Error, Node, Seed};
use tokio::sync::{mpsc, oneshot};

use crate::common::nodes::ring;
use crate::common::within;

const CALL_URL: &str = "https://check.mesh/.well-known/selfsame-rpc/call";
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024 - 64 * 1024;

fn echo() -> RpcSessionService {
    RpcSessionService::new(async |request: RpcRequest| Ok(request.payload))
}

/// A client in the mesh of a node that takes calls in sessions alone.
async fn client(nodes: &[Node], service: RpcSessionService) -> RpcClient {
    within(nodes[0].serve("check", service))
        .await
        .expect("it is served");
    RpcClient::new(nodes[1].clone())
}

fn request(method: Method, timeout: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(CALL_URL)
        .header("selfsame-rpc-timeout", timeout)
        .body(Full::from(body))
        .expect("a request")
}

async fn status(node: &Node, request: Request<Full<Bytes>>) -> StatusCode {
    within(node.fetch(request)).await.expect("an answer").status()
}

#[tokio::test(flavor = "multi_thread")]
async fn service_without_tickets_is_called_in_sessions() {
    let nodes = ring(2).await;
    let (seen, mut calls) = mpsc::unbounded_channel();
    let service = RpcSessionService::new(move |request: RpcRequest| {
        let left = request
            .deadline
            .saturating_duration_since(std::time::Instant::now());
        let is_in_time = !left.is_zero() && left <= Duration::from_secs(5);
        _ = seen.send((request.caller, request.is_idempotent, is_in_time));
        async move { Ok(request.payload) }
    });
    let client = client(&nodes, service.idempotent()).await;
    let options = RpcOptions::new().timeout(Duration::from_secs(5));
    for (options, is_idempotent) in [(options.clone(), false), (options.idempotent(), true)] {
        let answer = within(client.call("check", b"ping", options))
            .await
            .expect("an answer");
        assert_eq!(answer.payload, b"ping");
        assert_eq!(calls.recv().await, Some((nodes[1].id(), is_idempotent, true)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_take_as_much_as_others_and_no_more() {
    let nodes = ring(2).await;
    let client = client(&nodes, echo()).await;
    let payload: Vec<u8> = (0..MAX_MESSAGE_BYTES).map(|at| (at * 7) as u8).collect();
    let answer = within(client.call("check", &payload, RpcOptions::new())).await;
    assert!(answer.expect("an answer").payload == payload);
    let longer = vec![0; MAX_MESSAGE_BYTES + 1];
    let refused = within(client.call("check", &longer, RpcOptions::new())).await;
    assert_eq!(refused.expect_err("too long").code(), Some(Code::TooLarge));
    let too_large = status(&nodes[1], request(Method::POST, "5000", longer)).await;
    assert_eq!(too_large, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_may_insist_on_a_session() {
    let nodes = ring(2).await;
    let names_source = async |request: RpcRequest| Ok(request.source.to_string().into_bytes());
    let server = RpcServer::builder("test", "check", Seed::from_bytes([7; 32]))
        .start(SocketAddr::from(([127, 0, 0, 1], 0)), names_source)
        .expect("a server");
    let tickets = server.tickets([server.local_addr()]).expect("tickets");
    within(nodes[0].serve("check", tickets))
        .await
        .expect("it is served");
    let client = RpcClient::new(nodes[1].clone());
    let options = RpcOptions::new();
    let in_session = within(client.call("check", b"", options.clone().forward_secret()))
        .await
        .expect("an answer");
    assert_eq!(in_session.payload, b"[::]:0");
    let sealed = within(client.call("check", b"", options.clone().names_replica()))
        .await
        .expect("an answer");
    assert_ne!(sealed.payload, b"[::]:0");
    let both = options.clone().forward_secret().server(server.local_addr());
    let refused = within(client.call("check", b"", both)).await;
    assert!(matches!(refused, Err(Error::Input(_))));
    drop(server);
    let gone = within(client.call("check", b"", options.clone().forward_secret())).await;
    assert_eq!(gone.expect_err("no server").code(), Some(Code::TooManyRequests));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_failures_are_told() {
    let nodes = ring(2).await;
    let service = RpcSessionService::new(async |request: RpcRequest| match &request.payload[..] {
        b"panic" => panic!("as the test wants it"),
        b"refuse" => Err(RpcRefusal(Code::NotGranted)),
        b"long" => Ok(vec![0; MAX_MESSAGE_BYTES + 1]),
        _ => core::future::pending().await,
    });
    let client = client(&nodes, service.idempotent()).await;
    for options in [RpcOptions::new(), RpcOptions::new().idempotent()] {
        for (payload, code) in [
            ("panic", Code::HandlerFailed),
            ("refuse", Code::NotGranted),
            ("long", Code::HandlerFailed),
        ] {
            let failed = within(client.call("check", payload.as_bytes(), options.clone())).await;
            assert_eq!(failed.expect_err("no answer").code(), Some(code), "{payload}");
        }
    }
    let options = RpcOptions::new().timeout(Duration::from_millis(300));
    // The service's answer that the deadline has passed may be faster than the client's timer.
    let once = within(client.call("check", b"slow", options.clone())).await;
    let once = once.expect_err("no answer").code();
    assert!(
        matches!(once, Some(Code::OutcomeUnknown | Code::Deadline)),
        "{once:?}"
    );
    let again = within(client.call("check", b"slow", options.idempotent())).await;
    let again = again.expect_err("no answer").code();
    assert!(
        matches!(again, Some(Code::TimedOut | Code::Deadline)),
        "{again:?}"
    );
}

/// Calls a service of two nodes whose first one to get the call leaves in the midst of it; the outcome, and how often it was begun.
async fn call_whose_provider_is_lost(options: RpcOptions) -> (Result<Vec<u8>, Option<Code>>, usize) {
    let nodes = ring(3).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let (lost, mut first) = mpsc::unbounded_channel();
    for at in [0, 2] {
        let (begun, lost) = (Arc::clone(&begun), lost.clone());
        let service = RpcSessionService::new(move |request: RpcRequest| {
            let is_first = begun.fetch_add(1, Ordering::Relaxed) == 0;
            if is_first {
                _ = lost.send(at);
            }
            async move {
                if is_first {
                    core::future::pending::<()>().await;
                }
                Ok(request.payload)
            }
        });
        within(nodes[at].serve("check", service.idempotent()))
            .await
            .expect("it is served");
    }
    let client = RpcClient::new(nodes[1].clone());
    let call = client.call("check", b"ping", options);
    let leaving = async {
        let at = first.recv().await.expect("a provider");
        nodes[at].clone().stop().await;
    };
    let (outcome, ()) = within(async { tokio::join!(call, leaving) }).await;
    let outcome = outcome.map(|answer| answer.payload).map_err(|error| error.code());
    (outcome, begun.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn call_is_carried_out_once_though_its_provider_is_lost() {
    let (outcome, begun) = call_whose_provider_is_lost(RpcOptions::new()).await;
    assert_eq!((outcome, begun), (Err(Some(Code::OutcomeUnknown)), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotent_call_goes_to_another_provider() {
    let (outcome, begun) = call_whose_provider_is_lost(RpcOptions::new().idempotent()).await;
    assert_eq!((outcome, begun), (Ok(b"ping".to_vec()), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_is_idempotent_for_its_caller_alone_is_bound() {
    let nodes = ring(2).await;
    let tells = async |request: RpcRequest| Ok(vec![u8::from(request.is_idempotent)]);
    let client = client(&nodes, RpcSessionService::new(tells)).await;
    let answer = within(client.call("check", b"", RpcOptions::new().idempotent())).await;
    assert_eq!(answer.expect("an answer").payload, [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_that_stops_giving_out_tickets_is_followed() {
    let nodes = ring(2).await;
    let start = |address: SocketAddr, key| {
        let sealed = async |_: RpcRequest| Ok(b"sealed".to_vec());
        RpcServer::builder("test", "check", Seed::from_bytes([key; 32]))
            .idempotent()
            .start(address, sealed)
            .expect("a server")
    };
    let server = start(SocketAddr::from(([127, 0, 0, 1], 0)), 7);
    let address = server.local_addr();
    within(nodes[0].serve("check", server.tickets([address]).expect("tickets")))
        .await
        .expect("it is served");
    let client = RpcClient::new(nodes[1].clone());
    let options = RpcOptions::new().idempotent();
    let before = within(client.call("check", b"", options.clone().names_replica()))
        .await
        .expect("an answer");
    assert_eq!(
        (&before.payload[..], before.server),
        (&b"sealed"[..], address.into())
    );
    let in_session = RpcSessionService::new(async |_: RpcRequest| Ok(b"in a session".to_vec()));
    within(nodes[0].serve("check", in_session))
        .await
        .expect("it is served");
    drop(server);
    // The ticket opens nothing any more, and there is no other one.
    let _another = start(address, 8);
    let after = within(client.call("check", b"", options.clone()))
        .await
        .expect("an answer");
    assert_eq!(after.payload, b"in a session");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_and_strangers_are_refused() {
    let nodes = ring(2).await;
    let _client = client(&nodes, echo()).await;
    let of = |method, timeout| status(&nodes[1], request(method, timeout, Vec::new()));
    assert_eq!(of(Method::POST, "1000").await, 200);
    assert_eq!(of(Method::GET, "1000").await, 405);
    assert_eq!(of(Method::PUT, "1000").await, 405);
    let long = "1".repeat(9000);
    for timeout in ["", "0", "-1", "+1", "1e3", "4294967296", "1, 2", &long] {
        assert_eq!(of(Method::POST, timeout).await, 400, "{timeout}");
    }
    let mut service = echo();
    for (path, expected) in [
        ("/.well-known/selfsame-rpc/call", 403),
        ("/.well-known/selfsame-rpc/call/more", 404),
        (TICKET_PATH, 200),
    ] {
        let stranger = Request::post(path).body(Body::empty()).expect("a request");
        let refused = within(tower_service::Service::call(&mut service, stranger)).await;
        assert_eq!(refused.expect("an answer").status(), expected, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_caller_does_not_keep_others_out() {
    let nodes = ring(2).await;
    let _client = client(&nodes, echo()).await;
    let (pieces, receiver) = mpsc::channel::<Result<http_body::Frame<Bytes>, Infallible>>(1);
    let stream = futures_util::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    let slow = Request::post(CALL_URL)
        .header("selfsame-rpc-timeout", "20000")
        .body(http_body_util::StreamBody::new(Box::pin(stream)))
        .expect("a request");
    let caller = nodes[1].clone();
    let slow = tokio::spawn(async move { caller.fetch(slow).await });
    let piece = http_body::Frame::data(vec![0; MAX_MESSAGE_BYTES - 1].into());
    pieces.send(Ok(piece)).await.expect("it is sent");
    let large = || request(Method::POST, "20000", vec![0; 2]);
    within(async { while status(&nodes[1], large()).await != 503 {} }).await;
    assert_eq!(status(&nodes[0], large()).await, 200);
    drop(pieces);
    let answered = within(slow).await.expect("it ends").expect("an answer");
    let body = answered.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(body.len(), MAX_MESSAGE_BYTES - 1);
    assert_eq!(status(&nodes[1], large()).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_count_until_their_calls_end() {
    let nodes = ring(2).await;
    let (begun, mut calls) = mpsc::unbounded_channel();
    let service = RpcSessionService::new(move |request: RpcRequest| {
        let (answer, answered) = oneshot::channel::<()>();
        _ = begun.send(answer);
        async move {
            _ = answered.await;
            Ok(request.payload)
        }
    });
    let client = client(&nodes, service).await;
    let long = vec![0; MAX_MESSAGE_BYTES / 2 + 1];
    let call = |client: &RpcClient| {
        let (client, long) = (client.clone(), long.clone());
        tokio::spawn(async move { client.call("check", &long, RpcOptions::new()).await })
    };
    let first = call(&client);
    let answer = within(calls.recv()).await.expect("it is carried out");
    let options = RpcOptions::new().timeout(Duration::from_secs(5));
    let second = within(client.call("check", &long, options)).await;
    assert_eq!(second.expect_err("no room").code(), Some(Code::TooManyRequests));
    drop(answer);
    within(first).await.expect("it ends").expect("an answer");
    let third = call(&client);
    drop(within(calls.recv()).await.expect("it is carried out"));
    within(third).await.expect("it ends").expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_that_lies_leaves_a_typed_error() {
    let nodes = ring(2).await;
    for (status, field, once, again) in [
        (422, "none", Code::OutcomeUnknown, Code::BadMessage),
        (422, "65536", Code::OutcomeUnknown, Code::BadMessage),
        (418, "", Code::OutcomeUnknown, Code::BadMessage),
        (302, "", Code::OutcomeUnknown, Code::BadMessage),
        (404, "", Code::NoService, Code::NoService),
        (405, "", Code::NoService, Code::NoService),
        // A page of another program.
        (200, "", Code::OutcomeUnknown, Code::BadMessage),
    ] {
        let lies = tower::service_fn(move |_: Request<Body>| async move {
            let mut response = Response::builder().status(status);
            if !field.is_empty() {
                response = response.header("selfsame-rpc-refusal", field);
            }
            Ok::<_, Infallible>(response.body(Body::empty()).expect("a response"))
        });
        within(nodes[0].serve("check", lies)).await.expect("it is served");
        let client = RpcClient::new(nodes[1].clone());
        let options = RpcOptions::new().forward_secret();
        for (options, code) in [(options.clone(), once), (options.idempotent(), again)] {
            let failed = within(client.call("check", b"ping", options)).await;
            assert_eq!(
                failed.expect_err("no answer").code(),
                Some(code),
                "{status} {field}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_neither_a_ticket_nor_in_its_place_is_refused() {
    let nodes = ring(2).await;
    for answer in [
        &[][..],
        &[0x82, 1],
        &[0x82, 1, 0xf6, 0],
        &[0x82, 9, 0xf6],
        &[0x82, 1, 0xf5],
        &[0x83, 1, 0xf6, 0xf6],
        &[0x9f, 1, 0xf6, 0xff],
    ] {
        let lies = tower::service_fn(move |_: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(Body::from(answer.to_vec())))
        });
        within(nodes[0].serve("check", lies)).await.expect("it is served");
        let client = RpcClient::new(nodes[1].clone());
        let failed = within(client.call("check", b"ping", RpcOptions::new().names_replica())).await;
        assert_eq!(
            failed.expect_err("no ticket").code(),
            Some(Code::BadMessage),
            "{answer:?}"
        );
    }
}
