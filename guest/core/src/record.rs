//! Node records: what a node signs about itself so that others may dial it.
//!
//! ```cddl
//! node-record = [statement: bytes .cbor record-statement, signature: bytes .size 64]
//! record-statement = [version: 2, net: bytes .size 32, public-key: bytes .size 32, role: 0 / 1,
//!                     addresses: [0*8 text .size (1..512)], domain: text .size (0..64), boot: bytes .size 16,
//!                     sequence: uint, signed-at-ms: uint, expiry-ms: uint,
//!                     certificate: bytes .size (1..320) / null]
//! ```
//!
//! The signature is over the statement under the label `selfsame/1 node record`.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed, Role};

pub use crate::address::{MAX_ADDRESS_BYTES, addresses_allowed, relay_address, relay_of};
use crate::admission::{Certificate, Gate, MAX_EVIDENCE_BYTES};
use crate::boot::BootId;
use crate::gather::read_list;
use crate::identity::{Admitted, Identity, NetworkId, PeerId, PublicKey};
pub use crate::statement::CLOCK_SKEW_MS;
use crate::statement::{signed, unsigned};

/// Most addresses in a record: several transports on two or three interfaces, and still one small message.
pub const MAX_ADDRESSES: usize = 8;
/// Longest label of what fails together.
pub const MAX_DOMAIN_BYTES: usize = 64;
/// Longest life of a record: a node that is gone is forgotten within a day.
pub const MAX_RECORD_LIFE_MS: u64 = 24 * 60 * 60 * 1000;
/// How far a sequence may be ahead of the clock: a node whose clock ran ahead by less goes on above its last one.
pub const MAX_SEQUENCE_LEAD_MS: u64 = MAX_RECORD_LIFE_MS;
/// Longest encoding of a record that follows the limits above.
pub const MAX_RECORD_BYTES: usize =
    MAX_ADDRESSES * (MAX_ADDRESS_BYTES + 3) + MAX_DOMAIN_BYTES + MAX_EVIDENCE_BYTES + 300;

const LABEL: &str = "selfsame/1 node record";
const VERSION: u64 = 2;
/// Items of a statement.
const ITEMS: usize = 11;

/// What a node says about itself, verified; copies share it
#[derive(Clone)]
pub struct NodeRecord(Arc<Fields>);

/// What stands in a record
struct Fields {
    id: PeerId,
    public: PublicKey,
    role: Role,
    addresses: Vec<String>,
    domain: String,
    boot: BootId,
    sequence: u64,
    signed_at_ms: u64,
    expiry_ms: u64,
    admitted: Admitted,
    encoded: Vec<u8>,
}

/// What a node is about to sign about itself
#[derive(Clone, Copy, Debug)]
pub struct RecordTerms<'a> {
    /// Member or leaf.
    pub role: Role,
    /// URLs at which the node can be dialled, or members that relay for it.
    pub addresses: &'a [String],
    /// Label of what fails together with it; may be empty.
    pub domain: &'a str,
    /// Above that of the record before.
    pub sequence: u64,
    /// The time.
    pub signed_at_ms: u64,
    /// When it stops to count, at most [`MAX_RECORD_LIFE_MS`] later.
    pub expiry_ms: u64,
}

impl<'a> RecordTerms<'a> {
    /// Terms whose sequence is the time, without a label.
    #[must_use]
    pub fn new(role: Role, addresses: &'a [String], signed_at_ms: u64, expiry_ms: u64) -> Self {
        Self {
            role,
            addresses,
            domain: "",
            sequence: signed_at_ms,
            signed_at_ms,
            expiry_ms,
        }
    }
}

impl NodeRecord {
    /// Signs a record of this run of the node.
    ///
    /// # Errors
    /// [`Code::BadAddress`] or [`Code::BadConfig`] when addresses, label or times are outside the limits.
    pub fn sign(identity: &Identity, terms: &RecordTerms<'_>) -> Result<Self, Code> {
        let mut record = Fields {
            id: identity.id(),
            public: identity.public(),
            role: terms.role,
            addresses: terms.addresses.to_vec(),
            domain: terms.domain.into(),
            boot: identity.boot(),
            sequence: terms.sequence,
            signed_at_ms: terms.signed_at_ms,
            expiry_ms: terms.expiry_ms,
            admitted: identity.admitted(),
            encoded: Vec::new(),
        };
        if record.addresses.len() > MAX_ADDRESSES
            || record.domain.len() > MAX_DOMAIN_BYTES
            || !record.has_sound_times()
        {
            return Err(Code::BadConfig);
        }
        addresses_allowed(record.role, &record.addresses, true)?;
        let statement = record.statement(&identity.network(), identity.evidence());
        let signature = identity.sign(LABEL, &statement);
        record.encoded = signed(&statement, &signature);
        Ok(Self(Arc::new(record)))
    }

