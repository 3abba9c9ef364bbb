//! Grants: the owner of a name signs who may serve it.
//!
//! ```cddl
//! grant = [statement: bytes .cbor grant-statement, signature: bytes .size 64]
//! grant-statement = [version: 1, net: bytes .size 32, owner: bytes .size 32, name: text .size (1..63),
//!                    peer: bytes .size 32, not-before-ms: uint / null, expiry-ms: uint]
//! ```
//!
//! The signature is the owner's over the statement under the label `selfsame/1 grant`.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed};

use crate::identity::{Identity, NetworkId, PeerId, PublicKey};
use crate::record::{CLOCK_SKEW_MS, signed, unsigned};

/// Longest name of a service: one label of a domain name, so that `name.mesh` is a valid host.
pub const MAX_NAME_BYTES: usize = 63;
/// Longest encoding of a grant.
pub const MAX_GRANT_BYTES: usize = 384;

const LABEL: &str = "selfsame/1 grant";
const VERSION: u64 = 1;

/// Permission of a name's owner that a peer serves it, verified
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    owner: PublicKey,
    name: String,
    peer: PeerId,
    not_before_ms: Option<u64>,
    expiry_ms: u64,
    encoded: Vec<u8>,
}

impl Grant {
    /// Signs a grant with the owner's identity.
    ///
    /// # Errors
    /// [`Code::BadName`] for a name outside the rules, [`Code::BadGrant`] when it would never be valid.
    pub fn sign(
        owner: &Identity,
        name: &str,
        peer: PeerId,
        not_before_ms: Option<u64>,
        expiry_ms: u64,
    ) -> Result<Self, Code> {
        check_name(name)?;
        if not_before_ms.is_some_and(|start| start >= expiry_ms) {
            return Err(Code::BadGrant);
        }
        let mut statement = Vec::new();
        let mut encoder = Encoder::new(&mut statement);
        encoder
            .array(7)
            .uint(VERSION)
            .bytes(&owner.network().0)
            .bytes(&owner.public().0)
            .text(name)
            .bytes(&peer.0);
        match not_before_ms {
            Some(start) => encoder.uint(start),
            None => encoder.null(),
        };
        encoder.uint(expiry_ms);
        let signature = owner.sign(LABEL, &statement);
        Ok(Self {
            owner: owner.public(),
            name: name.into(),
            peer,
            not_before_ms,
            expiry_ms,
            encoded: signed(&statement, &signature),
        })
    }

    /// Reads a grant of a network and verifies its signature and times.
    ///
    /// # Errors
    /// [`Code::BadRecord`], [`Code::WrongNetwork`], [`Code::StaleRecord`] or [`Code::BadSignature`].
    pub fn decode_verified(bytes: &[u8], network: &NetworkId, now_ms: u64) -> Result<Self, Code> {
        if bytes.len() > MAX_GRANT_BYTES {
            return Err(Code::BadRecord);
        }
        let (statement, signature) = unsigned(bytes, MAX_GRANT_BYTES).map_err(|_| Code::BadRecord)?;
        let (net, mut grant) = Self::read_statement(statement).map_err(|_| Code::BadRecord)?;
        if net != *network {
            return Err(Code::WrongNetwork);
        }
        check_name(&grant.name).map_err(|_| Code::BadRecord)?;
        let started = grant
            .not_before_ms
            .is_none_or(|start| start <= now_ms.saturating_add(CLOCK_SKEW_MS));
        if !started || now_ms >= grant.expiry_ms {
            return Err(Code::StaleRecord);
        }
        if !grant.owner.verifies(LABEL, statement, &signature) {
            return Err(Code::BadSignature);
        }
        grant.encoded = bytes.to_vec();
        Ok(grant)
    }

