//! Streams as the application sees them.

use selfsame_codec::{Class, Code, Output};

use super::Node;
use super::answers::Answers;
use super::outbox::Outbox;
use crate::channel::{Frame, MAX_DATA, STREAM_WINDOW, StreamEvent};
use selfsame_sorted_map::Map;

/// What an application may send before the peer's application has consumed anything.
pub(super) const INITIAL_CREDIT: u32 = STREAM_WINDOW as u32;

/// Where a stream leads
enum End {
    /// To a peer: the connection and its number for the stream.
    Remote { connection: u32, stream: u32 },
    /// To this node's own service.
    Local(LocalEnd),
}

#[derive(Clone, Copy)]
struct LocalEnd {
    other: u32,
    credit: u64,
    delivered: u64,
    consumed: u64,
    send_ended: bool,
}

/// All streams of the node, by the number that the application knows
#[derive(Default)]
pub(super) struct StreamTable {
    table: Map<u32, End>,
    next: u32,
    pub(super) answers: Answers,
    /// Bytes that arrived since the last look at how many wait for the application.
    pub(super) unchecked_bytes: usize,
}

impl StreamTable {
    /// A number that is free.
    pub(super) fn reserve(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            if self.next != 0 && !self.table.contains_key(&self.next) {
                return self.next;
            }
        }
    }

    pub(super) fn insert_remote(&mut self, handle: u32, connection: u32, stream: u32) {
        self.table.insert(handle, End::Remote { connection, stream });
    }

    pub(super) fn add_remote(&mut self, connection: u32, stream: u32) -> u32 {
        let handle = self.reserve();
        self.insert_remote(handle, connection, stream);
        handle
    }

    /// Two ends within this node: the caller's and the service's.
    pub(super) fn add_local(&mut self) -> (u32, u32) {
        let caller = self.reserve();
        self.table.insert(caller, End::Local(LocalEnd::new(0)));
        let callee = self.reserve();
        self.table.insert(callee, End::Local(LocalEnd::new(caller)));
        self.table.insert(caller, End::Local(LocalEnd::new(callee)));
        (caller, callee)
    }

    /// Tells the application what happened on a stream.
    pub(super) fn tell(&mut self, out: &mut Outbox, event: StreamEvent<'_>) {
        match event {
            StreamEvent::Data(stream, data) => {
                self.answers.data(stream, data);
                out.push(&Output::StreamData { stream, data });
            }
            StreamEvent::End(stream) => out.push(&Output::StreamEnd { stream }),
            StreamEvent::Done(stream) => _ = self.remove(stream, false),
            StreamEvent::Credit(stream, bytes) => out.push(&Output::StreamCredit { stream, bytes }),
            StreamEvent::Reset(stream, class) => {
                _ = self.remove(stream, true);
                out.push(&Output::StreamReset {
                    stream,
                    code: code_of(class).as_u16(),
                });
            }
        }
    }

    /// Forgets a stream that is gone; `failed` when the other side is the reason.
    fn remove(&mut self, handle: u32, failed: bool) -> Option<End> {
        self.answers.over(handle, failed);
        self.table.remove(&handle).map(|end| *end)
    }

    fn local(&mut self, handle: u32) -> Option<&mut LocalEnd> {
        match self.table.get_mut(&handle) {
            Some(End::Local(end)) => Some(end),
            _ => None,
        }
    }
}

impl LocalEnd {
    fn new(other: u32) -> Self {
        Self {
            other,
            credit: STREAM_WINDOW,
            delivered: 0,
            consumed: 0,
            send_ended: false,
        }
    }
}

/// What an application is told when a peer gave only the class.
fn code_of(class: Class) -> Code {
    match class {
        Class::Usage | Class::Service => Code::StreamRefused,
        Class::Malformed => Code::BadMessage,
        Class::Misbehaved => Code::BadStream,
        Class::Incompatible => Code::WrongVersion,
        Class::Unreachable => Code::Disconnected,
        Class::Limit => Code::TooManyStreams,
        Class::Store => Code::StoreFailed,
    }
}

