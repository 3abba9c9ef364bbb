use core::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry::KeyValue;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use selfsame_codec::Code;
use selfsame_codec::reply::Status;

/// Upper bounds of the buckets of durations, in seconds, as OpenTelemetry recommends them for HTTP.
pub(super) const BOUNDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
];
/// Series of one instrument; what comes beyond is counted together, so that memory stays bounded.
const MAX_SERIES: usize = 512;
/// The label of the series that counts what is beyond.
const OVERFLOW: &str = "otel_metric_overflow";

type Labels = Vec<(String, String)>;

/// An instrument: a number for each set of labels
#[derive(Debug)]
struct Series<M> {
    family: Family<Labels, M, fn() -> M>,
    count: AtomicUsize,
}

impl<M: Clone> Series<M> {
    fn new(make: fn() -> M) -> Self {
        Self {
            family: Family::new_with_constructor(make),
            count: AtomicUsize::new(0),
        }
    }

    /// The number for these attributes.
    fn of(&self, attributes: &[KeyValue]) -> M {
        let labels = labels(attributes);
        if let Some(known) = self.family.get(&labels) {
            return known.clone();
        }
        if self.count.fetch_add(1, Ordering::Relaxed) < MAX_SERIES {
            return self.family.get_or_create_owned(&labels);
        }
        self.family
            .get_or_create_owned(&vec![(OVERFLOW.into(), "true".into())])
    }
}

/// Whether a request was sent or served
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Client,
    Server,
}

/// All that is counted of a node's requests
#[derive(Debug)]
pub(super) struct Measures {
    client: Series<Histogram>,
    server: Series<Histogram>,
    active: Series<Gauge>,
    resends: Series<Counter>,
    /// Spans that no collector took.
    pub(super) lost: Counter,
}

impl Measures {
    pub(super) fn new() -> Self {
        Self {
            client: Series::new(|| Histogram::new(BOUNDS)),
            server: Series::new(|| Histogram::new(BOUNDS)),
            active: Series::new(Gauge::default),
            resends: Series::new(Counter::default),
            lost: Counter::default(),
        }
    }

    /// A request to a service of the node began.
    pub(super) fn began(&self, service: &KeyValue) {
        self.active.of(core::slice::from_ref(service)).inc();
    }

    /// A request of either kind ended.
    pub(super) fn ended(&self, kind: Kind, seconds: f64, service: &KeyValue, attributes: &[KeyValue]) {
        match kind {
            Kind::Client => self.client.of(attributes).observe(seconds),
            Kind::Server => {
                self.active.of(core::slice::from_ref(service)).dec();
                self.server.of(attributes).observe(seconds);
            }
        }
    }

    /// A request was sent again so many times.
    pub(super) fn resent(&self, times: u64, service: &KeyValue) {
        self.resends.of(core::slice::from_ref(service)).inc_by(times);
    }

    /// Everything as Prometheus reads it, in the text format of OpenMetrics; `all` are labels of every series.
    pub(super) fn text(&self, status: &Status, all: &[(&'static str, String)]) -> String {
        let all = all
            .iter()
            .map(|(name, value)| ((*name).into(), value.clone().into()));
        let mut registry = Registry::with_labels(all);
        registry.register_with_unit(
            "http_client_request_duration",
            "Time until answers to requests of this node began",
            Unit::Seconds,
            self.client.family.clone(),
        );
        registry.register_with_unit(
            "http_server_request_duration",
            "Time until requests to services of this node were answered whole",
            Unit::Seconds,
            self.server.family.clone(),
        );
        registry.register(
            "http_server_active_requests",
            "Requests to services of this node that are not answered yet",
            self.active.family.clone(),
        );
        registry.register(
            "selfsame_client_resends",
            "Requests of this node that were sent again, to another provider",
            self.resends.family.clone(),
        );
        registry.register(
            "selfsame_telemetry_lost_spans",
            "Spans that no collector took",
            self.lost.clone(),
        );
        add_numbers_of(status, &mut registry);
        let mut text = String::new();
        // Writing to a text cannot fail.
        _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

/// Attributes as Prometheus writes them.
fn labels(attributes: &[KeyValue]) -> Labels {
    let label = |attribute: &KeyValue| {
        let name = attribute.key.as_str().replace('.', "_");
        (name, attribute.value.to_string())
    };
    attributes.iter().map(label).collect()
}

/// Adds what a node tells of itself.
fn add_numbers_of(status: &Status, registry: &mut Registry) {
    let count = |list: usize| i64::try_from(list).unwrap_or(i64::MAX);
    let numbers = [
        ("joined", i64::from(status.joined)),
        ("successors", count(status.successors.len())),
        ("fingers", count(status.fingers.len())),
        ("sessions", count(status.peers.len())),
        ("objects", i64::try_from(status.objects).unwrap_or(i64::MAX)),
    ];
    let node = Family::<Labels, Gauge>::default();
    for (what, number) in numbers {
        node.get_or_create(&vec![("what".into(), what.into())])
            .set(number);
    }
    let errors = Family::<Labels, Counter>::default();
    for (code, times) in &status.counters {
        let code = Code::from_u16(*code).map_or_else(|| format!("{code:#06x}"), |code| code.name().into());
        errors.get_or_create(&vec![("code".into(), code)]).inc_by(*times);
    }
    registry.register(
        "selfsame_node",
        "What the node knows: members that it names, peers with a session, associations that it stores",
        node,
    );
    registry.register(
        "selfsame_errors",
        "Errors of the core since its start, by code",
        errors,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_make_up_takes_bounded_memory() {
        let series = Series::new(Counter::<u64>::default);
        let attribute = |number: usize| [KeyValue::new("error.type", number.to_string())];
        for number in 0..2 * MAX_SERIES {
            series.of(&attribute(number)).inc();
        }
        let overflow = series.of(&attribute(usize::MAX));
        assert_eq!(overflow.get(), MAX_SERIES as u64);
        assert_eq!(series.of(&attribute(0)).get(), 1);
    }
}
