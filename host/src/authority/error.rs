use core::fmt;
use std::io;
use std::path::PathBuf;

use crate::error::Error;

/// Why an authority signs or publishes nothing
#[derive(Debug)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A network of addresses or a domain has as many certificates as it may.
    Quota {
        /// Which one.
        holder: String,
        /// How many it may have at once.
        most: usize,
        /// The flag of the command that sets this.
        flag: &'static str,
    },
    /// An address has another spelling than the one by which places are made, or is none.
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A name of the zone is not usable.
    Zone(String),
    /// The zone was not made.
    NoZone,
    /// The clock has gone back: a list that is signed now would count for less than the last one.
    Clock,
    /// The file of what was signed cannot be used.
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// Anything else.
    Other(Error),
}

impl fmt::Display for AuthorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota { holder, most, flag } => write!(
                f,
                "{holder} has {most} certificates that count, which is the most: wait until one expires, or say {flag} with a \
                 higher number if these nodes are of different parties that you know"
            ),
            Self::Address { address, reason } => write!(f, "\"{address}\": {reason}"),
            Self::Zone(reason) => f.write_str(reason),
            Self::NoZone => f.write_str("the network has no zone yet: `selfsame authority dns init` makes it"),
            Self::Clock => f.write_str(
                "the clock of this machine has gone back since the last list of revocations, so that nobody would take a new one: \
                 set it",
            ),
            Self::File { path, source } => write!(
                f,
                "{}: {source}: it holds what the authority has signed; restore a copy, or move it away and set quotas accordingly",
                path.display()
            ),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AuthorityError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Other(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for AuthorityError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
