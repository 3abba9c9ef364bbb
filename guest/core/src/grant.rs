//! Grants: the owner of a name signs who may serve it, and who may no longer.
//!
//! ```cddl
//! grant = [statement: bytes .cbor grant-statement, signature: bytes .size 64]
//! grant-statement = [version: 1, net: bytes .size 32, owner: bytes .size 32, name: text .size (1..63),
//!                    peer: bytes .size 32, issued-ms: uint, expiry-ms: uint, revoked: [0*8 bytes .size 32]]
//! ```
//!
//! The signature is the owner's over the statement under the label `selfsame/1 grant`.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed};

use crate::admission::Gate;
use crate::gather::read_list;
use crate::identity::{Identity, NetworkId, PeerId, PublicKey};
use crate::statement::{CLOCK_SKEW_MS, Opened, open, signed};

/// Longest name of a service: one label of a domain name, so that `name.mesh` is a valid host.
pub const MAX_NAME_BYTES: usize = 63;
/// Longest encoding of a grant.
pub const MAX_GRANT_BYTES: usize = 640;
/// Most peers whose earlier grants one grant revokes: more expire than have to be revoked, and every association carries
/// them.
pub const MAX_REVOKED: usize = 8;

const LABEL: &str = "selfsame/1 grant";
const VERSION: u64 = 1;
/// Items of a statement.
const ITEMS: usize = 8;

/// What an owner grants
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The name.
    pub name: String,
    /// The peer that may serve it.
    pub peer: PeerId,
    /// When it was signed; from then on it counts.
    pub issued_ms: u64,
    /// When it stops to count.
    pub expiry_ms: u64,
    /// Other peers, up to [`MAX_REVOKED`], whose grants for this name count no more unless they are issued later.
    pub revoked: Vec<PeerId>,
}

/// Permission of a name's owner that a peer serves it, verified
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    owner: PublicKey,
    terms: Terms,
    encoded: Vec<u8>,
}

impl Grant {
    /// Signs a grant with the owner's identity.
    ///
    /// # Errors
    /// [`Code::BadName`] for a name outside the rules, [`Code::BadGrant`] when it would never be valid, or revokes too many or itself.
    pub fn sign(owner: &Identity, terms: Terms) -> Result<Self, Code> {
        check_name(&terms.name)?;
        let revokes_itself = terms.revoked.contains(&terms.peer);
        if terms.issued_ms >= terms.expiry_ms || terms.revoked.len() > MAX_REVOKED || revokes_itself {
            return Err(Code::BadGrant);
        }
        let mut statement = Vec::new();
        let mut encoder = Encoder::new(&mut statement);
        encoder
            .array(ITEMS)
            .uint(VERSION)
            .bytes(&owner.network().0)
            .bytes(&owner.public().0)
            .text(&terms.name)
            .bytes(&terms.peer.0)
            .uint(terms.issued_ms)
            .uint(terms.expiry_ms)
            .array(terms.revoked.len());
        for peer in &terms.revoked {
            encoder.bytes(&peer.0);
        }
        let signature = owner.sign(LABEL, &statement);
        Ok(Self {
            owner: owner.public(),
            terms,
            encoded: signed(&statement, &signature),
        })
    }

    /// Reads a grant of a network and verifies its signature and times.
    ///
    /// # Errors
    /// [`Code::BadRecord`], [`Code::WrongNetwork`], [`Code::StaleRecord`] or [`Code::BadSignature`].
    pub fn decode_verified(bytes: &[u8], network: &NetworkId, now_ms: u64) -> Result<Self, Code> {
        Self::decode_with(&mut Gate::new(*network, None), bytes, now_ms)
    }