impl Node {
    pub(super) fn stream_data(&mut self, handle: u32, data: &[u8]) -> Result<(), Code> {
        if data.is_empty() {
            return Ok(());
        }
        if data.len() > MAX_DATA {
            return Err(Code::TooLarge);
        }
        match self.streams.table.get_mut(&handle).ok_or(Code::UnknownStream)? {
            End::Remote { connection, stream } => {
                let index = *connection;
                let connection = self.connections.get_mut(&index).ok_or(Code::UnknownStream)?;
                let frame = connection.streams.send(*stream, data)?;
                self.queue(index, &frame);
                self.watch(index);
                Ok(())
            }
            End::Local(end) => {
                if end.send_ended {
                    return Err(Code::UnknownStream);
                }
                let len = data.len() as u64;
                end.credit = end.credit.checked_sub(len).ok_or(Code::OverCredit)?;
                let other = end.other;
                let Some(receiver) = self.streams.local(other) else {
                    return Err(Code::UnknownStream);
                };
                receiver.delivered += len;
                self.streams.answers.data(other, data);
                self.out.push(&Output::StreamData { stream: other, data });
                Ok(())
            }
        }
    }

    pub(super) fn stream_end(&mut self, handle: u32) -> Result<(), Code> {
        match self.streams.table.get_mut(&handle).ok_or(Code::UnknownStream)? {
            End::Remote { connection, stream } => {
                let (index, stream) = (*connection, *stream);
                let connection = self.connections.get_mut(&index).ok_or(Code::UnknownStream)?;
                let frame = connection.streams.end(stream)?;
                if !connection.streams.contains(stream) {
                    self.streams.remove(handle, false);
                }
                self.queue(index, &frame);
                Ok(())
            }
            End::Local(end) => {
                if core::mem::replace(&mut end.send_ended, true) {
                    return Err(Code::UnknownStream);
                }
                let other = end.other;
                self.out.push(&Output::StreamEnd { stream: other });
                if self
                    .streams
                    .local(other)
                    .is_none_or(|receiver| receiver.send_ended)
                {
                    self.streams.remove(handle, false);
                    self.streams.remove(other, false);
                }
                Ok(())
            }
        }
    }

    pub(super) fn stream_reset(&mut self, handle: u32, code: u16) -> Result<(), Code> {
        let class = Code::from_u16(code).unwrap_or(Code::StreamRefused).class();
        self.give_up_stream(handle, class)
    }

    /// Ends a stream both ways and tells the other side whose fault it is.
    pub(super) fn give_up_stream(&mut self, handle: u32, class: Class) -> Result<(), Code> {
        match self.streams.remove(handle, false).ok_or(Code::UnknownStream)? {
            End::Remote { connection, stream } => {
                if let Some(open) = self.connections.get_mut(&connection)
                    && open.streams.reset(stream).is_some()
                {
                    self.queue(connection, &Frame::Reset { stream, class });
                }
            }
            End::Local(end) => {
                if self.streams.remove(end.other, true).is_some() {
                    self.out.push(&Output::StreamReset {
                        stream: end.other,
                        code: code_of(class).as_u16(),
                    });
                }
            }
        }
        Ok(())
    }

    pub(super) fn stream_credit(&mut self, handle: u32, bytes: u32) -> Result<(), Code> {
        // Credit for a stream that has ended meanwhile is no fault of the application.
        let Some(end) = self.streams.table.get_mut(&handle) else {
            return Ok(());
        };
        match end {
            End::Remote { connection, stream } => {
                let index = *connection;
                let Some(connection) = self.connections.get_mut(&index) else {
                    return Ok(());
                };
                if let Some(frame) = connection.streams.consumed(*stream, bytes)? {
                    self.queue(index, &frame);
                }
            }
            End::Local(end) => {
                let consumed = end.consumed + u64::from(bytes);
                if consumed > end.delivered {
                    return Err(Code::OverCredit);
                }
                end.consumed = consumed;
                let other = end.other;
                if let Some(sender) = self.streams.local(other) {
                    sender.credit += u64::from(bytes);
                    self.out.push(&Output::StreamCredit { stream: other, bytes });
                }
            }
        }
        Ok(())
    }

    /// The peer gave a stream up.
    pub(super) fn reset_received(&mut self, index: u32, stream: u32, class: Class) {
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        if let Some(handle) = connection.streams.reset(stream) {
            self.streams
                .tell(&mut self.out, StreamEvent::Reset(handle, class));
        }
    }

    /// The connection of a stream is gone.
    pub(super) fn stream_lost(&mut self, handle: u32, why: Code) {
        if self.streams.remove(handle, true).is_some() {
            self.out.push(&Output::StreamReset {
                stream: handle,
                code: why.as_u16(),
            });
        }
    }
}
