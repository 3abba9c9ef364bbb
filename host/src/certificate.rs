//! Certificates of closed networks, and what their authority signs besides.
//!
//! A closed network is named as `name@key`, with the public key of its authority in 64 hexadecimal digits, wherever a network is named.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use selfsame_codec::admission::{Derive, Verify};
use selfsame_codec::{BatchWriter, Code, Field as _, Malformed, Reader};
use zeroize::Zeroize as _;

use crate::core::CoreModule;
use crate::error::Error;
use crate::id::{AuthorityKey, NodeKey, PeerId};
use crate::keys::{Seed, answer_of, check_network, milliseconds, parts};
use crate::transport::Address;

/// Seconds for which resolvers remember a record: a node that waits for its certificate waits no longer.
pub(crate) const ZONE_TTL_S: u32 = 300;

/// What the authority of a closed network certifies
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateTerms {
    /// The node's key, which `Seed::node_key` gives.
    pub key: NodeKey,
    /// Where others reach a member, `host:port` in lower case; none for a leaf.
    pub address: Option<String>,
    /// From when on it counts.
    pub not_before: SystemTime,
    /// When it stops to count, at most 32 days later.
    pub expires: SystemTime,
}

/// Permission of the authority of a closed network to be in it
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate(Vec<u8>);

/// What a certificate says, once its signature is verified
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// The id that its holder has in the network.
    pub peer: PeerId,
    /// Its number.
    pub serial: u64,
    /// Where others reach a member; none for a leaf.
    pub address: Option<String>,
    /// From when on it counts.
    pub not_before: SystemTime,
    /// When it stops to count.
    pub expires: SystemTime,
}

impl Certified {
    /// Checks that the certificate lets a member be dialled at a URL: a leaf's does not.
    ///
    /// # Errors
    /// [`Code::WrongRole`] or [`Code::WrongAddress`], or [`Error::Input`] for what is no URL.
    pub fn check_url(&self, url: &str) -> Result<(), Error> {
        let certified = self.address.as_deref();
        let certified = certified.ok_or_else(|| Error::from_code(Code::WrongRole))?;
        let host = certified.rsplit_once(':').map_or("", |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if Address::parse(url)?.host.eq_ignore_ascii_case(host) {
            return Ok(());
        }
        Err(Error::Core {
            code: Code::WrongAddress,
            detail: format!("{url}, and the certificate is for {certified}"),
        })
    }
}

/// A list of the keys that the authority of a closed network admits no more
#[derive(Clone, PartialEq, Eq)]
pub struct Revocations(Vec<u8>);

impl Seed {
    /// The key of the authority with this seed for a network with this name, which is part of the network: `name@key`.
    ///
    /// # Errors
    /// [`Error::Input`] when the name is not usable.
    pub fn authority_key(&self, name: &str) -> Result<AuthorityKey, Error> {
        check_network(name)?;
        let seed = *self.bytes();
        let answer = derive(&Derive::Authority { seed, network: name })?;
        let key = Reader::new(&answer).array().map(AuthorityKey);
        key.map_err(|_| Error::version_skew())
    }

    /// Certifies a node as the authority with this seed.
    ///
    /// # Errors
    /// [`Error::Input`] when the name is not usable, [`Error::Core`] for terms that no node accepts.
    pub fn certify(&self, name: &str, terms: &CertificateTerms) -> Result<Certificate, Error> {
        check_network(name)?;
        derive(&Derive::Certificate {
            seed: *self.bytes(),
            network: name,
            key: terms.key.0,
            serial: milliseconds(SystemTime::now()),
            not_before_ms: milliseconds(terms.not_before),
            expiry_ms: milliseconds(terms.expires),
            address: terms.address.as_deref().unwrap_or_default(),
        })
        .map(Certificate)
    }

    /// Revokes, as the authority with this seed, what was certified to these keys before these times. A list takes the place of all
    /// that were made before: those who are to stay out have to be in it as long as their certificates count.
    ///
    /// # Errors
    /// [`Error::Input`] when the name is not usable, [`Error::Core`] for more than 256 keys, or one that is in it twice.
    pub fn revoke(&self, name: &str, revoked: &[(NodeKey, SystemTime)]) -> Result<Revocations, Error> {
        self.revoke_as(milliseconds(SystemTime::now()), name, revoked)
    }

