//! Revocations: the authority of a closed network signs whom it admits no more.
//!
//! ```cddl
//! revocations = [statement: bytes .cbor revocations-statement, signature: bytes .size 64]
//! revocations-statement = [version: 1, net: bytes .size 32, issuer: bytes .size 32, serial: uint,
//!                          revoked: [0*256 [public-key: bytes .size 32, before-ms: uint]]]  ; keys in ascending order
//! ```
//!
//! The signature is the issuer's over the statement under the label `selfsame/1 revocations`. A list takes the place of all
//! with lower serials.

use alloc::vec::Vec;

use selfsame_codec::cbor::Encoder;
use selfsame_codec::{Code, Malformed};

use crate::gather::read_list;
use crate::identity::{Admitted, Identity, NetworkId, PublicKey, Signature};
use crate::statement::{Opened, open, signed};

/// Most keys in a list: an entry can go once the certificates that it is about have expired.
pub const MAX_REVOCATIONS: usize = 256;
/// Longest encoding of a list.
pub const MAX_REVOCATIONS_BYTES: usize = MAX_REVOCATIONS * 44 + 256;

const LABEL: &str = "selfsame/1 revocations";
const VERSION: u64 = 1;
/// Items of a statement.
const ITEMS: usize = 5;

/// A key whose certificates count no more
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revocation {
    /// The key.
    pub public: PublicKey,
    /// Certificates that count from before this time are revoked.
    pub before_ms: u64,
}

/// A list of revocations, verified
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocations {
    serial: u64,
    revoked: Vec<Revocation>,
    encoded: Vec<u8>,
}

/// A list taken apart, nothing of it verified
pub(super) struct Parts<'a> {
    pub(super) network: NetworkId,
    pub(super) issuer: PublicKey,
    statement: &'a [u8],
    signature: Signature,
    pub(super) serial: u64,
    revoked: Vec<Revocation>,
}

impl Revocations {
    /// Signs a list with the authority's identity; `serial` is above that of every list before.
    ///
    /// # Errors
    /// [`Code::TooLarge`] for too many, [`Code::BadCertificate`] for a key that is in it twice.
    pub fn sign(authority: &Identity, serial: u64, mut revoked: Vec<Revocation>) -> Result<Self, Code> {
        revoked.sort_unstable();
        if revoked.len() > MAX_REVOCATIONS {
            return Err(Code::TooLarge);
        }
        if !is_ascending(&revoked) {
            return Err(Code::BadCertificate);
        }
        let mut statement = Vec::new();
        let mut encoder = Encoder::new(&mut statement);
        encoder
            .array(ITEMS)
            .uint(VERSION)
            .bytes(&authority.network().0)
            .bytes(&authority.public().0)
            .uint(serial)
            .array(revoked.len());
        for one in &revoked {
            encoder.array(2).bytes(&one.public.0).uint(one.before_ms);
        }
        let encoded = signed(&statement, &authority.sign(LABEL, &statement));
        Ok(Self {
            serial,
            revoked,
            encoded,
        })
    }

    /// Takes parts whose issuer may sign.
    ///
    /// # Errors
    /// [`Code::BadSignature`].
    pub(super) fn verified(parts: Parts<'_>, encoded: &[u8]) -> Result<Self, Code> {
        if !parts.issuer.verifies(LABEL, parts.statement, &parts.signature) {
            return Err(Code::BadSignature);
        }
        Ok(Self {
            serial: parts.serial,
            revoked: parts.revoked,
            encoded: encoded.to_vec(),
        })
    }

    /// Number of the list.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// How many keys are in it.
    pub(crate) fn revoked(&self) -> usize {
        self.revoked.len()
    }

    /// Whether it revokes what a key was admitted by.
    pub(super) fn revokes(&self, key: &PublicKey, admitted: &Admitted) -> bool {
        let found = self.revoked.binary_search_by_key(key, |one| one.public);
        found
            .ok()
            .and_then(|index| self.revoked.get(index))
            .is_some_and(|one| admitted.since_ms < one.before_ms)
    }

    /// The list as it is sent and stored.
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
        } = open(bytes, MAX_REVOCATIONS_BYTES, ITEMS, VERSION)?;
        let parts = Self {
            network: NetworkId(decoder.fixed()?),
            issuer: PublicKey(decoder.fixed()?),
            statement,
            signature,
            serial: decoder.uint()?,
            revoked: read_list(&mut decoder, MAX_REVOCATIONS, &|decoder| {
                decoder.array_of(2)?;
                Ok(Revocation {
                    public: PublicKey(decoder.fixed()?),
                    before_ms: decoder.uint()?,
                })
            })?,
        };
        decoder.finish()?;
        if is_ascending(&parts.revoked) {
            Ok(parts)
        } else {
            Err(Malformed)
        }
    }
}

fn is_ascending(revoked: &[Revocation]) -> bool {
    revoked.is_sorted_by(|one, next| one.public < next.public)
}
