//! What attackers sign, and what they only pretend is signed.
//!
//! All that depends on the format of records, associations and grants stands in this file.

use selfsame_codec::Role;
use selfsame_codec::cbor::Encoder;
use selfsame_core::association::{Association, Leaf, Validity};
use selfsame_core::identity::{Identity, PeerId, PublicKey};
use selfsame_core::record::{NodeRecord, RecordTerms};
use selfsame_core::ring::simulation::{EntryBytes, Request};

const HOUR_MS: u64 = 60 * 60_000;

/// An association and its publisher's record, encoded
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The association.
    pub(crate) association: Vec<u8>,
    /// The record.
    pub(crate) record: Vec<u8>,
}

impl Entry {
    /// An entry that `publisher` signs now.
    pub(crate) fn sign(publisher: &Identity, leaf: Leaf, now_ms: u64) -> Self {
        let association = associations(publisher, &[leaf], now_ms).remove(0);
        let record = record(publisher, &[], now_ms).encoded().to_vec();
        Self {
            association: association.encoded().to_vec(),
            record,
        }
    }

    fn bytes(&self) -> EntryBytes<'_> {
        EntryBytes {
            association: &self.association,
            record: &self.record,
        }
    }

    /// The request to store it.
    pub(crate) fn store(&self) -> Vec<u8> {
        Request::Store { entry: self.bytes() }.encode()
    }

    /// Bytes that it takes in a message.
    pub(crate) fn len(&self) -> usize {
        self.association.len() + self.record.len()
    }
}

/// The request to keep copies of entries.
pub(crate) fn mirror(entries: &[Entry]) -> Vec<u8> {
    let entries = entries.iter().map(Entry::bytes).collect();
    Request::Mirror { entries }.encode()
}

/// A leaf of a name at its sibling object `r`.
pub(crate) fn leaf(owner: Option<PublicKey>, name: &str, r: u8) -> Leaf {
    Leaf {
        salt: [0; 16],
        owner,
        name: name.into(),
        r,
        withdrawn: false,
        version: String::new(),
        weight: 10_000,
        grant: Vec::new(),
    }
}

/// Associations that a publisher signs at once.
pub(crate) fn associations(publisher: &Identity, leaves: &[Leaf], now_ms: u64) -> Vec<Association> {
    let validity = Validity {
        sequence_ms: now_ms,
        not_before_ms: now_ms,
        expiry_ms: now_ms + HOUR_MS,
    };
    Association::publish(publisher, leaves, validity).expect("leaves within the limits")
}

/// The record of a stranger; a member's has addresses.
pub(crate) fn record(who: &Identity, addresses: &[String], now_ms: u64) -> NodeRecord {
    let role = if addresses.is_empty() {
        Role::Leaf
    } else {
        Role::Member
    };
    let terms = RecordTerms::new(role, addresses, now_ms, now_ms + 2 * HOUR_MS);
    let record = NodeRecord::sign(who, &terms);
    record.expect("a record within the limits")
}

/// A grant that nobody signed, which revokes peers of an owner's name.
pub(crate) fn unsigned_grant(owner: &PublicKey, name: &str, revoked: &[PeerId]) -> Vec<u8> {
    let mut statement = Vec::new();
    let mut encoder = Encoder::new(&mut statement);
    encoder
        .array(8)
        .uint(1)
        .bytes(&[0; 32])
        .bytes(&owner.0)
        .text(name);
    encoder
        .bytes(&[0; 32])
        .uint(u64::MAX)
        .uint(0)
        .array(revoked.len());
    for peer in revoked {
        encoder.bytes(&peer.0);
    }
    let mut grant = Vec::new();
    Encoder::new(&mut grant)
        .array(2)
        .bytes(&statement)
        .bytes(&[0; 64]);
    grant
}