    /// The same, but a signature that was verified before is not verified again.
    pub(crate) fn decode_with(gate: &mut Gate, bytes: &[u8], now_ms: u64) -> Result<Self, Code> {
        let Opened {
            statement,
            signature,
            items,
        } = open(bytes, MAX_GRANT_BYTES, ITEMS, VERSION).map_err(|_| Code::BadRecord)?;
        let (net, mut grant) = Self::read_items(items).map_err(|_| Code::BadRecord)?;
        if net != *gate.network() {
            return Err(Code::WrongNetwork);
        }
        let terms = &grant.terms;
        check_name(&terms.name).map_err(|_| Code::BadRecord)?;
        if terms.issued_ms > now_ms.saturating_add(CLOCK_SKEW_MS) || now_ms >= terms.expiry_ms {
            return Err(Code::StaleRecord);
        }
        if !gate.verifies(&grant.owner, LABEL, statement, &signature) {
            return Err(Code::BadSignature);
        }
        grant.encoded = bytes.to_vec();
        Ok(grant)
    }

    /// What is granted by a grant that was verified before.
    pub(crate) fn terms_of_verified(bytes: &[u8]) -> Option<Terms> {
        let opened = open(bytes, MAX_GRANT_BYTES, ITEMS, VERSION).ok()?;
        let (_, grant) = Self::read_items(opened.items).ok()?;
        Some(grant.terms)
    }

    fn read_items(mut decoder: Decoder<'_>) -> Result<(NetworkId, Self), Malformed> {
        let network = NetworkId(decoder.fixed()?);
        let owner = PublicKey(decoder.fixed()?);
        let terms = Terms {
            name: decoder.text(MAX_NAME_BYTES)?.into(),
            peer: PeerId(decoder.fixed()?),
            issued_ms: decoder.uint()?,
            expiry_ms: decoder.uint()?,
            revoked: read_list(&mut decoder, MAX_REVOKED, &|decoder| decoder.fixed().map(PeerId))?,
        };
        decoder.finish()?;
        let grant = Self {
            owner,
            terms,
            encoded: Vec::new(),
        };
        Ok((network, grant))
    }

    /// Whether the grant is the one that lets `peer` serve this owner's name.
    #[must_use]
    pub fn permits(&self, owner: &PublicKey, name: &str, peer: &PeerId) -> bool {
        self.owner == *owner && self.terms.name == name && self.terms.peer == *peer
    }

    /// The owner's key.
    #[must_use]
    pub fn owner(&self) -> PublicKey {
        self.owner
    }

    /// What is granted.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
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

    fn terms() -> Terms {
        Terms {
            name: "check".into(),
            peer: PeerId([2; 32]),
            issued_ms: NOW,
            expiry_ms: NOW + 1000,
            revoked: Vec::from([PeerId([4; 32]), PeerId([5; 32])]),
        }
    }

    fn grant() -> Grant {
        Grant::sign(&owner(), terms()).expect("a valid grant")
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
    fn the_longest_grant_fits_and_nothing_longer_is_signed() {
        let longest = Terms {
            name: "a".repeat(MAX_NAME_BYTES),
            issued_ms: u64::MAX - 1,
            expiry_ms: u64::MAX,
            revoked: [PeerId([4; 32])].repeat(MAX_REVOKED),
            ..terms()
        };
        let encoded = Grant::sign(&owner(), longest.clone()).expect("a grant").encoded;
        assert!(encoded.len() <= MAX_GRANT_BYTES, "{}", encoded.len());
        for terms in [
            Terms {
                revoked: [PeerId([4; 32])].repeat(MAX_REVOKED + 1),
                ..longest.clone()
            },
            Terms {
                issued_ms: u64::MAX,
                ..longest.clone()
            },
            Terms {
                revoked: [longest.peer].into(),
                ..longest
            },
        ] {
            assert_eq!(Grant::sign(&owner(), terms), Err(Code::BadGrant));
        }
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
        let bad = Terms {
            name: "Check".into(),
            ..terms()
        };
        assert_eq!(Grant::sign(&owner(), bad), Err(Code::BadName));
    }
}
