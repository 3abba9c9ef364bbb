//! What attackers in a closed network say of groups, and what comes of it.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use selfsame_core::identity::{Identity, PeerId, PublicKey};
use selfsame_core::ring::simulation::{
    Groups, ToldConviction, decode_groups, encode_contradictions, encode_groups,
};
use selfsame_core::ring::{Contradiction, EPOCH_MS, Lease, LeaseTerms, MAX_GROUP};

use super::{Id, Kind, Shared};

/// Most leases of honest members that are kept for forged evidence.
const MAX_SEEN: usize = 64;

/// What attackers in a closed network do, beside dropping all messages that they should pass on
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Lie {
    /// Leave every lookup and every question about their groups without an answer
    Drop,
    /// Lead lookups back, to accomplices, or claim whatever is looked up
    Misroute,
    /// Change what is signed: records, leases, and who says that it is responsible
    Forge,
    /// Name nobody but accomplices, in lookups, updates, joins and as their groups
    Collude,
    /// Give old answers and old leases, and name those whose certificates are revoked
    Replay,
    /// Move from address to address, and take another place on the ring with each
    Cycle,
    /// Keep the authority so busy that it certifies nobody
    Flood,
    /// Give forged evidence against honest members to everybody
    Frame,
    /// Sign another lease for every second one that asks
    Equivocate,
}

impl Lie {
    /// What they say in lookups meanwhile.
    pub(super) fn kind(self) -> Option<Kind> {
        match self {
            Self::Drop | Self::Cycle => Some(Kind::Drop),
            Self::Misroute => Some(Kind::Misroute),
            Self::Forge => Some(Kind::Forge),
            Self::Collude => Some(Kind::Eclipse),
            Self::Replay => Some(Kind::Replay),
            Self::Flood | Self::Frame | Self::Equivocate => None,
        }
    }
}

/// Leases that attackers and honest members have given
#[derive(Default)]
pub(super) struct Leases {
    pub(super) revoked: Vec<Id>,
    /// Leases of honest members.
    seen: Vec<Lease>,
    /// The first lease of each attacker.
    first: BTreeMap<Id, Vec<u8>>,
    /// Digests of what an attacker gave honest members for an epoch.
    given: BTreeMap<(Id, u64), BTreeSet<[u8; 32]>>,
    /// How often two honest members have compared leases of an attacker and found that they differ.
    compared: BTreeMap<(Id, Id, Id), u64>,
    count: u64,
}

impl Leases {
    /// Who has given honest members different leases for one epoch.
    pub(super) fn equivocators(&self) -> BTreeSet<Id> {
        let two = self.given.iter().filter(|(_, digests)| digests.len() > 1);
        two.map(|((leader, _), _)| *leader).collect()
    }

    pub(super) fn exchanges(&self) -> u64 {
        self.compared.values().copied().max().unwrap_or(0)
    }
}

impl Shared {
    /// Takes note of what an honest member answers: of leases that differ from those of who asked.
    pub(super) fn watch_groups(&mut self, asker: &Id, answerer: &Id, honest: &[u8]) {
        let Ok(groups) = decode_groups(honest) else { return };
        for lease in groups.differing {
            if let Ok(lease) = Lease::verify(&mut self.gate, lease) {
                let pair = (lease.terms().leader.0, *asker.min(answerer), *asker.max(answerer));
                *self.leases.compared.entry(pair).or_default() += 1;
            }
        }
    }

    /// Keeps leases of others that an attacker hears.
    pub(super) fn remember_lease(&mut self, answer: &[u8]) {
        let Ok(groups) = decode_groups(answer) else { return };
        if let Some(lease) = groups.lease
            && self.leases.seen.len() < MAX_SEEN
            && let Ok(lease) = Lease::verify(&mut self.gate, lease)
        {
            self.leases.seen.push(lease);
        }
    }

    /// The answer of an attacker to who asks for its group; `None` is silence.
    pub(super) fn lie_about_group(&mut self, identity: &Identity, honest: Vec<u8>) -> Option<Vec<u8>> {
        let Some(lie) = self.lie else { return Some(honest) };
        let Ok(groups) = decode_groups(&honest) else {
            return Some(honest);
        };
        let lease = match lie {
            Lie::Drop | Lie::Cycle => return None,
            Lie::Misroute | Lie::Flood | Lie::Frame => return Some(honest),
            Lie::Forge => groups.lease.map(|lease| self.broken(lease)),
            Lie::Collude => Some(self.lease_of_accomplices(identity)),
            Lie::Replay => {
                let own = groups.lease.unwrap_or_default().to_vec();
                Some(self.leases.first.entry(identity.id().0).or_insert(own).clone())
            }
            Lie::Equivocate => self.one_of_two(identity, groups.lease),
        };
        Some(encode_groups(&Groups {
            lease: lease.as_deref(),
            ..groups
        }))
    }

    /// A lease that names the accomplices around an attacker, and them only; the same to everybody.
    fn lease_of_accomplices(&self, identity: &Identity) -> Vec<u8> {
        let id = identity.id();
        let others = self
            .accomplices
            .from(&id.0)
            .map(|(node, _)| PeerId(*node))
            .filter(|node| *node != id);
        let mut members = vec![id];
        members.extend(others.take(5));
        let terms = LeaseTerms {
            leader: id,
            epoch: self.now_ms / EPOCH_MS,
            members,
        };
        Lease::sign(identity, terms).encoded().to_vec()
    }

    /// The true lease, or for every second one that asks another one.
    fn one_of_two(&mut self, identity: &Identity, honest: Option<&[u8]>) -> Option<Vec<u8>> {
        let honest = Lease::verify(&mut self.gate, honest?).ok()?;
        self.leases.count += 1;
        let mut lease = honest;
        if self.leases.count.is_multiple_of(2) {
            let mut terms = lease.terms().clone();
            let other = terms.members.iter().position(|member| *member != terms.leader)?;
            terms.members.remove(other);
            lease = Lease::sign(identity, terms);
        }
        let key = (lease.terms().leader.0, lease.terms().epoch);
        self.leases.given.entry(key).or_default().insert(lease.digest());
        Some(lease.encoded().to_vec())
    }

    /// A conviction that nobody knows of, so that who hears of it asks for the evidence.
    pub(super) fn made_up_conviction(&mut self) -> Vec<ToldConviction> {
        let mut public = [0; 32];
        self.dice.fill(&mut public);
        vec![ToldConviction {
            public: PublicKey(public),
            before_ms: u64::MAX,
        }]
    }

    /// Evidence against honest members, none of which is true.
    pub(super) fn false_evidence(&mut self, identity: &Identity) -> Vec<u8> {
        let mut evidence = Vec::new();
        for lease in self.leases.seen.clone().iter().rev().take(4) {
            let mut terms = lease.terms().clone();
            terms.members.truncate(MAX_GROUP - 1);
            terms.members.pop();
            let of_other = Lease::sign(identity, terms);
            let certificate = identity.evidence();
            evidence.push(Contradiction::of(certificate, lease, lease));
            evidence.push(Contradiction::of(certificate, lease, &of_other));
            let mut broken = Contradiction::of(certificate, lease, lease);
            let last = broken.len() - 1;
            broken[last] ^= 1;
            evidence.push(broken);
        }
        let evidence: Vec<&[u8]> = evidence.iter().map(Vec::as_slice).collect();
        encode_contradictions(&evidence)
    }
}
