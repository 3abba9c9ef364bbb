//! Traces and numbers of a node's requests, as OpenTelemetry and Prometheus have them.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::time::Instant;

use http::{Method, StatusCode, request};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanBuilder, SpanKind, Status as SpanStatus, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use selfsame_codec::Code;
use selfsame_codec::reply::Status;

use crate::error::Error;
use crate::id::PeerId;
use crate::observe::{CallObservation, ObservedNode, Observer, ServeObservation, Served};

mod export;
use export::Export;

mod measures;
use measures::{Kind, Measures};

/// Where the name of the program stands unless it is given.
const NAME: &str = "OTEL_SERVICE_NAME";

/// Type of the text of [`Telemetry::metrics`], for the header `content-type` of an answer to a scrape.
pub const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Follows the requests of one node: counts them, and tells of each to a collector of OpenTelemetry
///
/// Traces go on from node to node (W3C Trace Context): a handler's own requests belong to the one that it handles.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn core::error::Error>> {
/// use std::sync::Arc;
/// use selfsame_host::{Node, Telemetry};
///
/// let telemetry = Arc::new(Telemetry::new().name("shop").endpoint("http://localhost:4318"));
/// let node = Node::builder("twiitr").in_memory().unowned().observer(telemetry.clone()).start().await?;
/// println!("{}", telemetry.metrics(&node.status().await?));
/// telemetry.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it follows the node that it is given to"]
pub struct Telemetry {
    name: Option<String>,
    endpoint: Option<String>,
    sample: Option<f64>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    measures: Arc<Measures>,
    followed: OnceLock<Followed>,
}

/// The node that is followed
#[derive(Debug)]
struct Followed {
    name: String,
    id: String,
    export: Option<Export>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

impl Telemetry {
    /// Counts, and tells nobody.
    pub fn new() -> Self {
        Self {
            name: None,
            endpoint: None,
            sample: None,
            shared: Arc::new(Shared {
                measures: Arc::new(Measures::new()),
                followed: OnceLock::new(),
            }),
        }
    }

    /// Name of the program, `service.name` of its telemetry; that of `OTEL_SERVICE_NAME` or the network unless given.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// A collector: the base of its addresses of OTLP over HTTP, such as `http://localhost:4318`, or
    /// `https://observability.mesh` for a service of the mesh, of the owner that the node is configured with. Fields that it
    /// wants stand in `OTEL_EXPORTER_OTLP_HEADERS`.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Share of the traces begun here that the collector is told of, 0 to 1; what `OTEL_TRACES_SAMPLER` says unless given, or
    /// all. Whoever goes on with a trace goes by its flag.
    pub fn sample(mut self, share: f64) -> Self {
        self.sample = Some(share);
        self
    }

    /// What was counted, and what the node tells of itself, as Prometheus reads it.
    #[must_use]
    pub fn metrics(&self, status: &Status) -> String {
        let mut labels = Vec::new();
        if let Some(followed) = self.shared.followed.get() {
            labels.push(("service_name", followed.name.clone()));
            labels.push(("node", followed.id.clone()));
        }
        self.shared.measures.text(status, &labels)
    }

    /// Sends what was gathered so far, for a collector in the mesh before the node leaves.
    pub async fn flush(&self) {
        if let Some(export) = self.shared.export() {
            export.flush().await;
        }
    }

    /// Sends what is left; the node has ended, or is about to.
    pub async fn close(&self) {
        if let Some(export) = self.shared.export() {
            export.close().await;
        }
    }
}

impl Shared {
    fn export(&self) -> Option<&Export> {
        self.followed.get()?.export.as_ref()
    }

    fn began(&self, service: &KeyValue) {
        self.measures.began(service);
        if let Some(export) = self.export() {
            export.numbers().began(service);
        }
    }

    fn ended(&self, kind: Kind, seconds: f64, service: &KeyValue, attributes: &[KeyValue]) {
        self.measures.ended(kind, seconds, service, attributes);
        if let Some(export) = self.export() {
            export.numbers().ended(kind, seconds, service, attributes);
        }
    }

