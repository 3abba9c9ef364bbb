use selfsame_codec::http::RequestHead;
use selfsame_codec::{Code, Output};

use super::Node;
use super::timers::Timer;
use crate::channel::{Data, Frame, FrameReader, MAX_FRAME, Open, packet_receiver};
use crate::handshake::Kind;

/// Most requests of one peer that wait for their answer.
const MAX_UNANSWERED: usize = 256;
/// Bytes of streams that arrive between two looks at how many wait for the application in all.
const CHECK_STEP: usize = 1024 * 1024;

impl Node {
    /// A frame arrived from the host.
    pub(super) fn received(&mut self, path: u32, frame: &[u8]) -> Result<(), Code> {
        if !self.paths.table.contains_key(&path) {
            return Err(Code::UnknownPath);
        }
        self.frame_received(path, frame);
        Ok(())
    }

    /// A frame arrived on a path of any kind. What is wrong with it is counted and logged, and the frame dropped.
    pub(super) fn frame_received(&mut self, path: u32, frame: &[u8]) {
        let taken = if frame.len() > MAX_FRAME {
            Err(Code::FrameTooLarge)
        } else {
            match Kind::of(frame) {
                Some(Kind::Packet) => self.packet_received(path, frame),
                Some(Kind::Initiation) => self.initiation_received(path, frame),
                Some(Kind::Response) => self.response_received(path, frame),
                Some(Kind::Confirmation) => self.confirmation_received(path, frame),
                Some(Kind::Cookie) => self.cookie_received(path, frame),
                Some(Kind::Reject) => self.reject_received(path, frame),
                None => Err(Code::BadFrame),
            }
        };
        if let Err(code) = taken {
            self.out.dropped(code, path);
        }
    }

    fn packet_received(&mut self, path: u32, frame: &[u8]) -> Result<(), Code> {
        let index = packet_receiver(frame)?;
        let Some(connection) = self
            .connections
            .get_mut(&index)
            .filter(|connection| connection.path == path)
        else {
            if self.keep_early(path, index, frame) {
                return Ok(());
            }
            // The peer believes in a session that we have lost: without the path it will begin another.
            self.close_if_unused(path);
            return Err(Code::UnknownSession);
        };
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(frame);
        let taken = match connection.session.open(self.now_ms, &mut scratch) {
            Ok(payload) => {
                connection.received_ms = self.now_ms;
                connection.pinged_ms = None;
                if let Some(at_ms) = connection.session.previous_key_expiry_ms() {
                    self.timers.set(at_ms, Timer::PreviousKey(index));
                }
                self.payload_received(index, payload)
            }
            Err(code) => Err(code),
        };
        self.scratch = scratch;
        self.mark_unsaved(path);
        taken
    }

    /// Takes the frames of a payload. A peer that proved who it is and breaks the rules loses its connection.
    pub(super) fn payload_received(&mut self, index: u32, payload: &[u8]) -> Result<(), Code> {
        for frame in FrameReader::new(payload) {
            let taken = frame
                .map_err(|_| Code::BadFrame)
                .and_then(|frame| self.take_frame(index, frame));
            if let Err(code) = taken {
                self.close_connection(index, code);
                return Err(code);
            }
        }
        if let Some(connection) = self.connections.get(&index) {
            let path = connection.path;
            self.update_busy(path);
        }
        Ok(())
    }

    fn take_frame(&mut self, index: u32, frame: Frame<'_>) -> Result<(), Code> {
        let is_routed = self.is_routed(index);
        match frame {
            Frame::Message(message) if is_routed => {
                self.message_received(index, message);
                Ok(())
            }
            Frame::Answer { id, class, body } if is_routed => {
                if let Some(connection) = self.connections.get(&index) {
                    self.answer_received(connection.session.peer(), id, class, body);
                }
                Ok(())
            }
            Frame::Message(_) | Frame::Answer { .. } => Err(Code::BadFrame),
            Frame::Ping { token } => {
                self.queue(index, &Frame::Pong { token });
                Ok(())
            }
            // That a packet came is all that a pong says; see `packet_received`.
            Frame::Pong { .. } => Ok(()),
            // The peer is told whose fault it was, and so are we; what went wrong stands in its own log.
            Frame::Close { .. } => {
                self.out.dropped(Code::PeerClosed, 0);
                let path = self.connections.get(&index).map(|connection| connection.path);
                self.drop_connection(index, Code::PeerClosed);
                path.into_iter().for_each(|path| self.close_if_unused(path));
                Ok(())
            }
            // Streams and requests rely on paths that lose nothing.
            _ if is_routed => Err(Code::BadFrame),
            Frame::Route(route) => {
                self.route_received(index, &route);
                Ok(())
            }
            Frame::Data(data) => self.data_received(index, data),
            Frame::Request { id, body } => self.request_received(index, id, body),
            Frame::Response { id, body } => {
                self.response_to_request(index, id, body);
                Ok(())
            }
            Frame::Open(open) => self.open_received(index, open),
            Frame::End { stream, offset } => {
                let Some(connection) = self.connections.get_mut(&index) else {
                    return Ok(());
                };
                let (out, table) = (&mut self.out, &mut self.streams);
                tolerate_unknown(
                    connection
                        .streams
                        .end_received(stream, offset, &mut |event| table.tell(out, event)),
                )
            }
            Frame::Reset { stream, class } => {
                self.reset_received(index, stream, class);
                Ok(())
            }
            Frame::Credit { stream, limit } => {
                let Some(connection) = self.connections.get_mut(&index) else {
                    return Ok(());
                };
                let (out, table) = (&mut self.out, &mut self.streams);
                connection
                    .streams
                    .credit_received(stream, limit, &mut |event| table.tell(out, event));
                Ok(())
            }
            Frame::Relay { peer, frame } => {
                self.relay_received(index, peer, frame);
                Ok(())
            }
        }
    }

