use alloc::vec::Vec;

use selfsame_codec::{Class, Code};

use super::frame::{Data, Frame};
use super::session::Side;
use selfsame_sorted_map::Map;

/// Bytes that a receiver takes before its application has consumed any: what fills a path of 20 Mbit/s and 100 ms.
pub const STREAM_WINDOW: u64 = 256 * 1024;
/// Most streams that each side may have open in one session; a window each bounds the memory.
pub const MAX_STREAMS: usize = 256;
/// Credit is announced when this much of the window was consumed, to keep small frames off the path.
const ANNOUNCE_STEP: u64 = STREAM_WINDOW / 4;
/// Most pieces of a stream that wait for an earlier one.
const MAX_HELD_PIECES: usize = 64;
/// Most frames that wait for the opening of their stream, on paths where it can be overtaken.
const MAX_EARLY: usize = 16;

/// What a stream tells its application
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent<'a> {
    /// Bytes, in order.
    Data(u32, &'a [u8]),
    /// The peer's half ended.
    End(u32),
    /// Both halves have ended, ours before.
    Done(u32),
    /// Both halves are gone.
    Reset(u32, Class),
    /// So many bytes more may be sent.
    Credit(u32, u32),
}

struct Stream {
    handle: u32,
    sent: u64,
    send_limit: u64,
    send_ended: bool,
    delivered: u64,
    consumed: u64,
    announced: u64,
    /// Pieces that wait for an earlier one, on paths where they can be overtaken.
    held: Map<u64, Vec<u8>>,
    held_bytes: u64,
    length: Option<u64>,
    receive_ended: bool,
}

enum Early {
    Data {
        stream: u32,
        offset: u64,
        bytes: Vec<u8>,
    },
    End {
        stream: u32,
        offset: u64,
    },
}

/// The streams of one session
pub struct Streams {
    table: Map<u32, Stream>,
    next: u32,
    opened: usize,
    accepted: usize,
    /// Frames that overtook the opening of their stream; `None` on ordered paths, where that is an error.
    early: Option<Vec<Early>>,
}

impl Streams {
    /// No streams yet. `ordered` says whether the path keeps the order of frames.
    #[must_use]
    pub fn new(side: Side, ordered: bool) -> Self {
        let next = if side == Side::Initiator { 0 } else { 1 };
        Self {
            table: Map::new(),
            next,
            opened: 0,
            accepted: 0,
            early: (!ordered).then(Vec::new),
        }
    }

