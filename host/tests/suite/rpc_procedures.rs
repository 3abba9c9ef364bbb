//! Typed procedures of the encrypted RPC between client and servers.

use core::net::SocketAddr;
use core::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use selfsame_host::rpc::{
    RpcClient, RpcOptions, RpcProcedure, RpcProcedures, RpcRefusal, RpcRouter, RpcSelection, RpcServer,
    RpcStreamProcedure,
};
use selfsame_host::{Code, Node, Seed};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::common::nodes::ring;
use crate::common::within;

#[derive(Serialize, Deserialize)]
struct Check {
    url: String,
}

const CHECK: RpcProcedure<Check, usize> = RpcProcedure::new("check").idempotent();
const NOTHING: RpcProcedure<(), ()> = RpcProcedure::new("nothing");
const COUNT: RpcStreamProcedure<u32, u32> = RpcStreamProcedure::new("count");
const FAIL: RpcStreamProcedure<bool, u32> = RpcStreamProcedure::new("fail");

/// Starts a replica; `dropped` hears of each stream that is.
fn replica(dropped: mpsc::UnboundedSender<()>) -> RpcServer {
    let procedures = RpcProcedures::new()
        .procedure(CHECK, async |input: Check, _| match input.url.len() {
            0 => Err(RpcRefusal(Code::NotGranted)),
            13 => panic!("as the test wants it"),
            length => Ok(length),
        })
        .procedure(NOTHING, async |(), _| Ok(()))
        .stream(COUNT, move |last: u32, _| {
            let told = Told(dropped.clone());
            stream::iter(1..=last).map(move |number| {
                _ = &told;
                Ok(number)
            })
        })
        .stream(FAIL, |is_panic: bool, _| {
            stream::iter([Ok(1), Err(())]).map(move |item| match item {
                Ok(number) => Ok(number),
                Err(()) if is_panic => panic!("as the test wants it"),
                Err(()) => Err(RpcRefusal(Code::NotGranted)),
            })
        });
    RpcServer::builder("test", "check", Seed::from_bytes([7; 32]))
        .idempotent()
        .router_key(router_key())
        .start(loopback(), procedures.into_handler())
        .expect("a server")
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn router_key() -> Seed {
    Seed::from_bytes([8; 32])
}

/// Says that it was dropped.
struct Told(mpsc::UnboundedSender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        _ = self.0.send(());
    }
}

struct Scene {
    client: RpcClient,
    server: RpcServer,
    dropped: mpsc::UnboundedReceiver<()>,
    _nodes: Vec<Node>,
}

async fn scene() -> Scene {
    let nodes = ring(2).await;
    let (sender, dropped) = mpsc::unbounded_channel();
    let server = replica(sender);
    let tickets = server.tickets([server.local_addr()]).expect("tickets");
    within(nodes[0].serve("check", tickets))
        .await
        .expect("it is served");
    Scene {
        client: RpcClient::new(nodes[1].clone()),
        server,
        dropped,
        _nodes: nodes,
    }
}