    /// Reads a record of a node that a gate admits and verifies its signature and times; a signature that was verified before is not
    /// verified again.
    ///
    /// Whether its addresses may be dialled is for [`addresses_allowed`] to say.
    ///
    /// # Errors
    /// [`Code::BadRecord`], [`Code::WrongNetwork`], [`Code::WrongClock`] when it is from the future, [`Code::StaleRecord`] when
    /// it has expired, [`Code::BadSignature`], or why the gate does not admit the node.
    pub fn decode_verified(gate: &mut Gate, bytes: &[u8], now_ms: u64) -> Result<Self, Code> {
        let record = Self::decode(gate, bytes)?;
        if record.is_from_future(now_ms) {
            return Err(Code::WrongClock);
        }
        if !record.is_current(now_ms) {
            return Err(Code::StaleRecord);
        }
        Ok(record)
    }

    /// Reads a record and verifies everything but that it is current.
    pub(crate) fn decode(gate: &mut Gate, bytes: &[u8]) -> Result<Self, Code> {
        let (statement, signature) = unsigned(bytes, MAX_RECORD_BYTES).map_err(|_| Code::BadRecord)?;
        let (net, evidence, mut record) = Fields::read(statement).map_err(|_| Code::BadRecord)?;
        if net != *gate.network() {
            return Err(Code::WrongNetwork);
        }
        addresses_allowed(record.role, &record.addresses, true).map_err(|_| Code::BadRecord)?;
        if !record.has_sound_times() {
            return Err(Code::BadRecord);
        }
        if !gate.is_closed() && !evidence.is_empty() {
            return Err(Code::BadRecord);
        }
        let certificate = gate.admit(&record.public, evidence)?;
        if let Some(certificate) = &certificate {
            record.check_certified(certificate)?;
        }
        if !gate.verifies(&record.public, LABEL, statement, &signature) {
            return Err(Code::BadSignature);
        }
        record.id = match certificate {
            Some(certificate) => {
                record.admitted = certificate.admitted();
                certificate.id()
            }
            None => PeerId::of(&record.public, &net),
        };
        record.encoded = bytes.to_vec();
        Ok(Self(Arc::new(record)))
    }

    /// The id of the node that a record claims to be of, nothing verified.
    pub(crate) fn claimed_id(bytes: &[u8], gate: &Gate) -> Option<PeerId> {
        let (statement, _) = unsigned(bytes, MAX_RECORD_BYTES).ok()?;
        if gate.is_closed() {
            let (_, evidence, record) = Fields::read(statement).ok()?;
            return gate.claimed_id(&record.public, evidence);
        }
        let mut decoder = Decoder::new(statement);
        decoder.array_of(ITEMS).ok()?;
        decoder.uint_max(VERSION).ok()?;
        decoder.fixed::<32>().ok()?;
        Some(PeerId::of(&PublicKey(decoder.fixed().ok()?), gate.network()))
    }

    /// The certificate in it; empty in an open network.
    pub(crate) fn evidence(&self) -> &[u8] {
        let statement = unsigned(&self.0.encoded, MAX_RECORD_BYTES).map(|(statement, _)| statement);
        let fields = statement.and_then(Fields::read);
        fields.map_or(&[], |(_, evidence, _)| evidence)
    }

    /// Whether the record is neither expired nor from the future.
    #[must_use]
    pub fn is_current(&self, now_ms: u64) -> bool {
        now_ms < self.0.expiry_ms && !self.is_from_future(now_ms)
    }

    /// Whether it was signed later than an honest clock can say.
    pub(crate) fn is_from_future(&self, now_ms: u64) -> bool {
        self.0.signed_at_ms > now_ms.saturating_add(CLOCK_SKEW_MS)
    }

