use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use opentelemetry::metrics::{Counter, Histogram, MeterProvider as _, UpDownCounter};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, Value};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, SpanData,
};
use tokio::runtime::Handle as Runtime;
use tokio::time::timeout;

use super::measures::{BOUNDS, Kind, Measures};
use crate::body::any_body;
use crate::error::Error;
use crate::message::name_of;
use crate::observe::Unobserved;
use crate::transport::{Connector, PostClient, post_client};

/// No part of the trace that is told of: telling of it would never end.
const UNTRACED: &str = "00-00000000000000000000000000000001-0000000000000001-00";
/// What wrote the data.
const SCOPE: &str = "selfsame";
/// How long spans are gathered.
const SPANS_EVERY: Duration = Duration::from_secs(1);
/// How often numbers are sent.
const NUMBERS_EVERY: Duration = Duration::from_secs(10);
/// A collector that takes longer is taken for gone.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a node that ends waits for its last batch.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Most of a collector's answer that is read.
const MAX_ANSWER: usize = 64 * 1024;

/// Sends spans and numbers to a collector
#[derive(Debug)]
pub(super) struct Export {
    pub(super) tracer: SdkTracer,
    numbers: Numbers,
    spans: SdkTracerProvider,
    meters: SdkMeterProvider,
}

impl Export {
    /// Begins to send to a collector of OTLP over HTTP, such as `http://localhost:4318`, or `https://observability.mesh` for
    /// a service of the mesh.
    pub(super) fn start(
        endpoint: &str,
        resource: Resource,
        sample: Option<f64>,
        measures: &Arc<Measures>,
        unobserved: Option<&Unobserved>,
    ) -> Result<Self, Error> {
        let wrong = |error: ExporterBuildError| Error::Input(format!("\"{endpoint}\": {error}"));
        let is_service = endpoint.parse().is_ok_and(|url: Uri| name_of(&url).is_ok());
        let client = Post {
            way: if is_service {
                Way::Mesh(unobserved.cloned().ok_or_else(Error::no_owner)?)
            } else {
                // Whoever names a collector means it, wherever it is.
                Way::Outside(post_client(Connector::new(true, &[])?))
            },
            runtime: Runtime::current(),
        };
        let place = |signal: &str| format!("{}/v1/{signal}", endpoint.trim_end_matches('/'));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_endpoint(place("traces"))
            .build()
            .map_err(wrong)?;
        let lossy = CountingExporter {
            exporter,
            measures: Arc::clone(measures),
        };
        let batches = BatchConfigBuilder::default()
            .with_scheduled_delay(SPANS_EVERY)
            .build();
        let batches = BatchSpanProcessor::builder(lossy)
            .with_batch_config(batches)
            .build();
        let mut spans = SdkTracerProvider::builder()
            .with_span_processor(batches)
            .with_resource(resource.clone());
        if let Some(share) = sample {
            spans = spans.with_sampler(sampler(share)?);
        }
        let spans = spans.build();
        let exporter = MetricExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(place("metrics"))
            .build()
            .map_err(wrong)?;
        let reader = PeriodicReader::builder(exporter)
            .with_interval(NUMBERS_EVERY)
            .build();
        let meters = SdkMeterProvider::builder()
            .with_reader(reader)
            .with_resource(resource)
            .build();
        Ok(Self {
            tracer: spans.tracer(SCOPE),
            numbers: Numbers::new(&meters, measures),
            spans,
            meters,
        })
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Sends what was gathered.
    pub(super) async fn flush(&self) {
        self.finish(|spans, meters| [spans.force_flush(), meters.force_flush()])
            .await;
    }

    /// Sends what is left.
    pub(super) async fn close(&self) {
        self.finish(|spans, meters| {
            [
                spans.shutdown_with_timeout(CLOSE_TIMEOUT),
                meters.shutdown_with_timeout(CLOSE_TIMEOUT),
            ]
        })
        .await;
    }

    /// Does what blocks in a thread of its own, and tells what was not taken.
    async fn finish(
        &self,
        work: impl FnOnce(&SdkTracerProvider, &SdkMeterProvider) -> [OTelSdkResult; 2] + Send + 'static,
    ) {
        let (spans, meters) = (self.spans.clone(), self.meters.clone());
        let finishing = tokio::task::spawn_blocking(move || {
            for error in work(&spans, &meters).into_iter().filter_map(Result::err) {
                tracing::debug!(%error, "telemetry was not taken");
            }
        });
        // A panic in it was printed already.
        _ = timeout(2 * CLOSE_TIMEOUT, finishing).await;
    }
}

/// Takes part in the traces of others as they say, and records a share of those that begin here.
fn sampler(share: f64) -> Result<Sampler, Error> {
    if (0.0..=1.0).contains(&share) {
        Ok(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share))))
    } else {
        Err(Error::Input(format!(
            "{share} is no share of traces: it is a number from 0 to 1"
        )))
    }
}

