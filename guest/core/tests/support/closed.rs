//! Nodes of a closed network, and its authority.

use std::collections::BTreeMap;

use selfsame_codec::{Admission, Code, Config, Input, Role};
use selfsame_core::admission::{Certificate, CertificateTerms, Gate, Revocation, Revocations};
use selfsame_core::identity::{Identity, NetworkId, PeerId, PublicKey};

use selfsame_core::ring::Parameters;

use super::rings::join;
use super::{Net, START_MS, config};

/// What the hosts find in the DNS: all certificates, unless told otherwise
#[derive(Debug, Default)]
pub struct Dns {
    /// What all find of a peer.
    pub refusals: BTreeMap<PeerId, Code>,
    /// What all find of everybody.
    pub outage: Option<Code>,
    /// Whether hosts never answer.
    pub is_silent: bool,
    /// Who has looked whom up, and from where that one had come.
    pub asked: Vec<(usize, PeerId, String)>,
}

/// Answers a host that looks a peer up, unless none is to answer.
pub fn look_up(net: &mut Net, asker: usize, peer: [u8; 32], remote: &str) {
    if let Some(code) = net.dns.look_up(asker, PeerId(peer), remote) {
        net.step(asker, &[Input::LookedUp { peer, code }]);
    }
}

impl Dns {
    fn look_up(&mut self, asker: usize, peer: PeerId, remote: &str) -> Option<u16> {
        self.asked.push((asker, peer, remote.into()));
        let refusal = self.outage.or_else(|| self.refusals.get(&peer).copied());
        (!self.is_silent).then(|| refusal.map_or(0, Code::as_u16))
    }
}

/// Rings whose members guard each other.
pub static GUARDED: Parameters = Parameters {
    group: 7,
    ..Parameters::DEFAULT
};
pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The authority of the network, or with another seed somebody who would be.
pub fn authority(seed: u8) -> Identity {
    Identity::of_authority(&[seed; 32], "twiitr", Admission::Dns)
}

/// The key of a node in the network of that authority.
pub fn key_of(authority: &Identity, seed: u8) -> PublicKey {
    Identity::recall(&[seed; 32], authority.network(), &[]).public()
}

/// What the authority certifies a node that starts with [`config`].
pub fn terms(seed: u8, role: Role) -> CertificateTerms {
    CertificateTerms {
        public: key_of(&authority(200), seed),
        serial: seed.into(),
        not_before_ms: START_MS - 1000,
        expiry_ms: START_MS + DAY_MS,
        address: (role == Role::Member).then(|| format!("127.0.0.1:{}", 7000 + u32::from(seed))),
    }
}

pub fn certificate(terms: CertificateTerms) -> Vec<u8> {
    Certificate::sign(&authority(200), terms)
        .expect("sound terms")
        .encoded()
        .to_vec()
}

/// A node with this certificate.
pub fn certified(seed: u8, role: Role, bootstraps: &[String], certificate: Vec<u8>) -> Config {
    Config {
        admission: Admission::Dns,
        authority: authority(200).public().0.to_vec(),
        certificate,
        ..config(seed, role, bootstraps)
    }
}

/// Adds a node that the authority admits.
pub fn add(net: &mut Net, seed: u8, role: Role, bootstraps: &[usize]) -> usize {
    let bootstraps: Vec<String> = bootstraps.iter().map(|index| net.pinned(*index)).collect();
    net.add(certified(seed, role, &bootstraps, certificate(terms(seed, role))))
}

/// Adds one that has newcomers looked up.
pub fn add_confirming(net: &mut Net, seed: u8, role: Role, bootstraps: &[usize]) -> usize {
    let bootstraps: Vec<String> = bootstraps.iter().map(|index| net.pinned(*index)).collect();
    net.add(Config {
        confirms: true,
        ..certified(seed, role, &bootstraps, certificate(terms(seed, role)))
    })
}

/// Members that have joined one after the other, each through the first.
pub fn ring(size: u8) -> Net {
    ring_in(Net::new(), size, add)
}

/// The same of members that have newcomers looked up.
pub fn confirming_ring(size: u8) -> Net {
    ring_in(Net::new(), size, add_confirming)
}

/// The same in a network with a guard.
pub fn guarded_ring(size: u8) -> Net {
    let mut net = Net::new();
    net.parameters = &GUARDED;
    ring_in(net, size, add)
}

fn ring_in(mut net: Net, size: u8, add: fn(&mut Net, u8, Role, &[usize]) -> usize) -> Net {
    for seed in 0..size {
        let bootstraps: &[usize] = if seed == 0 { &[] } else { &[0] };
        let index = add(&mut net, seed + 1, Role::Member, bootstraps);
        join(&mut net, index);
    }
    net.run_ms(20_000);
    net
}

/// A list that revokes what these nodes were certified until now.
pub fn revocations(net: &Net, serial: u64, seeds: &[u8]) -> Vec<u8> {
    let authority = authority(200);
    let revoked = seeds.iter().map(|seed| Revocation {
        public: key_of(&authority, *seed),
        before_ms: net.now_ms,
    });
    Revocations::sign(&authority, serial, revoked.collect())
        .expect("few")
        .encoded()
        .to_vec()
}

/// The id of a node with this configuration.
pub fn own_id(config: &Config) -> PeerId {
    let authority = config.authority.first_chunk().map(|key| PublicKey(*key));
    let network = NetworkId::of(&config.network, config.admission, authority.as_ref());
    let identity = Identity::recall(&config.seed, network, &[]);
    let certificate = Gate::new(network, authority).admit(&identity.public(), &config.certificate);
    match certificate.expect("a sound certificate") {
        Some(certificate) => certificate.id(),
        None => identity.id(),
    }
}
