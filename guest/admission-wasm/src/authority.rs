//! What the authority of a closed network signs, and what it has given its nodes.

use alloc::vec::Vec;

use selfsame_codec::admission::{Derive, Verify};
use selfsame_codec::{Admission, BatchReader, Code, Field, Item, Reader, answer};
use selfsame_core::admission::{Certificate, CertificateTerms, Gate, Revocation, Revocations};
use selfsame_core::identity::{Identity, MAX_NETWORK_NAME, NetworkId, PublicKey};
use zeroize::Zeroizing;

/// Bytes of a key and a time.
const REVOKED_BYTES: usize = 40;

/// Answers a request to `derive` that is for the authority; `None` if it is not.
pub(crate) fn derive(request: &[u8]) -> Option<Vec<u8>> {
    let result = match Derive::decode(item(request)?).ok()? {
        Derive::Authority { seed, network } => signer(seed, network).map(|authority| {
            let mut out = authority.public().0.to_vec();
            authority.network().0.write(&mut out);
            out
        }),
        Derive::Certificate {
            seed,
            network,
            key,
            serial,
            not_before_ms,
            expiry_ms,
            address,
        } => signer(seed, network).and_then(|authority| {
            let terms = CertificateTerms {
                public: PublicKey(key),
                serial,
                not_before_ms,
                expiry_ms,
                address: (!address.is_empty()).then(|| address.into()),
            };
            Ok(Certificate::sign(&authority, terms)?.encoded().to_vec())
        }),
        Derive::Revocations {
            seed,
            network,
            serial,
            revoked,
        } => signer(seed, network).and_then(|authority| {
            let list = Revocations::sign(&authority, serial, read_revoked(revoked)?)?;
            Ok(list.encoded().to_vec())
        }),
        _ => return None,
    };
    Some(answer(result))
}

/// Answers a request to `verify` that is about a certificate; `None` if it is not.
pub(crate) fn verify(request: &[u8]) -> Option<Vec<u8>> {
    let Verify::Certificate {
        authority,
        network,
        key,
        certificate,
    } = Verify::decode(item(request)?).ok()?
    else {
        return None;
    };
    Some(answer(read_certificate(
        &PublicKey(authority),
        network,
        &PublicKey(key),
        certificate,
    )))
}

fn read_certificate(
    authority: &PublicKey,
    network: &str,
    key: &PublicKey,
    certificate: &[u8],
) -> Result<Vec<u8>, Code> {
    let network = NetworkId::of(name(network)?, Admission::Dns, Some(authority));
    let certificate = Gate::new(network, Some(*authority)).admit(key, certificate)?;
    let certificate = certificate.ok_or(Code::NoCertificate)?;
    let terms = certificate.terms();
    let mut out = Vec::new();
    certificate.id().0.write(&mut out);
    terms.serial.write(&mut out);
    terms.not_before_ms.write(&mut out);
    terms.expiry_ms.write(&mut out);
    terms.address.as_deref().unwrap_or_default().write(&mut out);
    Ok(out)
}

fn signer(seed: [u8; 32], network: &str) -> Result<Identity, Code> {
    let seed = Zeroizing::new(seed);
    Ok(Identity::of_authority(&seed, name(network)?, Admission::Dns))
}

fn name(text: &str) -> Result<&str, Code> {
    if text.is_empty() || text.len() > MAX_NETWORK_NAME {
        return Err(Code::BadConfig);
    }
    Ok(text)
}

fn read_revoked(bytes: &[u8]) -> Result<Vec<Revocation>, Code> {
    let (all, rest) = bytes.as_chunks::<REVOKED_BYTES>();
    if !rest.is_empty() {
        return Err(Code::BadInput);
    }
    let read = |one: &[u8; REVOKED_BYTES]| {
        let mut reader = Reader::new(one);
        let public = PublicKey(reader.field()?);
        let before_ms = reader.field()?;
        Ok(Revocation { public, before_ms })
    };
    all.iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(|_: selfsame_codec::Malformed| Code::BadInput)
}

/// The only item of a request.
fn item(request: &[u8]) -> Option<Item<'_>> {
    let mut items = BatchReader::new(request).ok()?;
    items.next().filter(|_| items.next().is_none())
}
