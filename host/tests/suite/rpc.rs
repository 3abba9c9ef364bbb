//! Encrypted RPC over UDP between client and servers, with tickets from the mesh.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::net::UdpSocket;

use selfsame_host::rpc::{
    RpcAddress, RpcClient, RpcKeys, RpcOptions, RpcRefusal, RpcRouter, RpcSelection, RpcServer,
    RpcServerBuilder, RpcTickets,
};
use selfsame_host::{Code, Error, Node, Seed};

use crate::common::nodes::ring;
use crate::common::tickets::{PublicOnly, TicketsFirst};
use crate::common::{get, within};

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A builder of replicas that share a ticket key.
fn replica() -> RpcServerBuilder {
    RpcServer::builder("test", "check", Seed::from_bytes([7; 32]))
}

fn echo() -> RpcServer {
    echo_of(replica())
}

fn echo_of(replica: RpcServerBuilder) -> RpcServer {
    let echo = async |request: selfsame_host::rpc::RpcRequest| Ok(request.payload);
    replica.idempotent().start(loopback(), echo).expect("a server")
}

/// A client in the mesh of a node that issues tickets of a server.
async fn client(nodes: &[Node], server: &RpcServer) -> RpcClient {
    let tickets = server.tickets([server.local_addr()]).expect("tickets");
    within(nodes[0].serve("check", tickets))
        .await
        .expect("it is served");
    RpcClient::with_tickets(TicketsFirst(nodes[1].clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_by_any_replica() {
    let nodes = ring(2).await;
    let (first, second) = (echo(), echo());
    let client = client(&nodes, &first).await;
    for server in [&first, &second, &first] {
        let options = RpcOptions::new().idempotent().server(server.local_addr());
        let answer = within(client.call("check", b"ping", options))
            .await
            .expect("an answer");
        assert_eq!(
            (&answer.payload[..], answer.server),
            (&b"ping"[..], server.local_addr().into())
        );
    }
}

fn router_key(byte: u8) -> Seed {
    Seed::from_bytes([byte; 32])
}

#[tokio::test(flavor = "multi_thread")]
async fn router_picks_servers_that_answer_directly() {
    let nodes = ring(2).await;
    let [first, second] = [1, 2].map(|_| echo_of(replica().router_key(router_key(8))));
    let client = client(&nodes, &first).await;
    let servers = [first.local_addr(), second.local_addr()];
    let named = servers.map(RpcAddress::from);
    for redirects in [false, true] {
        let mut router = RpcRouter::builder(router_key(8)).selection(RpcSelection::RoundRobin);
        if redirects {
            router = router.redirects();
        }
        let router = router.start(loopback(), &servers).expect("a router");
        let options = RpcOptions::new().idempotent().server(router.local_addr());
        let mut answered = Vec::new();
        for _ in 0..4 {
            let answer = within(client.call("check", b"ping", options.clone()))
                .await
                .expect("an answer");
            assert_eq!(answer.payload, b"ping");
            answered.push(answer.server);
        }
        assert!(
            named.iter().all(|server| answered.contains(server)),
            "{answered:?}"
        );
        assert!(
            answered.iter().all(|server| named.contains(server)),
            "{answered:?}"
        );
        router.set_servers(&servers[1..]);
        let mut last = None;
        // Calls that were routed before are answered by the other one.
        within(async {
            while last.as_ref() != Some(&named[1]) {
                let answer = client.call("check", b"ping", options.clone()).await;
                last = answer.ok().map(|answer| answer.server);
            }
        })
        .await;
        let once = RpcOptions::new().server(router.local_addr());
        within(client.call("check", b"once", once))
            .await
            .expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn router_with_another_key_or_without_servers_is_of_no_use() {
    let nodes = ring(2).await;
    let server = echo_of(replica().router_key(router_key(8)));
    let client = client(&nodes, &server).await;
    for (key, servers, code) in [
        (8, vec![], Code::NoProvider),
        (9, vec![server.local_addr()], Code::TimedOut),
    ] {
        let router = RpcRouter::builder(router_key(key))
            .start(loopback(), &servers)
            .expect("a router");
        let options = RpcOptions::new().idempotent().server(router.local_addr());
        let options = options.timeout(Duration::from_millis(500));
        let error = within(client.call("check", b"ping", options))
            .await
            .expect_err("no answer");
        assert_eq!(error.code(), Some(code), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_learns_who_calls() {
    let nodes = ring(2).await;
    let caller = nodes[1].id();
    let names_caller =
        async |request: selfsame_host::rpc::RpcRequest| Ok(request.caller.to_string().into_bytes());
    let server = replica().start(loopback(), names_caller).expect("a server");
    let client = client(&nodes, &server).await;
    let answer = within(client.call("check", b"", RpcOptions::new()))
        .await
        .expect("an answer");
    assert_eq!(answer.payload, caller.to_string().into_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_pass_both_ways() {
    let nodes = ring(2).await;
    let server = echo();
    let client = client(&nodes, &server).await;
    let payload: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 7) as u8).collect();
    let options = RpcOptions::new().idempotent();
    let answer = within(client.call("check", &payload, options))
        .await
        .expect("an answer");
    assert!(answer.payload == payload);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once_are_carried_out_once_each() {
    let nodes = ring(2).await;
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let counts = move |request: selfsame_host::rpc::RpcRequest| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::task::yield_now().await;
            Ok(request.payload)
        }
    };
    let server = replica().threads(2).start(loopback(), counts).expect("a server");
    let client = client(&nodes, &server).await;
    let calls = (0..500_u32).map(|number| {
        let client = client.clone();
        async move {
            let payload = number.to_le_bytes();
            let answer = client.call("check", &payload, RpcOptions::new()).await;
            assert_eq!(answer.expect("an answer").payload, payload);
        }
    });
    within(futures_util::future::join_all(calls)).await;
    assert_eq!(count.load(Ordering::Relaxed), 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_that_fails_or_refuses_ends_its_call_alone() {
    let nodes = ring(2).await;
    let handler = async |request: selfsame_host::rpc::RpcRequest| match &request.payload[..] {
        b"panic" => panic!("as the test wants it"),
        b"refuse" => Err(RpcRefusal(Code::NotGranted)),
        _ => Ok(request.payload),
    };
    let server = replica().start(loopback(), handler).expect("a server");
    let client = client(&nodes, &server).await;
    for (payload, code) in [("panic", Code::HandlerFailed), ("refuse", Code::NotGranted)] {
        let failed = within(client.call("check", payload.as_bytes(), RpcOptions::new())).await;
        assert_eq!(failed.expect_err("no answer").code(), Some(code));
    }
    within(client.call("check", b"ping", RpcOptions::new()))
        .await
        .expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_is_gone_leaves_a_typed_error() {
    let nodes = ring(2).await;
    let server = echo();
    let client = client(&nodes, &server).await;
    let options = RpcOptions::new().timeout(Duration::from_millis(300));
    within(client.call("check", b"ping", options.clone()))
        .await
        .expect("an answer");
    let options = options.server(server.local_addr());
    drop(server);
    let once = within(client.call("check", b"ping", options.clone())).await;
    assert_eq!(once.expect_err("no answer").code(), Some(Code::OutcomeUnknown));
    let repeatable = within(client.call("check", b"ping", options.idempotent())).await;
    assert_eq!(repeatable.expect_err("no answer").code(), Some(Code::TimedOut));
}

#[tokio::test(flavor = "multi_thread")]
async fn ticket_key_that_is_replaced_costs_a_new_ticket() {
    let nodes = ring(2).await;
    let server = echo();
    let client = client(&nodes, &server).await;
    let other = echo();
    let options = RpcOptions::new().idempotent();
    within(client.call("check", b"ping", options.clone()))
        .await
        .expect("an answer");
    for server in [&server, &other] {
        server
            .set_ticket_key(&Seed::from_bytes([8; 32]))
            .expect("a key of its own");
    }
    let options = options.server(other.local_addr());
    within(client.call("check", b"ping", options))
        .await
        .expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_are_issued_to_peers_of_the_mesh_alone() {
    let nodes = ring(2).await;
    let server = echo();
    let _client = client(&nodes, &server).await;
    let asked = within(nodes[1].fetch(get("https://check.mesh/.well-known/selfsame-rpc"))).await;
    assert_eq!(asked.expect("an answer").status(), 405);
    let elsewhere = within(nodes[1].fetch(get("https://check.mesh/"))).await;
    assert_eq!(elsewhere.expect("an answer").status(), 404);
    let mut tickets = server.tickets([server.local_addr()]).expect("tickets");
    let stranger = http::Request::post("/.well-known/selfsame-rpc").body(selfsame_host::Body::empty());
    let refused = tower_service::Service::call(&mut tickets, stranger.expect("a request"));
    assert_eq!(within(refused).await.expect("an answer").status(), 403);
}

/// Tickets that nobody can get.
struct NoTickets;

impl RpcTickets for NoTickets {
    fn ticket(&self, _: &str) -> Pin<Box<dyn Future<Output = Result<RpcKeys, Error>> + Send + '_>> {
        Box::pin(async { Err(Error::from_code(Code::NoProvider)) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_without_tickets_says_why() {
    let client = RpcClient::with_tickets(NoTickets);
    let failed = within(client.call("check", b"ping", RpcOptions::new())).await;
    assert_eq!(failed.expect_err("no ticket").code(), Some(Code::NoProvider));
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_lead_to_no_private_address() {
    let nodes = ring(2).await;
    let server = echo();
    within(nodes[0].serve("check", server.tickets([server.local_addr()]).expect("tickets")))
        .await
        .expect("it is served");
    let client = RpcClient::with_tickets(PublicOnly(nodes[1].clone()));
    let failed = within(client.call("check", b"ping", RpcOptions::new())).await;
    assert_eq!(
        failed.expect_err("no answer").code(),
        Some(Code::ForbiddenAddress)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn service_is_found_again_when_its_server_is_gone() {
    let nodes = ring(2).await;
    let first = echo();
    let client = client(&nodes, &first).await;
    let options = RpcOptions::new().idempotent().timeout(Duration::from_millis(300));
    within(client.call("check", b"ping", options.clone()))
        .await
        .expect("an answer");
    drop(first);
    let second = echo();
    within(nodes[0].serve("check", second.tickets([second.local_addr()]).expect("tickets")))
        .await
        .expect("it is served");
    let lost = within(client.call("check", b"ping", options.clone())).await;
    assert_eq!(lost.expect_err("no answer").code(), Some(Code::TimedOut));
    let answer = within(client.call("check", b"ping", options))
        .await
        .expect("an answer");
    assert_eq!(answer.server, second.local_addr().into());
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_from_strangers_does_not_end_a_server() {
    let nodes = ring(2).await;
    let server = echo();
    let client = client(&nodes, &server).await;
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for len in 0..1_400 {
        let datagram: Vec<u8> = (0..len).map(|at| (0x60 + at * len % 7) as u8).collect();
        stranger.send_to(&datagram, server.local_addr()).expect("sent");
    }
    let options = RpcOptions::new().idempotent();
    within(client.call("check", b"ping", options))
        .await
        .expect("an answer");
}
