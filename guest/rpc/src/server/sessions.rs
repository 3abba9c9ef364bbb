//! All sessions of a replica, and what each source has of it.

use alloc::vec::Vec;

use selfsame_sorted_map::Map;

use super::session::Session;
use crate::endpoint::Endpoint;
use crate::wire::SessionId;

/// Sessions of a replica: with the replay window some 600 bytes each.
const MAX_SESSIONS: usize = 4096;
/// Bytes of answers that are kept for all sessions until their clients have them.
const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of answers of one session: those of some seconds, so that one that is lost thrice is still there.
const MAX_KEPT_OF_SESSION: usize = 256 * 1024;
/// Calls under way of one source, an eighth of all.
const MAX_CALLS_OF_SOURCE: u32 = 8192;
/// Bytes of requests that are not whole yet: of all sources, and of one.
const MAX_UPLOAD_BYTES: usize = 128 * 1024 * 1024;
const MAX_UPLOAD_OF_SOURCE: usize = 32 * 1024 * 1024;

/// What one source has of a replica.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    sessions: u32,
    calls: u32,
    upload_bytes: usize,
}

/// The sessions by their ids.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_id: Map<SessionId, Session>,
    shares: Map<Endpoint, Share>,
    upload_bytes: usize,
    /// Of requests that were sent before (milliseconds since 1970), one may have been carried out in a session that is forgotten.
    forgotten_ms: u64,
}

impl Sessions {
    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.by_id.get_mut(&id)
    }

    /// Whether a request that claims to have been sent then may have been carried out in a session that is forgotten.
    pub(super) fn may_have_forgotten(&self, sent_ms: u64) -> bool {
        sent_ms < self.forgotten_ms
    }

    /// Returns how many bytes of answers one session may keep.
    pub(super) fn kept_limit(&self) -> usize {
        (MAX_KEPT_BYTES / self.by_id.len().max(1)).min(MAX_KEPT_OF_SESSION)
    }

    /// Adds a session; if there is no room, the source that has most loses one.
    pub(super) fn insert(&mut self, id: SessionId, session: Session, now_s: u32) {
        if self.by_id.len() >= MAX_SESSIONS {
            self.remove_expired(now_s);
        }
        if self.by_id.len() >= MAX_SESSIONS {
            self.evict();
        }
        self.shares
            .get_or_insert_with(session.source, Share::default)
            .sessions += 1;
        self.by_id.insert(id, session);
    }

    fn remove_expired(&mut self, now_s: u32) {
        let expired = self
            .by_id
            .iter()
            .filter(|(_, session)| session.expires_s <= now_s);
        let expired: Vec<SessionId> = expired.map(|(id, _)| *id).collect();
        expired.into_iter().for_each(|id| self.remove(id));
    }

    /// Forgets the session that was used longest ago, of the source that has most: a flood evicts its own.
    fn evict(&mut self) {
        let most = self
            .shares
            .iter()
            .max_by_key(|(_, share)| share.sessions)
            .map(|(source, _)| *source);
        let of_source = self
            .by_id
            .iter()
            .filter(|(_, session)| Some(session.source) == most);
        let oldest = of_source.min_by_key(|(_, session)| session.used_us);
        if let Some((id, latest_ms)) = oldest.map(|(id, session)| (*id, session.latest_ms)) {
            self.forgotten_ms = self.forgotten_ms.max(latest_ms + 1);
            self.remove(id);
        }
    }

    fn remove(&mut self, id: SessionId) {
        let Some(session) = self.by_id.remove(&id) else {
            return;
        };
        if let Some(share) = self.shares.get_mut(&session.source) {
            share.sessions -= 1;
        }
        self.drop_empty(&session.source);
    }

    /// Counts a call of a source; whether it may have another one.
    pub(super) fn begin_call(&mut self, source: Endpoint) -> bool {
        let share = self.shares.get_or_insert_with(source, Share::default);
        let has_room = share.calls < MAX_CALLS_OF_SOURCE;
        share.calls += u32::from(has_room);
        has_room
    }

    /// Ends a call that was counted.
    pub(super) fn end_call(&mut self, source: &Endpoint) {
        if let Some(share) = self.shares.get_mut(source) {
            share.calls -= 1;
            if share.sessions == 0 {
                self.drop_empty(source);
            }
        }
    }

    /// Sets aside memory for a request of a source; whether there is some.
    pub(super) fn reserve(&mut self, source: &Endpoint, bytes: usize) -> bool {
        let Some(share) = self.shares.get_mut(source) else {
            return false;
        };
        let has_room = self.upload_bytes + bytes <= MAX_UPLOAD_BYTES
            && share.upload_bytes + bytes <= MAX_UPLOAD_OF_SOURCE;
        if has_room {
            self.upload_bytes += bytes;
            share.upload_bytes += bytes;
        }
        has_room
    }

    /// Gives memory of a request back.
    pub(super) fn release(&mut self, source: &Endpoint, bytes: usize) {
        if let Some(share) = self.shares.get_mut(source) {
            share.upload_bytes -= bytes;
            self.upload_bytes -= bytes;
        }
    }

    fn drop_empty(&mut self, source: &Endpoint) {
        let is_empty = |share: &Share| share.sessions == 0 && share.calls == 0;
        if self.shares.get(source).is_some_and(is_empty) {
            self.shares.remove(source);
        }
    }
}
