//! Nodes that meet over real sockets.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::time::SystemTime;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use selfsame_host::{Body, BoxError, Caller, Code, Error, Event, FetchOptions, Node, Owner, PeerId, Seed};
use tokio::sync::{mpsc, oneshot};

use crate::common::nodes::{bootstrap, member, ring, says};
use crate::common::{get, text, within};

/// A body whose pieces come from a channel.
fn channel_body() -> (
    mpsc::Sender<Bytes>,
    impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
) {
    let (sender, mut receiver) = mpsc::channel(1);
    let pieces = futures_util::stream::poll_fn(move |context| {
        receiver
            .poll_recv(context)
            .map(|piece: Option<Bytes>| piece.map(|piece| Ok(Frame::data(piece))))
    });
    (sender, StreamBody::new(pieces))
}

/// A service that answers with what it is sent, as it comes.
fn echo() -> impl tower::Service<
    Request<Body>,
    Response = Response<Body>,
    Error = BoxError,
    Future = impl Future<Output = Result<Response<Body>, BoxError>> + Send,
> + Clone
+ Send
+ 'static {
    tower::service_fn(async |request: Request<Body>| Ok(Response::new(request.into_body())))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_alone_calls_itself() {
    let node = ring(1).await.remove(0);
    within(node.serve("hello", says("hello")))
        .await
        .expect("a service");
    let response = within(node.fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(text(response).await, "hello");
    within(node.leave()).await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_find_and_call_each_other() {
    let nodes = ring(2).await;
    let describe = tower::service_fn(async |request: Request<Body>| {
        let caller = request.extensions().get::<Caller>().expect("a caller").peer;
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let body = request.into_body().collect().await?.to_bytes();
        let answer = format!("{caller} {method} {path} {}", String::from_utf8_lossy(&body));
        let response = Response::builder()
            .status(201)
            .header("x-echo", "yes")
            .body(Body::from(answer));
        Ok::<_, BoxError>(response.expect("a response"))
    });
    within(nodes[0].serve("describe", describe))
        .await
        .expect("a service");
    let providers = within(nodes[1].find("describe")).await.expect("providers");
    let peers: Vec<_> = providers.iter().map(|provider| provider.peer).collect();
    assert_eq!(peers, [nodes[0].id().0]);
    let request = Request::post("https://describe.mesh/a/b?c")
        .body(Body::from("ping"))
        .expect("a request");
    let response = within(nodes[1].fetch(request)).await.expect("an answer");
    assert_eq!(response.status(), StatusCode::CREATED);
    assert_eq!(response.headers()["x-echo"], "yes");
    assert_eq!(text(response).await, format!("{} POST /a/b ping", nodes[1].id()));
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_see_one_ring() {
    let nodes = ring(3).await;
    let mut ids: Vec<_> = nodes.iter().map(|node| node.id().0).collect();
    ids.sort_unstable();
    for node in &nodes {
        let at = ids.iter().position(|id| *id == node.id().0).expect("its own id");
        let (before, after) = (ids[(at + 2) % 3], ids[(at + 1) % 3]);
        let mut events = node.events();
        let settled = async {
            loop {
                let status = node.status().await.expect("a status");
                let predecessor = status.predecessor.map(|node| node.id);
                let successor = status.successors.first().map(|node| node.id);
                if predecessor == Some(before) && successor == Some(after) {
                    return;
                }
                // A change that came between is in the queue already.
                _ = events.recv().await;
            }
        };
        within(settled).await;
    }
    within(nodes[2].serve("hello", says("two")))
        .await
        .expect("a service");
    let response = within(nodes[1].fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_joins_over_https_post() {
    let nodes = ring(1).await;
    within(nodes[0].serve("echo", echo())).await.expect("a service");
    let url = bootstrap(&nodes[0])[0].replace("ws://", "http://");
    let leaf = Node::builder("test")
        .in_memory()
        .allow_private(true)
        .unowned()
        .bootstrap([url]);
    let leaf = within(leaf.start()).await.expect("a leaf");
    let body = "x".repeat(100_000);
    for _ in 0..3 {
        let request = Request::put("https://echo.mesh/")
            .body(Body::from(body.clone()))
            .expect("a request");
        let response = within(leaf.fetch(request)).await.expect("an answer");
        assert_eq!(text(response).await, body);
    }
    within(leaf.leave()).await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_stream_both_ways_at_once() {
    let nodes = ring(2).await;
    within(nodes[0].serve("echo", echo())).await.expect("a service");
    let (pieces, body) = channel_body();
    let request = Request::post("https://echo.mesh/").body(body).expect("a request");
    let response = within(nodes[1].fetch(request))
        .await
        .expect("an answer before the end of the request");
    let mut answer = response.into_body();
    // Each piece comes back before the next one is sent.
    for number in 0..20_u32 {
        let piece = Bytes::from(number.to_le_bytes().repeat(1000));
        pieces.send(piece.clone()).await.expect("a reader");
        let mut back = Vec::new();
        while back.len() < piece.len() {
            let frame = within(answer.frame()).await.expect("more").expect("a frame");
            back.extend_from_slice(&frame.into_data().expect("data"));
        }
        assert_eq!(back, piece);
    }
    drop(pieces);
    assert!(within(answer.frame()).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_arrives_whole() {
    let nodes = ring(2).await;
    within(nodes[0].serve("echo", echo())).await.expect("a service");
    let sent: Vec<u8> = (0..8_000_000_u32).map(|number| (number % 251) as u8).collect();
    let request = Request::post("https://echo.mesh/")
        .body(Body::from(sent.clone()))
        .expect("a request");
    let response = within(nodes[1].fetch(request)).await.expect("an answer");
    let received = within(response.into_body().collect())
        .await
        .expect("a body")
        .to_bytes();
    assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_at_once_are_all_answered() {
    let nodes = ring(2).await;
    within(nodes[0].serve("echo", echo())).await.expect("a service");
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..100_u32 {
        let node = nodes[1].clone();
        requests.spawn(async move {
            let body = number.to_string().repeat(5000);
            let request = Request::put("https://echo.mesh/")
                .body(Body::from(body.clone()))
                .expect("a request");
            let response = node.fetch(request).await.expect("an answer");
            assert_eq!(text(response).await, body);
        });
    }
    while let Some(done) = within(requests.join_next()).await {
        done.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stands_still_stops_the_sender() {
    let nodes = ring(2).await;
    let produced = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&produced);
    let endless = tower::service_fn(move |_: Request<Body>| {
        let count = Arc::clone(&count);
        async move {
            let pieces = futures_util::stream::poll_fn(move |_| {
                count.fetch_add(16_384, Ordering::Relaxed);
                core::task::Poll::Ready(Some(Ok::<_, Infallible>(Frame::data(Bytes::from_static(
                    &[7; 16_384],
                )))))
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(pieces)))
        }
    });
    within(nodes[0].serve("endless", endless))
        .await
        .expect("a service");
    let response = within(nodes[1].fetch(get("https://endless.mesh/")))
        .await
        .expect("an answer");
    // The sender has stood still once a round trip of another request changes nothing any more.
    within(nodes[0].serve("hello", says("hello")))
        .await
        .expect("a service");
    let mut last = usize::MAX;
    while last != produced.load(Ordering::Relaxed) {
        last = produced.load(Ordering::Relaxed);
        for _ in 0..10 {
            within(nodes[1].fetch(get("https://hello.mesh/")))
                .await
                .expect("others are not disturbed");
        }
    }
    assert!(last <= 512 * 1024, "{last} bytes were produced for nobody");
    let mut body = response.into_body();
    let mut received = 0;
    while received < 1024 * 1024 {
        received += within(body.frame())
            .await
            .expect("more")
            .expect("a frame")
            .into_data()
            .expect("data")
            .len();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_reads_ends_its_handler() {
    let nodes = ring(2).await;
    let (dropped, was_dropped) = oneshot::channel::<()>();
    let guard = Arc::new(std::sync::Mutex::new(Some(dropped)));
    let waits = tower::service_fn(move |_: Request<Body>| {
        let guard = guard.lock().expect("a lock").take();
        async move {
            core::future::pending::<()>().await;
            drop(guard);
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    within(nodes[0].serve("waits", waits)).await.expect("a service");
    let fetch = nodes[1].fetch(get("https://waits.mesh/"));
    assert!(
        tokio::time::timeout(Duration::from_millis(300), fetch)
            .await
            .is_err(),
        "it never answers"
    );
    within(was_dropped)
        .await
        .expect_err("the handler is dropped with what it holds");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_serves_is_not_found() {
    let nodes = ring(2).await;
    let error = within(nodes[1].fetch(get("https://nobody.mesh/")))
        .await
        .expect_err("nobody");
    assert_eq!(error.code(), Some(Code::NoProvider), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_withdrawn_is_not_found_any_more() {
    let nodes = ring(2).await;
    within(nodes[0].serve("hello", says("hello")))
        .await
        .expect("a service");
    within(nodes[1].find("hello")).await.expect("a provider");
    within(nodes[0].withdraw("hello"))
        .await
        .expect("an end of the service");
    let error = within(nodes[1].find("hello")).await.expect_err("nobody");
    assert_eq!(error.code(), Some(Code::NoProvider), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owned_name_is_served_with_a_grant_only() {
    let owner = Seed::generate().expect("a seed");
    let key = owner.owner_key("test").expect("a key");
    let seed = Seed::generate().expect("a seed");
    let id = seed.peer_id("test").expect("an id");
    let expires = SystemTime::now() + Duration::from_secs(600);
    let grant = owner.grant("test", "check", id, expires).expect("a grant");
    let granted = within(member().owner(key).seed(seed).grant(grant.clone()).start())
        .await
        .expect("a node");
    let other = within(member().owner(key).bootstrap(bootstrap(&granted)).start())
        .await
        .expect("a node");
    within(granted.serve("check", says("granted")))
        .await
        .expect("a service");
    let refused = within(other.serve("check", says("forged")))
        .await
        .expect_err("no grant");
    assert!(
        matches!(&refused, Error::Input(text) if text.contains("no grant")),
        "{refused}"
    );
    let response = within(other.fetch(get("https://check.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "granted");
    let mut unowned = get("https://check.mesh/");
    unowned
        .extensions_mut()
        .insert(FetchOptions::new().owner(Owner::Unowned));
    let error = within(other.fetch(unowned)).await.expect_err("another name");
    assert_eq!(error.code(), Some(Code::NoProvider), "{error}");
    let stolen = within(member().owner(key).grant(grant).start())
        .await
        .expect_err("a grant for another peer");
    assert!(
        matches!(&stolen, Error::Input(text) if text.contains(&id.to_string())),
        "{stolen}"
    );
}

/// Grants for another peer and of another network are refused.
async fn refuses_foreign_grants(node: &Node, owner: &Seed, ids: &[PeerId; 2]) {
    let expires = SystemTime::now() + Duration::from_secs(600);
    let grant = |network, to| owner.grant(network, "check", to, expires).expect("a grant");
    let other = within(node.renew(grant("test", ids[1])))
        .await
        .expect_err("for another peer");
    assert!(
        matches!(&other, Error::Input(text) if text.contains(&ids[1].to_string())),
        "{other}"
    );
    within(node.renew(grant("elsewhere", ids[0])))
        .await
        .expect_err("of another network");
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_are_given_renewed_and_handed_on_while_services_run() {
    let owners = [(); 2].map(|()| Seed::generate().expect("a seed"));
    let keys = owners
        .each_ref()
        .map(|owner| owner.owner_key("test").expect("a key"));
    let seeds = [(); 2].map(|()| Seed::generate().expect("a seed"));
    let ids = seeds.each_ref().map(|seed| seed.peer_id("test").expect("an id"));
    let expires = SystemTime::now() + Duration::from_secs(600);
    let grant = |owner: usize, to: usize| {
        owners[owner]
            .grant("test", "check", ids[to], expires)
            .expect("a grant")
    };
    let start = |seed: &Seed, owner: usize, peers: Vec<String>| {
        within(
            member()
                .owner(keys[owner])
                .seed(seed.clone())
                .bootstrap(peers)
                .start(),
        )
    };
    let first = start(&seeds[0], 0, vec![]).await.expect("a node");
    let second = start(&seeds[1], 0, bootstrap(&first).into())
        .await
        .expect("a node");
    let caller = start(&Seed::generate().expect("a seed"), 0, bootstrap(&first).into());
    let caller = caller.await.expect("a node");
    let asks = async |owner: usize| {
        let options = FetchOptions::new().owner(Owner::Key(keys[owner])).retry(false);
        let request = Request::get("https://check.mesh/")
            .extension(options)
            .body(Body::empty());
        within(caller.fetch(request.expect("a request"))).await
    };

    within(first.serve("check", says("first")))
        .await
        .expect_err("no grant yet");
    within(first.renew(grant(0, 0))).await.expect("a grant");
    within(first.serve("check", says("first")))
        .await
        .expect("a service");
    assert_eq!(text(asks(0).await.expect("an answer")).await, "first");
    refuses_foreign_grants(&first, &owners[0], &ids).await;
    assert_eq!(
        text(asks(0).await.expect("an answer")).await,
        "first",
        "the old one is in force"
    );

    // Handed on: the second peer serves before the first one ceases.
    within(second.renew(grant(0, 1))).await.expect("a grant");
    within(second.serve("check", says("second")))
        .await
        .expect("a service");
    within(first.withdraw("check")).await.expect("an end");
    let mut watch = caller.watch("check").expect("a watch");
    loop {
        let list = within(watch.next()).await.expect("more").expect("a list");
        if list.iter().map(|provider| provider.peer).eq([ids[1].0]) {
            break;
        }
    }
    assert_eq!(text(asks(0).await.expect("an answer")).await, "second");

    // The name of another owner is another name.
    within(second.renew(grant(1, 1))).await.expect("a grant");
    assert_eq!(text(asks(1).await.expect("an answer")).await, "second");
    let error = within(caller.find("check"))
        .await
        .expect_err("not that owner's any more");
    assert_eq!(error.code(), Some(Code::NoProvider), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_keeps_its_identity_over_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = ring(1).await.remove(0);
    let start = || {
        member()
            .storage(folder.path())
            .bootstrap(bootstrap(&first))
            .start()
    };
    let node = within(start()).await.expect("a node");
    let id = node.id();
    let in_use = within(start()).await.expect_err("the folder is in use");
    assert!(matches!(in_use, Error::Store(_)), "{in_use}");
    within(node.stop()).await;
    let node = within(start()).await.expect("the same node");
    assert_eq!(node.id(), id);
    within(node.serve("hello", says("again")))
        .await
        .expect("a service");
    let response = within(first.fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "again");
    within(node.leave()).await.expect("an end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_keeps_trying_until_its_bootstrap_is_there() {
    let seed = Seed::generate().expect("a seed");
    let id = seed.peer_id("test").expect("an id");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("its number")
        .port();
    let url = format!("ws://127.0.0.1:{port}");
    let peers = [format!("{url}#{id}")];
    let error = within(member().bootstrap(&peers).start())
        .await
        .expect_err("nobody there");
    assert!(error.is_unreachable(), "{error}");
    let waiting = within(member().bootstrap(&peers).keep_trying(true).start())
        .await
        .expect("a node");
    assert!(!within(waiting.status()).await.expect("a status").joined);
    let mut events = waiting.events();
    let late = Node::builder("test")
        .in_memory()
        .seed(seed)
        .listen(&url)
        .allow_private(true)
        .unowned();
    let late = within(late.start()).await.expect("the bootstrap");
    while !within(waiting.status()).await.expect("a status").joined {
        within(events.recv()).await.expect("an event");
    }
    within(late.serve("hello", says("late")))
        .await
        .expect("a service");
    let response = within(waiting.fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "late");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bootstrap_with_another_id_or_network_is_refused_by_name() {
    let node = ring(1).await.remove(0);
    let other = Seed::generate().expect("a seed").peer_id("test").expect("an id");
    let wrong = member()
        .bootstrap([format!("{}#{other}", node.addresses()[0])])
        .start();
    let error = within(wrong).await.expect_err("another id");
    assert_eq!(error.code(), Some(Code::WrongPeer), "{error}");
    let elsewhere = Node::builder("elsewhere")
        .in_memory()
        .allow_private(true)
        .bootstrap(bootstrap(&node))
        .start();
    let error = within(elsewhere).await.expect_err("another network");
    assert_eq!(error.code(), Some(Code::WrongNetwork), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_stopped_fails_what_waits_for_it() {
    let nodes = ring(2).await;
    let waits = tower::service_fn(async |_: Request<Body>| {
        core::future::pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    within(nodes[0].serve("waits", waits)).await.expect("a service");
    let (first, second) = (nodes[1].clone(), nodes[1].clone());
    let waiting = tokio::spawn(async move { first.fetch(get("https://waits.mesh/")).await });
    let mut events = nodes[0].events();
    // A round trip later the request is with the handler, or on its way.
    within(nodes[1].find("waits")).await.expect("providers");
    within(second.clone().stop()).await;
    let error = within(waiting)
        .await
        .expect("no panic")
        .expect_err("the node is gone");
    assert!(matches!(error, Error::Stopped), "{error}");
    assert!(matches!(within(second.status()).await, Err(Error::Stopped)));
    let gone = async {
        loop {
            if let Ok(Event::PeerDisconnected(peer)) = events.recv().await
                && peer == second.id()
            {
                return;
            }
        }
    };
    within(gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_has_no_body_has_none_whatever_its_handler_says() {
    let node = within(member().start()).await.expect("a node");
    let service = tower::service_fn(async |request: Request<Body>| {
        let status = if request.method() == Method::DELETE {
            204
        } else {
            200
        };
        let response = Response::builder().status(status).header("x", "kept");
        response.body(Body::from("a body"))
    });
    within(node.serve("bare", service)).await.expect("a service");
    for (method, body) in [(Method::HEAD, ""), (Method::DELETE, ""), (Method::GET, "a body")] {
        let mut request = get("https://bare.mesh/");
        *request.method_mut() = method.clone();
        let response = within(node.fetch(request)).await.expect("an answer");
        assert_eq!(response.headers()["x"], "kept");
        assert_eq!(text(response).await, body, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_ended_has_given_its_ports_back() {
    for _ in 0..20 {
        let node = within(member().listen("tcp://127.0.0.1:0").start())
            .await
            .expect("a node");
        let places = node.listening().to_vec();
        within(node.leave()).await.expect("an end");
        for place in places {
            std::net::TcpListener::bind(place).expect("a port that is free");
        }
    }
}
