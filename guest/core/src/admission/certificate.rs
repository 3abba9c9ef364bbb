//! Certificates: the authority of a closed network signs who may be in it, and where.
//!
//! ```cddl
//! certificate = [statement: bytes .cbor certificate-statement, signature: bytes .size 64]
//! certificate-statement = [version: 1, net: bytes .size 32, issuer: bytes .size 32, public-key: bytes .size 32,
//!                          serial: uint, not-before-ms: uint, expiry-ms: uint,
//!                          place: [seat: bytes .size 16, address: text .size (1..96)] / null]   ; null: a leaf's
//! ```
//!
//! The signature is the issuer's over the statement under the label `selfsame/1 certificate`.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::cbor::Encoder;
use selfsame_codec::{Code, Malformed, Role};

use super::MAX_EVIDENCE_BYTES;
use crate::address::host_of;
use crate::identity::{Admitted, Identity, NetworkId, PeerId, PublicKey, Seat, Signature};
use crate::statement::{CLOCK_SKEW_MS, Opened, open, signed};
use crate::verified::Verified;

/// Longest address in a certificate, so that the whole stays below [`MAX_EVIDENCE_BYTES`].
pub const MAX_CERTIFICATE_ADDRESS_BYTES: usize = 96;
/// Longest life of a certificate: who was not told of a revocation for so long does not need it.
pub const MAX_CERTIFICATE_LIFE_MS: u64 = 32 * 24 * 60 * 60 * 1000;

const LABEL: &str = "selfsame/1 certificate";
const VERSION: u64 = 1;
/// Items of a statement.
const ITEMS: usize = 8;

/// What an authority certifies
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateTerms {
    /// The key of the node.
    pub public: PublicKey,
    /// Its number, never used twice.
    pub serial: u64,
    /// From when on it counts.
    pub not_before_ms: u64,
    /// When it stops to count, at most [`MAX_CERTIFICATE_LIFE_MS`] later.
    pub expiry_ms: u64,
    /// Where a member is reached, `host:port` with the host as in a URL, in lower case; none for a leaf.
    pub address: Option<String>,
}

/// Permission of a network's authority to be in it, verified
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    network: NetworkId,
    terms: CertificateTerms,
    encoded: Vec<u8>,
}

/// A certificate taken apart, nothing of it verified
pub(super) struct Parts<'a> {
    pub(super) network: NetworkId,
    pub(super) issuer: PublicKey,
    statement: &'a [u8],
    signature: Signature,
    pub(super) terms: CertificateTerms,
    seat: Option<Seat>,
}

impl Certificate {
    /// Signs a certificate with the authority's identity.
    ///
    /// # Errors
    /// [`Code::BadCertificate`] for terms that no node accepts.
    pub fn sign(authority: &Identity, terms: CertificateTerms) -> Result<Self, Code> {
        let network = authority.network();
        if !has_sound_terms(&terms) {
            return Err(Code::BadCertificate);
        }
        let mut statement = Vec::new();
        let mut encoder = Encoder::new(&mut statement);
        encoder
            .array(ITEMS)
            .uint(VERSION)
            .bytes(&network.0)
            .bytes(&authority.public().0)
            .bytes(&terms.public.0)
            .uint(terms.serial)
            .uint(terms.not_before_ms)
            .uint(terms.expiry_ms);
        match &terms.address {
            Some(address) => {
                encoder.array(2).bytes(&Seat::of_address(address).0).text(address);
            }
            None => _ = encoder.null(),
        }
        let encoded = signed(&statement, &authority.sign(LABEL, &statement));
        Ok(Self {
            network,
            terms,
            encoded,
        })
    }

    /// Takes parts of which the signature was verified.
    pub(super) fn of_verified(parts: Parts<'_>, encoded: &[u8]) -> Self {
        Self {
            network: parts.network,
            terms: parts.terms,
            encoded: encoded.to_vec(),
        }
    }

    /// What is certified.
    #[must_use]
    pub fn terms(&self) -> &CertificateTerms {
        &self.terms
    }

    /// The id of its holder.
    #[must_use]
    pub fn id(&self) -> PeerId {
        id_of(&self.terms, &self.network)
    }

    /// Gives it to the identity that it is for, which gets its id by it.
    ///
    /// # Errors
    /// [`Code::BadCertificate`] if that has another key or is of another network.
    pub fn give_to(&self, identity: &mut Identity) -> Result<(), Code> {
        if self.terms.public != identity.public() || self.network != identity.network() {
            return Err(Code::BadCertificate);
        }
        identity.admit(self.id(), self.admitted(), &self.encoded);
        Ok(())
    }