    /// The number that our next stream will have.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.next
    }

    /// Continues with the numbers of an earlier life of the session.
    pub fn skip_to(&mut self, next: u32) {
        if self.is_ours(next) {
            self.next = next;
        }
    }

    /// Opens a stream; `handle` is the node's number for it. Gives the session's number.
    ///
    /// # Errors
    /// [`Code::TooManyStreams`].
    pub fn open(&mut self, handle: u32) -> Result<u32, Code> {
        if self.opened >= MAX_STREAMS {
            return Err(Code::TooManyStreams);
        }
        let id = self.next;
        self.next = self.next.checked_add(2).ok_or(Code::TooManyStreams)?;
        self.opened += 1;
        self.table.insert(id, Stream::new(handle));
        Ok(id)
    }

    /// Whether the peer may open the stream with this number.
    ///
    /// # Errors
    /// [`Code::BadStream`] when the number is ours or in use; [`Code::TooManyStreams`].
    pub fn check_open(&self, id: u32) -> Result<(), Code> {
        if self.is_ours(id) || self.table.contains_key(&id) {
            return Err(Code::BadStream);
        }
        if self.accepted >= MAX_STREAMS {
            Err(Code::TooManyStreams)
        } else {
            Ok(())
        }
    }

    /// Takes a stream that the peer opened, and what came before its opening.
    ///
    /// # Errors
    /// As [`Streams::check_open`], or what is wrong with the frames that waited.
    pub fn accept(
        &mut self,
        id: u32,
        handle: u32,
        sink: &mut impl FnMut(StreamEvent<'_>),
    ) -> Result<(), Code> {
        self.check_open(id)?;
        self.accepted += 1;
        self.table.insert(id, Stream::new(handle));
        let Some(early) = &mut self.early else {
            return Ok(());
        };
        let (ready, rest) = core::mem::take(early)
            .into_iter()
            .partition(|frame| frame.stream() == id);
        *early = rest;
        let ready: Vec<Early> = ready;
        for frame in ready {
            match frame {
                Early::Data {
                    stream,
                    offset,
                    bytes,
                } => self.data(
                    Data {
                        stream,
                        offset,
                        bytes: &bytes,
                    },
                    sink,
                )?,
                Early::End { stream, offset } => self.end_received(stream, offset, sink)?,
            }
        }
        Ok(())
    }

    /// Whether the stream with this number is open.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.table.contains_key(&id)
    }

    /// Whether any stream is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes that the peer sent and the application has not consumed.
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        let mut unread = 0;
        for stream in self.table.values() {
            unread += stream.unread_bytes();
        }
        for frame in self.early.iter().flatten() {
            unread += frame.len();
        }
        unread
    }

    /// Whether streams are open and the application keeps the peer from sending on any of them.
    #[must_use]
    pub fn are_held_back(&self) -> bool {
        !self.table.is_empty() && self.table.values().all(Stream::is_held_back)
    }

    /// Handles of all open streams.
    pub fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        self.table.values().map(|stream| stream.handle)
    }

    /// The frame that sends bytes of the application.
    ///
    /// # Errors
    /// [`Code::UnknownStream`] when the stream is gone or its half ended, [`Code::OverCredit`].
    pub fn send<'a>(&mut self, id: u32, bytes: &'a [u8]) -> Result<Frame<'a>, Code> {
        let stream = self.sending(id)?;
        let end = stream.sent + bytes.len() as u64;
        if end > stream.send_limit {
            return Err(Code::OverCredit);
        }
        let offset = core::mem::replace(&mut stream.sent, end);
        Ok(Frame::Data(Data {
            stream: id,
            offset,
            bytes,
        }))
    }

    /// The frame that ends our half.
    ///
    /// # Errors
    /// [`Code::UnknownStream`] when the stream is gone or its half ended already.
    pub fn end(&mut self, id: u32) -> Result<Frame<'static>, Code> {
        let stream = self.sending(id)?;
        stream.send_ended = true;
        let offset = stream.sent;
        self.remove_if_done(id);
        Ok(Frame::End { stream: id, offset })
    }

    /// Gives a stream up; the caller tells the peer.
    pub fn reset(&mut self, id: u32) -> Option<u32> {
        let stream = self.table.remove(&id)?;
        self.forget(id);
        Some(stream.handle)
    }

    /// The application consumed bytes; gives the frame that announces credit when enough has gathered.
    ///
    /// # Errors
    /// [`Code::UnknownStream`], or [`Code::OverCredit`] when more was consumed than delivered.
    pub fn consumed(&mut self, id: u32, bytes: u32) -> Result<Option<Frame<'static>>, Code> {
        let stream = self.table.get_mut(&id).ok_or(Code::UnknownStream)?;
        let consumed = stream.consumed + u64::from(bytes);
        if consumed > stream.delivered {
            return Err(Code::OverCredit);
        }
        stream.consumed = consumed;
        let limit = consumed + STREAM_WINDOW;
        if stream.receive_ended || limit - stream.announced < ANNOUNCE_STEP {
            return Ok(None);
        }
        stream.announced = limit;
        Ok(Some(Frame::Credit { stream: id, limit }))
    }

    /// Takes bytes from the peer.
    ///
    /// # Errors
    /// [`Code::UnknownStream`], [`Code::PeerOverCredit`] or [`Code::BadStream`].
    pub fn data(&mut self, data: Data<'_>, sink: &mut impl FnMut(StreamEvent<'_>)) -> Result<(), Code> {
        let Some(stream) = self.table.get_mut(&data.stream) else {
            let Data {
                stream,
                offset,
                bytes,
            } = data;
            return self.hold_early(Early::Data {
                stream,
                offset,
                bytes: bytes.to_vec(),
            });
        };
        let end = data
            .offset
            .checked_add(data.bytes.len() as u64)
            .ok_or(Code::BadStream)?;
        if end > stream.announced {
            return Err(Code::PeerOverCredit);
        }
        if stream.length.is_some_and(|length| end > length) {
            return Err(Code::BadStream);
        }
        if data.offset != stream.delivered && self.early.is_none() {
            return Err(Code::BadStream);
        }
        if data.offset > stream.delivered {
            return stream.hold(data);
        }
        stream.deliver(data.offset, data.bytes, sink);
        while stream
            .held
            .first()
            .is_some_and(|(offset, _)| *offset <= stream.delivered)
        {
            let Some((offset, bytes)) = stream.held.pop_first() else {
                break;
            };
            stream.held_bytes -= bytes.len() as u64;
            stream.deliver(offset, &bytes, sink);
        }
        if stream.held_bytes > stream.announced - stream.delivered {
            return Err(Code::BadStream);
        }
        self.finish_receiving(data.stream, sink);
        Ok(())
    }

    /// Takes the end of the peer's half.
    ///
    /// # Errors
    /// [`Code::UnknownStream`] or [`Code::BadStream`].
    pub fn end_received(
        &mut self,
        id: u32,
        offset: u64,
        sink: &mut impl FnMut(StreamEvent<'_>),
    ) -> Result<(), Code> {
        let Some(stream) = self.table.get_mut(&id) else {
            return self.hold_early(Early::End { stream: id, offset });
        };
        let highest = stream
            .held
            .iter()
            .next_back()
            .map_or(stream.delivered, |(at, bytes)| at + bytes.len() as u64);
        let is_out_of_order = self.early.is_none() && offset != stream.delivered;
        if stream.length.is_some() || is_out_of_order || offset < highest || offset > stream.announced {
            return Err(Code::BadStream);
        }
        stream.length = Some(offset);
        self.finish_receiving(id, sink);
        Ok(())
    }

    /// Takes credit from the peer.
    pub fn credit_received(&mut self, id: u32, limit: u64, sink: &mut impl FnMut(StreamEvent<'_>)) {
        let Some(stream) = self.table.get_mut(&id) else {
            return;
        };
        // What exceeds 32 bits is given with later credit; a peer that grants the whole range gains nothing.
        let more = u32::try_from(limit.saturating_sub(stream.send_limit)).unwrap_or(u32::MAX);
        if more > 0 && !stream.send_ended {
            stream.send_limit += u64::from(more);
            sink(StreamEvent::Credit(stream.handle, more));
        }
    }

    fn sending(&mut self, id: u32) -> Result<&mut Stream, Code> {
        self.table
            .get_mut(&id)
            .filter(|stream| !stream.send_ended)
            .ok_or(Code::UnknownStream)
    }

    fn finish_receiving(&mut self, id: u32, sink: &mut impl FnMut(StreamEvent<'_>)) {
        let Some(stream) = self.table.get_mut(&id) else {
            return;
        };
        if !stream.receive_ended && stream.length == Some(stream.delivered) {
            stream.receive_ended = true;
            let (handle, is_done) = (stream.handle, stream.send_ended);
            sink(StreamEvent::End(handle));
            if is_done {
                sink(StreamEvent::Done(handle));
            }
            self.remove_if_done(id);
        }
    }

    fn remove_if_done(&mut self, id: u32) {
        if self
            .table
            .get(&id)
            .is_some_and(|stream| stream.send_ended && stream.receive_ended)
        {
            self.table.remove(&id);
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u32) {
        if self.is_ours(id) {
            self.opened -= 1;
        } else {
            self.accepted -= 1;
        }
    }

    fn is_ours(&self, id: u32) -> bool {
        id % 2 == self.next % 2
    }

    fn hold_early(&mut self, frame: Early) -> Result<(), Code> {
        let ours = self.is_ours(frame.stream());
        match &mut self.early {
            Some(early) if !ours => {
                if early.len() >= MAX_EARLY {
                    early.remove(0);
                }
                early.push(frame);
                Ok(())
            }
            _ => Err(Code::UnknownStream),
        }
    }
}

impl Stream {
    fn new(handle: u32) -> Self {
        Self {
            handle,
            sent: 0,
            send_limit: STREAM_WINDOW,
            send_ended: false,
            delivered: 0,
            consumed: 0,
            announced: STREAM_WINDOW,
            held: Map::new(),
            held_bytes: 0,
            length: None,
            receive_ended: false,
        }
    }

    /// Keeps a piece. Pieces that do not overlap fit into what is left of the window.
    fn hold(&mut self, data: Data<'_>) -> Result<(), Code> {
        let held_bytes = self.held_bytes + data.bytes.len() as u64;
        if self.held.len() >= MAX_HELD_PIECES
            || held_bytes > self.announced - self.delivered
            || self.held.contains_key(&data.offset)
        {
            return Err(Code::BadStream);
        }
        self.held.insert(data.offset, data.bytes.to_vec());
        self.held_bytes = held_bytes;
        Ok(())
    }

    fn unread_bytes(&self) -> u64 {
        self.delivered - self.consumed + self.held_bytes
    }

    /// Whether the peer may send nothing because the application has not consumed what came.
    fn is_held_back(&self) -> bool {
        !self.receive_ended && self.delivered == self.announced
    }

    fn deliver(&mut self, offset: u64, bytes: &[u8], sink: &mut impl FnMut(StreamEvent<'_>)) {
        let known = usize::try_from(self.delivered - offset).unwrap_or(usize::MAX);
        if let Some(fresh) = bytes.get(known..).filter(|fresh| !fresh.is_empty()) {
            self.delivered += fresh.len() as u64;
            sink(StreamEvent::Data(self.handle, fresh));
        }
    }
}

impl Early {
    fn len(&self) -> u64 {
        match self {
            Self::Data { bytes, .. } => bytes.len() as u64,
            Self::End { .. } => 0,
        }
    }

    fn stream(&self) -> u32 {
        match self {
            Self::Data { stream, .. } | Self::End { stream, .. } => *stream,
        }
    }
}
