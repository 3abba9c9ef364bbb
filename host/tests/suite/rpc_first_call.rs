//! First calls of the encrypted RPC, which travel in sessions of the mesh and bring the tickets of later ones.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::{Mutex, PoisonError};

use data_encoding::BASE64URL_NOPAD;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use selfsame_host::rpc::{
    RpcAddress, RpcAnswer, RpcClient, RpcOptions, RpcRefusal, RpcRequest, RpcServer, RpcSessionService,
    TICKET_PATH,
};
use selfsame_host::{Body, Code, Node, Seed};
use tokio::sync::{Barrier, mpsc};
use tower_service::Service;

use crate::common::nodes::ring;
use crate::common::within;

const CALL: &str = "/.well-known/selfsame-rpc/call";
const BRINGING: &str = "/.well-known/selfsame-rpc/call with a ticket";
const FIELD: &str = "selfsame-rpc-ticket";
const IN_SESSION: &str = "https://check.mesh/";

fn replica<H, F>(service: &str, handler: H) -> RpcServer
where
    H: Fn(RpcRequest) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Vec<u8>, RpcRefusal>> + Send + 'static,
{
    RpcServer::builder("test", service, Seed::from_bytes([7; 32]))
        .idempotent()
        .start(SocketAddr::from(([127, 0, 0, 1], 0)), handler)
        .expect("a server")
}

fn echo() -> RpcServer {
    replica("check", async |request: RpcRequest| Ok(request.payload))
}

/// The requests that a provider has got.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Vec<String>>>);

