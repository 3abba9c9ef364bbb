//! The leases that a member holds: those of the groups that it is in, and of those that it routes through.

use alloc::vec::Vec;

use super::lease::{Lease, is_current};
use super::message::{MAX_TOLD, ToldLease};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use selfsame_sorted_map::Map;

/// Most leaders whose leases are held: those of the own group, of as many fingers as there are, and of some lookups. A leader has
/// one place, whatever it signs.
const MAX_HELD: usize = 64;

/// The leases of one leader
#[derive(Debug)]
struct Held {
    newest: Lease,
    older: Option<Lease>,
    /// By which the leader was in the network when it gave the newest.
    certificate: Vec<u8>,
    used: u64,
}

/// What became of a lease
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is held.
    Held,
    /// It is held already, older than what is held, or there is no room.
    Passed,
    /// It contradicts this one, beside which stands the leader's certificate.
    Contradicts(Lease, Vec<u8>),
}

/// The newest two leases of each leader
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: Map<PeerId, Held>,
    uses: u64,
}

impl Leases {
    /// Takes a verified lease; those that are `needed` are not given up for it.
    pub(super) fn keep(
        &mut self,
        lease: Lease,
        certificate: &[u8],
        needed: &dyn Fn(&PeerId) -> bool,
    ) -> Kept {
        self.uses += 1;
        let (leader, epoch) = (lease.terms().leader, lease.terms().epoch);
        if let Some((other, certificate)) = self.contradicted_by(&lease) {
            return Kept::Contradicts(other, certificate);
        }
        if let Some(held) = self.held.get_mut(&leader) {
            held.used = self.uses;
            if epoch <= held.newest.terms().epoch {
                return Kept::Passed;
            }
            held.older = Some(core::mem::replace(&mut held.newest, lease));
            held.certificate = certificate.to_vec();
            return Kept::Held;
        }
        if self.held.len() >= MAX_HELD {
            let idle = self.held.iter().filter(|(leader, _)| !needed(leader));
            let Some(oldest) = idle.min_by_key(|(_, held)| held.used).map(|(leader, _)| *leader) else {
                return Kept::Passed;
            };
            self.held.remove(&oldest);
        }
        self.held.insert(
            leader,
            Held {
                newest: lease,
                older: None,
                certificate: certificate.to_vec(),
                used: self.uses,
            },
        );
        Kept::Held
    }

    /// Forgets what does not count any more.
    pub(super) fn expire(&mut self, now_ms: u64) {
        self.held
            .retain(|_, held| is_current(held.newest.terms().epoch, now_ms));
    }

    pub(super) fn forget(&mut self, leader: &PeerId) {
        self.held.remove(leader);
    }

    /// The newest lease of a leader.
    pub(super) fn of(&self, leader: &PeerId) -> Option<&Lease> {
        self.held.get(leader).map(|held| &held.newest)
    }

    /// The newest lease of each leader.
    pub(super) fn newest(&self) -> impl Iterator<Item = &Lease> {
        self.held.values().map(|held| &held.newest)
    }

    /// What to tell a peer of: the leases that it may hold as well, since it is in their groups or their leaders are `near`.
    pub(super) fn told_to(&self, peer: &PeerId, near: &dyn Fn(&PeerId) -> bool) -> Vec<ToldLease> {
        let both = self
            .held
            .values()
            .flat_map(|held| [Some(&held.newest), held.older.as_ref()]);
        let told = both.flatten().filter(|lease| {
            let terms = lease.terms();
            near(&terms.leader) || terms.members.contains(peer)
        });
        let told = told.map(|lease| ToldLease {
            leader: lease.terms().leader,
            epoch: lease.terms().epoch,
            digest: lease.digest(),
        });
        told.take(MAX_TOLD).gather()
    }

    /// The lease that another one contradicts, with its leader's certificate.
    pub(super) fn contradicted_by(&self, lease: &Lease) -> Option<(Lease, Vec<u8>)> {
        let told = ToldLease {
            leader: lease.terms().leader,
            epoch: lease.terms().epoch,
            digest: lease.digest(),
        };
        let certificate = &self.held.get(&told.leader)?.certificate;
        Some((self.differing(&told)?.clone(), certificate.clone()))
    }

