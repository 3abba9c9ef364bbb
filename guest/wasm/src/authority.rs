//! What the authority of a closed network signs, and what its nodes were given.

use alloc::vec::Vec;

use selfsame_codec::{Admission, Code, Field, Reader};
use selfsame_core::admission::{Certificate, CertificateTerms, Gate, Revocation, Revocations};
use selfsame_core::identity::{Identity, PublicKey};

use crate::family::{field, finish, name, seed};

/// Answers the kinds 5 to 7 of `derive`.
pub(crate) fn derived(kind: u8, mut reader: Reader<'_>) -> Result<Vec<u8>, Code> {
    let seed = seed(&mut reader)?;
    let authority = Identity::of_authority(&seed, name(field(&mut reader)?)?, Admission::Dns);
    match kind {
        5 => {
            let mut out = authority.public().0.to_vec();
            authority.network().0.write(&mut out);
            finish(reader, out)
        }
        6 => {
            let mut terms = CertificateTerms {
                public: PublicKey(field(&mut reader)?),
                serial: field(&mut reader)?,
                not_before_ms: field(&mut reader)?,
                expiry_ms: field(&mut reader)?,
                address: None,
            };
            let address: &str = field(&mut reader)?;
            if !address.is_empty() {
                terms.address = Some(address.into());
            }
            finish(reader, Certificate::sign(&authority, terms)?.encoded().to_vec())
        }
        _ => {
            let serial = field(&mut reader)?;
            let revoked = revoked(field(&mut reader)?)?;
            finish(
                reader,
                Revocations::sign(&authority, serial, revoked)?.encoded().to_vec(),
            )
        }
    }
}

/// Answers the kind 2 of `verify`.
pub(crate) fn verified_certificate(reader: &mut Reader<'_>) -> Result<Vec<u8>, Code> {
    let bytes: &[u8] = field(reader)?;
    let network = crate::family::network(reader)?;
    let mut gate = Gate::new(network.id, network.authority);
    let public = PublicKey(field(reader)?);
    let certificate = gate.admit(&public, bytes)?.ok_or(Code::BadCertificate)?;
    let mut out = Vec::new();
    certificate.id().0.write(&mut out);
    let terms = certificate.terms();
    terms.serial.write(&mut out);
    terms.not_before_ms.write(&mut out);
    terms.expiry_ms.write(&mut out);
    terms.address.as_deref().unwrap_or_default().write(&mut out);
    Ok(out)
}

/// Keys and times, 40 bytes each.
fn revoked(bytes: &[u8]) -> Result<Vec<Revocation>, Code> {
    let (all, rest) = bytes.as_chunks::<40>();
    if !rest.is_empty() {
        return Err(Code::BadInput);
    }
    all.iter()
        .map(|one| {
            let mut reader = Reader::new(one);
            Ok(Revocation {
                public: PublicKey(field(&mut reader)?),
                before_ms: field(&mut reader)?,
            })
        })
        .collect()
}
