//! What people and programs are told.

use core::fmt::{self, Display};
use core::time::Duration;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use selfsame_codec::Class;
use selfsame_host::{Code, Error};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

/// Work that takes longer says so.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);

/// How a command ends before it is done
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Badly, which is told in one line.
    Told {
        exit: u8,
        code: Option<Code>,
        text: String,
    },
    /// Whoever reads the standard output wants no more of it, as `head` does: there is nothing to tell.
    OutputClosed,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told { text, .. } => f.write_str(text),
            Self::OutputClosed => f.write_str("the standard output is closed"),
        }
    }
}

impl Failure {
    /// A flag, file or address is not usable.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Told {
            exit: 2,
            code: None,
            text: text.into(),
        }
    }

    /// A file is not usable, and why.
    pub(crate) fn file(path: &Path, why: impl Display) -> Self {
        Self::usage(format!("{}: {why}", path.display()))
    }

    /// The same failure, which programs know by a code.
    pub(crate) fn with_code(self, code: Code) -> Self {
        match self {
            Self::Told { exit, text, .. } => Self::Told {
                exit,
                code: Some(code),
                text,
            },
            other => other,
        }
    }

    /// The same failure, of whoever answers or does not at a place.
    pub(crate) fn at(self, place: &str) -> Self {
        self.map_text(|text| format!("{place}: {text}"))
    }

    /// The same failure with what the servers lack that were asked, or where they all are if nothing is known of them, if it depends
    /// on them.
    pub(crate) fn of_servers(self, what: &str, lacks: &[String], places: &[String]) -> Self {
        let Self::Told { code: Some(code), .. } = self else {
            return self;
        };
        if lacks.iter().any(|lack| lack.contains(code.name())) {
            return self.map_text(|_| format!("{what}: {}", lacks.join("; ")));
        }
        let servers = if lacks.is_empty() { places } else { lacks };
        if is_of_servers(code) || (code == Code::BadSignature && !lacks.is_empty()) {
            return self.map_text(|text| format!("{what}: {text}; {}", servers.join("; ")));
        }
        self
    }

    fn map_text(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Told { exit, code, text } => Self::Told {
                exit,
                code,
                text: change(text),
            },
            other => other,
        }
    }

    /// Somebody interrupts once more what ends already.
    pub(crate) fn interrupted() -> Self {
        Self::Told {
            exit: 130,
            code: None,
            text:
                "interrupted again: it ended at once, without finishing requests and without leaving the ring"
                    .into(),
        }
    }

    /// Anything without an exit code of its own.
    pub(crate) fn other(text: impl Into<String>) -> Self {
        Self::Told {
            exit: 1,
            code: None,
            text: text.into(),
        }
    }

    /// Nobody answered in time.
    pub(crate) fn timed_out(what: &str) -> Self {
        Self::late(format!("{what}: nobody answered in time"))
    }

    /// Too few answered in time, as these did not.
    pub(crate) fn too_few(what: &str, failures: &[String]) -> Self {
        match failures {
            [] => Self::timed_out(what),
            _ => Self::late(format!(
                "{what}: too few answered in time: {}",
                failures.join("; ")
            )),
        }
    }

    fn late(text: String) -> Self {
        Self::Told {
            exit: 3,
            code: Some(Code::TimedOut),
            text: format!("{text} (--timeout sets how long to wait)"),
        }
    }

    /// Nobody is there who could answer.
    pub(crate) fn unanswered(text: impl Into<String>) -> Self {
        Self::Told {
            exit: 3,
            code: None,
            text: text.into(),
        }
    }

    /// Whether nobody answered, so that somebody else may.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, Self::Told { exit: 3, .. })
    }

    /// The standard output cannot be written.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::other(format!("the standard output: {error}"))
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Input(_)
            | Error::Core {
                code: Code::ForbiddenAddress | Code::WrongPeer | Code::WrongNetwork,
                ..
            } => 2,
            Error::Io { source, .. } if is_of_name(source.kind()) => 2,
            Error::Store(_) => 5,
            Error::Core {
                code: Code::NoProvider,
                ..
            }
            | Error::Unanswered {
                code: Code::NoProvider,
                ..
            } => 4,
            Error::Core { code, .. } | Error::Unanswered { code, .. } => match code.class() {
                Class::Usage => 2,
                Class::Unreachable => 3,
                Class::Store => 5,
                _ => 1,
            },
            _ => 1,
        };
        Self::Told {
            exit,
            code: error.code(),
            text: match error.code() {
                Some(code) if is_of_servers(code) => error.reason(),
                _ => error.to_string(),
            },
        }
    }
}

/// Whether a file or an address that somebody named is the reason, and not the state of the machine.
fn is_of_name(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AddrInUse
            | ErrorKind::AddrNotAvailable
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidData
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory
    )
}

/// Whether it depends on the servers that were asked, and not on what was read or written.
fn is_of_servers(code: Code) -> bool {
    code == Code::RolledBack || matches!(code.class(), Class::Service | Class::Unreachable)
}

/// Where results go
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints a result, as text or as one line of JSON.
    ///
    /// # Errors
    /// [`Failure`] when it cannot be written: a command ends there, as it would by a signal if it were written in C.
    pub(crate) fn print(self, text: impl Display, value: &Value) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let printed = if self.json {
            writeln!(out, "{value}")
        } else {
            writeln!(out, "{text}")
        };
        printed
            .and_then(|()| out.flush())
            .map_err(|error| Failure::output(&error))
    }

    /// Tells of a failure in one line.
    pub(crate) fn report(self, failure: &Failure) -> ExitCode {
        let Failure::Told { exit, code, text } = failure else {
            return ExitCode::SUCCESS;
        };
        let text = text.replace('\n', " ");
        if self.json {
            let value = json!({ "error": text, "code": code.map(Code::name), "exit": exit });
            tell(format_args!("{value}\n"));
        } else {
            tell(format_args!("selfsame: {text}\n"));
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
                        tell("\r\x1b[K");
                    }
                    return done;
                }
                () = sleep_until(next) => {
                    told = true;
                    let seconds = began.elapsed().as_secs();
                    // A terminal shows the seconds in one line; a log gets a line now and then.
                    if terminal {
                        tell(format_args!("\r\x1b[K{what} ({seconds} s)"));
                        next += Duration::from_secs(1);
                    } else {
                        tell(format_args!("{what} ({seconds} s)\n"));
                        next += Duration::from_secs(10);
                    }
                }
            }
        }
    }
}

/// Writes to the standard error.
fn tell(text: impl Display) {
    // When that is closed, nobody is left to hear of it.
    _ = write!(io::stderr(), "{text}");
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
        tell(format_args!(
            "selfsame: say what to do, such as node, find or call ({help} shows what there is)\n"
        ));
    } else {
        tell(format_args!("selfsame: {text} (--help shows what is right)\n"));
    }
    ExitCode::from(2)
}
