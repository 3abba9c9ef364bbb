//! Ids and public keys, as values and text.

use core::fmt;
use core::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use zeroize::Zeroize as _;

macro_rules! hex_key {
    ($(#[$meta:meta])* $name:ident, $what:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 32]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&HEXLOWER.encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                decode_hex(text).map(Self).ok_or_else(|| ParseIdError {
                    what: $what,
                    text: text.into(),
                })
            }
        }
    };
}

hex_key! {
    /// Who a node is in one network
    PeerId, "peer id"
}

hex_key! {
    /// Public key of whoever owns names in one network and grants others to serve them
    OwnerKey, "owner key"
}

hex_key! {
    /// Public key of whoever admits nodes to a closed network
    AuthorityKey, "key of an authority"
}

hex_key! {
    /// Public key of a node in one network, which the authority of a closed one certifies
    NodeKey, "key of a node"
}

hex_key! {
    /// The name of a record of a capsule
    RecordName, "name of a record"
}

hex_key! {
    /// The public key with which a server, writer or owner of a capsule signs
    CapsuleKey, "public key"
}

/// The 32 bytes that a text spells.
pub(crate) fn decode_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).ok()?;
    let key = bytes.as_slice().try_into().ok();
    bytes.zeroize();
    key
}

/// Whose name is meant
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Only holders of a grant of this owner serve the name.
    Key(OwnerKey),
    /// Anybody serves the name.
    Unowned,
}

impl Owner {
    /// The owner's key, empty for none.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Key(owner) => &owner.0,
            Self::Unowned => &[],
        }
    }
}

/// A text that spells no id or key
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseIdError {
    what: &'static str,
    text: String,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, text } = self;
        write!(f, "\"{text}\" is no {what}: it has 64 hexadecimal digits")
    }
}

impl core::error::Error for ParseIdError {}