fn url(text: &str) -> Check {
    Check { url: text.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn procedures_answer_with_their_types() {
    let Scene { client, .. } = &scene().await;
    let options = RpcOptions::new();
    let length = within(client.procedure("check", CHECK, &url("four"), options.clone())).await;
    assert_eq!(length.expect("an answer"), 4);
    within(client.procedure("check", NOTHING, &(), options.clone()))
        .await
        .expect("an answer");
    for (text, code) in [("", Code::NotGranted), ("thirteen-long", Code::HandlerFailed)] {
        let refused = within(client.procedure("check", CHECK, &url(text), options.clone())).await;
        assert_eq!(refused.expect_err("a refusal").code(), Some(code));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_learn_what_their_contract_gets_wrong() {
    let Scene { client, .. } = &scene().await;
    let options = RpcOptions::new();
    let unknown: RpcProcedure<(), ()> = "other".into();
    let error = within(client.procedure("check", unknown, &(), options.clone()))
        .await
        .expect_err("none");
    assert_eq!(error.code(), Some(Code::NoService), "{error}");

    let other: RpcProcedure<u32, usize> = "check".into();
    let error = within(client.procedure("check", other, &7, options.clone()))
        .await
        .expect_err("none");
    assert_eq!(error.code(), Some(Code::BadMessage));
    assert!(error.to_string().contains("invalid type: integer `7`"), "{error}");

    let other: RpcProcedure<Check, String> = "check".into();
    let error = within(client.procedure("check", other, &url("four"), options.clone()))
        .await
        .expect_err("none");
    assert_eq!(error.code(), Some(Code::BadMessage));
    assert!(error.to_string().contains("the output is not"), "{error}");

    let other: RpcProcedure<u32, u32> = "count".into();
    let error = within(client.procedure("check", other, &7, options))
        .await
        .expect_err("none");
    assert_eq!(error.code(), Some(Code::BadMessage), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_reach_no_procedure() {
    let Scene { client, .. } = &scene().await;
    let input = |json: &[u8]| [b"spq\x01\x00\x05check", json].concat();
    let refused: [(Vec<u8>, Code); 12] = [
        (b"".to_vec(), Code::BadMessage),
        (b"spq".to_vec(), Code::BadMessage),
        (b"spq\x02\x00\x05check{}".to_vec(), Code::WrongVersion),
        (b"spa\x01\x00\x05check{}".to_vec(), Code::BadMessage),
        (b"spq\x01".to_vec(), Code::BadMessage),
        (b"spq\x01\x03".to_vec(), Code::BadMessage),
        (b"spq\x01\x00\x00".to_vec(), Code::BadMessage),
        (b"spq\x01\x00\x06check".to_vec(), Code::BadMessage),
        ([&b"spq\x01\x01"[..], &[0; 19]].concat(), Code::BadMessage),
        ([&b"spq\x01\x01"[..], &[0; 21]].concat(), Code::BadMessage),
        ([&b"spq\x01\x02"[..], &[0; 17]].concat(), Code::BadMessage),
        ([&b"spq\x01\x00\x40"[..], &[b'x'; 64]].concat(), Code::BadMessage),
    ];
    for (request, code) in refused {
        let error = within(client.call("check", &request, RpcOptions::new())).await;
        assert_eq!(error.expect_err("a refusal").code(), Some(code), "{request:?}");
    }
    let failed = [
        (input(b"{"), "0202"),
        (input(b"\"\xff\""), "0202"),
        (input(&b"[".repeat(500_000)), "0202"),
        (input(&b" ".repeat(1 << 20 | 1)), "0607"),
    ];
    for (request, code) in failed {
        let answer = within(client.call("check", &request, RpcOptions::new())).await;
        let answer = answer.expect("an answer").payload;
        let json = answer.strip_prefix(b"spa\x01\x01").expect("a failure");
        let failure: serde_json::Value = serde_json::from_slice(json).expect("JSON");
        assert_eq!(format!("{:04x}", failure["code"].as_u64().expect("a code")), code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_give_their_items_in_order() {
    let mut scene = scene().await;
    let numbers = within(scene.client.stream("check", COUNT, &5000, RpcOptions::new())).await;
    let numbers: Vec<u32> = within(numbers.expect("a stream").try_collect())
        .await
        .expect("items");
    assert_eq!(numbers, (1..=5000).collect::<Vec<_>>());
    within(scene.dropped.recv()).await.expect("its items are dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_a_router_passes_on_goes_on_at_its_replica() {
    let Scene { client, server, .. } = &scene().await;
    let other = replica(mpsc::unbounded_channel().0);
    let servers = [server.local_addr(), other.local_addr()];
    let router = RpcRouter::builder(router_key()).selection(RpcSelection::RoundRobin);
    let router = router.start(loopback(), &servers).expect("a router");
    let options = RpcOptions::new().server(router.local_addr());
    for _ in 0..4 {
        let numbers = within(client.stream("check", COUNT, &5000, options.clone())).await;
        let numbers: Vec<u32> = within(numbers.expect("a stream").try_collect())
            .await
            .expect("items");
        assert_eq!(numbers.len(), 5000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_dropped_ends_at_the_server() {
    let mut scene = scene().await;
    let numbers = within(scene.client.stream("check", COUNT, &u32::MAX, RpcOptions::new())).await;
    let mut numbers = numbers.expect("a stream");
    assert_eq!(
        within(numbers.next()).await.expect("an item").expect("a number"),
        1
    );
    drop(numbers);
    within(scene.dropped.recv()).await.expect("its items are dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_fails_after_its_items() {
    let Scene { client, .. } = &scene().await;
    for (is_panic, code) in [(false, Code::NotGranted), (true, Code::HandlerFailed)] {
        let begun = within(client.stream("check", FAIL, &is_panic, RpcOptions::new())).await;
        let mut items = match begun {
            Ok(items) => items,
            Err(error) => {
                assert!(is_panic, "{error}");
                assert_eq!(error.code(), Some(code));
                continue;
            }
        };
        assert_eq!(within(items.next()).await.expect("an item").expect("a number"), 1);
        let error = within(items.next()).await.expect("an end").expect_err("an error");
        assert_eq!(error.code(), Some(code));
        assert!(within(items.next()).await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_whose_replica_is_gone_ends_with_one_error() {
    let scene = scene().await;
    let options = RpcOptions::new().timeout(Duration::from_millis(500));
    let numbers = within(scene.client.stream("check", COUNT, &u32::MAX, options)).await;
    let mut numbers = numbers.expect("a stream");
    drop(scene.server);
    let error = within(async {
        loop {
            match numbers.next().await.expect("an error before the end") {
                Ok(number) => assert!(number < 1_000_000),
                Err(error) => break error,
            }
        }
    })
    .await;
    assert_eq!(error.code(), Some(Code::TimedOut), "{error}");
    assert!(within(numbers.next()).await.is_none());
}
