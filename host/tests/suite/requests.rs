//! Requests and answers of programs that embed a node: paths, names, lengths and fields.

use core::convert::Infallible;
use core::time::Duration;

use alloc::sync::Arc;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use selfsame_host::{Body, BoxError, Code, Error, Node};
use tokio::sync::{Notify, mpsc};

use crate::common::nodes::ring;
use crate::common::{get, text, within};

/// A body of unknown length.
fn streamed(pieces: Vec<&'static str>) -> impl http_body::Body<Data = Bytes, Error = BoxError> + Send {
    let frames = pieces
        .into_iter()
        .map(|piece| Ok(Frame::data(Bytes::from(piece))));
    StreamBody::new(futures_util::stream::iter(frames))
}

/// A node that serves `echo`, which tells of each request, and a caller.
async fn echoing() -> [Node; 2] {
    let nodes: [Node; 2] = ring(2).await.try_into().expect("two nodes");
    let echo = tower::service_fn(async |request: Request<Body>| {
        let length = request.headers().get("content-length").cloned();
        let said = format!("{} {length:?} {}", request.method(), request.uri());
        match request.into_body().collect().await {
            Ok(_) => Ok(Response::new(Body::from(said))),
            Err(error) => Err(error),
        }
    });
    within(nodes[0].serve("echo", echo)).await.expect("a service");
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_travel_as_browsers_write_them() {
    // Written by the URL parser of Node: what was given, a tab, and path and query of the URL.
    let cases = include_str!("whatwg_paths.tsv");
    let [_service, caller] = echoing().await;
    let mut refused = String::new();
    for case in cases.lines() {
        let (given, expected) = case.split_once('\t').expect("two columns");
        let Ok(url) = format!("https://echo.mesh{given}").parse::<Uri>() else {
            refused.extend(given.chars().filter(|char| "\"<>`".contains(*char)).take(1));
            continue;
        };
        let request = Request::get(url).body(Body::empty()).expect("a request");
        let response = within(caller.fetch(request)).await.expect("an answer");
        assert_eq!(
            text(response).await,
            format!("GET None https://echo.mesh{expected}"),
            "{given}"
        );
    }
    // What the type for URLs does not take at all: in a query, and in a path.
    assert_eq!(refused, "\"<<>>`");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_urls_are_case_insensitive() {
    let [_service, caller] = echoing().await;
    for url in [
        "https://ECHO.mesh/a",
        "https://echo.MESH/a",
        "https://Echo.Mesh./a",
    ] {
        let response = within(caller.fetch(get(url))).await.expect("an answer");
        assert_eq!(text(response).await, "GET None https://echo.mesh/a", "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_a_service_as_a_whole_have_no_path() {
    let [_service, caller] = echoing().await;
    let url = Uri::builder()
        .scheme("https")
        .authority("echo.mesh")
        .path_and_query("*");
    let url = url.build().expect("a URL");
    let asks = |method: Method| {
        let request = Request::builder().method(method).uri(url.clone());
        request.body(Body::empty()).expect("a request")
    };
    let response = within(caller.fetch(asks(Method::OPTIONS)))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "OPTIONS None *");
    let error = within(caller.fetch(asks(Method::GET)))
        .await
        .expect_err("no path");
    assert!(
        matches!(&error, Error::Input(why) if why.contains("OPTIONS")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_say_their_length_where_servers_expect_it() {
    let [_service, caller] = echoing().await;
    for (method, body, length) in [
        ("POST", "", "Some(\"0\")"),
        ("PUT", "", "Some(\"0\")"),
        ("POST", "abc", "Some(\"3\")"),
        ("DELETE", "", "None"),
        ("GET", "", "None"),
    ] {
        let request = Request::builder().method(method).uri("https://echo.mesh/");
        let response = caller.fetch(request.body(Body::from(body)).expect("a request"));
        let said = text(within(response).await.expect("an answer")).await;
        assert_eq!(said, format!("{method} {length} https://echo.mesh/"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_head_can_say_is_named_to_its_caller() {
    let [_service, caller] = echoing().await;
    let long = "x".repeat(257);
    for (method, name, value, hint) in [
        ("TRACE", "x", "y", "TRACE"),
        ("CONNECT", "x", "y", "CONNECT"),
        ("TRACK", "x", "y", "TRACK"),
        ("POST", &long, "y", "xxxx"),
        ("POST", "content-length", "+3", "content-length"),
        ("POST", "content-length", "3, 3", "content-length"),
        ("POST", "content-length", "4", "another length"),
        ("POST", "content-length", "1000000000000000", "15 digits"),
    ] {
        let request = Request::builder().method(method).uri("https://echo.mesh/");
        let request = request
            .header(name, value)
            .body(Body::from("abc"))
            .expect("a request");
        let error = within(caller.fetch(request)).await.expect_err("a mistake");
        assert!(
            matches!(&error, Error::Input(why) if why.contains(hint)),
            "{name}: {value}: {error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_no_head_can_say_is_500() {
    let nodes = ring(2).await;
    let service = tower::service_fn(async |request: Request<Body>| {
        let response = Response::builder();
        let response = match request.uri().path() {
            "/name" => response.header("x".repeat(257), "y"),
            "/signed" => response.header("content-length", "+4"),
            "/list" => response.header("content-length", "4, 4"),
            "/twice" => response
                .header("content-length", "4")
                .header("content-length", "4"),
            "/other" => response.header("content-length", "5"),
            _ => response.status(600),
        };
        response.body(Body::from("four"))
    });
    within(nodes[0].serve("odd", service)).await.expect("a service");
    for path in ["/name", "/signed", "/list", "/twice", "/other", "/status"] {
        let response = within(nodes[1].fetch(get(&format!("https://odd.mesh{path}"))))
            .await
            .expect("an answer");
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_its_length_is_an_error_at_both_ends() {
    let nodes = ring(2).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let tell = tell.clone();
        async move {
            if request.method() == Method::POST {
                _ = tell.send(request.into_body().collect().await.is_ok());
                return Ok::<_, Infallible>(Response::new(any(streamed(vec![]))));
            }
            let pieces = match request.uri().path() {
                "/short" => vec!["abc"],
                "/long" => vec!["abcd", "efg"],
                _ => vec!["abc", "de"],
            };
            let mut response = Response::new(any(streamed(pieces)));
            response.headers_mut().insert("content-length", 5.into());
            Ok(response)
        }
    });
    within(nodes[0].serve("breaks", service))
        .await
        .expect("a service");
    for (path, is_whole) in [("/exact", true), ("/short", false), ("/long", false)] {
        let response = within(nodes[1].fetch(get(&format!("https://breaks.mesh{path}")))).await;
        let body = match response {
            Ok(response) => within(response.into_body().collect()).await,
            Err(error) => Err(error),
        };
        assert_eq!(body.is_ok(), is_whole, "{path}: {body:?}");
    }
    for (pieces, is_whole) in [
        (vec!["abc", "de"], true),
        (vec!["abc"], false),
        (vec!["abcd", "efg"], false),
    ] {
        let request = Request::post("https://breaks.mesh/").header("content-length", "5");
        let request = request.body(streamed(pieces)).expect("a request");
        let answered = within(nodes[1].fetch(request)).await;
        assert_eq!(answered.is_ok(), is_whole, "{answered:?}");
        if is_whole {
            assert_eq!(within(told.recv()).await, Some(true));
        } else {
            assert!(matches!(answered, Err(Error::Body(_))), "{answered:?}");
        }
    }
}

/// A body without its type.
fn any(
    body: impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
) -> http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError> {
    body.boxed_unsync()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_closes_finishes_its_requests_within_a_bound() {
    let nodes = ring(3).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (tell, wait) = (tell.clone(), Arc::clone(&wait));
        async move {
            _ = tell.send(());
            match request.uri().path() {
                "/finishes" => wait.notified().await,
                _ => core::future::pending().await,
            }
            Ok::<_, Infallible>(Response::new(Body::from("finished")))
        }
    });
    for node in &nodes[..2] {
        within(node.serve("slow", service.clone()))
            .await
            .expect("a service");
    }
    let asks = |path: &str, provider: &Node| {
        let mut request = get(&format!("https://slow.mesh{path}"));
        let options = selfsame_host::FetchOptions::new()
            .peer(provider.id())
            .retry(false);
        request.extensions_mut().insert(options);
        let caller = nodes[2].clone();
        tokio::spawn(async move { caller.fetch(request).await })
    };
    let finishes = asks("/finishes", &nodes[0]);
    within(told.recv()).await.expect("it began");
    let closing = tokio::spawn(nodes[0].clone().close(Duration::from_secs(3600)));
    go.notify_one();
    let response = within(finishes).await.expect("no panic").expect("an answer");
    assert_eq!(text(response).await, "finished");
    within(closing).await.expect("no panic").expect("it left");

    let hangs = asks("/hangs", &nodes[1]);
    within(told.recv()).await.expect("it began");
    within(nodes[1].clone().close(Duration::from_millis(1)))
        .await
        .expect("it left");
    let error = within(hangs)
        .await
        .expect("no panic")
        .expect_err("it was given up");
    // A reset carries the class.
    assert_eq!(
        error.code().map(Code::class),
        Some(Code::HandlerFailed.class()),
        "{error}"
    );
}
