//! Rings of closed networks whose members guard each other.

use selfsame_codec::Admission;
use selfsame_core::admission::{Certificate, CertificateTerms};
use selfsame_core::identity::{Identity, PublicKey};

use super::network::{Network, START_MS};
use crate::support::closed::GUARDED;

impl Network {
    /// A closed network with a guard.
    pub(crate) fn guarded(seed: u64) -> Self {
        let mut net = Self::new(seed);
        net.parameters = &GUARDED;
        net.authority = Some(Identity::of_authority(
            &[seed as u8; 32],
            "ring-tests",
            Admission::Dns,
        ));
        net
    }

    /// The identity of a node, with its certificate.
    pub(crate) fn identity(&self, index: usize) -> Identity {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&(index as u64).to_le_bytes());
        let Some(authority) = &self.authority else {
            return Identity::recall(&seed, Self::network_id(), &[]);
        };
        let mut identity = Identity::recall(&seed, authority.network(), &[]);
        let certificate = self.certificate(index, identity.public());
        certificate.give_to(&mut identity).expect("its own certificate");
        identity
    }

    /// What the authority certifies a node.
    pub(crate) fn certificate(&self, index: usize, public: PublicKey) -> Certificate {
        let terms = CertificateTerms {
            public,
            serial: index as u64,
            not_before_ms: START_MS - 1000,
            expiry_ms: START_MS + 24 * 3_600_000,
            address: Some(format!("n{index}.example:443")),
        };
        Certificate::sign(self.authority.as_ref().expect("a closed network"), terms).expect("sound terms")
    }
}
