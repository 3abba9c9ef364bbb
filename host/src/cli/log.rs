//! What is logged, and as what.

use core::fmt::{self, Debug};
use core::hash::Hash;
use core::str::FromStr;
use core::time::Duration;
use std::collections::HashMap;
use std::io::{self, IsTerminal as _};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use opentelemetry::trace::TraceContextExt as _;
use serde_json::{Map, Value};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

/// What is logged: from which level on, and whether as text or as JSON
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    level: LevelFilter,
    is_json: bool,
}

impl FromStr for Log {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut log = Self {
            level: LevelFilter::WARN,
            is_json: false,
        };
        for word in text.split(',') {
            match word {
                "json" => log.is_json = true,
                "error" => log.level = LevelFilter::ERROR,
                "warn" => log.level = LevelFilter::WARN,
                "info" => log.level = LevelFilter::INFO,
                "debug" => log.level = LevelFilter::DEBUG,
                "trace" => log.level = LevelFilter::TRACE,
                _ => {
                    return Err(format!(
                        "\"{word}\" is none of error, warn, info, debug, trace and json"
                    ));
                }
            }
        }
        Ok(log)
    }
}

impl Log {
    /// Sends records to the standard error, in colour only where somebody sees it.
    pub(crate) fn start(self) {
        let ours = Targets::new()
            .with_target("selfsame", self.level)
            .with_target("selfsame_host", self.level)
            .with_default(self.level.min(LevelFilter::WARN));
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(io::stderr)
            // It would tell the standard error that the standard error is closed, and panic.
            .log_internal_errors(false);
        let layer: Box<dyn Layer<Registry> + Send + Sync> = if self.is_json {
            Box::new(layer.event_format(JsonLines))
        } else {
            let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            Box::new(layer.with_ansi(colour))
        };
        tracing_subscriber::registry()
            .with(layer.with_filter(ours.and(Throttle::default())))
            .init();
    }
}

/// Warnings and errors of one place in the code that are logged in a second: what strangers can cause must not flood the log
const MAX_RECORDS: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);
/// Records of the core come from one place; it lets as many of each code through itself.
const CORE: &str = "selfsame::core";

/// Lets so many warnings and errors of each place in the code through in a second
struct Throttle<P = Identifier> {
    /// By place, of which there are as many as in the program.
    places: Mutex<HashMap<P, Recent>>,
}

impl<P> Default for Throttle<P> {
    fn default() -> Self {
        Self {
            places: Mutex::new(HashMap::new()),
        }
    }
}

/// What a place has logged since a moment
struct Recent {
    since: Instant,
    count: u32,
}

impl<P: Hash + Eq> Throttle<P> {
    /// Whether one more record of a place is logged at a time.
    fn admits(&self, place: P, now: Instant) -> bool {
        // Nothing panics between two changes of the table.
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = places.entry(place).or_insert(Recent { since: now, count: 0 });
        if now.duration_since(recent.since) >= SECOND {
            *recent = Recent { since: now, count: 0 };
        }
        recent.count = recent.count.saturating_add(1);
        recent.count <= MAX_RECORDS
    }
}

impl<S> Filter<S> for Throttle {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let is_free = *metadata.level() > Level::WARN || metadata.target() == CORE;
        is_free || self.admits(metadata.callsite(), Instant::now())
    }
}

/// Each record as one JSON object a line, with the trace that it belongs to
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut record = Map::new();
        record.insert("time".into(), time.into());
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        record.insert("level".into(), level.into());
        event.record(&mut Fields(&mut record));
        let context = opentelemetry::Context::current();
        let span = context.span().span_context().clone();
        if span.is_valid() {
            record.insert("trace_id".into(), span.trace_id().to_string().into());
            record.insert("span_id".into(), span.span_id().to_string().into());
        }
        writeln!(writer, "{}", Value::Object(record))
    }
}

/// Takes the fields of a record
struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().into(), value.into());
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[test]
    fn level_and_form_are_said_in_any_order() {
        let both = Log {
            level: LevelFilter::DEBUG,
            is_json: true,
        };
        for text in ["debug,json", "json,debug"] {
            assert_eq!(text.parse(), Ok(both));
        }
        let json = "json".parse::<Log>().expect("a log");
        assert_eq!((json.level, json.is_json), (LevelFilter::WARN, true));
        assert!("loud".parse::<Log>().expect_err("no level").contains("json"));
    }

    /// A subscriber with nothing but the throttle, whose writer keeps what is logged.
    fn logged(act: impl FnOnce()) -> String {
        let kept = Kept::default();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(kept.clone())
            .with_filter(Throttle::default());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), act);
        let bytes = kept.0.lock().expect("what is kept").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("what is kept").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Kept {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn warnings_of_one_place_are_few_in_a_second() {
        let text = logged(|| {
            for _ in 0..1000 {
                tracing::warn!("one place");
                tracing::info!("what is asked for");
            }
            tracing::warn!("another place");
            for code in 0..20 {
                tracing::warn!(target: "selfsame::core", code, "of the core");
            }
        });
        let count = |what: &str| text.matches(what).count();
        // The loop may go on into the next second.
        assert!((10..=30).contains(&count("one place")), "{}", count("one place"));
        assert_eq!(count("what is asked for"), 1000);
        assert_eq!(count("another place"), 1);
        assert_eq!(count("of the core"), 20);
    }

    #[test]
    fn places_are_heard_again_a_second_later() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let admitted = |place, at| (0..100).filter(|_| throttle.admits(place, at)).count();
        assert_eq!(admitted(1, now), 10);
        assert_eq!(admitted(1, now + SECOND / 2), 0);
        assert_eq!(admitted(2, now + SECOND / 2), 10);
        assert_eq!(admitted(1, now + SECOND), 10);
    }
}