    fn data_received(&mut self, index: u32, data: Data<'_>) -> Result<(), Code> {
        let Some(connection) = self.connections.get_mut(&index) else {
            return Ok(());
        };
        let (out, table) = (&mut self.out, &mut self.streams);
        let (stream, len) = (data.stream, data.bytes.len());
        let taken = connection.streams.data(data, &mut |event| table.tell(out, event));
        connection.data_ms = self.now_ms;
        self.streams.unchecked_bytes += len;
        if self.streams.unchecked_bytes >= CHECK_STEP {
            self.streams.unchecked_bytes = 0;
            self.bound_unread_bytes();
        }
        if taken == Err(Code::UnknownStream) {
            self.queue(
                index,
                &Frame::Reset {
                    stream,
                    class: selfsame_codec::Class::Unreachable,
                },
            );
            return Ok(());
        }
        taken
    }

    fn open_received(&mut self, index: u32, open: Open<'_>) -> Result<(), Code> {
        let Some(connection) = self.connections.get(&index) else {
            return Ok(());
        };
        let peer = connection.session.peer();
        let refusal = match connection.streams.check_open(open.stream) {
            Err(Code::TooManyStreams) => Some(Code::TooManyStreams),
            Err(code) => return Err(code),
            Ok(()) if !self.serves(open.service.owner.as_ref(), open.service.name) => Some(Code::NoService),
            Ok(()) => RequestHead::check(open.head).err().map(|_| Code::BadMessage),
        };
        if let Some(code) = refusal {
            self.out.dropped(code, 0);
            self.queue(
                index,
                &Frame::Reset {
                    stream: open.stream,
                    class: code.class(),
                },
            );
            return Ok(());
        }
        let handle = self.streams.add_remote(index, open.stream);
        self.out.push(&Output::StreamOpened {
            stream: handle,
            tag: 0,
            peer: peer.0,
            service: open.service.name,
            head: open.head,
        });
        self.out.push(&Output::StreamCredit {
            stream: handle,
            bytes: super::streams::INITIAL_CREDIT,
        });
        let Some(connection) = self.connections.get_mut(&index) else {
            return Ok(());
        };
        let (out, table) = (&mut self.out, &mut self.streams);
        connection
            .streams
            .accept(open.stream, handle, &mut |event| table.tell(out, event))?;
        self.watch(index);
        Ok(())
    }

    fn request_received(&mut self, index: u32, id: u32, body: &[u8]) -> Result<(), Code> {
        let Some(connection) = self.connections.get_mut(&index) else {
            return Ok(());
        };
        if connection.unanswered >= MAX_UNANSWERED {
            return Err(Code::TooManyRequests);
        }
        connection.unanswered += 1;
        let (from, path) = (connection.session.peer(), connection.path);
        let token = u64::from(index) << 32 | u64::from(id);
        let source = self.source_of(path);
        if self.hold_request(from, token, source, body) {
            return Ok(());
        }
        self.ring_with(|ring, cx| {
            cx.source = source;
            ring.request(cx, from, token, body);
        });
        self.drive_ring();
        Ok(())
    }

    fn response_to_request(&mut self, index: u32, id: u32, body: &[u8]) {
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        if let Some(call) = connection.requests.remove(&id) {
            if !self.hold_answer(*call, body) {
                self.ring_request_answered(*call, body);
            }
        } else {
            let peer = connection.session.peer();
            self.out.dropped(Code::TimedOut, 0);
            self.ring_with(|ring, cx| ring.answered_late(cx, peer));
        }
    }
}

/// The end of a stream that is gone already is no fault: both sides may give it up at once.
fn tolerate_unknown(taken: Result<(), Code>) -> Result<(), Code> {
    if taken == Err(Code::UnknownStream) {
        Ok(())
    } else {
        taken
    }
}