    fn read_statement(statement: &[u8]) -> Result<(NetworkId, Self), Malformed> {
        let mut decoder = Decoder::new(statement);
        decoder.array_of(7)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        let network = NetworkId(decoder.fixed()?);
        let grant = Self {
            owner: PublicKey(decoder.fixed()?),
            name: decoder.text(MAX_NAME_BYTES)?.into(),
            peer: PeerId(decoder.fixed()?),
            not_before_ms: if decoder.null() {
                None
            } else {
                Some(decoder.uint()?)
            },
            expiry_ms: decoder.uint()?,
            encoded: Vec::new(),
        };
        decoder.finish()?;
        Ok((network, grant))
    }

    /// Whether the grant is the one that lets `peer` serve this owner's name.
    #[must_use]
    pub fn permits(&self, owner: &PublicKey, name: &str, peer: &PeerId) -> bool {
        self.owner == *owner && self.name == name && self.peer == *peer
    }

    /// The owner's key.
    #[must_use]
    pub fn owner(&self) -> PublicKey {
        self.owner
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The peer that may serve it.
    #[must_use]
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// From when on it counts, if it says so.
    #[must_use]
    pub fn not_before_ms(&self) -> Option<u64> {
        self.not_before_ms
    }

    /// When it stops to count.
    #[must_use]
    pub fn expiry_ms(&self) -> u64 {
        self.expiry_ms
    }

    /// The grant as it is sent and stored.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

/// Checks that a service's name has 1 to 63 characters out of `a-z`, `0-9`, `-` and `.`.
///
/// # Errors
/// [`Code::BadName`] when it has not.
pub fn check_name(name: &str) -> Result<(), Code> {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(Code::BadName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn owner() -> Identity {
        Identity::of_owner(&[1; 32], NetworkId::open("n"))
    }

    fn grant() -> Grant {
        Grant::sign(&owner(), "check", PeerId([2; 32]), Some(NOW), NOW + 1000).expect("a valid grant")
    }

    #[test]
    fn a_grant_comes_back_and_permits_one_thing() {
        let read = Grant::decode_verified(grant().encoded(), &owner().network(), NOW).expect("verifies");
        assert_eq!(read, grant());
        let key = owner().public();
        assert!(read.permits(&key, "check", &PeerId([2; 32])));
        assert!(!read.permits(&key, "other", &PeerId([2; 32])));
        assert!(!read.permits(&key, "check", &PeerId([3; 32])));
        assert!(!read.permits(&PublicKey([0; 32]), "check", &PeerId([2; 32])));
    }

    #[test]
    fn a_changed_byte_is_refused() {
        for index in 0..grant().encoded().len() {
            let mut bytes = grant().encoded().to_vec();
            bytes[index] ^= 1;
            assert!(
                Grant::decode_verified(&bytes, &owner().network(), NOW).is_err(),
                "byte {index}"
            );
        }
    }

    #[test]
    fn a_grant_counts_in_its_network_and_time() {
        let decode = |network: &str, now| {
            Grant::decode_verified(grant().encoded(), &NetworkId::open(network), now).map(|_| ())
        };
        assert_eq!(decode("m", NOW), Err(Code::WrongNetwork));
        assert_eq!(decode("n", NOW + 999), Ok(()));
        assert_eq!(decode("n", NOW + 1000), Err(Code::StaleRecord));
        assert_eq!(decode("n", NOW - CLOCK_SKEW_MS - 1), Err(Code::StaleRecord));
    }

    #[test]
    fn names_follow_the_rules() {
        let long = "a".repeat(64);
        for bad in ["", "Check", "a b", "a/b", "\u{e4}", &long] {
            assert_eq!(check_name(bad), Err(Code::BadName), "{bad}");
        }
        for good in ["a", "check-2.eu", &long[1..]] {
            assert_eq!(check_name(good), Ok(()));
        }
        let peer = PeerId([0; 32]);
        assert_eq!(
            Grant::sign(&owner(), "Check", peer, None, NOW).map(|_| ()),
            Err(Code::BadName)
        );
    }
}
