//! Admission: by what evidence a peer may be in a network.
//!
//! Anybody may be in an open network. In a closed one an authority, whose public key is part of the network's id, signs a
//! [`Certificate`] for each node; it travels beside the node's key in handshakes and records. How nodes get theirs is for
//! hosts: the core only verifies, at once and without asking anybody.

mod certificate;
pub use certificate::{
    Certificate, CertificateTerms, MAX_CERTIFICATE_ADDRESS_BYTES, MAX_CERTIFICATE_LIFE_MS,
};

mod gate;
pub use gate::Gate;

mod revocations;
pub use revocations::{MAX_REVOCATIONS, MAX_REVOCATIONS_BYTES, Revocation, Revocations};

mod standing;
pub(crate) use standing::{Standing, Standings};

/// Longest evidence of admission: a certificate of one Ed25519 signature, with its address and seat.
pub const MAX_EVIDENCE_BYTES: usize = 320;

/// Whether this build knows closed networks.
pub(crate) const KNOWS_CLOSED: bool = cfg!(feature = "closed");