    fn resent(&self, times: u64, service: &KeyValue) {
        self.measures.resent(times, service);
        if let Some(export) = self.export() {
            export.numbers().resent(times, service);
        }
    }

    /// Begins a span below another one; without a collector there is none, and headers stay as they are.
    fn span(&self, builder: SpanBuilder, parent: &Context, request: &mut request::Parts) -> Context {
        let Some(export) = self.export() else {
            return Context::new();
        };
        let span = builder.start_with_context(&export.tracer, parent);
        let context = Context::new().with_span(span);
        let mut headers = HeaderInjector(&mut request.headers);
        TraceContextPropagator::new().inject_context(&context, &mut headers);
        context
    }
}

impl Observer for Telemetry {
    fn follow(&self, node: &ObservedNode<'_>) -> Result<(), Error> {
        let name = self.name.clone().or_else(|| std::env::var(NAME).ok());
        let name = name.unwrap_or_else(|| node.network.to_owned());
        let id = node.id.to_string();
        let mut known = vec![
            ("service.name", name.clone()),
            ("service.namespace", node.network.to_owned()),
            ("service.instance.id", id.clone()),
        ];
        if !node.domain.is_empty() {
            known.push(("selfsame.domain", node.domain.to_owned()));
        }
        let export = self.endpoint.as_ref().map(|endpoint| {
            let resource = export::resource(&known);
            Export::start(
                endpoint,
                resource,
                self.sample,
                &self.shared.measures,
                node.unobserved,
            )
        });
        let followed = Followed {
            name,
            id,
            export: export.transpose()?,
        };
        let first = self.shared.followed.set(followed);
        first.map_err(|_| Error::Input("telemetry follows one node: make one for each".into()))
    }

    fn call(&self, request: &mut request::Parts, service: &str) -> Box<dyn CallObservation> {
        let method = known_method(&request.method);
        let service_label = KeyValue::new("selfsame.service", service.to_owned());
        let labels = vec![
            KeyValue::new("http.request.method", method),
            service_label.clone(),
        ];
        let mut known = labels.clone();
        known.push(KeyValue::new("server.address", format!("{service}.mesh")));
        known.push(KeyValue::new(
            "url.full",
            format!("https://{service}.mesh{}", request.uri.path()),
        ));
        let builder = SpanBuilder::from_name(format!("{method} {service}"))
            .with_kind(SpanKind::Client)
            .with_attributes(known);
        let headers = HeaderExtractor(&request.headers);
        let parent = TraceContextPropagator::new().extract_with_context(&Context::current(), &headers);
        let context = self.shared.span(builder, &parent, request);
        Box::new(ClientSpan {
            ending: Ending {
                shared: Arc::clone(&self.shared),
                kind: Kind::Client,
                context,
                began: Instant::now(),
                service: service_label,
                labels,
                has_ended: AtomicBool::new(false),
            },
            provider: None,
            resends: 0,
        })
    }

    fn serve(&self, request: &mut request::Parts, served: &Served<'_>) -> Arc<dyn ServeObservation> {
        let Served {
            service,
            version,
            caller,
        } = *served;
        let method = known_method(&request.method);
        let service_label = KeyValue::new("selfsame.service", service.to_owned());
        let mut labels = vec![
            KeyValue::new("http.request.method", method),
            service_label.clone(),
        ];
        if !version.is_empty() {
            labels.push(KeyValue::new("selfsame.version", version.to_owned()));
        }
        let mut known = labels.clone();
        known.extend([
            KeyValue::new("url.scheme", "https"),
            KeyValue::new("url.path", request.uri.path().to_owned()),
            KeyValue::new("server.address", format!("{service}.mesh")),
            KeyValue::new("selfsame.caller", caller.to_string()),
        ]);
        let builder = SpanBuilder::from_name(format!("{method} {service}"))
            .with_kind(SpanKind::Server)
            .with_attributes(known);
        let headers = HeaderExtractor(&request.headers);
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        let context = self.shared.span(builder, &parent, request);
        self.shared.began(&service_label);
        Arc::new(ServerSpan(Ending {
            shared: Arc::clone(&self.shared),
            kind: Kind::Server,
            context,
            began: Instant::now(),
            service: service_label,
            labels,
            has_ended: AtomicBool::new(false),
        }))
    }
}

/// A method as it is told: callers make up others, and each would be a series of its own.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::CONNECT => "CONNECT",
        Method::DELETE => "DELETE",
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::TRACE => "TRACE",
        _ => "_OTHER",
    }
}