    /// The lease that differs from one that a peer holds.
    pub(super) fn differing(&self, told: &ToldLease) -> Option<&Lease> {
        let held = self.held.get(&told.leader)?;
        let both = [Some(&held.newest), held.older.as_ref()];
        let mut same = both
            .into_iter()
            .flatten()
            .filter(|lease| lease.terms().epoch == told.epoch);
        same.next().filter(|lease| lease.digest() != told.digest)
    }
}

#[cfg(test)]
mod tests {
    use selfsame_codec::Admission;

    use super::*;
    use crate::identity::Identity;
    use crate::ring::{EPOCH_MS, LeaseTerms};

    const NOW_EPOCH: u64 = 30_000_000;

    fn lease(leader: u64, epoch: u64, others: usize) -> Lease {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&leader.to_be_bytes());
        let leader = PeerId(id);
        let mut members = Vec::from([leader]);
        members.extend((0..others).map(|other| PeerId([other as u8 + 1; 32])));
        let terms = LeaseTerms {
            leader,
            epoch,
            members,
        };
        Lease::sign(&Identity::of_authority(&[1; 32], "n", Admission::Dns), terms)
    }

    #[test]
    fn leader_has_one_place_and_cannot_crowd_out_others() {
        let mut leases = Leases::default();
        let first = lease(0, NOW_EPOCH, 1);
        assert_eq!(leases.keep(first.clone(), &[], &|_| false), Kept::Held);
        for number in 0..1000 {
            leases.keep(lease(1, NOW_EPOCH + number, 1), &[], &|_| false);
        }
        assert_eq!(leases.held.len(), 2);
        assert_eq!(leases.of(&first.terms().leader), Some(&first));
    }

    #[test]
    fn needed_leases_stay_and_of_the_others_the_longest_unused_goes() {
        let mut leases = Leases::default();
        let needed = lease(0, NOW_EPOCH, 1).terms().leader;
        for leader in 0..=MAX_HELD as u64 {
            let kept = leases.keep(lease(leader, NOW_EPOCH, 1), &[], &|peer| *peer == needed);
            assert_eq!(kept, Kept::Held);
        }
        assert_eq!(leases.held.len(), MAX_HELD);
        assert!(leases.of(&needed).is_some());
        assert!(leases.of(&lease(1, NOW_EPOCH, 1).terms().leader).is_none());
        let all = leases.keep(lease(9999, NOW_EPOCH, 1), &[], &|_| true);
        assert_eq!(all, Kept::Passed, "all that are there are needed");
    }

    #[test]
    fn two_leases_of_one_epoch_contradict_whichever_comes_first() {
        let mut leases = Leases::default();
        let (one, other) = (lease(5, NOW_EPOCH, 1), lease(5, NOW_EPOCH, 2));
        leases.keep(one.clone(), b"certificate", &|_| false);
        assert_eq!(leases.keep(one.clone(), &[], &|_| false), Kept::Passed);
        let next = lease(5, NOW_EPOCH + 1, 1);
        assert_eq!(leases.keep(next, b"certificate", &|_| false), Kept::Held);
        let kept = leases.keep(other.clone(), &[], &|_| false);
        assert_eq!(kept, Kept::Contradicts(one.clone(), b"certificate".to_vec()));
        assert_eq!(
            leases.of(&one.terms().leader).map(|held| held.terms().epoch),
            Some(NOW_EPOCH + 1)
        );
        let told = ToldLease {
            leader: one.terms().leader,
            epoch: NOW_EPOCH,
            digest: other.digest(),
        };
        assert_eq!(leases.differing(&told), Some(&one));
    }

    #[test]
    fn leases_that_count_no_more_are_forgotten() {
        let mut leases = Leases::default();
        leases.keep(lease(5, NOW_EPOCH, 1), &[], &|_| false);
        leases.expire((NOW_EPOCH + 1) * EPOCH_MS);
        assert_eq!(leases.held.len(), 1);
        leases.expire((NOW_EPOCH + 3) * EPOCH_MS);
        assert_eq!(leases.held.len(), 0);
    }
}
