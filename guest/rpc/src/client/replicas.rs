//! What a client knows of the replicas of a service.

use selfsame_sorted_map::Map;

use crate::congestion::RoundTrip;
use crate::endpoint::Endpoint;
use crate::keys::PacketKey;
use crate::wire::Epoch;

/// Replicas that are remembered: more answer correctly, but get the ticket with each request.
const MAX_REPLICAS: usize = 4096;
/// After so long without a word from a replica its epoch is asked for before a call is bound to it: a replica that was restarted
/// meanwhile would leave the call's outcome unknown.
const EPOCH_FRESH_US: u64 = 5_000_000;

/// The replicas by their endpoints.
#[derive(Debug, Default)]
pub(super) struct Replicas(Map<Endpoint, Replica>);

#[derive(Debug, Default)]
struct Replica {
    round_trip: RoundTrip,
    session: Option<ReplicaSession>,
}

/// A session that a replica has answered in.
#[derive(Debug)]
pub(super) struct ReplicaSession {
    /// Of the ticket that it is under.
    pub(super) generation: u32,
    pub(super) epoch: Epoch,
    pub(super) key: PacketKey,
    pub(super) heard_us: u64,
}

impl Replicas {
    /// Returns what is known of the way to an endpoint.
    pub(super) fn round_trip(&mut self, endpoint: Endpoint) -> &mut RoundTrip {
        &mut self.entry(endpoint).round_trip
    }

    fn entry(&mut self, endpoint: Endpoint) -> &mut Replica {
        if self.0.len() >= MAX_REPLICAS && !self.0.contains_key(&endpoint) {
            self.0.pop_first();
        }
        self.0.get_or_insert_with(endpoint, Replica::default)
    }

    /// Returns the session of a replica under a ticket.
    pub(super) fn session(&mut self, endpoint: &Endpoint, generation: u32) -> Option<&mut ReplicaSession> {
        let session = self.0.get_mut(endpoint)?.session.as_mut();
        session.filter(|session| session.generation == generation)
    }

    /// Returns the life of a replica that was heard lately.
    pub(super) fn fresh_epoch(&mut self, endpoint: &Endpoint, generation: u32, now_us: u64) -> Option<Epoch> {
        let session = self.session(endpoint, generation)?;
        (now_us - session.heard_us <= EPOCH_FRESH_US).then_some(session.epoch)
    }

    /// Remembers a session that a replica has answered in.
    pub(super) fn remember(&mut self, endpoint: Endpoint, session: ReplicaSession) {
        self.entry(endpoint).session = Some(session);
    }

    /// Forgets the session of a replica that does not know it any more.
    pub(super) fn forget(&mut self, endpoint: &Endpoint) {
        if let Some(replica) = self.0.get_mut(endpoint) {
            replica.session = None;
        }
    }
}
