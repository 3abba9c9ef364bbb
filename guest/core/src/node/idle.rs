use selfsame_codec::Code;

use super::Node;
use super::handshakes::MAX_CONNECTIONS;

/// Sessions that are kept however long they lie idle: less memory than a page has, and a handshake costs a millisecond.
const KEPT: usize = 128;
/// How long a session beyond that may lie idle: lookups of a minute pass through the same members again and again.
const IDLE_MS: u64 = 5 * 60_000;
/// Sessions that a new one may end, so that there are fewer of them in time.
const ENDED_AT_ONCE: usize = 2;

impl Node {
    /// Ends sessions that have long been idle, now that there is one more.
    pub(super) fn end_idle_sessions(&mut self) {
        for _ in 0..ENDED_AT_ONCE {
            if self.connections.len() <= KEPT || !self.end_session_idle_for(IDLE_MS) {
                return;
            }
        }
    }

    /// Whether there is room for a session, once the longest idle one has been ended if need be.
    pub(super) fn has_room_for_session(&mut self) -> bool {
        self.connections.len() < MAX_CONNECTIONS || self.end_session_idle_for(0)
    }

    /// Ends the session that has been idle longest, at least this long, and that nothing needs.
    fn end_session_idle_for(&mut self, idle_ms: u64) -> bool {
        let idle = self.connections.iter().filter(|(_, connection)| {
            self.now_ms >= connection.received_ms.saturating_add(idle_ms)
                && !connection.is_awaiting()
                && connection.confirmation.is_none()
                && !self.ring.needs(&connection.session.peer())
        });
        let longest = idle.min_by_key(|(_, connection)| connection.received_ms);
        let index = longest.map(|(index, _)| *index);
        if let Some(index) = index {
            self.close_connection(index, Code::PeerClosed);
        }
        index.is_some()
    }
}
