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

mod seat;
pub use seat::{SEAT_BYTES, Seat};

use selfsame_codec::Admission;

/// Longest evidence of admission: a certificate of one Ed25519 signature, with its address and seat.
pub const MAX_EVIDENCE_BYTES: usize = 320;

/// Whether this build knows closed networks.
pub(crate) const KNOWS_CLOSED: bool = cfg!(feature = "closed");

/// For how long a peer is admitted
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// From when on its certificate counts.
    pub since_ms: u64,
    /// When it stops to count.
    pub until_ms: u64,
}

impl Admitted {
    /// In an open network.
    pub const EVER: Self = Self {
        since_ms: 0,
        until_ms: u64::MAX,
    };
}

/// Name of a mode, as it goes into the network id.
pub(crate) const fn name_of(admission: Admission) -> &'static [u8] {
    match admission {
        Admission::Open => b"open",
        Admission::Dns => b"dns",
    }
}
