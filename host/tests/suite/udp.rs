//! Nodes over UDP: through a network that loses datagrams, after a new start, and against those who mean harm.

use core::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use selfsame_host::{Body, BoxError, Builder, Node};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use crate::common::nodes::{bootstrap, member, ring, says};
use crate::common::{get, text, within};

// Kinds of datagrams: docs/specification/transports.md.
const OPEN: u8 = 0x50;
const RETRY: u8 = 0x51;
const ACCEPT: u8 = 0x52;
const PACKET: u8 = 0x53;
const RESET: u8 = 0x54;

/// A node that listens on UDP alone.
fn over_udp(port: u16) -> Builder {
    Node::builder("test")
        .in_memory()
        .listen(format!("udp://127.0.0.1:{port}"))
        .allow_private(true)
        .unowned()
}

/// Gives a request's body back.
async fn echo(request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let body = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(Body::from(body)))
}

fn post(url: &str, body: Bytes) -> Request<Body> {
    Request::post(url).body(Body::from(body)).expect("a request")
}

/// Carries datagrams both ways between whoever sends to it and a node, and drops every so many.
async fn lossy(to: SocketAddr, drop_every: usize) -> (SocketAddr, JoinHandle<()>) {
    let near = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = near.local_addr().expect("its number");
    let task = tokio::spawn(async move {
        let far = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        far.connect(to).await.expect("a way");
        let (mut out, mut back) = ([0; 2048], [0; 2048]);
        let (mut from, mut count) = (None, 0_usize);
        loop {
            let (len, is_back) = tokio::select! {
                received = near.recv_from(&mut out) => {
                    let (len, sender) = received.expect("a datagram");
                    from = Some(sender);
                    (len, false)
                }
                received = far.recv(&mut back) => (received.unwrap_or_default(), true),
            };
            count += 1;
            if count.is_multiple_of(drop_every) {
                continue;
            }
            // What cannot be sent on is lost like the rest.
            if !is_back {
                _ = far.send(&out[..len]).await;
            } else if let Some(from) = from {
                _ = near.send_to(&back[..len], from).await;
            }
        }
    });
    (address, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_pass_both_ways_through_a_network_that_loses_every_twentieth_datagram() {
    let server = within(over_udp(0).start()).await.expect("a node");
    within(server.serve("echo", tower::service_fn(echo)))
        .await
        .expect("a service");
    let (address, _gate) = lossy(server.listening()[0], 20).await;
    let client = Node::builder("test")
        .in_memory()
        .unowned()
        .allow_private(true)
        .bootstrap([format!("udp://{address}#{}", server.id())]);
    let client = within(client.start()).await.expect("a leaf");
    let body: Bytes = (0..2 * 1024 * 1024_u32)
        .map(|at| (at ^ (at >> 8)) as u8)
        .collect();
    let answer = within(client.fetch(post("https://echo.mesh/", body.clone())))
        .await
        .expect("an answer");
    let echoed = within(answer.into_body().collect())
        .await
        .expect("a body")
        .to_bytes();
    assert!(echoed == body);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_over_udp_and_websocket_form_one_ring() {
    let first = ring(1).await.remove(0);
    let mut others = Vec::new();
    for _ in 0..4 {
        let bootstraps: Vec<String> = others.iter().chain([&first]).flat_map(bootstrap).collect();
        let next = within(over_udp(0).bootstrap(bootstraps).start())
            .await
            .expect("another node");
        assert!(
            next.addresses()[0].starts_with("udp://127.0.0.1:"),
            "{:?}",
            next.addresses()
        );
        others.push(next);
    }
    within(others[0].serve("hello", says("over udp")))
        .await
        .expect("a service");
    for node in others.iter().chain([&first]) {
        let answer = within(node.fetch(get("https://hello.mesh/")))
            .await
            .expect("an answer");
        assert_eq!(text(answer).await, "over udp");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_again_is_reached_again_at_once() {
    let seed = selfsame_host::Seed::generate().expect("a seed");
    let first = within(over_udp(0).seed(seed.clone()).start())
        .await
        .expect("a node");
    let port = first.listening()[0].port();
    let client = member().bootstrap(bootstrap(&first));
    let client = within(client.start()).await.expect("a member");
    within(first.serve("hello", says("first")))
        .await
        .expect("a service");
    assert_eq!(
        text(
            within(client.fetch(get("https://hello.mesh/")))
                .await
                .expect("an answer")
        )
        .await,
        "first"
    );
    drop(first);
    let again = loop {
        // The port is free once the node has gone.
        match within(
            over_udp(port)
                .seed(seed.clone())
                .bootstrap(bootstrap(&client))
                .start(),
        )
        .await
        {
            Ok(node) => break node,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    within(again.serve("hello", says("again")))
        .await
        .expect("a service");
    let answer = within(client.fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(answer).await, "again");
}

/// What a listener answers to datagrams, all in order.
async fn answers(listener: SocketAddr, datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    socket.connect(listener).await.expect("a way");
    for datagram in datagrams {
        socket.send(datagram).await.expect("it is sent");
    }
    // A packet with an unknown id is answered, so that what was not answered is known.
    let last = [&[PACKET][..], &[0xee; 8], &[0; 22]].concat();
    socket.send(&last).await.expect("it is sent");
    let mut all = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        let len = within(socket.recv(&mut buffer)).await.expect("an answer");
        if buffer[..len] == [&[RESET][..], &[0xee; 8]].concat() {
            return all;
        }
        all.push(buffer[..len].to_vec());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_more_than_they_sent_before_they_have_answered() {
    let node = within(over_udp(0).start()).await.expect("a node");
    let listener = node.listening()[0];
    let open = |cookie: [u8; 16]| [&[OPEN][..], &[7; 8], &cookie, &[0; 1175]].concat();
    let mut harmful: Vec<Vec<u8>> = (0..1200)
        .step_by(97)
        .map(|len| open([0; 16])[..len].to_vec())
        .collect();
    harmful.push([open([0; 16]), vec![0]].concat());
    harmful.extend([
        vec![],
        vec![0; 1200],
        vec![RESET + 1; 1200],
        vec![RETRY; 25],
        vec![ACCEPT; 17],
        vec![RESET; 9],
        vec![RESET; 10],
    ]);
    assert_eq!(answers(listener, &harmful).await, [] as [Vec<u8>; 0]);

    let asked = answers(listener, &[open([0; 16]), open([1; 16])]).await;
    assert_eq!(asked.len(), 2);
    for retry in &asked {
        assert_eq!((retry.len(), retry[0], &retry[1..9]), (25, RETRY, &[7; 8][..]));
    }
    let cookie: [u8; 16] = asked[0][9..].try_into().expect("a cookie");
    // Its cookie is for another port.
    let stolen = answers(listener, &[open(cookie)]).await;
    assert_eq!(stolen[0][0], RETRY);

    let client = member().bootstrap(bootstrap(&node));
    within(client.start()).await.expect("a node that means no harm");
}