    /// The node's id, derived from its key.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.0.id
    }

    /// Whether it was signed before the network admitted its node: nobody takes it.
    pub(crate) fn is_before_admission(&self) -> bool {
        self.0.signed_at_ms.saturating_add(CLOCK_SKEW_MS) < self.0.admitted.since_ms
    }

    /// The node's key.
    pub(crate) fn public(&self) -> PublicKey {
        self.0.public
    }

    /// For how long the network admits the node.
    pub(crate) fn admitted(&self) -> Admitted {
        self.0.admitted
    }

    /// Whether a gate has shut the node out since the record was verified.
    pub(crate) fn refusal(&self, gate: &Gate) -> Option<Code> {
        gate.refusal(&self.0.public, &self.0.admitted)
    }

    /// The id of a key, if it is this node's.
    pub(crate) fn id_of(&self, key: &PublicKey) -> Option<PeerId> {
        (self.0.public == *key).then_some(self.0.id)
    }

    /// Member or leaf.
    #[must_use]
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// URLs at which the node can be dialled, or `relay:` and the id of a member that relays for it.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.0.addresses
    }

    /// Label of what fails together with it; may be empty.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.0.domain
    }

    /// The run of the node that signed it.
    #[must_use]
    pub fn boot(&self) -> BootId {
        self.0.boot
    }

    /// The higher one of two records of a node counts.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// When it stops to count.
    #[must_use]
    pub fn expiry_ms(&self) -> u64 {
        self.0.expiry_ms
    }

    /// The record as it is sent and stored.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.0.encoded
    }
}

impl Fields {
    fn statement(&self, network: &NetworkId, certificate: &[u8]) -> Vec<u8> {
        let mut statement = Vec::new();
        let mut encoder = Encoder::new(&mut statement);
        encoder
            .array(ITEMS)
            .uint(VERSION)
            .bytes(&network.0)
            .bytes(&self.public.0)
            .uint(u64::from(self.role == Role::Member));
        encoder.array(self.addresses.len());
        for address in &self.addresses {
            encoder.text(address);
        }
        encoder
            .text(&self.domain)
            .bytes(&self.boot.0)
            .uint(self.sequence)
            .uint(self.signed_at_ms)
            .uint(self.expiry_ms);
        if certificate.is_empty() {
            encoder.null();
        } else {
            encoder.bytes(certificate);
        }
        statement
    }

    /// Whether it expires after it was signed, but not too long after, and its sequence is not too far ahead.
    fn has_sound_times(&self) -> bool {
        self.signed_at_ms < self.expiry_ms
            && self.expiry_ms - self.signed_at_ms <= MAX_RECORD_LIFE_MS
            && self.sequence <= self.signed_at_ms.saturating_add(MAX_SEQUENCE_LEAD_MS)
    }

    /// Checks that the node says of itself what its certificate says of it, and no longer than it is admitted.
    fn check_certified(&self, certificate: &Certificate) -> Result<(), Code> {
        let terms = certificate.terms();
        certificate.check_fits(self.role, &self.addresses)?;
        if self.signed_at_ms.saturating_add(CLOCK_SKEW_MS) < terms.not_before_ms {
            return Err(Code::EarlyCertificate);
        }
        if self.expiry_ms > terms.expiry_ms {
            return Err(Code::ExpiredCertificate);
        }
        Ok(())
    }

    fn read(statement: &[u8]) -> Result<(NetworkId, &[u8], Self), Malformed> {
        let mut decoder = Decoder::new(statement);
        decoder.array_of(ITEMS)?;
        if decoder.uint()? != VERSION {
            return Err(Malformed);
        }
        let network = NetworkId(decoder.fixed()?);
        let public = PublicKey(decoder.fixed()?);
        let role = match decoder.uint_max(1)? {
            1 => Role::Member,
            _ => Role::Leaf,
        };
        let addresses = read_list(&mut decoder, MAX_ADDRESSES, &|decoder| {
            decoder.text(MAX_ADDRESS_BYTES).map(Into::into)
        })?;
        let record = Self {
            id: PeerId([0; 32]),
            public,
            role,
            addresses,
            domain: decoder.text(MAX_DOMAIN_BYTES)?.into(),
            boot: BootId(decoder.fixed()?),
            sequence: decoder.uint()?,
            signed_at_ms: decoder.uint()?,
            expiry_ms: decoder.uint()?,
            admitted: Admitted::EVER,
            encoded: Vec::new(),
        };
        let certificate = if decoder.null() {
            &[]
        } else {
            decoder.bytes(MAX_EVIDENCE_BYTES)?
        };
        decoder.finish()?;
        Ok((network, certificate, record))
    }
}

