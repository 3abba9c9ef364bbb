//! The errors of the host's RPC thread, as far as `plain` needs them.

use core::fmt;
use std::io;

/// An error of a thread without a seal
#[derive(Debug)]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn io(what: impl fmt::Display, source: io::Error) -> Self {
        Self(format!("{what}: {source}"))
    }

    pub(crate) fn version_skew() -> Self {
        Self("a batch is malformed".into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