    /// The same with a number of the caller's.
    pub(crate) fn revoke_as(
        &self,
        serial: u64,
        name: &str,
        revoked: &[(NodeKey, SystemTime)],
    ) -> Result<Revocations, Error> {
        check_network(name)?;
        let mut list = Vec::new();
        for (key, before) in revoked {
            key.0.write(&mut list);
            milliseconds(*before).write(&mut list);
        }
        derive(&Derive::Revocations {
            seed: *self.bytes(),
            network: name,
            serial,
            revoked: &list,
        })
        .map(Revocations)
    }
}

impl Certificate {
    /// Verifies that the authority of a network has signed it for a key, whether or not it counts now.
    ///
    /// # Errors
    /// [`Error::Input`] when the network is open, [`Error::Core`] says what is wrong with the certificate.
    pub fn verify(&self, network: &str, key: &NodeKey) -> Result<Certified, Error> {
        check_network(network)?;
        let (name, Some(authority)) = parts(network)? else {
            return Err(Error::Input(format!(
                "\"{network}\" is an open network, which has no certificates: name a closed one as NAME@KEY"
            )));
        };
        let mut request = BatchWriter::new();
        let question = Verify::Certificate {
            authority: authority.0,
            network: name,
            key: key.0,
            certificate: &self.0,
        };
        question.encode(&mut request);
        let module = CoreModule::admission()?;
        let answer = answer_of(&module.instantiate()?.verify(request.as_bytes())?)?;
        read_certified(&answer).map_err(|_| Error::version_skew())
    }

    /// What may be a certificate, such as a value out of the DNS.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The line of the zone file of a network's domain under which the node with this key finds the certificate.
    ///
    /// # Errors
    /// [`Error::Core`] when the domain is not usable.
    pub fn zone_line(&self, key: &NodeKey, domain: &str) -> Result<String, Error> {
        let name = derive(&Derive::PeerName { key: key.0, domain })?;
        zone_line(&name, &self.0)
    }

    /// The signed bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AuthorityKey {
    /// The line of the zone file of a network's domain that says who its authority is.
    ///
    /// # Errors
    /// [`Error::Core`] when the domain is not usable.
    pub fn zone_line(&self, domain: &str) -> Result<String, Error> {
        let name = derive(&Derive::AuthorityName { domain })?;
        zone_line(&name, &self.0)
    }
}

impl Revocations {
    /// The signed bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn read_certified(answer: &[u8]) -> Result<Certified, Malformed> {
    let mut reader = Reader::new(answer);
    let time = |milliseconds| UNIX_EPOCH + Duration::from_millis(milliseconds);
    let peer = PeerId(reader.array()?);
    let serial = reader.field()?;
    let not_before = time(reader.field()?);
    let expires = time(reader.field()?);
    let address: &str = reader.field()?;
    Ok(Certified {
        peer,
        serial,
        address: (!address.is_empty()).then(|| address.into()),
        not_before,
        expires,
    })
}

fn zone_line(name: &[u8], value: &[u8]) -> Result<String, Error> {
    let name = core::str::from_utf8(name).map_err(|_| Error::version_skew())?;
    let line = derive(&Derive::ZoneLine {
        name,
        ttl_s: ZONE_TTL_S,
        value,
    })?;
    String::from_utf8(line).map_err(|_| Error::version_skew())
}

fn derive(request: &Derive<'_>) -> Result<Vec<u8>, Error> {
    let mut batch = BatchWriter::new();
    request.encode(&mut batch);
    let mut request = batch.into_bytes();
    let answer = CoreModule::admission()?.instantiate()?.derive(&request);
    request.zeroize();
    answer_of(&answer?)
}

macro_rules! base64url_text {
    ($name:ident, $what:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&BASE64URL_NOPAD.encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                match BASE64URL_NOPAD.decode(text.trim().as_bytes()) {
                    Ok(bytes) if !bytes.is_empty() => Ok(Self(bytes)),
                    _ => Err(Error::Input($what.into())),
                }
            }
        }
    };
}

base64url_text!(
    Certificate,
    "a certificate is the line of base64url text that `selfsame authority sign` prints"
);
base64url_text!(
    Revocations,
    "a list of revocations is the line of base64url text that `selfsame authority revoke` prints"
);
