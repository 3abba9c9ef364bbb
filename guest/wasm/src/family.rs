//! `derive` and `verify`: answers that need no node.

use alloc::vec::Vec;

use selfsame_codec::{Admission, Code, Field, Reader, answer};
use selfsame_core::grant::{Grant, Terms};
use selfsame_core::identity::{Identity, MAX_NETWORK_NAME, NetworkId, PeerId, PublicKey};
use zeroize::Zeroizing;

/// Makes identities and what is signed with them.
///
/// ```text
/// 1 identity: seed 32 | network text | known key bytes                          -> id 32 | known key 64
/// 2 owner:    seed 32 | network text                                            -> public key 32
/// 3 grant:    owner seed 32 | network text | name text | peer 32 | issued ms u64 | expiry ms u64
///             | revoked peers bytes, 32 each                                    -> grant
/// 4 network:  network text                                                      -> network id 32
/// ```
///
/// A closed network, which only the build for such knows, is told as its name, `@` and the public key of its authority, 64 hex digits.
pub(crate) fn derive(input: &[u8]) -> Vec<u8> {
    answer(derived(input))
}

fn derived(input: &[u8]) -> Result<Vec<u8>, Code> {
    let mut reader = Reader::new(input);
    match field::<u8>(&mut reader)? {
        1 => {
            let seed = seed(&mut reader)?;
            let network = network(&mut reader)?;
            let identity = Identity::recall(&seed, network, field(&mut reader)?);
            let mut out = identity.id().0.to_vec();
            out.extend_from_slice(&identity.known_key(&seed));
            finish(reader, out)
        }
        2 => {
            let seed = seed(&mut reader)?;
            let identity = Identity::of_owner(&seed, network(&mut reader)?);
            finish(reader, identity.public().0.to_vec())
        }
        3 => {
            let seed = seed(&mut reader)?;
            let owner = Identity::of_owner(&seed, network(&mut reader)?);
            let terms = Terms {
                name: field::<&str>(&mut reader)?.into(),
                peer: PeerId(field(&mut reader)?),
                issued_ms: field(&mut reader)?,
                expiry_ms: field(&mut reader)?,
                revoked: peers(field(&mut reader)?)?,
            };
            finish(reader, Grant::sign(&owner, terms)?.encoded().to_vec())
        }
        4 => {
            let network = network(&mut reader)?;
            finish(reader, network.0.to_vec())
        }
        _ => Err(Code::BadInput),
    }
}

/// Checks what others have signed.
///
/// ```text
/// 1 grant: grant bytes | network text | now ms u64
///          -> owner 32 | peer 32 | issued ms u64 | expiry ms u64 | name text | revoked peers bytes, 32 each
/// ```
pub(crate) fn verify(input: &[u8]) -> Vec<u8> {
    answer(verified(input))
}

fn verified(input: &[u8]) -> Result<Vec<u8>, Code> {
    let mut reader = Reader::new(input);
    match field::<u8>(&mut reader)? {
        1 => {
            let bytes: &[u8] = field(&mut reader)?;
            let network = network(&mut reader)?;
            let now_ms = field(&mut reader)?;
            let grant = Grant::decode_verified(bytes, &network, now_ms)?;
            let mut out = Vec::new();
            grant.owner().0.write(&mut out);
            let terms = grant.terms();
            terms.peer.0.write(&mut out);
            terms.issued_ms.write(&mut out);
            terms.expiry_ms.write(&mut out);
            terms.name.as_str().write(&mut out);
            let revoked: Vec<u8> = terms.revoked.iter().flat_map(|peer| peer.0).collect();
            revoked.as_slice().write(&mut out);
            finish(reader, out)
        }
        _ => Err(Code::BadInput),
    }
}

fn field<'a, T: Field<'a>>(reader: &mut Reader<'a>) -> Result<T, Code> {
    reader.field().map_err(|_| Code::BadInput)
}

fn peers(bytes: &[u8]) -> Result<Vec<PeerId>, Code> {
    let (ids, rest) = bytes.as_chunks();
    if rest.is_empty() {
        Ok(ids.iter().map(|id| PeerId(*id)).collect())
    } else {
        Err(Code::BadInput)
    }
}

/// A seed, which is wiped after use.
fn seed(reader: &mut Reader<'_>) -> Result<Zeroizing<[u8; 32]>, Code> {
    field(reader).map(Zeroizing::new)
}

fn network(reader: &mut Reader<'_>) -> Result<NetworkId, Code> {
    let text: &str = field(reader)?;
    let closed = if cfg!(feature = "closed") {
        text.split_once('@')
    } else {
        None
    };
    let Some((text, authority)) = closed else {
        return Ok(NetworkId::open(name(text)?));
    };
    let authority = PublicKey::from_hex(authority).ok_or(Code::BadConfig)?;
    Ok(NetworkId::of(name(text)?, Admission::Dns, Some(&authority)))
}

/// The name of a network, if it can be one.
fn name(text: &str) -> Result<&str, Code> {
    if text.is_empty() || text.len() > MAX_NETWORK_NAME {
        return Err(Code::BadConfig);
    }
    Ok(text)
}

fn finish(reader: Reader<'_>, out: Vec<u8>) -> Result<Vec<u8>, Code> {
    reader.finish().map_err(|_| Code::BadInput)?;
    Ok(out)
}
