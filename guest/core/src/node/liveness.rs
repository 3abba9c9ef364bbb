use selfsame_codec::Code;

use super::Node;
use super::timers::Timer;
use crate::channel::Frame;

/// Silence, while something is awaited, after which a peer is asked whether it is there.
pub(super) const FIRST_PING_MS: u64 = 1_500;
/// Pings go out further apart the longer a peer is at work; never further than this.
const LAST_PING_MS: u64 = 15_000;
/// How long the answer to a ping may take.
const PONG_MS: u64 = 3_000;

impl Node {
    /// Notes that application bytes were sent or a stream opened, and watches the connection while something is awaited on it.
    pub(super) fn watch(&mut self, index: u32) {
        let now_ms = self.now_ms;
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        connection.data_ms = now_ms;
        if !connection.watched {
            connection.watched = true;
            connection.ping_after_ms = FIRST_PING_MS;
            self.timers.set(now_ms + FIRST_PING_MS, Timer::Liveness(index));
        }
    }

    pub(super) fn check_liveness(&mut self, index: u32) {
        let now_ms = self.now_ms;
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        if !connection.is_awaiting() {
            connection.watched = false;
            return;
        }
        let next_ms = match connection.pinged_ms {
            Some(pinged_ms) if now_ms >= pinged_ms + PONG_MS => {
                self.peer_silent(index);
                return;
            }
            Some(pinged_ms) => pinged_ms + PONG_MS,
            None if now_ms >= connection.received_ms + connection.ping_after_ms => {
                connection.pinged_ms = Some(now_ms);
                connection.ping_after_ms = (connection.ping_after_ms * 2).min(LAST_PING_MS);
                self.queue(index, &Frame::Ping { token: now_ms });
                now_ms + PONG_MS
            }
            None => connection.received_ms + connection.ping_after_ms,
        };
        self.timers.set(next_ms, Timer::Liveness(index));
    }

    pub(super) fn drop_previous_key(&mut self, index: u32) {
        if let Some(connection) = self.connections.get_mut(&index) {
            connection.session.drop_previous_key(self.now_ms);
        }
    }

    fn peer_silent(&mut self, index: u32) {
        let Some(connection) = self.connections.get(&index) else {
            return;
        };
        let (peer, path) = (connection.session.peer(), connection.path);
        self.mesh.unreachable(peer, self.now_ms);
        self.out.dropped(Code::TimedOut, path);
        self.drop_connection(index, Code::TimedOut);
        self.close_if_unused(path);
    }
}