/// The instruments of OpenTelemetry
#[derive(Debug)]
pub(super) struct Numbers {
    client: Histogram<f64>,
    server: Histogram<f64>,
    active: UpDownCounter<i64>,
    resends: Counter<u64>,
}

impl Numbers {
    fn new(meters: &SdkMeterProvider, measures: &Arc<Measures>) -> Self {
        let meter = meters.meter(SCOPE);
        let duration = |name: &'static str, help: &'static str| {
            meter
                .f64_histogram(name)
                .with_unit("s")
                .with_description(help)
                .with_boundaries(BOUNDS.to_vec())
                .build()
        };
        let measures = Arc::clone(measures);
        // The provider keeps the callback.
        _ = meter
            .u64_observable_counter("selfsame.telemetry.lost_spans")
            .with_unit("{span}")
            .with_description("Spans that no collector took.")
            .with_callback(move |observer| observer.observe(measures.lost.get(), &[]))
            .build();
        Self {
            client: duration(
                "http.client.request.duration",
                "Time until answers to requests of this node began.",
            ),
            server: duration(
                "http.server.request.duration",
                "Time until requests to services of this node were answered whole.",
            ),
            active: meter
                .i64_up_down_counter("http.server.active_requests")
                .with_unit("{request}")
                .with_description("Requests to services of this node that are not answered yet.")
                .build(),
            resends: meter
                .u64_counter("selfsame.client.resends")
                .with_unit("{request}")
                .with_description("Requests of this node that were sent again, to another provider.")
                .build(),
        }
    }

    pub(super) fn began(&self, service: &KeyValue) {
        self.active.add(1, core::slice::from_ref(service));
    }

    pub(super) fn ended(&self, kind: Kind, seconds: f64, service: &KeyValue, attributes: &[KeyValue]) {
        match kind {
            Kind::Client => self.client.record(seconds, attributes),
            Kind::Server => {
                self.active.add(-1, core::slice::from_ref(service));
                self.server.record(seconds, attributes);
            }
        }
    }

    pub(super) fn resent(&self, times: u64, service: &KeyValue) {
        self.resends.add(times, core::slice::from_ref(service));
    }
}

/// What is known of the node that tells.
pub(super) fn resource(known: &[(&'static str, String)]) -> Resource {
    let attributes = known
        .iter()
        .map(|(name, value)| KeyValue::new(*name, Value::from(value.clone())));
    Resource::builder().with_attributes(attributes).build()
}

/// Counts the spans that are lost
#[derive(Debug)]
struct CountingExporter {
    exporter: SpanExporter,
    measures: Arc<Measures>,
}

impl opentelemetry_sdk::trace::SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len() as u64;
        let exported = self.exporter.export(batch).await;
        if exported.is_err() {
            self.measures.lost.inc_by(count);
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// How a batch gets to its collector
#[derive(Clone)]
enum Way {
    Outside(PostClient),
    Mesh(Unobserved),
}

/// Sends batches with the host's own client or through the mesh, in the node's runtime: the exporters run in threads without
/// one
#[derive(Clone)]
struct Post {
    way: Way,
    runtime: Runtime,
}

impl core::fmt::Debug for Post {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Post").finish_non_exhaustive()
    }
}

impl Way {
    async fn exchange(self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        match self {
            Self::Outside(client) => whole(client.request(request.map(Full::new)).await?).await,
            Self::Mesh(fetch) => {
                let headers = request.headers_mut();
                headers.insert("traceparent", HeaderValue::from_static(UNTRACED));
                let request = request.map(|body| any_body(Full::new(body)));
                whole(fetch(request).await?).await
            }
        }
    }
}

/// An answer once all of it is there.
async fn whole<B>(answer: Response<B>) -> Result<Response<Bytes>, HttpError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<HttpError>,
{
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}

#[async_trait::async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let exchange = self.way.clone().exchange(request);
        let sent = self.runtime.spawn(async { timeout(TIMEOUT, exchange).await });
        sent.await??
    }
}
