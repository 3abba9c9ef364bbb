use alloc::vec::Vec;

use crate::channel::{Session, Side, Streams};
use crate::handshake::Confirmation;
use crate::identity::PeerId;
use crate::quota::Entry;
use selfsame_sorted_map::Map;

/// A session in use: its streams, its requests, and the path it runs over
pub(super) struct Connection {
    pub(super) session: Session,
    pub(super) streams: Streams,
    pub(super) path: u32,
    /// m3, which takes the first payload along.
    pub(super) confirmation: Option<Confirmation>,
    /// Frames of this step, to be sealed as one packet at its end.
    pub(super) payload: Vec<u8>,
    /// Requests that the peer has not answered: our number, and the ring's.
    pub(super) requests: Map<u32, u64>,
    pub(super) next_request: u32,
    /// The peer's requests that we have not answered.
    pub(super) unanswered: usize,
    pub(super) established_ms: u64,
    pub(super) received_ms: u64,
    /// When application bytes last went either way.
    pub(super) data_ms: u64,
    /// Peers that were introduced to this one, a leaf, a short while ago.
    pub(super) introductions: Vec<Entry>,
    pub(super) pinged_ms: Option<u64>,
    pub(super) ping_after_ms: u64,
    /// Whether a liveness timer is set.
    pub(super) watched: bool,
    /// When the peer's certificate is looked at again, if it expires.
    pub(super) certificate_ms: u64,
}

impl Connection {
    pub(super) fn new(
        session: Session,
        path: u32,
        ordered: bool,
        confirmation: Option<Confirmation>,
        now_ms: u64,
    ) -> Self {
        let streams = Streams::new(session.side(), ordered);
        Self {
            session,
            streams,
            path,
            confirmation,
            payload: Vec::new(),
            requests: Map::new(),
            next_request: 0,
            unanswered: 0,
            established_ms: now_ms,
            received_ms: now_ms,
            data_ms: now_ms,
            introductions: Vec::new(),
            pinged_ms: None,
            ping_after_ms: super::liveness::FIRST_PING_MS,
            watched: false,
            certificate_ms: u64::MAX,
        }
    }

    /// When the certificate of the peer expires.
    pub(super) fn admitted_until_ms(&self) -> u64 {
        self.session.admitted().until_ms
    }

    /// Whether anything of the peer is awaited, or it awaits something of us.
    pub(super) fn is_awaiting(&self) -> bool {
        !self.streams.is_empty()
            || !self.requests.is_empty()
            || self.unanswered > 0
            || self.pinged_ms.is_some()
    }

    /// Whether no application bytes went either way for long although the peer may send some.
    pub(super) fn is_stalled(&self, now_ms: u64) -> bool {
        now_ms >= self.data_ms.saturating_add(STALLED_MS) && !self.streams.are_held_back()
    }

    /// Who of the two began.
    fn initiator(&self, me: PeerId) -> PeerId {
        match self.session.side() {
            Side::Initiator => me,
            Side::Responder => self.session.peer(),
        }
    }
}

/// How long a session with open streams may be silent before a full table ends it.
const STALLED_MS: u64 = 60_000;

/// Connections that come up within this time of each other from both sides count as simultaneous.
const SIMULTANEOUS_MS: u64 = 10_000;

/// Which connections lead to which peer
#[derive(Default)]
pub(super) struct Peers {
    /// The preferred connection first.
    table: Map<PeerId, Vec<u32>>,
}

impl Peers {
    /// The connection to use for what is sent to a peer.
    pub(super) fn preferred(&self, peer: &PeerId) -> Option<u32> {
        self.table.get(peer).and_then(|indexes| indexes.first().copied())
    }

    /// All connections with a peer, the preferred one first.
    pub(super) fn connections(&self, peer: &PeerId) -> &[u32] {
        self.table.get(peer).map_or(&[], Vec::as_slice)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &PeerId> {
        self.table.keys()
    }

    /// Adds a connection; says whether it is the first one with this peer.
    ///
    /// The newest is preferred, since a peer that opens another has lost the old one; but when both sides opened
    /// one at the same time, that of the side with the lower id is, so that both choose the same.
    pub(super) fn add(&mut self, me: PeerId, index: u32, connections: &Map<u32, Connection>) -> bool {
        let Some(new) = connections.get(&index) else {
            return false;
        };
        let indexes = self.table.get_or_insert_with(new.session.peer(), Vec::new);
        let first = indexes.is_empty();
        let keep_old = indexes
            .first()
            .and_then(|old| connections.get(old))
            .is_some_and(|old| {
                let simultaneous = new.established_ms.saturating_sub(old.established_ms) < SIMULTANEOUS_MS;
                simultaneous
                    && old.session.side() != new.session.side()
                    && old.initiator(me) < new.initiator(me)
            });
        if keep_old {
            indexes.push(index);
        } else {
            indexes.insert(0, index);
        }
        first
    }

    /// Removes a connection; says whether it was the last one with this peer.
    pub(super) fn remove(&mut self, peer: &PeerId, index: u32) -> bool {
        let Some(indexes) = self.table.get_mut(peer) else {
            return false;
        };
        indexes.retain(|other| *other != index);
        let last = indexes.is_empty();
        if last {
            self.table.remove(peer);
        }
        last
    }
}
