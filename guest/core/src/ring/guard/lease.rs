//! Leases: the leader of a group signs who is in it, once for each window of its clock.
//!
//! ```cddl
//! lease = [statement: bytes .cbor lease-statement, signature: bytes .size 64]
//! lease-statement = [version: 1, net: bytes .size 32, public-key: bytes .size 32, leader: id, epoch: uint,
//!                    members: [1*15 id]]           ; in the order of the ring, the leader among them
//! ```
//!
//! The signature is the leader's over the statement under the label `selfsame/1 lease`. Epoch `n` begins `n` minutes after
//! 1970. A leader signs one lease for each epoch, so that two are a [`Contradiction`](super::Contradiction).

use alloc::vec::Vec;

use selfsame_codec::cbor::Encoder;
use selfsame_codec::{Code, Malformed};

use crate::admission::Gate;
use crate::gather::read_list;
use crate::identity::{Identity, NetworkId, PeerId, PublicKey, Signature, labelled_hash};
use crate::place::{Place, distance, in_open};
use crate::statement::{CLOCK_SKEW_MS, Opened, open, signed, unsigned};

/// Most members of a group: routing tables farther apart are too different to check each other (Secure Chord, section 3.5).
pub const MAX_GROUP: usize = 15;
/// How long an epoch lasts: a member that joins is in its groups' lists within two.
pub const EPOCH_MS: u64 = 60_000;
/// Longest encoding of a lease.
pub const MAX_LEASE_BYTES: usize = MAX_GROUP * 34 + 256;

const LABEL: &str = "selfsame/1 lease";
const VERSION: u64 = 1;
/// Items of a statement.
const ITEMS: usize = 6;

/// What a leader says of its group
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// The leader.
    pub leader: PeerId,
    /// The window of its clock.
    pub epoch: u64,
    /// All members in the order of the ring, the leader among them.
    pub members: Vec<PeerId>,
}

/// A list of a group's members, signed by its leader
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    terms: LeaseTerms,
    digest: [u8; 32],
    encoded: Vec<u8>,
}

/// A lease taken apart, nothing of it verified
pub(super) struct Parts<'a> {
    pub(super) network: NetworkId,
    pub(super) public: PublicKey,
    pub(super) statement: &'a [u8],
    signature: Signature,
    pub(super) terms: LeaseTerms,
}

/// The epoch that a time is in.
pub(crate) const fn epoch_of(wall_ms: u64) -> u64 {
    wall_ms / EPOCH_MS
}

/// When an epoch ends.
pub(crate) const fn end_of(epoch: u64) -> u64 {
    epoch.saturating_add(1).saturating_mul(EPOCH_MS)
}

/// Whether the leases of an epoch count now.
pub(crate) const fn is_current(epoch: u64, now_ms: u64) -> bool {
    now_ms < end_of(epoch).saturating_add(CLOCK_SKEW_MS)
        && epoch.saturating_mul(EPOCH_MS) <= now_ms.saturating_add(CLOCK_SKEW_MS)
}

impl LeaseTerms {
    /// The statement of these terms, not signed.
    pub(crate) fn statement(&self, network: &NetworkId, public: &PublicKey) -> Vec<u8> {
        let mut statement = Vec::new();
        let mut encoder = Encoder::new(&mut statement);
        encoder
            .array(ITEMS)
            .uint(VERSION)
            .bytes(&network.0)
            .bytes(&public.0)
            .bytes(&self.leader.0)
            .uint(self.epoch)
            .array(self.members.len());
        for member in &self.members {
            encoder.bytes(&member.0);
        }
        statement
    }

    /// Checks that the members are in the order of the ring, each once, with the leader among them, and in the middle where
    /// there are as many as a group has.
    ///
    /// # Errors
    /// [`Code::BadGroup`].
    pub(crate) fn check_shape(&self, group: usize) -> Result<(), Code> {
        let first = self.members.first().map_or_else(Place::default, PeerId::place);
        let is_ordered = self
            .members
            .is_sorted_by(|one, next| distance(&first, &one.place()) < distance(&first, &next.place()));
        let at = self.members.iter().position(|member| *member == self.leader);
        let is_middle = |at: usize| self.members.len() < group || 2 * at + 1 == self.members.len();
        if is_ordered && at.is_some_and(is_middle) {
            Ok(())
        } else {
            Err(Code::BadGroup)
        }
    }
}

impl Lease {
    /// Signs a lease.
    #[must_use]
    pub fn sign(identity: &Identity, terms: LeaseTerms) -> Self {
        let statement = terms.statement(&identity.network(), &identity.public());
        Self {
            digest: labelled_hash(LABEL, &[&statement]),
            encoded: signed(&statement, &identity.sign(LABEL, &statement)),
            terms,
        }
    }

    /// Reads a lease and verifies that its leader has signed it; whether its list is sound is for others to say.
    ///
    /// # Errors
    /// [`Code::BadMessage`] if it does not decode, [`Code::WrongNetwork`], or [`Code::BadSignature`].
    pub fn verify(gate: &mut Gate, bytes: &[u8]) -> Result<Self, Code> {
        let parts = Parts::read(bytes).map_err(|_| Code::BadMessage)?;
        if parts.network != *gate.network() {
            return Err(Code::WrongNetwork);
        }
        if !parts.is_signed(gate) {
            return Err(Code::BadSignature);
        }
        Ok(Self {
            digest: parts.digest(),
            encoded: bytes.to_vec(),
            terms: parts.terms,
        })
    }

    /// What the leader says.
    #[must_use]
    pub fn terms(&self) -> &LeaseTerms {
        &self.terms
    }

    /// Hash of the statement, the one that is signed: different ones of one leader and epoch contradict each other.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The lease as it is sent.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// The members that precede a place and follow the first one, the nearest to the place last.
    pub(crate) fn members_before(&self, target: &Place) -> &[PeerId] {
        let members = &self.terms.members;
        let Some(first) = members.first() else {
            return &[];
        };
        let precedes =
            |member: &&PeerId| *member == first || in_open(&first.place(), &member.place(), target);
        &members[..members.iter().take_while(precedes).count()]
    }
}

impl<'a> Parts<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Opened {
            statement,
            signature,
            items: mut decoder,
        } = open(bytes, MAX_LEASE_BYTES, ITEMS, VERSION)?;
        let network = NetworkId(decoder.fixed()?);
        let public = PublicKey(decoder.fixed()?);
        let terms = LeaseTerms {
            leader: PeerId(decoder.fixed()?),
            epoch: decoder.uint()?,
            members: read_list(&mut decoder, MAX_GROUP, &|decoder| decoder.fixed().map(PeerId))?,
        };
        decoder.finish()?;
        Ok(Self {
            network,
            public,
            statement,
            signature,
            terms,
        })
    }

    /// Whether the key that signed is the leader's.
    pub(super) fn is_signed(&self, gate: &mut Gate) -> bool {
        self.terms.leader.commits_to(&self.public, gate.network())
            && gate.verifies(&self.public, LABEL, self.statement, &self.signature)
    }

    fn digest(&self) -> [u8; 32] {
        labelled_hash(LABEL, &[self.statement])
    }
}

/// The terms of a statement that the store holds, of which nobody has to be convinced.
pub(super) fn stored_terms(statement: &[u8]) -> Result<LeaseTerms, Malformed> {
    let bytes = signed(statement, &Signature([0; 64]));
    debug_assert!(unsigned(&bytes, MAX_LEASE_BYTES).is_ok());
    Parts::read(&bytes).map(|parts| parts.terms)
}
