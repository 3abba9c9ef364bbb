use alloc::vec::Vec;

use selfsame_codec::{Class, Code};

use super::Node;
use super::paths::Way;
use super::timers::Timer;
use crate::admission::KNOWS_CLOSED;
use crate::channel::{Frame, FrameWriter, Message, Route};

/// Longest payload of m3; what is longer follows in a packet, so that m3 stays a small message.
const MAX_CONFIRMATION_PAYLOAD: usize = 16 * 1024;
/// Small frames go into another packet beyond this: the other side begins with the first one while the rest is made. A
/// large frame has a packet of its own.
const FULL_PAYLOAD: usize = 8 * 1024;
/// What one frame adds to its body at the most.
const FRAME_OVERHEAD: usize = 128;

/// Connections with frames to be sealed at the end of the step
#[derive(Default)]
pub(super) struct Unsent {
    /// Those that lead through a member.
    relayed: Vec<u32>,
    /// Those that lead to the peer itself.
    direct: Vec<u32>,
}

impl Unsent {
    /// Sessions that run inside another one come first, since they queue frames there.
    fn pop(&mut self) -> Option<u32> {
        self.relayed.pop().or_else(|| self.direct.pop())
    }
}

impl Node {
    /// Queues a frame of a connection; all of a step travel in as few packets as they fit in.
    pub(super) fn queue(&mut self, index: u32, frame: &Frame<'_>) {
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        let body = match frame {
            Frame::Data(data) => data.bytes.len(),
            Frame::Open(open) => open.head.len(),
            Frame::Request { body, .. } | Frame::Response { body, .. } => body.len(),
            Frame::Relay { frame, .. } | Frame::Route(Route { frame, .. }) => frame.len(),
            Frame::Message(Message { body, .. }) | Frame::Answer { body, .. } => body.len(),
            _ => 0,
        };
        if connection.payload.len() + body + FRAME_OVERHEAD > FULL_PAYLOAD {
            self.flush_connection(index);
        }
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        let is_first = connection.payload.is_empty() && connection.confirmation.is_none();
        if connection.payload.is_empty() {
            connection.payload = core::mem::take(&mut self.spare_payload);
        }
        FrameWriter::new(&mut connection.payload).frame(frame);
        if is_first {
            self.mark_unsent(index);
        }
    }

    /// Has a connection's frames sealed at the end of the step.
    pub(super) fn mark_unsent(&mut self, index: u32) {
        if self.is_relayed(index) {
            self.unsent.relayed.push(index);
        } else {
            self.unsent.direct.push(index);
        }
    }

    /// Seals and sends what was queued.
    pub(super) fn flush(&mut self) {
        while let Some(index) = self.unsent.pop() {
            self.flush_connection(index);
        }
    }

    /// Whether a connection leads through a member.
    pub(super) fn is_relayed(&self, index: u32) -> bool {
        let path = self
            .connections
            .get(&index)
            .and_then(|connection| self.paths.table.get(&connection.path));
        path.is_some_and(|path| !matches!(path.way, Way::Host(_)))
    }

    fn flush_connection(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        let path = connection.path;
        let mut payload = core::mem::take(&mut connection.payload);
        if let Some(confirmation) = connection.confirmation.take() {
            let fits = payload.len() <= MAX_CONFIRMATION_PAYLOAD;
            let first: &[u8] = if fits { &payload } else { &[] };
            let frame = confirmation.seal(&self.identity, first);
            if fits {
                payload.clear();
            }
            self.transmit(path, &frame);
        }
        if !payload.is_empty() {
            self.seal(index, path, &payload);
        }
        self.update_busy(path);
        self.mark_unsaved(path);
        payload.clear();
        if payload.capacity() <= super::KEPT_BUFFER {
            self.spare_payload = payload;
        }
    }

    fn seal(&mut self, index: u32, path: u32, payload: &[u8]) {
        let now_ms = self.now_ms;
        let Some(way) = self.paths.table.get(&path).map(|path| path.way) else {
            return;
        };
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        let sealed = match way {
            Way::Host(_) => self.out.transmit(path, |out| {
                connection
                    .session
                    .seal(now_ms, out, |out| out.extend_from_slice(payload))
            }),
            Way::Relay { .. } | Way::Routed { .. } => {
                let mut frame = Vec::with_capacity(payload.len() + crate::channel::PACKET_OVERHEAD);
                let sealed = connection
                    .session
                    .seal(now_ms, &mut frame, |out| out.extend_from_slice(payload));
                self.transmit(path, &frame);
                sealed
            }
        };
        if let Err(code) = sealed {
            self.close_connection(index, code);
        }
    }

    /// Sends a frame on a path, through the member where it leads through one.
    pub(super) fn transmit(&mut self, path: u32, frame: &[u8]) {
        let Some(way) = self.paths.table.get(&path).map(|path| path.way) else {
            return;
        };
        match way {
            Way::Host(_) => {
                let written = self.out.transmit(path, |out| {
                    out.extend_from_slice(frame);
                    Ok(())
                });
                debug_assert!(written.is_ok(), "copying cannot fail");
            }
            Way::Relay { member, peer } => match self.peers.preferred(&member) {
                Some(index) => self.queue(index, &Frame::Relay { peer, frame }),
                None => self.out.dropped(Code::NoRoute, path),
            },
            Way::Routed { peer } => self.send_routed(path, peer, frame),
        }
    }

    /// Ends a connection and tells the peer whose fault it is.
    pub(super) fn close_connection(&mut self, index: u32, why: Code) {
        let Some(connection) = self.connections.get(&index) else {
            return;
        };
        let path = connection.path;
        let class = if why == Code::PeerClosed {
            Class::Service
        } else {
            why.class()
        };
        self.queue(index, &Frame::Close { class });
        self.flush();
        self.drop_connection(index, why);
        if let Some(path) = self.paths.table.get_mut(&path) {
            path.connections.retain(|other| *other != index);
        }
        self.close_if_unused(path);
    }

    /// Forgets a connection; whoever waits for something on it is told why.
    pub(super) fn drop_connection(&mut self, index: u32, why: Code) {
        let Some(connection) = self.connections.remove(&index) else {
            return;
        };
        if KNOWS_CLOSED {
            // It would stay for days, and whoever comes again and again would leave many.
            self.timers
                .clear(connection.certificate_ms, Timer::Certificate(index));
        }
        let peer = connection.session.peer();
        if let Some(path) = self.paths.table.get_mut(&connection.path) {
            path.connections.retain(|other| *other != index);
        }
        let was_last = self.peers.remove(&peer, index);
        self.forget_sender(&peer);
        for handle in connection.streams.handles() {
            self.stream_lost(handle, why);
        }
        for call in connection.requests.into_values() {
            self.ring_request_lost(call, why);
        }
        if was_last {
            self.event(selfsame_codec::EventKind::PeerDisconnected, &peer.0);
            self.relay_peer_gone(peer);
            self.ring_with(|ring, cx| ring.peer_gone(cx, peer));
        }
    }
}
