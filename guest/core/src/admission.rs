//! Admission: by what evidence a peer may be in a network.

use selfsame_codec::{Admission, Code};

/// Longest evidence of admission: a certificate of one Ed25519 signature, with its address and place.
pub const MAX_EVIDENCE_BYTES: usize = 320;

/// Name of a mode, as it goes into the network id.
pub(crate) const fn name_of(admission: Admission) -> &'static [u8] {
    match admission {
        Admission::Open => b"open",
    }
}

/// Checks the evidence that a peer has sent beside its key.
///
/// # Errors
/// [`Code::BadHandshake`] when it is not what the network's mode asks for; an open network takes none.
pub(crate) fn check_evidence(admission: Admission, evidence: &[u8]) -> Result<(), Code> {
    match admission {
        Admission::Open if evidence.is_empty() => Ok(()),
        Admission::Open => Err(Code::BadHandshake),
    }
}
