//! What becomes of requests at the node that serves them, and what their callers are told.

use core::convert::Infallible;
use core::future::pending;
use core::sync::atomic::{AtomicBool, Ordering};
use std::path::Path;
use std::process::Command;

use alloc::sync::Arc;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use selfsame_host::{Body, BoxError, Code, Error, ServeOptions};
use tokio::sync::Notify;

use crate::common::nodes::{ring, says};
use crate::common::{get, text, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_fails_gives_500_to_its_caller_alone() {
    let nodes = ring(2).await;
    let fails = tower::service_fn(async |_: Request<Body>| Err::<Response<Body>, BoxError>("secret".into()));
    within(nodes[0].serve("fails", fails)).await.expect("a service");
    within(nodes[0].serve("hello", says("hello")))
        .await
        .expect("a service");
    let response = within(nodes[1].fetch(get("https://fails.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let said = text(response).await;
    assert!(said.contains("500") && !said.contains("secret"), "{said}");
    let response = within(nodes[1].fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_gives_500_and_serves_on() {
    let nodes = ring(2).await;
    let panics = AtomicBool::new(true);
    let panics = Arc::new(panics);
    let service = tower::service_fn(move |_: Request<Body>| {
        let panics = panics.swap(false, Ordering::Relaxed);
        async move {
            assert!(!panics, "a mistake of the handler");
            Ok::<_, Infallible>(Response::new(Body::from("well")))
        }
    });
    within(nodes[0].serve("panics", service))
        .await
        .expect("a service");
    let response = within(nodes[1].fetch(get("https://panics.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let response = within(nodes[1].fetch(get("https://panics.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "well");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_fails_or_panics_breaks_its_answer_and_nothing_else() {
    let nodes = ring(2).await;
    let head_is_here = Arc::new(Notify::new());
    let wait = Arc::clone(&head_is_here);
    let service = tower::service_fn(move |request: Request<Body>| {
        let wait = Arc::clone(&wait);
        let panics = request.uri().path() == "/panic";
        let pieces = futures_util::stream::once(async move {
            wait.notified().await;
            assert!(!panics, "a mistake of the body");
            Err::<Frame<Bytes>, _>(BoxError::from("a mistake"))
        });
        async move { Ok::<_, Infallible>(Response::new(StreamBody::new(pieces))) }
    });
    within(nodes[0].serve("breaks", service))
        .await
        .expect("a service");
    for path in ["/fail", "/panic"] {
        let response = within(nodes[1].fetch(get(&format!("https://breaks.mesh{path}"))))
            .await
            .expect("a head");
        head_is_here.notify_one();
        let error = within(response.into_body().collect())
            .await
            .expect_err("a broken body");
        let class = error.code().map(Code::class);
        assert_eq!(class, Some(Code::HandlerFailed.class()), "{path}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_head_cannot_travel_is_replaced_by_500() {
    let nodes = ring(2).await;
    let service = tower::service_fn(async |request: Request<Body>| {
        let response = Response::builder();
        match request.uri().path() {
            "/large" => response.header("x", "x".repeat(20_000)).body(Body::empty()),
            _ => response.status(101).body(Body::empty()),
        }
    });
    within(nodes[0].serve("odd", service)).await.expect("a service");
    for path in ["/large", "/switching"] {
        let response = within(nodes[1].fetch(get(&format!("https://odd.mesh{path}"))))
            .await
            .expect("an answer");
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_are_not_allowed_are_answered_403() {
    let nodes = ring(3).await;
    let only_one = ServeOptions::new().allow([nodes[1].id()]);
    within(nodes[0].serve_with("listed", &only_one, says("listed")))
        .await
        .expect("a service");
    let two = nodes[2].id();
    let all_but_two = ServeOptions::new().allow_if(move |caller| caller.peer != two);
    within(nodes[0].serve_with("asked", &all_but_two, says("asked")))
        .await
        .expect("a service");
    for name in ["listed", "asked"] {
        let url = format!("https://{name}.mesh/");
        let allowed = within(nodes[1].fetch(get(&url))).await.expect("an answer");
        assert_eq!(text(allowed).await, name);
        let refused = within(nodes[2].fetch(get(&url))).await.expect("an answer");
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        assert!(text(refused).await.contains("403"));
    }
    // Nobody told otherwise: served again, everybody may call it.
    within(nodes[0].serve("listed", says("open")))
        .await
        .expect("a service");
    let response = within(nodes[2].fetch(get("https://listed.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weight_that_is_no_share_is_refused_and_the_old_service_stays() {
    let node = ring(1).await.remove(0);
    within(node.serve("hello", says("old"))).await.expect("a service");
    for weight in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let options = ServeOptions::new().weight(weight);
        let error = within(node.serve_with("hello", &options, says("new")))
            .await
            .expect_err("no share");
        assert!(
            matches!(&error, Error::Input(text) if text.contains("0 to 1")),
            "{error}"
        );
    }
    let response = within(node.fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "old");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_body_fails_says_so_to_whoever_sends_it() {
    let nodes = ring(2).await;
    let service = tower::service_fn(async |request: Request<Body>| {
        request.into_body().collect().await?;
        Ok::<_, BoxError>(Response::new(Body::empty()))
    });
    within(nodes[0].serve("reads", service)).await.expect("a service");
    let pieces = futures_util::stream::iter([
        Ok(Frame::data(Bytes::from_static(b"begun"))),
        Err(BoxError::from("the disk is full")),
    ]);
    let request = Request::post("https://reads.mesh/")
        .body(StreamBody::new(pieces))
        .expect("a request");
    let error = within(nodes[1].fetch(request)).await.expect_err("a broken body");
    assert!(
        matches!(&error, Error::Body(cause) if cause.to_string() == "the disk is full"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_nobody_waits_for_is_dropped_with_its_handler() {
    let nodes = ring(2).await;
    let (started, mut was_started) = tokio::sync::mpsc::channel(1);
    let (dropped, mut was_dropped) = tokio::sync::mpsc::channel::<()>(1);
    let service = tower::service_fn(move |_: Request<Body>| {
        let (started, dropped) = (started.clone(), dropped.clone());
        async move {
            started.send(()).await.expect("the test waits");
            pending::<()>().await;
            drop(dropped);
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    within(nodes[0].serve("waits", service)).await.expect("a service");
    let fetch = nodes[1].fetch(get("https://waits.mesh/"));
    tokio::select! {
        _ = fetch => panic!("it never answers"),
        begun = within(was_started.recv()) => begun.expect("the handler began"),
    }
    // Once another service is in its place, too, nobody can send any more.
    within(nodes[0].serve("waits", says("another")))
        .await
        .expect("a service");
    assert_eq!(within(was_dropped.recv()).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_withdrawn_still_answers_those_who_cannot_know_yet() {
    let nodes = ring(2).await;
    within(nodes[0].serve("hello", says("hello")))
        .await
        .expect("a service");
    let response = within(nodes[1].fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "hello");
    within(nodes[0].withdraw("hello")).await.expect("an end");
    let response = within(nodes[1].fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "hello");
}

#[test]
fn an_axum_application_is_a_service_as_it_stands() {
    let test = std::env::current_exe().expect("this test");
    let folder = test.parent().and_then(Path::parent).expect("the build folder");
    let program = folder
        .join("examples/axum")
        .with_extension(std::env::consts::EXE_EXTENSION);
    let output = Command::new(program).output().expect("the example runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines[0].starts_with("hello ada, whose node is "), "{printed}");
    assert_eq!(
        lines[1..],
        [
            "the same",
            "101 Switching Protocols",
            "you said hello",
            "403 Forbidden"
        ]
    );
}
