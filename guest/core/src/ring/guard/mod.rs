//! The guard of a closed network: groups of neighbours keep each other honest (Secure Chord, section 3.4).
//!
//! Each member leads a group of itself and its nearest neighbours, and signs a [`Lease`] of who is in it. Members hold the
//! leases of the groups that they are in or route through, and compare them. Only a [`Contradiction`] convicts; who is silent
//! or leads astray is avoided. An open network, whose keys are free, has no guard and pays nothing for it.

mod contradiction;
pub use contradiction::{Contradiction, MAX_CONTRADICTION_BYTES};

mod convict;
mod exchange;

// Nodes pass no messages on yet: the simulator asks each to whom it would.
#[cfg(feature = "simulation")]
mod hops;

mod lease;
pub use lease::{EPOCH_MS, Lease, LeaseTerms, MAX_GROUP, MAX_LEASE_BYTES};

pub(super) mod message;

mod scores;
mod table;
mod witness;

use alloc::vec::Vec;

use selfsame_codec::Code;

use crate::identity::{Identity, PeerId, PublicKey};
use lease::{epoch_of, is_current, stored_terms};
use scores::Scores;
use selfsame_sorted_map::Map;
use table::Leases;

/// Everything that a member knows of groups and of who has lied about one
#[derive(Debug, Default)]
pub(super) struct Guard {
    own: OwnLease,
    held: Leases,
    /// Members in whose groups this one is, and in which epoch they said so last.
    counted_by: Map<PeerId, u64>,
    convictions: Map<PublicKey, Contradiction>,
    scores: Scores,
    /// Epoch of the last round.
    round: Option<u64>,
}

/// The lease of this node: a statement is stored before it is signed, and no other one for its epoch ever is
#[derive(Debug, Default)]
struct OwnLease {
    lease: Option<Lease>,
    /// What the store has not confirmed.
    unconfirmed: Option<LeaseTerms>,
    /// Last epoch for which a statement was given to the store.
    last: Option<u64>,
    /// When this run began, by the time that never goes back.
    since_ms: Option<u64>,
}

impl Guard {
    /// A peer gave no answer, or led astray.
    pub(super) fn failed(&mut self, peer: PeerId) {
        self.scores.failed(peer);
    }

    /// A peer was of use.
    pub(super) fn worked(&mut self, peer: &PeerId) {
        self.scores.worked(peer);
    }

    /// Adds those of some peers that failed too often lately.
    pub(super) fn add_poor(&self, peers: &[PeerId], poor: &mut Vec<PeerId>) {
        poor.extend(peers.iter().filter(|peer| self.scores.is_poor(peer)));
    }
}

impl OwnLease {
    /// Whether a statement for the epoch of now may be made. Another run of this node, of a copy of its store, may have made one
    /// as well: so only for epochs that begin a whole epoch after this run, when one of two that live at once has stopped.
    fn may_make(&self, now_ms: u64, wall_ms: u64) -> bool {
        let least_ms = EPOCH_MS + wall_ms % EPOCH_MS;
        let runs_ms = self
            .since_ms
            .map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        runs_ms >= least_ms && self.last.is_none_or(|last| last < epoch_of(wall_ms))
    }

    /// The store has confirmed all that it was given: the statement may be signed.
    fn confirmed(&mut self, identity: &Identity) {
        if let Some(terms) = self.unconfirmed.take() {
            self.lease = Some(Lease::sign(identity, terms));
        }
    }

    /// Takes up what an earlier run has stored.
    fn restore(&mut self, identity: &Identity, statement: &[u8]) -> Result<(), Code> {
        let terms = stored_terms(statement).map_err(|_| Code::StoreCorrupt)?;
        self.last = self.last.max(Some(terms.epoch));
        if terms.leader == identity.id() {
            self.lease = Some(Lease::sign(identity, terms));
        }
        Ok(())
    }

    /// The lease, if it counts now.
    fn current(&self, now_ms: u64) -> Option<&Lease> {
        let lease = self.lease.as_ref();
        lease.filter(|lease| is_current(lease.terms().epoch, now_ms))
    }
}
