//! What a collector and a scrape see of requests between nodes.

use alloc::sync::Arc;
use core::convert::Infallible;
use core::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use selfsame_host::{Body, Error, Node, ServeOptions, Telemetry};
use tokio::sync::mpsc;

use crate::common::nodes::{bootstrap, member, ring, says};
use crate::common::{get, text, within};

/// Kinds of a span in OTLP.
const SERVER: i32 = 2;
const CLIENT: i32 = 3;
/// A trace that a program began, and its span.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector of OTLP over HTTP
struct Collector {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<(String, Bytes)>,
}

impl Collector {
    async fn start() -> Self {
        let (sender, received) = mpsc::unbounded_channel();
        let take = axum::routing::post(move |request: axum::extract::Request| {
            let sender = sender.clone();
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                _ = sender.send((path, body));
                StatusCode::OK
            }
        });
        let application = axum::Router::new().route("/v1/{signal}", take);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("its number");
        tokio::spawn(async { axum::serve(listener, application).await });
        Self { address, received }
    }

    fn to_collector(&self) -> Telemetry {
        Telemetry::new()
            .name("tests")
            .endpoint(format!("http://{}/", self.address))
    }

    fn telemetry(&self) -> Arc<Telemetry> {
        Arc::new(self.to_collector())
    }

    /// The next spans, until there are so many.
    async fn spans(&mut self, count: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        while spans.len() < count {
            let (path, body) = within(self.received.recv()).await.expect("more");
            if path == "/v1/traces" {
                let request = ExportTraceServiceRequest::decode(body).expect("a request");
                let each = request
                    .resource_spans
                    .into_iter()
                    .flat_map(|resource| resource.scope_spans);
                spans.extend(each.flat_map(|scope| scope.spans));
            }
        }
        assert_eq!(spans.len(), count);
        spans
    }

    /// The names of what is measured, when it is told next.
    async fn measured(&mut self) -> Vec<String> {
        loop {
            let (path, body) = within(self.received.recv()).await.expect("more");
            if path == "/v1/metrics" {
                let request = ExportMetricsServiceRequest::decode(body).expect("a request");
                let scopes = request
                    .resource_metrics
                    .into_iter()
                    .flat_map(|resource| resource.scope_metrics);
                return scopes
                    .flat_map(|scope| scope.metrics)
                    .map(|metric| metric.name)
                    .collect();
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

/// An attribute of a span, as text.
fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{name}: {other:?}"),
    }
}

fn span_of<'a>(spans: &'a [Span], kind: i32, name: &str) -> &'a Span {
    let found = spans.iter().find(|span| span.kind == kind && span.name == name);
    found.unwrap_or_else(|| panic!("{name} of kind {kind} in {spans:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_sees_the_whole_path_of_a_request() {
    let mut collector = Collector::start().await;
    let followed = [
        collector.telemetry(),
        collector.telemetry(),
        collector.telemetry(),
    ];
    let first = within(member().observer(followed[0].clone()).start())
        .await
        .expect("a node");
    let start = |at: usize| {
        member()
            .observer(followed[at].clone())
            .bootstrap(bootstrap(&first))
            .start()
    };
    let middle = within(start(1)).await.expect("a node");
    let caller = within(start(2)).await.expect("a node");
    within(first.serve_with("last", &ServeOptions::new().version("7"), says("done")))
        .await
        .expect("a service");
    let through = middle.clone();
    // What a handler asks for belongs to what it was asked, without its saying so.
    let passes = tower::service_fn(move |_: Request<Body>| {
        let through = through.clone();
        async move { through.fetch(get("https://last.mesh/deep?secret=1")).await }
    });
    within(middle.serve("first", passes)).await.expect("a service");

    let mut request = get("https://first.mesh/");
    let parent = format!("00-{TRACE}-{PARENT}-01");
    request
        .headers_mut()
        .insert("traceparent", parent.parse().expect("a value"));
    let response = within(caller.fetch(request)).await.expect("an answer");
    assert_eq!(text(response).await, "done");
    for telemetry in &followed {
        within(telemetry.close()).await;
    }

    let spans = collector.spans(4).await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    let path = [
        span_of(&spans, CLIENT, "GET first"),
        span_of(&spans, SERVER, "GET first"),
        span_of(&spans, CLIENT, "GET last"),
        span_of(&spans, SERVER, "GET last"),
    ];
    assert_eq!(hex(&path[0].parent_span_id), PARENT);
    for pair in path.windows(2) {
        assert_eq!(pair[1].parent_span_id, pair[0].span_id, "{pair:?}");
    }
    let value = |at: usize, name: &str| attribute(&path[at].attributes, name).unwrap_or_default();
    assert_eq!(value(0, "selfsame.provider"), middle.id().to_string());
    assert_eq!(value(1, "selfsame.caller"), caller.id().to_string());
    assert_eq!(value(2, "url.full"), "https://last.mesh/deep");
    assert_eq!(value(3, "selfsame.version"), "7");
    assert_eq!(value(3, "url.path"), "/deep");
    for at in 0..path.len() {
        assert_eq!(value(at, "http.response.status_code"), "200");
    }
    let said = format!("{spans:?}");
    assert!(!said.contains("secret"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_the_mesh_collects_and_is_not_told_of_what_it_is_told() {
    let collects = || Arc::new(Telemetry::new().endpoint("https://observability.mesh"));
    let followed = [collects(), collects()];
    let (sender, received) = mpsc::unbounded_channel();
    let mut collector = Collector {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        received,
    };
    let takes = tower::service_fn(move |request: Request<Body>| {
        let sender = sender.clone();
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            _ = sender.send((path, body));
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }
    });
    let first = within(member().observer(followed[0].clone()).start())
        .await
        .expect("a node");
    within(first.serve("observability", takes))
        .await
        .expect("a service");
    within(first.serve("hello", says("hello")))
        .await
        .expect("a service");
    let second = member()
        .observer(followed[1].clone())
        .bootstrap(bootstrap(&first));
    let second = within(second.start()).await.expect("a node");
    for round in ["GET hello", "GET hello"] {
        let response = within(second.fetch(get("https://hello.mesh/")))
            .await
            .expect("an answer");
        assert_eq!(text(response).await, "hello");
        for telemetry in &followed {
            within(telemetry.flush()).await;
        }
        // The second time, what was told the first time would be among it.
        let spans = collector.spans(2).await;
        let (client, server) = (span_of(&spans, CLIENT, round), span_of(&spans, SERVER, round));
        assert_eq!(server.parent_span_id, client.span_id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_in_the_mesh_needs_an_owner() {
    let telemetry = Arc::new(Telemetry::new().endpoint("https://observability.mesh"));
    let node = Node::builder("tests")
        .in_memory()
        .address("wss://node.example")
        .observer(telemetry);
    let error = within(node.start()).await.expect_err("no owner");
    assert!(matches!(error, Error::Input(text) if text.contains("whose names")));
}

/// Series after two requests, one of which nobody served: name, labels and value.
const TOLD: &[(&str, &[&str], &str)] = &[
    (
        "http_client_request_duration_seconds_count",
        &[
            "selfsame_service=\"hello\"",
            "http_response_status_code=\"200\"",
            "http_request_method=\"GET\"",
        ],
        "1",
    ),
    (
        "http_client_request_duration_seconds_count",
        &["selfsame_service=\"nobody\"", "error_type=\"NoProvider\""],
        "1",
    ),
    (
        "http_server_request_duration_seconds_count",
        &["selfsame_service=\"hello\""],
        "1",
    ),
    (
        "http_server_active_requests",
        &["selfsame_service=\"hello\""],
        "0",
    ),
    ("selfsame_telemetry_lost_spans_total", &[], "0"),
    ("selfsame_node", &["what=\"joined\""], "1"),
];

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_told_to_the_collector_and_to_prometheus() {
    let mut collector = Collector::start().await;
    let telemetry = collector.telemetry();
    let node = within(member().observer(telemetry.clone()).start())
        .await
        .expect("a node");
    within(node.serve("hello", says("hello")))
        .await
        .expect("a service");
    within(node.fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    within(node.fetch(get("https://nobody.mesh/")))
        .await
        .expect_err("nobody");
    let status = within(node.status()).await.expect("a status");
    // The answer is whole a moment after its head.
    let numbers = loop {
        let numbers = telemetry.metrics(&status);
        if numbers.contains("http_server_request_duration_seconds_count") {
            break numbers;
        }
        tokio::task::yield_now().await;
    };
    for (name, labels, value) in TOLD {
        let own = [format!("node=\"{}\"", node.id()), "service_name=\"tests\"".into()];
        let is_told = numbers.lines().any(|line| {
            line.starts_with(&format!("{name}{{"))
                && own.iter().all(|label| line.contains(label))
                && labels.iter().all(|label| line.contains(label))
                && line.ends_with(&format!(" {value}"))
        });
        assert!(is_told, "{name} {labels:?} {value} in\n{numbers}");
    }
    assert!(numbers.ends_with("# EOF\n"));
    within(telemetry.close()).await;
    let measured = collector.measured().await;
    for name in [
        "http.client.request.duration",
        "http.server.request.duration",
        "http.server.active_requests",
        "selfsame.telemetry.lost_spans",
    ] {
        assert!(
            measured.iter().any(|measured| measured == name),
            "{name} in {measured:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_that_nobody_takes_are_counted() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}", gone.local_addr().expect("its number"));
    drop(gone);
    let telemetry = Arc::new(Telemetry::new().endpoint(url));
    let node = within(member().observer(telemetry.clone()).start())
        .await
        .expect("a node");
    within(node.fetch(get("https://nobody.mesh/")))
        .await
        .expect_err("nobody");
    within(telemetry.close()).await;
    let status = within(node.status()).await.expect("a status");
    let numbers = telemetry.metrics(&status);
    let lost = numbers
        .lines()
        .find(|line| line.starts_with("selfsame_telemetry_lost_spans_total"));
    assert!(lost.is_some_and(|line| line.ends_with(" 1")), "{numbers}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_a_trace_passes_as_it_came() {
    let telemetry = Arc::new(Telemetry::new());
    let node = within(member().observer(telemetry).start())
        .await
        .expect("a node");
    let echo = tower::service_fn(async |request: Request<Body>| {
        let parent = request.headers().get("traceparent").cloned();
        let bytes = parent.map(|value| Bytes::copy_from_slice(value.as_bytes()));
        Ok::<_, Infallible>(Response::new(Full::new(bytes.unwrap_or_default())))
    });
    within(node.serve("echo", echo)).await.expect("a service");
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let mut request = get("https://echo.mesh/");
    request
        .headers_mut()
        .insert("traceparent", parent.parse().expect("a value"));
    let response = within(node.fetch(request)).await.expect("an answer");
    assert_eq!(text(response).await, parent);
    let response = within(node.fetch(get("https://echo.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_traces_begun_here_a_share_is_recorded_and_of_others_what_their_flag_says() {
    let mut collector = Collector::start().await;
    let telemetry = Arc::new(collector.to_collector().sample(0.0));
    let node = within(member().observer(telemetry.clone()).start())
        .await
        .expect("a node");
    let traced = |flag: &str| {
        let mut request = get("https://nobody.mesh/");
        let value = format!("00-{TRACE}-{PARENT}-{flag}").parse().expect("a value");
        request.headers_mut().insert("traceparent", value);
        request
    };
    for request in [get("https://nobody.mesh/"), traced("00"), traced("01")] {
        within(node.fetch(request)).await.expect_err("nobody");
    }
    within(telemetry.close()).await;
    let spans = collector.spans(1).await;
    assert_eq!(hex(&spans[0].trace_id), TRACE);

    for share in [1.5, -0.1, f64::NAN] {
        let telemetry = Arc::new(collector.to_collector().sample(share));
        let error = within(member().observer(telemetry).start())
            .await
            .expect_err("no share");
        assert!(matches!(error, Error::Input(text) if text.contains("from 0 to 1")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn telemetry_follows_one_node_and_a_collector_has_a_url() {
    let telemetry = Arc::new(Telemetry::new());
    let start = || member().observer(telemetry.clone()).start();
    within(start()).await.expect("a node");
    let error = within(start()).await.expect_err("a second one");
    assert!(matches!(error, Error::Input(text) if text.contains("one node")));
    let nowhere = Arc::new(Telemetry::new().endpoint("no url"));
    let error = within(member().observer(nowhere).start())
        .await
        .expect_err("no URL");
    assert!(matches!(error, Error::Input(text) if text.contains("no url")));
    let _: Vec<Node> = ring(1).await;
}