    /// For how long it admits its holder.
    #[must_use]
    pub fn admitted(&self) -> Admitted {
        Admitted {
            since_ms: self.terms.not_before_ms,
            until_ms: self.terms.expiry_ms,
        }
    }

    /// Checks that it counts now.
    ///
    /// # Errors
    /// [`Code::EarlyCertificate`] or [`Code::ExpiredCertificate`].
    pub fn check_current(&self, now_ms: u64) -> Result<(), Code> {
        if now_ms.saturating_add(CLOCK_SKEW_MS) < self.terms.not_before_ms {
            Err(Code::EarlyCertificate)
        } else if now_ms >= self.terms.expiry_ms {
            Err(Code::ExpiredCertificate)
        } else {
            Ok(())
        }
    }

    /// Checks that it lets its holder take this part in the ring at these addresses: a member is reached at the host that its
    /// certificate names, so that it can lead nobody elsewhere.
    ///
    /// # Errors
    /// [`Code::WrongRole`] or [`Code::WrongAddress`].
    pub(crate) fn check_fits(&self, role: Role, addresses: &[String]) -> Result<(), Code> {
        let Some(certified) = &self.terms.address else {
            return if role == Role::Leaf {
                Ok(())
            } else {
                Err(Code::WrongRole)
            };
        };
        if role == Role::Leaf {
            return Err(Code::WrongRole);
        }
        let is_certified = |address: &String| host_of(address).eq_ignore_ascii_case(host_of(certified));
        if addresses.iter().all(is_certified) {
            Ok(())
        } else {
            Err(Code::WrongAddress)
        }
    }

    /// The certificate as it is sent.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

impl<'a> Parts<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Opened {
            statement,
            signature,
            items: mut decoder,
        } = open(bytes, MAX_EVIDENCE_BYTES, ITEMS, VERSION)?;
        let network = NetworkId(decoder.fixed()?);
        let issuer = PublicKey(decoder.fixed()?);
        let mut terms = CertificateTerms {
            public: PublicKey(decoder.fixed()?),
            serial: decoder.uint()?,
            not_before_ms: decoder.uint()?,
            expiry_ms: decoder.uint()?,
            address: None,
        };
        let mut seat = None;
        if !decoder.null() {
            decoder.array_of(2)?;
            seat = Some(Seat(decoder.fixed()?));
            terms.address = Some(decoder.text(MAX_CERTIFICATE_ADDRESS_BYTES)?.into());
        }
        decoder.finish()?;
        let parts = Self {
            network,
            issuer,
            statement,
            signature,
            terms,
            seat,
        };
        if has_sound_terms(&parts.terms) {
            Ok(parts)
        } else {
            Err(Malformed)
        }
    }

    /// The id that its holder would have.
    pub(super) fn id(&self) -> PeerId {
        id_of(&self.terms, &self.network)
    }

    /// Whether the seat is that of the address.
    pub(super) fn is_seated(&self) -> bool {
        self.seat == self.terms.address.as_deref().map(Seat::of_address)
    }

    /// Whether the issuer's signature verifies.
    pub(super) fn is_signed(&self, verified: &mut Verified) -> bool {
        verified.verifies(&self.issuer, LABEL, self.statement, &self.signature)
    }
}

fn id_of(terms: &CertificateTerms, network: &NetworkId) -> PeerId {
    let id = PeerId::of(&terms.public, network);
    match &terms.address {
        Some(address) => id.at(&Seat::of_address(address)),
        None => id,
    }
}

fn has_sound_terms(terms: &CertificateTerms) -> bool {
    let life = terms.expiry_ms.checked_sub(terms.not_before_ms);
    life.is_some_and(|life| (1..=MAX_CERTIFICATE_LIFE_MS).contains(&life))
        && terms.address.as_deref().is_none_or(is_canonical)
}

/// Whether an address is `host:port` with the host in lower case: another spelling would have another seat.
fn is_canonical(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let is_plain =
        |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && !b"/?#@\\".contains(&byte);
    let is_number =
        !port.is_empty() && !port.starts_with('0') && port.bytes().all(|byte| byte.is_ascii_digit());
    address.len() <= MAX_CERTIFICATE_ADDRESS_BYTES
        && !host.is_empty()
        && host.bytes().all(is_plain)
        && is_number
        && port.parse::<u16>().is_ok()
}
