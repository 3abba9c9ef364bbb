//! Node records: what a node signs about itself so that others may dial it.
//!
//! ```cddl
//! node-record = [statement: bytes .cbor record-statement, signature: bytes .size 64]
//! record-statement = [version: 1, net: bytes .size 32, public-key: bytes .size 32, role: 0 / 1,
//!                     addresses: [0*8 text .size (1..512)], domain: text .size (0..64),
//!                     sequence-ms: uint, expiry-ms: uint]
//! ```
//!
//! The signature is over the statement under the label `selfsame/1 node record`.

mod address;
pub(crate) use address::scheme_of;
pub use address::{addresses_allowed, relay_address, relay_of};

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed, Role};

use crate::identity::{Identity, NetworkId, PeerId, PublicKey, Signature};
use crate::verified::Verified;

/// Most addresses in a record: several transports on two or three interfaces, and still one small message.
pub const MAX_ADDRESSES: usize = 8;
/// Longest address: room for a URL with a path and a certificate hash.
pub const MAX_ADDRESS_BYTES: usize = 512;
/// Longest label of what fails together.
pub const MAX_DOMAIN_BYTES: usize = 64;
/// Longest life of a record: a node that is gone is forgotten within a day.
pub const MAX_RECORD_LIFE_MS: u64 = 24 * 60 * 60 * 1000;
/// How far the clock of an honest node may run ahead of ours.
pub const CLOCK_SKEW_MS: u64 = 60_000;
/// Longest encoding of a record that follows the limits above.
pub const MAX_RECORD_BYTES: usize = MAX_ADDRESSES * (MAX_ADDRESS_BYTES + 3) + MAX_DOMAIN_BYTES + 256;

const LABEL: &str = "selfsame/1 node record";
const VERSION: u64 = 1;

/// What a node says about itself, verified
#[derive(Clone, PartialEq, Eq)]
pub struct NodeRecord {
    id: PeerId,
    public: PublicKey,
    role: Role,
    addresses: Vec<String>,
    domain: String,
    sequence_ms: u64,
    expiry_ms: u64,
    encoded: Vec<u8>,
}

impl NodeRecord {
    /// Signs a record that lives from `sequence_ms` until `expiry_ms`.
    ///
    /// # Errors
    /// [`Code::BadAddress`] or [`Code::BadConfig`] when addresses, label or times are outside the limits.
    pub fn sign(
        identity: &Identity,
        role: Role,
        addresses: &[String],
        domain: &str,
        sequence_ms: u64,
        expiry_ms: u64,
    ) -> Result<Self, Code> {
        if addresses.len() > MAX_ADDRESSES || domain.len() > MAX_DOMAIN_BYTES {
            return Err(Code::BadConfig);
        }
        if expiry_ms <= sequence_ms || expiry_ms - sequence_ms > MAX_RECORD_LIFE_MS {
            return Err(Code::BadConfig);
        }
        addresses_allowed(addresses, true)?;
        let mut statement = Vec::new();
        let mut encoder = Encoder::new(&mut statement);
        encoder
            .array(8)
            .uint(VERSION)
            .bytes(&identity.network().0)
            .bytes(&identity.public().0)
            .uint(u64::from(role == Role::Member));
        encoder.array(addresses.len());
        for address in addresses {
            encoder.text(address);
        }
        encoder.text(domain).uint(sequence_ms).uint(expiry_ms);
        let signature = identity.sign(LABEL, &statement);
        Ok(Self {
            id: identity.id(),
            public: identity.public(),
            role,
            addresses: addresses.to_vec(),
            domain: domain.into(),
            sequence_ms,
            expiry_ms,
            encoded: signed(&statement, &signature),
        })
    }

    /// Reads a record of a network and verifies its signature and times.
    ///
    /// Whether its addresses may be dialled is for [`addresses_allowed`] to say.
    ///
    /// # Errors
    /// [`Code::BadRecord`], [`Code::WrongNetwork`], [`Code::StaleRecord`] or [`Code::BadSignature`].
    pub fn decode_verified(bytes: &[u8], network: &NetworkId, now_ms: u64) -> Result<Self, Code> {
        Self::decode_with(&mut Verified::default(), bytes, network, now_ms)
    }

    /// The same, but a signature that was verified before is not verified again.
    pub(crate) fn decode_with(
        verified: &mut Verified,
        bytes: &[u8],
        network: &NetworkId,
        now_ms: u64,
    ) -> Result<Self, Code> {
        let record = Self::decode(verified, bytes, network)?;
        if !record.is_current(now_ms) {
            return Err(Code::StaleRecord);
        }
        Ok(record)
    }

    /// Reads a record and verifies everything but its times.
    fn decode(verified: &mut Verified, bytes: &[u8], network: &NetworkId) -> Result<Self, Code> {
        let (statement, signature) = unsigned(bytes, MAX_RECORD_BYTES).map_err(|_| Code::BadRecord)?;
        let (net, mut record) = Self::read_statement(statement).map_err(|_| Code::BadRecord)?;
        if net != *network {
            return Err(Code::WrongNetwork);
        }
        addresses_allowed(&record.addresses, true).map_err(|_| Code::BadRecord)?;
        if record.expiry_ms <= record.sequence_ms
            || record.expiry_ms - record.sequence_ms > MAX_RECORD_LIFE_MS
        {
            return Err(Code::BadRecord);
        }
        if !verified.verifies(&record.public, LABEL, statement, &signature) {
            return Err(Code::BadSignature);
        }
        record.id = PeerId::of(&record.public, network);
        record.encoded = bytes.to_vec();
        Ok(record)
    }

