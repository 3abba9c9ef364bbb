//! Nodes with several addresses: which way is taken, and what happens when it fails.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use selfsame_host::{Body, BoxError, Node};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::common::nodes::{bootstrap, ring, says};
use crate::common::{get, text, within};

/// A way to a node that can fail
struct Gate {
    address: SocketAddr,
    /// Where it leads, once that is known.
    to: watch::Sender<Option<SocketAddr>>,
    connections: Arc<AtomicUsize>,
    stalled: watch::Sender<bool>,
    closing: watch::Sender<bool>,
    /// Its sender is gone when nothing is connected any more.
    open: watch::Receiver<()>,
}

impl Gate {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its number");
        let (to, leads_to) = watch::channel(None);
        let (stalled, is_stalled) = watch::channel(false);
        let (closing, mut is_closing) = watch::channel(false);
        let (is_open, open) = watch::channel(());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            let mut carried = JoinSet::new();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = is_closing.wait_for(|closing| *closing) => break,
                };
                let Ok((near, _)) = accepted else { break };
                counted.fetch_add(1, Ordering::Relaxed);
                carried.spawn(carry(near, leads_to.clone(), is_stalled.clone()));
            }
            drop(listener);
            carried.shutdown().await;
            drop(is_open);
        });
        Self {
            address,
            to,
            connections,
            stalled,
            closing,
            open,
        }
    }

    /// Connections so far.
    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Cuts what is connected, and refuses what comes.
    fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until it is closed: until then what was connected may still carry something.
    async fn closed(&self) {
        while self.open.clone().changed().await.is_ok() {}
    }

    /// Accepts what comes and carries nothing more, as if a cable were pulled.
    fn stall(&self) {
        self.stalled.send_replace(true);
    }
}

async fn carry(
    mut near: TcpStream,
    mut leads_to: watch::Receiver<Option<SocketAddr>>,
    mut stalled: watch::Receiver<bool>,
) {
    let to = *leads_to.wait_for(Option::is_some).await.expect("the gate");
    let mut far = TcpStream::connect(to.expect("it was waited for"))
        .await
        .expect("a connection");
    tokio::select! {
        // Either side may break off.
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
        _ = stalled.wait_for(|stalled| *stalled) => {}
    }
    // Both ends stay open.
    core::future::pending().await
}

/// A node that is dialled over TCP through the first gate, and over WebSocket through the second.
async fn behind(gates: &[Gate; 2]) -> Node {
    let [tcp, websocket] = gates;
    let node = Node::builder("test")
        .in_memory()
        .listen("tcp://127.0.0.1:0")
        .listen("ws://127.0.0.1:0")
        .address(format!("tcp://{}", tcp.address))
        .address(format!("ws://{}", websocket.address))
        .allow_private(true)
        .unowned();
    let node = within(node.start()).await.expect("a node");
    for (gate, local) in gates.iter().zip(node.listening()) {
        gate.to.send_replace(Some(*local));
    }
    node
}

/// A node that only dials, and has joined through the first address of another one.
async fn leaf(node: &Node) -> Node {
    let leaf = Node::builder("test")
        .in_memory()
        .unowned()
        .allow_private(true)
        .bootstrap(bootstrap(node));
    within(leaf.start()).await.expect("a leaf")
}

/// A service whose first answer never comes, and which says when it was asked.
fn answers_the_second_time(
    asked: Arc<Notify>,
) -> impl tower::Service<
    Request<Body>,
    Response = Response<Body>,
    Error = BoxError,
    Future = impl Future<Output = Result<Response<Body>, BoxError>> + Send,
> + Clone
+ Send
+ 'static {
    let times = Arc::new(AtomicUsize::new(0));
    tower::service_fn(move |_: Request<Body>| {
        let (asked, times) = (Arc::clone(&asked), Arc::clone(&times));
        async move {
            if times.fetch_add(1, Ordering::Relaxed) == 0 {
                asked.notify_one();
                core::future::pending::<()>().await;
            }
            Ok(Response::new(Body::from("answered")))
        }
    })
}

/// Loses the TCP path while a request is under way: its answer comes over WebSocket.
async fn goes_on_over_websocket(lose: impl FnOnce(&Gate)) {
    let gates = [Gate::start().await, Gate::start().await];
    let node = behind(&gates).await;
    let asked = Arc::new(Notify::new());
    within(node.serve("slow", answers_the_second_time(Arc::clone(&asked))))
        .await
        .expect("a service");
    let leaf = leaf(&node).await;
    let request = leaf.fetch(get("https://slow.mesh/"));
    let lost = async {
        asked.notified().await;
        assert_eq!(
            gates.each_ref().map(Gate::connections),
            [1, 0],
            "the first address is preferred"
        );
        lose(&gates[0]);
    };
    let (response, ()) = within(async { tokio::join!(request, lost) }).await;
    assert_eq!(text(response.expect("an answer")).await, "answered");
    assert_eq!(gates[1].connections(), 1);
    let response = within(leaf.fetch(get("https://slow.mesh/"))).await;
    assert_eq!(text(response.expect("another answer")).await, "answered");
    assert_eq!(gates[1].connections(), 1, "the path stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_cut_is_replaced_by_the_next_address() {
    goes_on_over_websocket(Gate::close).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_falls_silent_is_replaced_by_the_next_address() {
    goes_on_over_websocket(Gate::stall).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_comes_back_is_taken_when_the_other_one_is_lost() {
    let gates = [Gate::start().await, Gate::start().await];
    let node = behind(&gates).await;
    within(node.serve("hello", says("hello")))
        .await
        .expect("a service");
    // The bootstrap's address is the only one that is known at first.
    let websocket = format!("{}#{}", node.addresses()[1], node.id());
    let leaf = Node::builder("test")
        .in_memory()
        .unowned()
        .allow_private(true)
        .bootstrap([websocket]);
    let leaf = within(leaf.start()).await.expect("a leaf");
    let call = async || {
        let response = within(leaf.fetch(get("https://hello.mesh/"))).await;
        assert_eq!(text(response.expect("an answer")).await, "hello");
    };
    call().await;
    assert_eq!(gates.each_ref().map(Gate::connections), [0, 1]);
    gates[1].close();
    within(gates[1].closed()).await;
    call().await;
    assert_eq!(gates.each_ref().map(Gate::connections), [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_several_transports_carry_large_bodies_both_ways() {
    let nodes = ring(2).await;
    let tcp = Node::builder("test")
        .in_memory()
        .listen("tcp://127.0.0.1:0")
        .bootstrap(bootstrap(&nodes[0]))
        .allow_private(true)
        .unowned();
    let tcp = within(tcp.start()).await.expect("a node");
    assert!(tcp.addresses()[0].starts_with("tcp://127.0.0.1:"));
    let echo = tower::service_fn(async |request: Request<Body>| {
        Ok::<_, BoxError>(Response::new(request.into_body()))
    });
    within(tcp.serve("echo", echo)).await.expect("a service");
    let sent = Bytes::from_iter((0..3_000_000_u32).map(|number| number as u8));
    for node in &nodes {
        let request = Request::post("https://echo.mesh/").body(Body::from(sent.clone()));
        let response = within(node.fetch(request.expect("a request"))).await;
        let received = within(response.expect("an answer").into_body().collect()).await;
        assert_eq!(received.expect("a body").to_bytes(), sent);
    }
    within(tcp.leave()).await.expect("an end");
}
