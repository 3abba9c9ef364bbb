use core::fmt;

use selfsame_codec::Code;

use crate::core::CoreError;
use crate::error::Error;

/// Why a name could not be looked up
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolveError {
    /// A domain or an address of a name server is not usable.
    Input(String),
    /// A name server answered with an error, or with what is no answer.
    Answer {
        /// The server.
        server: String,
        /// What is wrong with the answer.
        code: Code,
    },
    /// No name server answered in time.
    TimedOut {
        /// The servers that were asked.
        servers: String,
        /// How often they were asked together.
        tries: usize,
    },
    /// A name server cannot be reached.
    Unreachable {
        /// The server.
        server: String,
        /// What the system says.
        reason: String,
    },
    /// Strangers from one network, or all of them, cause too many queries.
    TooManyQueries,
    /// The module of admission failed.
    Module(CoreError),
}

impl ResolveError {
    /// The code of the table of errors that says the same, by which it is counted.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Input(_) => Code::BadDomain,
            Self::Answer { code, .. } => *code,
            Self::TimedOut { .. } => Code::TimedOut,
            Self::Unreachable { .. } => Code::DialFailed,
            Self::TooManyQueries => Code::TooManyRequests,
            Self::Module(_) => Code::BadInput,
        }
    }

    /// Whether another server, or the same one later, may give an answer: not when the zone holds what is no value.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Answer { code, .. } => !matches!(code, Code::BadDnsValue | Code::TooLarge),
            Self::TimedOut { .. } | Self::Unreachable { .. } => true,
            Self::Input(_) | Self::TooManyQueries | Self::Module(_) => false,
        }
    }

    pub(super) fn unreachable(server: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::Unreachable {
            server: server.to_string(),
            reason: reason.to_string(),
        }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(what) => f.write_str(what),
            Self::Answer { server, code } => write!(f, "the name server {server}: {code}"),
            Self::TimedOut { servers, tries } => write!(
                f,
                "no answer from the name server {servers} after {tries} tries: is it running, and may this machine ask it?"
            ),
            Self::Unreachable { server, reason } => {
                write!(f, "the name server {server} cannot be reached: {reason}")
            }
            Self::TooManyQueries => f.write_str(
                "too many unknown peers of one network or of all have to be looked up: try again in a minute",
            ),
            Self::Module(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ResolveError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Module(error) => Some(error),
            _ => None,
        }
    }
}

impl From<CoreError> for ResolveError {
    fn from(error: CoreError) -> Self {
        Self::Module(error)
    }
}

impl From<Error> for ResolveError {
    fn from(error: Error) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<ResolveError> for Error {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Input(text) => Self::Input(text),
            ResolveError::Module(error) => error.into(),
            error => Self::Core {
                code: error.code(),
                detail: error.to_string(),
            },
        }
    }
}