    /// The id of the node that a record claims to be of, nothing verified.
    pub(crate) fn claimed_id(bytes: &[u8], network: &NetworkId) -> Option<PeerId> {
        let (statement, _) = unsigned(bytes, MAX_RECORD_BYTES).ok()?;
        let mut decoder = Decoder::new(statement);
        decoder.array_of(8).ok()?;
        decoder.uint_max(VERSION).ok()?;
        decoder.fixed::<32>().ok()?;
        Some(PeerId::of(&PublicKey(decoder.fixed().ok()?), network))
    }

    fn read_statement(statement: &[u8]) -> Result<(NetworkId, Self), Malformed> {
        let mut decoder = Decoder::new(statement);
        decoder.array_of(8)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        let network = NetworkId(decoder.fixed()?);
        let public = PublicKey(decoder.fixed()?);
        let role = match decoder.uint_max(1)? {
            1 => Role::Member,
            _ => Role::Leaf,
        };
        let count = decoder.array(MAX_ADDRESSES)?;
        let mut addresses = Vec::with_capacity(count);
        for _ in 0..count {
            addresses.push(decoder.text(MAX_ADDRESS_BYTES)?.into());
        }
        let record = Self {
            id: PeerId([0; 32]),
            public,
            role,
            addresses,
            domain: decoder.text(MAX_DOMAIN_BYTES)?.into(),
            sequence_ms: decoder.uint()?,
            expiry_ms: decoder.uint()?,
            encoded: Vec::new(),
        };
        decoder.finish()?;
        Ok((network, record))
    }

    /// Whether the record is neither expired nor from the future.
    #[must_use]
    pub fn is_current(&self, now_ms: u64) -> bool {
        now_ms < self.expiry_ms && self.sequence_ms <= now_ms.saturating_add(CLOCK_SKEW_MS)
    }

    /// The node's id, derived from its key.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.id
    }

    /// The node's key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Member or leaf.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// URLs at which the node can be dialled, or `relay:` and the id of a member that relays for it.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Label of what fails together with it; may be empty.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// When it was signed; the higher one of two records of a node counts.
    #[must_use]
    pub fn sequence_ms(&self) -> u64 {
        self.sequence_ms
    }

    /// When it stops to count.
    #[must_use]
    pub fn expiry_ms(&self) -> u64 {
        self.expiry_ms
    }

    /// The record as it is sent and stored.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

impl core::fmt::Debug for NodeRecord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NodeRecord")
            .field("id", &self.id)
            .field("role", &self.role)
            .field("addresses", &self.addresses)
            .field("sequence_ms", &self.sequence_ms)
            .finish_non_exhaustive()
    }
}

/// Wraps a statement and its signature: `[bytes, bytes .size 64]`.
pub(crate) fn signed(statement: &[u8], signature: &Signature) -> Vec<u8> {
    let mut out = Vec::with_capacity(statement.len() + 72);
    Encoder::new(&mut out)
        .array(2)
        .bytes(statement)
        .bytes(&signature.0);
    out
}

/// Takes a signed statement of at most `max` bytes apart.
pub(crate) fn unsigned(bytes: &[u8], max: usize) -> Result<(&[u8], Signature), Malformed> {
    let mut decoder = Decoder::new(bytes);
    decoder.array_of(2)?;
    let statement = decoder.bytes(max)?;
    let signature = Signature(decoder.fixed()?);
    decoder.finish()?;
    Ok((statement, signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn identity() -> Identity {
        Identity::of_peer(&[1; 32], NetworkId::open("n"))
    }

    fn record() -> NodeRecord {
        let addresses = [String::from("wss://a.example/mesh")];
        NodeRecord::sign(&identity(), Role::Member, &addresses, "eu", NOW, NOW + 1000).expect("within limits")
    }

    #[test]
    fn a_record_comes_back() {
        let record = record();
        let read = NodeRecord::decode_verified(record.encoded(), &identity().network(), NOW);
        assert_eq!(read, Ok(record));
    }

    #[test]
    fn a_changed_byte_is_refused() {
        let good = record();
        for index in 0..good.encoded().len() {
            let mut bytes = good.encoded().to_vec();
            bytes[index] ^= 1;
            assert!(
                NodeRecord::decode_verified(&bytes, &identity().network(), NOW).is_err(),
                "byte {index}"
            );
        }
    }

    #[test]
    fn another_network_and_wrong_times_are_refused() {
        let record = record();
        let decode = |network: &str, now| {
            NodeRecord::decode_verified(record.encoded(), &NetworkId::open(network), now).map(|_| ())
        };
        assert_eq!(decode("n", NOW), Ok(()));
        assert_eq!(decode("m", NOW), Err(Code::WrongNetwork));
        assert_eq!(decode("n", NOW + 1000), Err(Code::StaleRecord));
        assert_eq!(decode("n", NOW - CLOCK_SKEW_MS), Ok(()));
        assert_eq!(decode("n", NOW - CLOCK_SKEW_MS - 1), Err(Code::StaleRecord));
    }

    #[test]
    fn a_life_beyond_a_day_is_not_signed() {
        let life = MAX_RECORD_LIFE_MS + 1;
        let signed = NodeRecord::sign(&identity(), Role::Leaf, &[], "", NOW, NOW + life);
        assert_eq!(signed, Err(Code::BadConfig));
    }
}