impl Requests {
    fn note<B>(&self, request: &Request<B>) {
        let path = request.uri().path();
        let noted = match request.headers().contains_key(FIELD) {
            true => format!("{path} with a ticket"),
            false => path.to_owned(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
    }

    fn noted(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Has a node serve `check`, and notes what it gets.
async fn serve<S>(node: &Node, service: S) -> Requests
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let requests = Requests::default();
    let noting = requests.clone();
    let served = tower::service_fn(move |request: Request<Body>| {
        noting.note(&request);
        let mut service = service.clone();
        async move { service.call(request).await }
    });
    within(node.serve("check", served)).await.expect("it is served");
    requests
}

async fn serve_tickets(node: &Node, server: &RpcServer, address: impl Into<RpcAddress>) -> Requests {
    serve(node, server.tickets([address]).expect("tickets")).await
}

fn client(node: &Node) -> RpcClient {
    RpcClient::new(node.clone())
}

async fn call(client: &RpcClient, options: RpcOptions) -> RpcAnswer {
    within(client.call("check", b"ping", options))
        .await
        .expect("an answer")
}

async fn server_of(client: &RpcClient, options: RpcOptions) -> String {
    call(client, options).await.server.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn first_call_brings_the_ticket_of_the_others() {
    let nodes = ring(2).await;
    let server = echo();
    let requests = serve_tickets(&nodes[0], &server, server.local_addr()).await;
    for options in [RpcOptions::new(), RpcOptions::new().idempotent()] {
        let client = client(&nodes[1]);
        let first = call(&client, options.clone()).await;
        assert_eq!(
            (&first.payload[..], &first.server.to_string()[..]),
            (&b"ping"[..], IN_SESSION)
        );
        let second = call(&client, options).await;
        assert_eq!(
            (&second.payload[..], second.server),
            (&b"ping"[..], server.local_addr().into())
        );
    }
    assert_eq!(requests.noted(), [BRINGING; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_call_sends_no_datagram() {
    let nodes = ring(2).await;
    let server = echo();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    serve_tickets(&nodes[0], &server, socket.local_addr().expect("its address")).await;
    let client = client(&nodes[1]);
    let options = RpcOptions::new().idempotent().timeout(Duration::from_millis(300));
    call(&client, options.clone()).await;
    socket.set_nonblocking(true).expect("a socket");
    let nothing = socket.recv(&mut [0; 1500]).expect_err("no datagram");
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    let lost = within(client.call("check", b"ping", options)).await;
    assert_eq!(lost.expect_err("nobody answers").code(), Some(Code::TimedOut));
    assert!(socket.recv(&mut [0; 1500]).is_ok(), "the second is one");
}

#[tokio::test(flavor = "multi_thread")]
async fn first_calls_do_not_wait_for_each_other() {
    let nodes = ring(2).await;
    let all = Arc::new(Barrier::new(5));
    let server = replica("check", move |request: RpcRequest| {
        let all = Arc::clone(&all);
        async move {
            if request.payload == b"together" {
                all.wait().await;
            }
            Ok(request.payload)
        }
    });
    let requests = serve_tickets(&nodes[0], &server, server.local_addr()).await;
    let client = client(&nodes[1]);
    let calls = (0..5).map(|_| client.call("check", b"together", RpcOptions::new()));
    for answer in within(futures_util::future::join_all(calls)).await {
        assert_eq!(answer.expect("an answer").server.to_string(), IN_SESSION);
    }
    let mut noted = requests.noted();
    noted.sort();
    assert_eq!(noted, [CALL, CALL, CALL, CALL, BRINGING]);
    let after = server_of(&client, RpcOptions::new()).await;
    assert_eq!(after, server.local_addr().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_first_calls_at_once_are_answered() {
    let nodes = ring(2).await;
    let server = echo();
    serve_tickets(&nodes[0], &server, server.local_addr()).await;
    let client = client(&nodes[1]);
    let calls = (0..500).map(|_| client.call("check", b"ping", RpcOptions::new()));
    for answer in within(futures_util::future::join_all(calls)).await {
        assert_eq!(answer.expect("an answer").payload, b"ping");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_call_is_carried_out_once_though_its_provider_is_lost() {
    let nodes = ring(3).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let (lost, mut first) = mpsc::unbounded_channel();
    let servers = [0, 2].map(|at| {
        let (begun, lost) = (Arc::clone(&begun), lost.clone());
        let server = replica("check", move |_: RpcRequest| {
            begun.fetch_add(1, Ordering::Relaxed);
            _ = lost.send(at);
            core::future::pending()
        });
        (at, server)
    });
    for (at, server) in &servers {
        serve_tickets(&nodes[*at], server, server.local_addr()).await;
    }
    let client = client(&nodes[1]);
    let call = client.call("check", b"ping", RpcOptions::new());
    let leaving = async {
        let at = first.recv().await.expect("a provider");
        nodes[at].clone().stop().await;
    };
    let (outcome, ()) = within(async { tokio::join!(call, leaving) }).await;
    assert_eq!(
        outcome.expect_err("it is lost").code(),
        Some(Code::OutcomeUnknown)
    );
    assert_eq!(begun.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_brings_no_ticket() {
    let nodes = ring(2).await;
    let server = replica("check", async |request: RpcRequest| match &request.payload[..] {
        b"refuse" => Err(RpcRefusal(Code::NotGranted)),
        _ => Ok(request.payload),
    });
    let requests = serve_tickets(&nodes[0], &server, server.local_addr()).await;
    let client = client(&nodes[1]);
    let refused = within(client.call("check", b"refuse", RpcOptions::new())).await;
    assert_eq!(refused.expect_err("a refusal").code(), Some(Code::NotGranted));
    assert_eq!(server_of(&client, RpcOptions::new()).await, IN_SESSION);
    let after = server_of(&client, RpcOptions::new()).await;
    assert_eq!(after, server.local_addr().to_string());
    assert_eq!(requests.noted(), [BRINGING; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_on_in_sessions_where_there_are_no_tickets() {
    let nodes = ring(2).await;
    let echo = RpcSessionService::new(async |request: RpcRequest| Ok(request.payload));
    let requests = serve(&nodes[0], echo).await;
    let client = client(&nodes[1]);
    for _ in 0..2 {
        assert_eq!(server_of(&client, RpcOptions::new()).await, IN_SESSION);
    }
    assert_eq!(requests.noted(), [BRINGING; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_is_for_a_replica_asks_for_a_ticket_first() {
    let nodes = ring(2).await;
    let server = echo();
    let requests = serve_tickets(&nodes[0], &server, server.local_addr()).await;
    let named = server.local_addr().to_string();
    for options in [
        RpcOptions::new().names_replica(),
        RpcOptions::new().server(server.local_addr()),
    ] {
        assert_eq!(server_of(&client(&nodes[1]), options).await, named);
    }
    assert_eq!(requests.noted(), [TICKET_PATH; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_that_takes_no_calls_in_sessions_is_asked_for_a_ticket() {
    let nodes = ring(2).await;
    let server = echo();
    for status in [404, 405, 503] {
        let tickets = server.tickets([server.local_addr()]).expect("tickets");
        let older = tower::service_fn(move |request: Request<Body>| {
            let mut tickets = tickets.clone();
            async move {
                if request.uri().path() == TICKET_PATH {
                    return tickets.call(request).await;
                }
                Ok(Response::builder()
                    .status(status)
                    .body(Body::empty())
                    .expect("a response"))
            }
        });
        let requests = serve(&nodes[0], older).await;
        let client = client(&nodes[1]);
        for _ in 0..2 {
            let named = server_of(&client, RpcOptions::new()).await;
            assert_eq!(named, server.local_addr().to_string());
        }
        assert_eq!(requests.noted(), [BRINGING, TICKET_PATH], "{status}");
    }
}

/// A provider that adds fields to each answer, and has the others answered by tickets.
async fn serve_lies(node: &Node, fields: &[&str], honest: &RpcServer) -> Requests {
    let fields: Arc<[String]> = fields.iter().map(|field| (*field).into()).collect();
    let tickets = honest.tickets([honest.local_addr()]).expect("tickets");
    let lies = tower::service_fn(move |request: Request<Body>| {
        let (fields, mut tickets) = (Arc::clone(&fields), tickets.clone());
        async move {
            if request.uri().path() == TICKET_PATH {
                return tickets.call(request).await;
            }
            let mut answer = Response::builder().header(CONTENT_TYPE, "application/octet-stream");
            for field in &*fields {
                answer = answer.header(FIELD, field);
            }
            Ok(answer.body(Body::from("a lie")).expect("a response"))
        }
    });
    serve(node, lies).await
}

/// A ticket that no key opens, as base64url.
fn field(addresses: &[&str]) -> String {
    let mut bytes = vec![0x83, 2, 0x58, 128];
    bytes.extend([3; 128]);
    bytes.push(0x80 + addresses.len() as u8);
    for address in addresses {
        bytes.extend([0x78, address.len() as u8]);
        bytes.extend(address.as_bytes());
    }
    BASE64URL_NOPAD.encode(&bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_that_brings_no_ticket_is_an_answer_all_the_same() {
    let nodes = ring(2).await;
    let whole = field(&["192.0.2.1:7400"]);
    for fields in [
        &[""][..],
        &["a+b/"],
        &[&whole[..100]],
        &[&"A".repeat(2940)],
        &[&field(&[])],
        &[&whole, &whole],
    ] {
        let requests = serve_lies(&nodes[0], fields, &echo()).await;
        let client = client(&nodes[1]);
        for _ in 0..2 {
            assert_eq!(call(&client, RpcOptions::new()).await.payload, b"a lie");
        }
        assert_eq!(requests.noted(), [BRINGING; 2], "{fields:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_on_in_sessions_if_the_ticket_cannot_be_used() {
    let nodes = ring(2).await;
    let none = BASE64URL_NOPAD.encode(&[0x82, 2, 0xf6]);
    for fields in [[&field(&["carrier:pigeon and more of it"])[..]], [&none]] {
        let requests = serve_lies(&nodes[0], &fields, &echo()).await;
        let client = client(&nodes[1]);
        for _ in 0..2 {
            assert_eq!(call(&client, RpcOptions::new()).await.payload, b"a lie");
        }
        assert_eq!(requests.noted(), [BRINGING, CALL]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ticket_of_another_service_is_replaced() {
    let nodes = ring(2).await;
    let honest = echo();
    let other = replica("other", async |request: RpcRequest| Ok(request.payload));
    let tickets = other.tickets([honest.local_addr()]).expect("tickets");
    within(nodes[0].serve("other", tickets))
        .await
        .expect("it is served");
    let request = Request::post(format!("https://other.mesh{TICKET_PATH}")).body(Body::empty());
    let issued = within(nodes[1].fetch(request.expect("a request"))).await;
    let issued = issued.expect("an answer").into_body().collect().await;
    let foreign = BASE64URL_NOPAD.encode(&issued.expect("a ticket").to_bytes());
    let requests = serve_lies(&nodes[0], &[&foreign], &honest).await;
    let client = client(&nodes[1]);
    let options = RpcOptions::new().idempotent();
    assert_eq!(call(&client, options.clone()).await.payload, b"a lie");
    assert_eq!(call(&client, options).await.payload, b"ping");
    assert_eq!(requests.noted(), [BRINGING, TICKET_PATH]);
}