// A record is what was signed.
impl PartialEq for NodeRecord {
    fn eq(&self, other: &Self) -> bool {
        self.encoded() == other.encoded()
    }
}

impl Eq for NodeRecord {}

impl core::fmt::Debug for NodeRecord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NodeRecord")
            .field("id", &self.0.id)
            .field("role", &self.0.role)
            .field("addresses", &self.0.addresses)
            .field("boot", &self.0.boot)
            .field("sequence", &self.0.sequence)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn identity() -> Identity {
        Identity::recall(&[1; 32], NetworkId::open("n"), &[])
    }

    fn decode(bytes: &[u8], now_ms: u64) -> Result<NodeRecord, Code> {
        NodeRecord::decode_verified(&mut Gate::new(NetworkId::open("n"), None), bytes, now_ms)
    }

    fn terms<'a>(addresses: &'a [String]) -> RecordTerms<'a> {
        RecordTerms {
            domain: "eu",
            ..RecordTerms::new(Role::Member, addresses, NOW, NOW + 1000)
        }
    }

    fn record() -> NodeRecord {
        let addresses = [String::from("wss://a.example/.mesh")];
        NodeRecord::sign(&identity(), &terms(&addresses)).expect("within limits")
    }

    #[test]
    fn a_record_comes_back() {
        let record = record();
        let read = decode(record.encoded(), NOW);
        assert_eq!(read, Ok(record));
    }

    #[test]
    fn a_changed_byte_is_refused() {
        let good = record();
        for index in 0..good.encoded().len() {
            let mut bytes = good.encoded().to_vec();
            bytes[index] ^= 1;
            assert!(decode(&bytes, NOW).is_err(), "byte {index}");
        }
    }

    #[test]
    fn another_network_and_wrong_times_are_refused() {
        let record = record();
        let decode = |network: &str, now| {
            NodeRecord::decode_verified(
                &mut Gate::new(NetworkId::open(network), None),
                record.encoded(),
                now,
            )
            .map(|_| ())
        };
        assert_eq!(decode("n", NOW), Ok(()));
        assert_eq!(decode("m", NOW), Err(Code::WrongNetwork));
        assert_eq!(decode("n", NOW + 1000), Err(Code::StaleRecord));
        assert_eq!(decode("n", NOW - CLOCK_SKEW_MS), Ok(()));
        assert_eq!(decode("n", NOW - CLOCK_SKEW_MS - 1), Err(Code::WrongClock));
    }

    #[test]
    fn times_beyond_limits_are_not_signed() {
        let bad = |change: &dyn Fn(&mut RecordTerms<'_>)| {
            let mut terms = terms(&[]);
            change(&mut terms);
            NodeRecord::sign(&identity(), &terms).err()
        };
        assert_eq!(bad(&|_| ()), None);
        assert_eq!(bad(&|terms| terms.sequence += MAX_SEQUENCE_LEAD_MS), None);
        for change in [
            |terms: &mut RecordTerms<'_>| terms.sequence += MAX_SEQUENCE_LEAD_MS + 1,
            |terms: &mut RecordTerms<'_>| terms.expiry_ms = NOW + MAX_RECORD_LIFE_MS + 1,
            |terms: &mut RecordTerms<'_>| terms.expiry_ms = NOW,
        ] {
            assert_eq!(bad(&change), Some(Code::BadConfig));
        }
    }

    #[test]
    fn sequence_from_fast_clock_does_not_make_record_stale() {
        let ahead = RecordTerms {
            sequence: NOW + 60 * 60 * 1000,
            ..terms(&[])
        };
        let record = NodeRecord::sign(&identity(), &ahead).expect("within limits");
        assert!(decode(record.encoded(), NOW).is_ok());
    }

    #[test]
    fn certificate_is_refused_in_open_network() {
        let record = record();
        for certificate in [&[1][..], &[2; MAX_EVIDENCE_BYTES]] {
            let statement = record.0.statement(&identity().network(), certificate);
            let bytes = signed(&statement, &identity().sign(LABEL, &statement));
            let read = decode(&bytes, NOW);
            assert_eq!(read, Err(Code::BadRecord));
        }
    }
}
