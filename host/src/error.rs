use core::fmt;
use std::io;

use selfsame_codec::{Class, Code};

use crate::core::CoreError;
use crate::id::{ParseIdError, PeerId};
use crate::store::StoreError;

/// An error of a type that the library does not know: a body's or a service's
pub type BoxError = Box<dyn core::error::Error + Send + Sync>;

/// What went wrong, by whose fault it is
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A value that was given is not usable; the text says which and what would be right.
    Input(String),
    /// The core answered with a code of its table.
    Core {
        /// The code.
        code: Code,
        /// More about this case, for people; may be empty.
        detail: String,
    },
    /// No provider answered a request.
    Unanswered {
        /// The service's name.
        service: String,
        /// Why the last provider did not answer, or why there is none.
        code: Code,
        /// The providers that were tried, and why each did not answer.
        tried: Vec<Tried>,
    },
    /// The core failed. A running node starts it anew from its store; what was under way is lost.
    Poisoned(CoreError),
    /// The store cannot be used.
    Store(StoreError),
    /// A file, socket or other part of the system failed.
    Io {
        /// What was used.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// The body of a request or an answer failed.
    Body(BoxError),
    /// The node was stopped.
    Stopped,
}

/// A provider that did not answer a request
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// The provider's id.
    pub peer: PeerId,
    /// Why it did not answer.
    pub code: Code,
}

impl Tried {
    /// Reads how the core names a provider that was tried: its id, `=`, and the code's number.
    fn parse(text: &str) -> Option<Self> {
        let (peer, code) = text.split_once('=')?;
        Some(Self {
            peer: peer.parse().ok()?,
            code: Code::from_u16(code.parse().ok()?)?,
        })
    }
}

impl Error {
    pub(crate) fn no_owner() -> Self {
        Self::Input("say whose names are meant: set the owner's key, or ask for unowned names".into())
    }

    /// The code, when the core gave one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Core { code, .. } | Self::Unanswered { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Where in what was given something is wrong, if this says it: an offset in bytes, or the number of an element.
    #[must_use]
    pub fn place(&self) -> Option<u64> {
        match self {
            Self::Core { detail, .. } => detail.strip_prefix("at ")?.parse().ok(),
            _ => None,
        }
    }

    /// What went wrong, without the place: where in a request something was refused says nothing to people.
    #[must_use]
    pub fn reason(&self) -> String {
        match (self.code(), self.place()) {
            (Some(code), Some(_)) => code.to_string(),
            _ => self.to_string(),
        }
    }

    /// Whether nobody answered, or peers refused to until a clock is set right, so that trying again later may help.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.code()
            .is_some_and(|code| code.class() == Class::Unreachable || code == Code::WrongClock)
    }

    /// Whether a command that has to last is given again: a certificate may be renewed, and for a leaf that the core is about to let
    /// join by itself, another one is in flight.
    pub(crate) fn may_pass(&self) -> bool {
        let is_of_certificate = matches!(
            self.code(),
            Some(Code::RevokedCertificate | Code::ExpiredCertificate | Code::EarlyCertificate)
        );
        self.is_unreachable() || is_of_certificate || self.code() == Some(Code::TooManyRequests)
    }

    pub(crate) fn core(code: u16, detail: &str) -> Self {
        match Code::from_u16(code) {
            // A detail that repeats the text of the code adds nothing.
            Some(code) if detail == code.text() => Self::from_code(code),
            Some(code) => Self::Core {
                code,
                detail: detail.into(),
            },
            None => Self::version_skew(),
        }
    }

    /// The error of a code, without a detail.
    #[must_use]
    pub fn from_code(code: Code) -> Self {
        Self::Core {
            code,
            detail: String::new(),
        }
    }

    /// This error as that of a request for which these providers were tried before.
    pub(crate) fn of_request(self, service: &str, mut tried: Vec<Tried>) -> Self {
        let Self::Core { code, detail } = self else {
            return self;
        };
        tried.extend(detail.split(' ').filter_map(Tried::parse));
        // That nobody else is there says less than what became of those that were.
        let is_no_other = matches!(code, Code::NoProvider);
        let code = tried
            .last()
            .filter(|_| is_no_other)
            .map_or(code, |last| last.code);
        Self::Unanswered {
            service: service.into(),
            code,
            tried,
        }
    }

    /// The error of a code that says where: an offset, or the number of an element.
    pub(crate) fn at(code: u16, at: u64) -> Self {
        Self::core(code, &format!("at {at}"))
    }

    pub(crate) fn io(what: impl fmt::Display, source: io::Error) -> Self {
        Self::Io {
            what: what.to_string(),
            source,
        }
    }

    /// The core answered in a way that this host does not know.
    pub(crate) fn version_skew() -> Self {
        Self::from_code(Code::BadInput)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(what) => f.write_str(what),
            Self::Core { code, detail } if detail.is_empty() => code.fmt(f),
            Self::Core { code, detail } => write!(f, "{code}: {detail}"),
            Self::Unanswered { service, code, tried } => {
                write!(f, "{service}: {code}")?;
                let mut lead = "; tried";
                for Tried { peer, code } in tried {
                    write!(f, "{lead} {peer} ({})", code.name())?;
                    lead = ",";
                }
                Ok(())
            }
            Self::Poisoned(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::Body(error) => write!(f, "the body failed: {error}"),
            Self::Stopped => f.write_str("the node was stopped"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Poisoned(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Io { source, .. } => Some(source),
            Self::Body(error) => Some(&**error),
            Self::Input(_) | Self::Core { .. } | Self::Unanswered { .. } | Self::Stopped => None,
        }
    }
}

impl From<CoreError> for Error {
    fn from(error: CoreError) -> Self {
        Self::Poisoned(error)
    }
}

impl From<ParseIdError> for Error {
    fn from(error: ParseIdError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The first cause of an error: those that lead to it say that the client failed.
pub(crate) fn root_cause(error: &dyn core::error::Error) -> String {
    let causes = core::iter::successors(Some(error), |error| error.source());
    causes.last().unwrap_or(error).to_string()
}
