use core::error::Error;
use core::fmt;

/// The cryptography refused its input: a malformed key, a low-order point, or a tag that does not match.
///
/// It does not say which, so that an attacker learns nothing from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected;

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cryptography refused a key, a point or an authentication tag")
    }
}

impl Error for Rejected {}