/// A request that is not over yet
struct Ending {
    shared: Arc<Shared>,
    kind: Kind,
    context: Context,
    began: Instant,
    service: KeyValue,
    labels: Vec<KeyValue>,
    has_ended: AtomicBool,
}

impl Ending {
    /// Tells how it ended, once.
    fn end(&self, more: &[KeyValue], outcome: KeyValue, is_error: bool) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut labels = self.labels.clone();
        labels.extend(more.iter().cloned().chain([outcome.clone()]));
        let seconds = self.began.elapsed().as_secs_f64();
        self.shared.ended(self.kind, seconds, &self.service, &labels);
        let span = self.context.span();
        span.set_attributes(more.iter().cloned().chain([outcome]));
        if is_error {
            span.set_status(SpanStatus::error(""));
        }
        span.end();
    }
}

fn status_code(status: StatusCode) -> KeyValue {
    KeyValue::new("http.response.status_code", i64::from(status.as_u16()))
}

/// The kind of an error; never its text, which may hold anything.
fn error_type(code: Option<Code>) -> KeyValue {
    KeyValue::new("error.type", code.map_or("Error", Code::name))
}

/// A request that this node sends
struct ClientSpan {
    ending: Ending,
    provider: Option<PeerId>,
    resends: u32,
}

impl ClientSpan {
    fn end(&self, outcome: KeyValue, is_error: bool) {
        let provider = self
            .provider
            .map(|peer| KeyValue::new("selfsame.provider", peer.to_string()));
        if self.resends > 0 {
            self.ending
                .shared
                .resent(self.resends.into(), &self.ending.service);
            let resends = KeyValue::new("http.request.resend_count", i64::from(self.resends));
            self.ending.context.span().set_attribute(resends);
        }
        self.ending.end(provider.as_slice(), outcome, is_error);
    }
}

impl CallObservation for ClientSpan {
    fn attempt(&mut self, peer: PeerId) {
        if let Some(before) = self.provider.replace(peer) {
            self.resends += 1;
            let provider = KeyValue::new("selfsame.provider", before.to_string());
            self.ending
                .context
                .span()
                .add_event("selfsame.retry", vec![provider]);
        }
    }

    fn answered(&mut self, status: StatusCode) {
        self.end(status_code(status), status.as_u16() >= 400);
    }

    fn failed(&mut self, error: &Error) {
        self.end(error_type(error.code()), true);
    }
}

impl Drop for ClientSpan {
    /// Nobody waits for the answer any more.
    fn drop(&mut self) {
        if !*self.ending.has_ended.get_mut() {
            self.end(error_type(Some(Code::Cancelled)), true);
        }
    }
}

/// A request that this node serves
struct ServerSpan(Ending);

impl ServeObservation for ServerSpan {
    fn within(&self, work: &mut dyn FnMut()) {
        // Without a collector there is no span, and what surrounds the work stays as it is.
        let _entered = self
            .0
            .context
            .has_active_span()
            .then(|| self.0.context.clone().attach());
        work();
    }

    fn answered(&self, status: StatusCode) {
        self.0.end(&[], status_code(status), status.is_server_error());
    }

    fn failed(&self, code: Code) {
        self.0.end(&[], error_type(Some(code)), true);
    }
}

impl Drop for ServerSpan {
    /// The handler broke.
    fn drop(&mut self) {
        self.0.end(&[], error_type(Some(Code::HandlerFailed)), true);
    }
}
