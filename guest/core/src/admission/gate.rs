//! What a node checks others with.

use selfsame_codec::Code;

use super::certificate::Parts;
use super::revocations::{self, Revocations};
use super::{Certificate, KNOWS_CLOSED, Standing, Standings};
use crate::identity::{Admitted, NetworkId, PeerId, PublicKey, Signature};
use crate::quota::Holder;
use crate::verified::Verified;
use selfsame_sorted_map::Map;

/// A network's rules of admission, and the signatures that were verified under them
#[derive(Debug)]
pub struct Gate {
    network: NetworkId,
    authority: Option<PublicKey>,
    revocations: Option<Revocations>,
    /// Keys that peers have convicted: certificates of theirs from before a time are refused.
    convicted: Map<PublicKey, u64>,
    verified: Verified,
    /// Who stands in the DNS, if the host looks that up.
    standings: Option<Standings>,
}

impl Gate {
    /// The gate of a network that `authority`, none in an open one, admits to.
    #[must_use]
    pub fn new(network: NetworkId, authority: Option<PublicKey>) -> Self {
        Self {
            network,
            authority,
            revocations: None,
            convicted: Map::new(),
            verified: Verified::default(),
            standings: None,
        }
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &NetworkId {
        &self.network
    }

    /// Whether a signature verifies; that one did is remembered.
    pub(crate) fn verifies(
        &mut self,
        key: &PublicKey,
        label: &'static str,
        statement: &[u8],
        signature: &Signature,
    ) -> bool {
        self.verified.verifies(key, label, statement, signature)
    }

    /// Takes the evidence that a peer has sent beside its key: gives its certificate, or none in an open network.
    ///
    /// Whether it counts now is for [`Certificate::check_current`] to say.
    ///
    /// # Errors
    /// [`Code::BadHandshake`] for evidence in an open network; in a closed one what is wrong with the certificate.
    pub fn admit(&mut self, key: &PublicKey, evidence: &[u8]) -> Result<Option<Certificate>, Code> {
        let Some(authority) = self.authority() else {
            return if evidence.is_empty() {
                Ok(None)
            } else {
                Err(Code::BadHandshake)
            };
        };
        if evidence.is_empty() {
            return Err(Code::NoCertificate);
        }
        let parts = Parts::read(evidence).map_err(|_| Code::BadCertificate)?;
        if parts.issuer != authority {
            return Err(Code::WrongIssuer);
        }
        if parts.network != self.network || parts.terms.public != *key {
            return Err(Code::BadCertificate);
        }
        if !parts.is_seated() {
            return Err(Code::WrongSeat);
        }
        if !parts.is_signed(&mut self.verified) {
            return Err(Code::BadSignature);
        }
        let certificate = Certificate::of_verified(parts, evidence);
        match self.refusal(key, &certificate.admitted()) {
            Some(code) => Err(code),
            None => Ok(Some(certificate)),
        }
    }

    /// The same of a peer that is there now, so that its certificate has to count.
    ///
    /// # Errors
    /// As [`Self::admit`] and [`Certificate::check_current`].
    pub(crate) fn admit_now(
        &mut self,
        key: &PublicKey,
        evidence: &[u8],
        now_ms: u64,
    ) -> Result<Option<Certificate>, Code> {
        let certificate = self.admit(key, evidence)?;
        if let Some(certificate) = &certificate {
            certificate.check_current(now_ms)?;
        }
        Ok(certificate)
    }

    /// The newest list of revocations.
    pub(crate) fn revocations(&self) -> Option<&Revocations> {
        self.revocations.as_ref()
    }

    /// Why what a key was admitted by counts no more.
    pub(crate) fn refusal(&self, key: &PublicKey, admitted: &Admitted) -> Option<Code> {
        if !self.is_closed() {
            None
        } else if self.revocations().is_some_and(|list| list.revokes(key, admitted)) {
            Some(Code::RevokedCertificate)
        } else {
            self.convicts(key, admitted.since_ms).then_some(Code::Convicted)
        }
    }

    /// Whether certificates of a key that count from then on are refused because peers have convicted it.
    pub(crate) fn convicts(&self, key: &PublicKey, since_ms: u64) -> bool {
        self.convicted
            .get(key)
            .is_some_and(|before_ms| since_ms < *before_ms)
    }

    /// Whether the list of revocations names a key for all certificates that count from before this time.
    pub(crate) fn revokes_until(&self, key: &PublicKey, before_ms: u64) -> bool {
        let last = Admitted {
            since_ms: before_ms.saturating_sub(1),
            until_ms: before_ms,
        };
        self.revocations().is_some_and(|list| list.revokes(key, &last))
    }

    /// Refuses all certificates of a key that count from before this time.
    pub(crate) fn convict(&mut self, key: PublicKey, before_ms: u64) {
        self.convicted.insert(key, before_ms);
    }

    /// Takes a conviction back whose time is over.
    pub(crate) fn acquit(&mut self, key: &PublicKey) {
        self.convicted.remove(key);
    }

    /// Takes a list of revocations; says whether it is newer than the one that is known.
    ///
    /// # Errors
    /// [`Code::BadMessage`] if it does not decode or the network is open, [`Code::WrongNetwork`], [`Code::WrongIssuer`],
    /// [`Code::StaleRevocations`] if it is older than the one that is known, or [`Code::BadSignature`].
    pub(crate) fn take_revocations(&mut self, bytes: &[u8]) -> Result<bool, Code> {
        let parts = revocations::Parts::read(bytes).map_err(|_| Code::BadMessage)?;
        let authority = self.authority().ok_or(Code::BadMessage)?;
        if parts.issuer != authority {
            return Err(Code::WrongIssuer);
        }
        if parts.network != self.network {
            return Err(Code::WrongNetwork);
        }
        let known = self.revocations.as_ref();
        if known.is_some_and(|known| known.encoded() == bytes) {
            return Ok(false);
        }
        if known.is_some_and(|known| known.serial() >= parts.serial) {
            return Err(Code::StaleRevocations);
        }
        self.revocations = Some(Revocations::verified(parts, bytes)?);
        Ok(true)
    }

    /// Has newcomers looked up by the host from now on.
    pub(crate) fn confirm_newcomers(&mut self) {
        self.standings = Some(Standings::default());
    }

    /// What the host has found of a peer; all are confirmed if it does not look.
    pub(crate) fn standing(&self, peer: &PeerId, now_ms: u64) -> Standing {
        let standings = self.standings.as_ref().filter(|_| self.is_closed());
        standings.map_or(Standing::Confirmed, |standings| standings.of(peer, now_ms))
    }

    /// Keeps what the host has found of a peer until a time.
    pub(crate) fn note(
        &mut self,
        peer: PeerId,
        refusal: Option<Code>,
        source: Holder,
        now_ms: u64,
        until_ms: u64,
    ) {
        if let Some(standings) = &mut self.standings {
            standings.note(peer, refusal, source, now_ms, until_ms);
        }
    }

    /// Whether members need certificates.
    pub(crate) fn is_closed(&self) -> bool {
        self.authority().is_some()
    }

    /// The key whose certificates count; none in an open network.
    pub(crate) const fn authority(&self) -> Option<PublicKey> {
        if KNOWS_CLOSED { self.authority } else { None }
    }

    /// The id that a peer with this key and certificate would have, nothing verified.
    pub(crate) fn claimed_id(&self, key: &PublicKey, evidence: &[u8]) -> Option<PeerId> {
        let parts = Parts::read(evidence).ok()?;
        (parts.terms.public == *key && parts.network == self.network).then(|| parts.id())
    }
}
