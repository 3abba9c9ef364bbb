//! A closed network: its authority certifies every host for the address that it has.

use selfsame_codec::{Admission, Config};
use selfsame_core::admission::{Certificate, CertificateTerms, Gate, Revocation, Revocations};
use selfsame_core::identity::{Identity, NetworkId, PublicKey};

use super::{NETWORK, World};
use crate::machine::Machine;

/// Seed of the authority's key.
const AUTHORITY_SEED: [u8; 32] = [0xa3; 32];
/// Life of a certificate.
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The network of a configuration, and what a node of it checks others with.
pub(crate) fn gate_of(config: &Config) -> Gate {
    let authority = config.authority.first_chunk().map(|key| PublicKey(*key));
    let network = NetworkId::of(&config.network, config.admission, authority.as_ref());
    Gate::new(network, authority)
}

/// The identity of the node with a configuration, with its certificate if the network is closed.
pub(crate) fn identity_of(config: &Config) -> Identity {
    let mut gate = gate_of(config);
    let mut identity = Identity::recall(&config.seed, *gate.network(), &[]);
    let certificate = gate.admit(&identity.public(), &config.certificate);
    if let Some(certificate) = certificate.expect("the authority has signed it") {
        certificate.give_to(&mut identity).expect("it is its own");
    }
    identity
}

impl<M: Machine> World<M> {
    /// An empty world whose network is closed.
    pub fn closed(machine: M, seed: u64) -> Self {
        let authority = Identity::of_authority(&AUTHORITY_SEED, NETWORK, Admission::Dns);
        Self {
            authority: Some(authority),
            ..Self::new(machine, seed)
        }
    }

    /// What the nodes of a closed network check each other with.
    #[must_use]
    pub fn closed_gate() -> Gate {
        let authority = Identity::of_authority(&AUTHORITY_SEED, NETWORK, Admission::Dns);
        Gate::new(authority.network(), Some(authority.public()))
    }

    /// Gives a host of a closed network a certificate for the address that it has, from now on, and the id that follows.
    pub(super) fn certify(&mut self, host: usize) {
        let Some(authority) = &self.authority else {
            return;
        };
        let config = &mut self.hosts[host].config;
        let url = config.addresses.first();
        let address = url.and_then(|url| url.split(['/', ':']).find(|part| part.contains(".sim")));
        let identity = Identity::recall(&config.seed, authority.network(), &[]);
        let terms = CertificateTerms {
            public: identity.public(),
            serial: self.now_ms,
            not_before_ms: self.now_ms,
            expiry_ms: self.now_ms + DAY_MS,
            address: address.map(|address| format!("{address}:80")),
        };
        let certificate = Certificate::sign(authority, terms).expect("sound terms");
        config.admission = Admission::Dns;
        config.authority = authority.public().0.to_vec();
        config.certificate = certificate.encoded().to_vec();
        self.hosts[host].id = certificate.id();
    }

    /// A list that revokes what hosts of a closed network have been certified until now.
    ///
    /// # Panics
    /// When the network is open.
    #[must_use]
    pub fn revocations(&self, hosts: &[usize]) -> Vec<u8> {
        let authority = self.authority.as_ref().expect("a closed network");
        let revoked = hosts.iter().map(|host| Revocation {
            public: identity_of(&self.hosts[*host].config).public(),
            before_ms: self.now_ms + 1,
        });
        let list = Revocations::sign(authority, self.now_ms, revoked.collect());
        list.expect("few hosts").encoded().to_vec()
    }
}
