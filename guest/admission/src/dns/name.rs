use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use selfsame_codec::Code;

use super::base::base32;

/// Longest name on the wire, with its root label (RFC 1035, section 2.3.4).
pub(crate) const MAX_NAME_BYTES: usize = 255;
/// Longest label (RFC 1035, section 2.3.4).
pub(crate) const MAX_LABEL_BYTES: usize = 63;
/// Longest domain of a network: a peer's label of 52 characters and a dot stand before it, and a name has 253 characters.
const MAX_DOMAIN_BYTES: usize = 200;
/// Label of the key of a network's authority.
const AUTHORITY_LABEL: &str = "_authority";

/// A domain name in the form that messages hold, in the case that it was given; names that differ in case are equal.
#[derive(Clone, Debug)]
pub struct Name(Vec<u8>);

impl Name {
    /// The name of the TXT record with the certificate of the peer that has this public key.
    ///
    /// # Errors
    /// [`Code::BadDomain`] when the domain is none.
    pub fn of_peer(key: &[u8; 32], domain: &str) -> Result<Self, Code> {
        Self::below(&base32(key), domain)
    }

    /// The name of the TXT record with the key of a network's authority.
    ///
    /// # Errors
    /// [`Code::BadDomain`] when the domain is none.
    pub fn of_authority(domain: &str) -> Result<Self, Code> {
        Self::below(AUTHORITY_LABEL, domain)
    }

    /// Reads a name as people write it, without a dot at its end.
    ///
    /// # Errors
    /// [`Code::BadDomain`] when a label or the whole is empty or too long, or holds anything but letters, digits, hyphens and
    /// underscores.
    pub fn parse(text: &str) -> Result<Self, Code> {
        let mut wire = Vec::new();
        for label in text.split('.') {
            let is_plain = label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            if label.is_empty() || label.len() > MAX_LABEL_BYTES || !is_plain {
                return Err(Code::BadDomain);
            }
            wire.push(label.len() as u8);
            wire.extend_from_slice(label.as_bytes());
        }
        wire.push(0);
        if wire.len() > MAX_NAME_BYTES {
            return Err(Code::BadDomain);
        }
        Ok(Self(wire))
    }

    /// The name of the root.
    pub(crate) fn root() -> Self {
        Self(Vec::from([0]))
    }

    /// The name with these bytes, which end with the root label.
    pub(crate) fn from_wire(wire: Vec<u8>) -> Self {
        Self(wire)
    }

    /// The bytes of the name in a message.
    pub(crate) fn wire(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is this domain or below it.
    pub(crate) fn is_within(&self, domain: &Self) -> bool {
        let mut rest = self.0.as_slice();
        while rest.len() > domain.0.len() {
            rest = &rest[usize::from(rest[0]) + 1..];
        }
        // No byte of a length is a letter.
        rest.eq_ignore_ascii_case(&domain.0)
    }

    fn below(label: &str, domain: &str) -> Result<Self, Code> {
        let is_host = domain.split('.').all(|part| {
            let is_ldh = part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            is_ldh && !part.starts_with('-') && !part.ends_with('-')
        });
        if !is_host || domain.len() > MAX_DOMAIN_BYTES {
            return Err(Code::BadDomain);
        }
        let mut text = String::from(label);
        text.push('.');
        text.push_str(&domain.to_ascii_lowercase());
        Self::parse(&text)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        // No byte of a length is a letter.
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

/// As people write it, without a dot at its end
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut separator = "";
        while let [len, tail @ ..] = rest
            && *len > 0
        {
            let (label, next) = tail.split_at(usize::from(*len));
            write!(f, "{separator}{}", String::from_utf8_lossy(label))?;
            separator = ".";
            rest = next;
        }
        Ok(())
    }
}
