//! Which sessions end when there are many.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::Node;
use super::connection::Connection;
use crate::quota::{Entry, Hold, Holder, Room, room};

/// Most sessions at once: with 64 KiB in use for each, half of the memory that an isolate has.
const MAX_CONNECTIONS: u64 = 1024;
/// Sessions that are kept however long they lie idle: less memory than a page has, and a handshake costs a millisecond.
const KEPT: usize = 128;
/// How long a session beyond that may lie idle: lookups of a minute pass through the same members again and again.
const IDLE_MS: u64 = 5 * 60_000;
/// Sessions that a new one may end, so that there are fewer of them in time.
const ENDED_AT_ONCE: usize = 2;
/// Most bytes of streams that wait for their application in all sessions: half of the memory that an isolate has.
const MAX_UNREAD_BYTES: u64 = 64 * 1024 * 1024;

impl Node {
    /// Ends sessions that have long been idle, now that there is one more.
    pub(super) fn end_idle_sessions(&mut self) {
        for _ in 0..ENDED_AT_ONCE {
            if self.connections.len() <= KEPT || !self.end_longest_idle_session() {
                return;
            }
        }
    }

    fn end_longest_idle_session(&mut self) -> bool {
        let idle = self.connections.iter().filter(|(_, connection)| {
            self.now_ms >= connection.received_ms.saturating_add(IDLE_MS)
                && self.hold_of(connection) == Hold::Idle
        });
        let longest = idle.min_by_key(|(_, connection)| connection.received_ms);
        let index = longest.map(|(index, _)| *index);
        if let Some(index) = index {
            self.close_connection(index, Code::PeerClosed);
        }
        index.is_some()
    }

    /// Whether another session would find room.
    pub(super) fn has_room_for_session(&self) -> bool {
        self.room_for_session(false) != Room::Full
    }

    /// Ends a session if another one needs its place; says whether there is room.
    pub(super) fn make_room_for_session(&mut self) -> bool {
        let found = self.room_for_session(false);
        self.evict_session(found, Code::TooManySessions);
        found != Room::Full
    }

    /// Ends the sessions that hold most of what the application has not consumed, while that is too much in all.
    pub(super) fn bound_unread_bytes(&mut self) {
        while self.evict_session(self.room_for_session(true), Code::TooManyStreams) {}
    }

    /// Finds room for another session, or for another byte that the application has not consumed.
    #[inline(never)]
    fn room_for_session(&self, for_bytes: bool) -> Room {
        let mut entries = Vec::new();
        for connection in self.connections.values() {
            entries.push(if for_bytes {
                Entry {
                    size: connection.streams.unread_bytes(),
                    ..self.session_entry(connection, Hold::Stalled)
                }
            } else {
                self.session_entry(connection, self.hold_of(connection))
            });
        }
        let capacity = if for_bytes {
            MAX_UNREAD_BYTES
        } else {
            MAX_CONNECTIONS
        };
        room(capacity, &entries)
    }

    pub(super) fn session_entry(&self, connection: &Connection, hold: Hold) -> Entry {
        let network = self.source_of(connection.path);
        Entry {
            holders: [Holder::peer(&connection.session.peer()), network],
            size: 1,
            used_ms: connection.received_ms,
            hold,
        }
    }

    fn evict_session(&mut self, found: Room, why: Code) -> bool {
        let Room::Evict(position) = found else {
            return false;
        };
        let evicted = self.connections.iter().nth(position);
        if let Some((index, path)) = evicted.map(|(index, connection)| (*index, connection.path)) {
            self.out.dropped(why, path);
            self.close_connection(index, why);
        }
        true
    }

    /// When a session may end for another one. A leaf's is kept while its holder has few, since a leaf can attach elsewhere.
    fn hold_of(&self, connection: &Connection) -> Hold {
        let peer = connection.session.peer();
        if self.routed_peer(connection.path).is_some() {
            // Another one costs a handshake, and nothing is lost.
            Hold::Idle
        } else if self.ring.relays_for(&peer) {
            Hold::Active
        } else if connection.confirmation.is_some() || self.ring.needs(&peer) {
            Hold::Needed
        } else if !connection.is_awaiting() {
            Hold::Idle
        } else if connection.is_stalled(self.now_ms) {
            Hold::Stalled
        } else {
            Hold::Active
        }
    }
}
