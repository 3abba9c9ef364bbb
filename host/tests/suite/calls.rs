//! Which provider a request goes to, and to whom it goes when that one does not answer.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::future::pending;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use selfsame_host::{Body, Callee, Code, Error, FetchOptions, Node, PeerId, Policy, ServeOptions};

use crate::common::nodes::{ring, says};
use crate::common::{get, text, within};

/// A service that always answers with a status, and counts its requests.
fn always(
    status: StatusCode,
    count: &Arc<AtomicUsize>,
) -> impl tower::Service<
    Request<Body>,
    Response = Response<Body>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Body>, Infallible>> + Send,
> + Clone
+ Send
+ 'static {
    let count = Arc::clone(count);
    tower::service_fn(move |_: Request<Body>| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut response = Response::new(Body::from("said"));
            *response.status_mut() = status;
            Ok(response)
        }
    })
}

fn request(method: &Method, options: FetchOptions) -> Request<Body> {
    let builder = Request::builder().method(method).uri("https://check.mesh/");
    builder.extension(options).body(Body::empty()).expect("a request")
}

/// Who answered a request.
async fn answers(node: &Node, options: FetchOptions) -> PeerId {
    let response = within(node.fetch(request(&Method::GET, options)))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    response.extensions().get::<Callee>().expect("a callee").peer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_safe_request_goes_to_another_replica_when_one_cannot_answer() {
    for status in [
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ] {
        let nodes = ring(3).await;
        let (bad, good) = (Arc::default(), Arc::default());
        within(nodes[0].serve("check", always(status, &bad)))
            .await
            .expect("a service");
        within(nodes[1].serve("check", always(StatusCode::OK, &good)))
            .await
            .expect("a service");
        for method in [
            Method::GET,
            Method::HEAD,
            Method::OPTIONS,
            Method::PUT,
            Method::DELETE,
        ] {
            for _ in 0..4 {
                let response = within(nodes[2].fetch(request(&method, FetchOptions::new())))
                    .await
                    .expect("an answer");
                assert_eq!(response.status(), StatusCode::OK, "{method}");
            }
        }
        assert_eq!(good.load(Ordering::Relaxed), 20);
        assert!(bad.load(Ordering::Relaxed) > 0, "it was never asked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_safe_or_not_wanted_is_sent_once() {
    let nodes = ring(3).await;
    let count = Arc::default();
    for node in &nodes[..2] {
        within(node.serve("check", always(StatusCode::SERVICE_UNAVAILABLE, &count)))
            .await
            .expect("a service");
    }
    let pieces = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"a")))]);
    let streamed = Request::put("https://check.mesh/").body(StreamBody::new(pieces));
    let response = within(nodes[2].fetch(streamed.expect("a request")))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(count.swap(0, Ordering::Relaxed), 1, "a body that is not kept");
    for (method, options, sent) in [
        (Method::POST, FetchOptions::new(), 1),
        (Method::PATCH, FetchOptions::new(), 1),
        (Method::GET, FetchOptions::new().retry(false), 1),
        (Method::GET, FetchOptions::new().peer(nodes[0].id()), 1),
        (Method::GET, FetchOptions::new(), 2),
    ] {
        let response = within(nodes[2].fetch(request(&method, options)))
            .await
            .expect("an answer");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text(response).await, "said", "the service's own answer");
        assert_eq!(count.swap(0, Ordering::Relaxed), sent, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_of_the_service_is_not_repeated() {
    let nodes = ring(3).await;
    let count = Arc::default();
    for node in &nodes[..2] {
        within(node.serve("check", always(StatusCode::INTERNAL_SERVER_ERROR, &count)))
            .await
            .expect("a service");
    }
    let response = within(nodes[2].fetch(get("https://check.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_survive_the_death_of_a_replica() {
    let nodes = ring(4).await;
    for node in &nodes[1..3] {
        within(node.serve("check", says("alive")))
            .await
            .expect("a service");
    }
    for _ in 0..10 {
        answers(&nodes[3], FetchOptions::new()).await;
    }
    within(nodes[1].clone().stop()).await;
    for _ in 0..20 {
        assert_eq!(answers(&nodes[3], FetchOptions::new()).await, nodes[2].id());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_never_answers_is_cut_at_the_deadline() {
    let nodes = ring(2).await;
    let (dropped, mut was_dropped) = tokio::sync::mpsc::channel::<()>(1);
    let waits = tower::service_fn(move |_: Request<Body>| {
        let dropped = dropped.clone();
        async move {
            pending::<()>().await;
            drop(dropped);
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    within(nodes[0].serve("check", waits)).await.expect("a service");
    let options = FetchOptions::new().timeout(Duration::from_millis(200));
    let error = within(nodes[1].fetch(request(&Method::GET, options)))
        .await
        .expect_err("no answer");
    let Error::Unanswered { service, code, tried } = &error else {
        panic!("{error}");
    };
    assert_eq!((service.as_str(), *code), ("check", Code::Deadline));
    let tried: Vec<_> = tried.iter().map(|tried| (tried.peer, tried.code)).collect();
    assert_eq!(tried, [(nodes[0].id(), Code::Deadline)]);
    assert!(error.to_string().contains(&nodes[0].id().to_string()), "{error}");
    within(nodes[0].serve("check", says("another")))
        .await
        .expect("a service");
    assert_eq!(within(was_dropped.recv()).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_has_begun_may_take_as_long_as_it_likes() {
    let nodes = ring(2).await;
    let (go_on, waits) = tokio::sync::oneshot::channel::<()>();
    let waits = Arc::new(tokio::sync::Mutex::new(Some(waits)));
    let service = tower::service_fn(move |_: Request<Body>| {
        let waits = Arc::clone(&waits);
        let pieces = futures_util::stream::once(async move {
            let waits = waits.lock().await.take();
            // The test goes on only once the deadline has passed.
            _ = waits.expect("one request").await;
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"late")))
        });
        async move { Ok::<_, Infallible>(Response::new(StreamBody::new(pieces))) }
    });
    within(nodes[0].serve("check", service)).await.expect("a service");
    within(nodes[0].serve(
        "never",
        tower::service_fn(async |_: Request<Body>| {
            pending::<()>().await;
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }),
    ))
    .await
    .expect("a service");
    let options = || FetchOptions::new().timeout(Duration::from_millis(500));
    let response = within(nodes[1].fetch(request(&Method::GET, options())))
        .await
        .expect("a head");
    // A request with the same deadline that began later is over.
    let mut never = get("https://never.mesh/");
    never.extensions_mut().insert(options());
    let error = within(nodes[1].fetch(never)).await.expect_err("no answer");
    assert_eq!(error.code(), Some(Code::Deadline));
    go_on.send(()).expect("the handler waits");
    assert_eq!(text(response).await, "late");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_keys_go_to_the_same_replica() {
    let nodes = ring(4).await;
    for node in &nodes[..3] {
        within(node.serve("check", says("sticky")))
            .await
            .expect("a service");
    }
    let mut replicas = HashSet::new();
    for number in 0..30 {
        let key = || FetchOptions::new().key(format!("user {number}"));
        let first = answers(&nodes[3], key()).await;
        for _ in 0..3 {
            assert_eq!(answers(&nodes[3], key()).await, first, "{number}");
        }
        replicas.insert(first);
    }
    assert_eq!(replicas.len(), 3, "keys are spread");
    let long = FetchOptions::new().key(vec![0; 257]);
    let error = within(nodes[3].fetch(request(&Method::GET, long)))
        .await
        .expect_err("too long a key");
    assert_eq!(error.code(), Some(Code::TooLarge));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_provider_is_asked_when_it_is_named() {
    let nodes = ring(3).await;
    for node in &nodes[..2] {
        within(node.serve("check", says("named")))
            .await
            .expect("a service");
    }
    for node in &nodes[..2] {
        let options = FetchOptions::new().peer(node.id());
        assert_eq!(answers(&nodes[2], options).await, node.id());
    }
    // The third node does not serve the name, and its own requests need no way to it.
    let options = FetchOptions::new().peer(nodes[2].id());
    let error = within(nodes[1].fetch(request(&Method::GET, options)))
        .await
        .expect_err("no service");
    let class = error.code().map(Code::class);
    assert_eq!(class, Some(Code::NoService.class()), "{error}");
    assert!(error.to_string().contains(&nodes[2].id().to_string()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_gets_its_share() {
    const REQUESTS: usize = 2000;
    let nodes = ring(4).await;
    for (node, version, weight) in [(0, "1", 1.0), (1, "1", 1.0), (2, "2", 0.1)] {
        let options = ServeOptions::new().version(version).weight(weight);
        within(nodes[node].serve_with("check", &options, says("version")))
            .await
            .expect("a service");
    }
    let mut counts = HashMap::<PeerId, usize>::new();
    for _ in 0..REQUESTS {
        let options = FetchOptions::new().policy(Policy::Random);
        *counts.entry(answers(&nodes[3], options).await).or_default() += 1;
    }
    let share = |node: usize| counts[&nodes[node].id()] as f64 / REQUESTS as f64;
    // Six standard deviations.
    assert!((share(2) - 0.1).abs() < 0.04, "{counts:?}");
    assert!((share(0) - 0.45).abs() < 0.07, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_serves_says_so() {
    let nodes = ring(2).await;
    let error = within(nodes[1].fetch(get("https://nobody.mesh/")))
        .await
        .expect_err("nobody");
    let Error::Unanswered { service, code, tried } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (service.as_str(), *code, tried.len()),
        ("nobody", Code::NoProvider, 0)
    );
    assert!(error.to_string().starts_with("nobody: "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_serves_a_name_can_be_followed() {
    let nodes = ring(3).await;
    let mut watch = nodes[2].watch("check").expect("a watch");
    let mut is = async |expected: &[&Node]| {
        let mut expected: Vec<_> = expected.iter().map(|node| node.id().0).collect();
        expected.sort_unstable();
        loop {
            let list = within(watch.next()).await.expect("more").expect("a list");
            let mut peers: Vec<_> = list.iter().map(|provider| provider.peer).collect();
            peers.sort_unstable();
            if peers == expected {
                return;
            }
        }
    };
    is(&[]).await;
    within(nodes[0].serve("check", says("one")))
        .await
        .expect("a service");
    is(&[&nodes[0]]).await;
    within(nodes[1].serve("check", says("two")))
        .await
        .expect("a service");
    is(&[&nodes[0], &nodes[1]]).await;
    within(nodes[0].withdraw("check")).await.expect("an end");
    is(&[&nodes[1]]).await;
    within(nodes[2].clone().stop()).await;
    assert!(within(watch.next()).await.is_none(), "the node is stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_none_cannot_be_followed() {
    let node = ring(1).await.remove(0);
    let mut watch = node.watch("no name").expect("a watch");
    let error = within(watch.next())
        .await
        .expect("an error")
        .expect_err("no name");
    assert_eq!(error.code(), Some(Code::BadName));
    assert!(within(watch.next()).await.is_none());
}
