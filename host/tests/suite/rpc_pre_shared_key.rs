//! Encrypted RPC without a mesh: client and server both have the secret of the service.

use core::net::SocketAddr;
use core::time::Duration;

use selfsame_host::rpc::{PreSharedKey, RpcClient, RpcOptions, RpcRequest, RpcServer};
use selfsame_host::{Code, Error, PeerId, Seed};

use crate::common::within;

fn key(byte: u8) -> Seed {
    Seed::from_bytes([byte; 32])
}

/// A server of `check` in the network `test` that names its caller.
fn server() -> RpcServer {
    server_in("test")
}

fn server_in(network: &str) -> RpcServer {
    let names_caller = async |request: RpcRequest| Ok(request.caller.to_string().into_bytes());
    RpcServer::builder(network, "check", key(7))
        .idempotent()
        .start(SocketAddr::from(([127, 0, 0, 1], 0)), names_caller)
        .expect("a server")
}

fn tickets(network: &str, service: &str, key: Seed, server: &RpcServer) -> PreSharedKey {
    let tickets = PreSharedKey::new(network).expect("no services yet");
    tickets
        .service(service, key, server.local_addr())
        .allow_private(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn key_opens_a_service_that_is_in_no_mesh() {
    let server = server();
    let caller = PeerId([3; 32]);
    let tickets = tickets("test", "check", key(7), &server).caller(caller);
    let client = RpcClient::with_tickets(tickets);
    for options in [RpcOptions::new().idempotent(), RpcOptions::new()] {
        let answer = within(client.call("check", b"ping", options))
            .await
            .expect("an answer");
        assert_eq!(answer.payload, caller.to_string().into_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_opens_a_service_of_a_closed_network() {
    let longest = "n".repeat(63);
    let [network, other] = [1, 2].map(|seed| {
        let authority = key(seed).authority_key(&longest).expect("a key");
        format!("{longest}@{authority}")
    });
    let server = server_in(&network);
    let options = RpcOptions::new().idempotent().timeout(Duration::from_millis(500));
    let call = async |network: &str| {
        let client = RpcClient::with_tickets(tickets(network, "check", key(7), &server));
        within(client.call("check", b"ping", options.clone())).await
    };
    assert!(call(&network).await.is_ok());
    for network in [&other, &longest] {
        let failed = call(network).await.expect_err("another network");
        assert_eq!(failed.code(), Some(Code::TimedOut));
    }
    assert!(matches!(PreSharedKey::new("test@12"), Err(Error::Input(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_others_unless_said() {
    let server = server();
    let mut callers = Vec::new();
    for _ in 0..2 {
        let tickets = tickets("test", "check", key(7), &server);
        let client = RpcClient::with_tickets(tickets);
        let answer = within(client.call("check", b"", RpcOptions::new())).await;
        callers.push(answer.expect("an answer").payload);
    }
    assert_ne!(callers[0], callers[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_network_or_service_opens_nothing() {
    let server = server();
    let options = RpcOptions::new().idempotent().timeout(Duration::from_millis(500));
    for (network, service, key) in [
        ("test", "check", key(8)),
        ("other", "check", key(7)),
        ("test", "other", key(7)),
    ] {
        let tickets = tickets(network, service, key, &server);
        let client = RpcClient::with_tickets(tickets);
        let failed = within(client.call(service, b"ping", options.clone())).await;
        assert_eq!(failed.expect_err("no answer").code(), Some(Code::TimedOut));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_no_key_is_for_say_so() {
    let server = server();
    let client = RpcClient::with_tickets(tickets("test", "check", key(7), &server));
    let unknown = within(client.call("other", b"ping", RpcOptions::new())).await;
    assert_eq!(unknown.expect_err("no key").code(), Some(Code::NoProvider));
    let secret = within(client.call("check", b"ping", RpcOptions::new().forward_secret())).await;
    assert!(matches!(secret, Err(Error::Input(_))));
    let public_only = tickets("test", "check", key(7), &server).allow_private(false);
    let client = RpcClient::with_tickets(public_only);
    let private = within(client.call("check", b"ping", RpcOptions::new())).await;
    assert_eq!(
        private.expect_err("a private address").code(),
        Some(Code::ForbiddenAddress)
    );
}
