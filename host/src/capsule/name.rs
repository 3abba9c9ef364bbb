use core::fmt;
use core::str::FromStr;

use data_encoding::BASE32_NOPAD;

use crate::error::Error;

/// The name of a capsule; as text it is base32 in lower case without padding, which fits the name of a service
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapsuleName(pub [u8; 32]);

impl fmt::Display for CapsuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE32_NOPAD.encode(&self.0).to_ascii_lowercase())
    }
}

impl fmt::Debug for CapsuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CapsuleName({self})")
    }
}

impl FromStr for CapsuleName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bytes = BASE32_NOPAD.decode(text.trim().to_ascii_uppercase().as_bytes());
        let name = bytes.ok().and_then(|bytes| bytes.try_into().ok()).map(Self);
        name.ok_or_else(|| {
            Error::Input(format!(
                "\"{text}\" is no name of a capsule: it has 52 characters out of a-z and 2-7"
            ))
        })
    }
}
