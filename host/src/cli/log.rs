//! What is logged, and as what.

use core::fmt::{self, Debug};
use core::str::FromStr;
use std::io::{self, IsTerminal as _};

use opentelemetry::trace::TraceContextExt as _;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
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
            .with(layer.with_filter(ours))
            .init();
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
}
