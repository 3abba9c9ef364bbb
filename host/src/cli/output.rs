//! What people and programs are told.

use core::fmt::Display;
use core::time::Duration;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use selfsame_host::{Code, Error};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::args::Level;

/// Work that takes longer says so.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);

/// How a command ends badly
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: u8,
    code: Option<&'static str>,
    text: String,
}

impl Failure {
    /// A flag, file or address is not usable.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self {
            exit: 2,
            code: None,
            text: text.into(),
        }
    }

    /// Anything without an exit code of its own.
    pub(crate) fn other(text: impl Into<String>) -> Self {
        Self {
            exit: 1,
            code: None,
            text: text.into(),
        }
    }

    /// Nobody answered in time.
    pub(crate) fn timed_out(what: &str) -> Self {
        let code = Some(Code::TimedOut.name());
        Self {
            exit: 3,
            code,
            text: format!("{what}: nobody answered in time (--timeout sets how long to wait)"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Input(_) => 2,
            Error::Store(_) => 5,
            Error::Core {
                code: Code::NoProvider,
                ..
            } => 4,
            Error::Core { code, .. } => match code.class() {
                selfsame_codec::Class::Usage => 2,
                selfsame_codec::Class::Unreachable => 3,
                selfsame_codec::Class::Store => 5,
                _ => 1,
            },
            _ => 1,
        };
        Self {
            exit,
            code: error.code().map(Code::name),
            text: error.to_string(),
        }
    }
}

/// Where results go
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints a result, as text or as one line of JSON.
    pub(crate) fn print(self, text: impl Display, value: &Value) {
        let mut out = io::stdout().lock();
        let printed = if self.json {
            writeln!(out, "{value}")
        } else {
            writeln!(out, "{text}")
        };
        // Whoever closed the other end of the pipe has read enough.
        _ = printed.and_then(|()| out.flush());
    }

    /// Tells of a failure in one line.
    pub(crate) fn report(self, failure: &Failure) -> ExitCode {
        let Failure { exit, code, text } = failure;
        let text = text.replace('\n', " ");
        if self.json {
            eprintln!("{}", json!({ "error": text, "code": code, "exit": exit }));
        } else {
            eprintln!("selfsame: {text}");
        }
        ExitCode::from(*exit)
    }

    /// Waits for something and says so when it takes long.
    pub(crate) async fn progress<T>(self, what: &str, work: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let mut work = core::pin::pin!(work);
        let mut next = began + PROGRESS_AFTER;
        let terminal = io::stderr().is_terminal();
        let mut told = false;
        loop {
            tokio::select! {
                done = &mut work => {
                    if told && terminal {
                        eprint!("\r\x1b[K");
                    }
                    return done;
                }
                () = sleep_until(next) => {
                    told = true;
                    let seconds = began.elapsed().as_secs();
                    // A terminal shows the seconds in one line; a log gets a line now and then.
                    if terminal {
                        eprint!("\r\x1b[K{what} ({seconds} s)");
                        next += Duration::from_secs(1);
                    } else {
                        eprintln!("{what} ({seconds} s)");
                        next += Duration::from_secs(10);
                    }
                }
            }
        }
    }
}

/// Tells of a mistake on the command line in one line; shows help and version as they are.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Whoever closed the other end of the pipe has read enough.
        _ = error.print();
        return ExitCode::SUCCESS;
    }
    let rendered = error.render().to_string();
    let lines = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"));
    let text = lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = text.split(" For more information").next().unwrap_or(text);
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let words: Vec<_> = std::env::args().skip(1).collect();
        let help = ["selfsame", &words.join(" "), "--help"]
            .join(" ")
            .replace("  ", " ");
        eprintln!("selfsame: say what to do, such as node, find or call ({help} shows what there is)");
    } else {
        eprintln!("selfsame: {text} (--help shows what is right)");
    }
    ExitCode::from(2)
}

/// Sends log records to the standard error, in colour only where somebody sees it.
pub(crate) fn start_log(level: Level) {
    let level = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let ours = Targets::new()
        .with_target("selfsame", level)
        .with_target("selfsame_host", level);
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(colour);
    tracing_subscriber::registry()
        .with(layer.with_filter(ours.with_default(level.min(LevelFilter::WARN))))
        .init();
}
