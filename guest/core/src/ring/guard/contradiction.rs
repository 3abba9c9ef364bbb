//! Contradictions: two leases of one leader for one epoch, which prove to anybody that it lies.
//!
//! ```cddl
//! contradiction = [certificate: bytes .cbor certificate, lease: bytes .cbor lease, lease: bytes .cbor lease]
//! ```
//!
//! The certificate is the leader's and gives it the place from which it has signed. An honest leader signs one lease for each
//! epoch, whatever its clock says and whoever joins or leaves: so no clock, no churn and no liar brings one about.

use alloc::vec::Vec;

use selfsame_codec::cbor::{Decoder, Encoder};
use selfsame_codec::{Code, Malformed};

use super::lease::{Lease, MAX_LEASE_BYTES, Parts, end_of};
use crate::MAX_EVIDENCE_BYTES;
use crate::admission::Gate;
use crate::identity::{PeerId, PublicKey};
use crate::statement::CLOCK_SKEW_MS;

/// Longest encoding of a contradiction.
pub const MAX_CONTRADICTION_BYTES: usize = MAX_EVIDENCE_BYTES + 2 * MAX_LEASE_BYTES + 16;

/// Evidence against a leader, verified
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    public: PublicKey,
    leader: PeerId,
    before_ms: u64,
    encoded: Vec<u8>,
}

impl Contradiction {
    /// Puts two leases of a leader together.
    #[must_use]
    pub fn of(certificate: &[u8], one: &Lease, other: &Lease) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(&mut out)
            .array(3)
            .bytes(certificate)
            .bytes(one.encoded())
            .bytes(other.encoded());
        out
    }

    /// Reads evidence and verifies all of it.
    ///
    /// # Errors
    /// [`Code::BadMessage`] if it does not decode, [`Code::WrongNetwork`], [`Code::BadEvidence`] if the leases do not contradict
    /// each other, or are not of the certificate's holder and time, [`Code::WrongClock`] if they are of the future,
    /// [`Code::BadSignature`], or what [`Gate::admit`] says of the certificate: who is shut out already needs no evidence.
    pub fn verify(gate: &mut Gate, bytes: &[u8], now_ms: u64) -> Result<Self, Code> {
        let (certificate, [one, other]) = read(bytes).map_err(|_| Code::BadMessage)?;
        if one.network != *gate.network() || other.network != *gate.network() {
            return Err(Code::WrongNetwork);
        }
        let (public, leader, epoch) = (one.public, one.terms.leader, one.terms.epoch);
        let is_same = other.public == public && other.terms.leader == leader && other.terms.epoch == epoch;
        if !is_same || one.statement == other.statement {
            return Err(Code::BadEvidence);
        }
        let before_ms = end_of(epoch);
        if before_ms > end_of(super::lease::epoch_of(now_ms.saturating_add(CLOCK_SKEW_MS))) {
            return Err(Code::WrongClock);
        }
        let certificate = gate.admit(&public, certificate)?.ok_or(Code::BadMessage)?;
        let admitted = certificate.admitted();
        let is_in_time =
            admitted.since_ms < before_ms && before_ms <= admitted.until_ms.saturating_add(super::EPOCH_MS);
        if certificate.id() != leader || !is_in_time {
            return Err(Code::BadEvidence);
        }
        if !one.is_signed(gate) || !other.is_signed(gate) {
            return Err(Code::BadSignature);
        }
        Ok(Self {
            public,
            leader,
            before_ms,
            encoded: bytes.to_vec(),
        })
    }

    /// The key of whom it convicts.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Who is convicted.
    #[must_use]
    pub fn leader(&self) -> PeerId {
        self.leader
    }

    /// Certificates of the key that count from before this time are refused.
    #[must_use]
    pub fn before_ms(&self) -> u64 {
        self.before_ms
    }

    /// The evidence as it is sent and stored.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

fn read(bytes: &[u8]) -> Result<(&[u8], [Parts<'_>; 2]), Malformed> {
    if bytes.len() > MAX_CONTRADICTION_BYTES {
        return Err(Malformed);
    }
    let mut decoder = Decoder::new(bytes);
    decoder.array_of(3)?;
    let certificate = decoder.bytes(MAX_EVIDENCE_BYTES)?;
    let one = Parts::read(decoder.bytes(MAX_LEASE_BYTES)?)?;
    let other = Parts::read(decoder.bytes(MAX_LEASE_BYTES)?)?;
    decoder.finish()?;
    Ok((certificate, [one, other]))
}
