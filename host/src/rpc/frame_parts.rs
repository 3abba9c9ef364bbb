//! Long frames of a WebSocket in parts: a reader of frames has memory for the whole frame that is announced, and keeps it as long as the
//! socket lives, where one of messages gives it away with each message.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, BufReader, ReadBuf};

use super::http_service::MAX_BODY_BYTES;

/// Longest part, with a length of two bytes; the mask, four bytes that repeat, begins anew with each.
const PART_BYTES: u64 = 32 * 1024;
/// Memory for what has arrived and was not read.
const BUFFER_BYTES: usize = 8 * 1024;
/// Longest head of a frame (RFC 6455, section 5.2).
const MAX_HEAD: usize = 14;
const MASK_BYTES: usize = 4;
/// The end of a head of HTTP.
const HEAD_END: [u8; 4] = *b"\r\n\r\n";
const LAST: u8 = 0x80;
const KIND: u8 = 0x0f;
/// Kinds from here on are of control frames, which are short.
const CONTROL: u8 = 8;
const MASKED: u8 = 0x80;

/// A connection from which frames come in parts.
pub(super) struct FrameParts<S> {
    io: BufReader<S>,
    /// The part of a head that was read.
    head: Vec<u8>,
    /// The head of a part that is to be given, after what was given of it.
    given: Vec<u8>,
    frame: Option<Frame>,
    /// Bytes that were read of what ends the head of HTTP before the frames.
    ended: usize,
}

/// A frame whose head was read.
struct Frame {
    first: u8,
    mask: Option<[u8; MASK_BYTES]>,
    /// Bytes of the frame after this part.
    left_bytes: u64,
    part_bytes: u64,
}

impl<S: AsyncRead> FrameParts<S> {
    pub(super) fn new(io: S) -> Self {
        Self {
            io: BufReader::with_capacity(BUFFER_BYTES, io),
            head: Vec::new(),
            given: Vec::new(),
            frame: None,
            ended: HEAD_END.len(),
        }
    }

    /// A connection of a client, whose frames begin after the head of an answer.
    pub(super) fn after_head(io: S) -> Self {
        Self {
            ended: 0,
            ..Self::new(io)
        }
    }
}

impl<S: AsyncRead + Unpin> FrameParts<S> {
    /// Passes on what is before the frames.
    fn poll_opening(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut io = Pin::new(&mut self.io);
        let arrived = ready!(io.as_mut().poll_fill_buf(context))?;
        let mut len = 0;
        for byte in arrived.iter().take(buffer.remaining()) {
            len += 1;
            let begins = usize::from(*byte == HEAD_END[0]);
            self.ended = if *byte == HEAD_END[self.ended] {
                self.ended + 1
            } else {
                begins
            };
            if self.ended == HEAD_END.len() {
                break;
            }
        }
        buffer.put_slice(&arrived[..len]);
        io.consume(len);
        Poll::Ready(Ok(()))
    }

    /// Reads a head; whether there is one.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            let missing = head_bytes(&self.head) - self.head.len();
            if missing == 0 {
                self.begin();
                return Poll::Ready(Ok(true));
            }
            let mut io = Pin::new(&mut self.io);
            let arrived = ready!(io.as_mut().poll_fill_buf(context))?;
            let len = missing.min(arrived.len());
            self.head.extend_from_slice(&arrived[..len]);
            io.consume(len);
            if len == 0 {
                return Poll::Ready(Ok(false));
            }
        }
    }

    /// Begins with the frame whose head was read.
    fn begin(&mut self) {
        let head = core::mem::take(&mut self.head);
        let len = payload_bytes(&head);
        let is_long = len > PART_BYTES && len <= MAX_BODY_BYTES as u64 && head[0] & KIND < CONTROL;
        let mask = (head[1] & MASKED != 0)
            .then(|| head.last_chunk().copied())
            .flatten();
        let mut frame = Frame {
            first: head[0],
            mask,
            left_bytes: len,
            part_bytes: 0,
        };
        if is_long {
            self.given = frame.next_part();
        } else {
            // As it came.
            (frame.part_bytes, frame.left_bytes) = (len, 0);
            self.given = head;
        }
        self.frame = Some(frame);
    }
}

impl Frame {
    /// Begins with the next part; its head.
    fn next_part(&mut self) -> Vec<u8> {
        self.part_bytes = self.left_bytes.min(PART_BYTES);
        self.left_bytes -= self.part_bytes;
        let last = if self.left_bytes == 0 {
            self.first & LAST
        } else {
            0
        };
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        let mut head = vec![self.first & !LAST | last, masked | 126];
        // A part has fewer bytes than this counts.
        head.extend_from_slice(&(self.part_bytes as u16).to_be_bytes());
        head.extend(self.mask.into_iter().flatten());
        // What follows continues it.
        self.first &= LAST;
        head
    }
}

/// Returns how long a head is, as far as its beginning tells.
fn head_bytes(head: &[u8]) -> usize {
    let Some(&second) = head.get(1) else { return 2 };
    let length = match second & !MASKED {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mask = if second & MASKED != 0 { MASK_BYTES } else { 0 };
    debug_assert!(2 + length + mask <= MAX_HEAD);
    2 + length + mask
}

fn payload_bytes(head: &[u8]) -> u64 {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    match head[1] & !MASKED {
        126 => number(&head[2..4]),
        127 => number(&head[2..10]),
        short => short.into(),
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FrameParts<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.ended < HEAD_END.len() {
            return this.poll_opening(context, buffer);
        }
        loop {
            if !this.given.is_empty() {
                let len = this.given.len().min(buffer.remaining());
                buffer.put_slice(&this.given[..len]);
                this.given.drain(..len);
                return Poll::Ready(Ok(()));
            }
            match &mut this.frame {
                Some(frame) if frame.part_bytes > 0 => {
                    let mut io = Pin::new(&mut this.io);
                    let arrived = ready!(io.as_mut().poll_fill_buf(context))?;
                    let most = usize::try_from(frame.part_bytes).unwrap_or(usize::MAX);
                    let len = arrived.len().min(buffer.remaining()).min(most);
                    buffer.put_slice(&arrived[..len]);
                    io.consume(len);
                    frame.part_bytes -= len as u64;
                    return Poll::Ready(Ok(()));
                }
                Some(frame) if frame.left_bytes > 0 => this.given = frame.next_part(),
                _ => {
                    this.frame = None;
                    if !ready!(this.poll_head(context))? {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for FrameParts<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// A frame with a payload that tells its place.
    fn frame(first: u8, len: usize, mask: &[u8]) -> Vec<u8> {
        let masked = if mask.is_empty() { 0 } else { MASKED };
        let mut frame = match len {
            0..126 => vec![first, masked | len as u8],
            126..0x1_0000 => vec![first, masked | 126, (len >> 8) as u8, len as u8],
            _ => [&[first, masked | 127][..], &(len as u64).to_be_bytes()].concat(),
        };
        frame.extend_from_slice(mask);
        frame.extend((0..len).map(|at| (at * 7 + (at >> 8)) as u8));
        frame
    }

    /// First bytes, masks and payloads of frames.
    fn read(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>, Vec<u8>)> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let head_len = head_bytes(bytes);
            let (head, rest) = bytes.split_at(head_len);
            let (payload, rest) = rest.split_at(payload_bytes(head) as usize);
            let mask = if head[1] & MASKED == 0 {
                &[]
            } else {
                &head[head_len - 4..]
            };
            frames.push((head[0], mask.to_vec(), payload.to_vec()));
            bytes = rest;
        }
        frames
    }

    async fn through(bytes: &[u8]) -> Vec<u8> {
        let mut given = Vec::new();
        let mut parts = FrameParts::new(bytes);
        parts.read_to_end(&mut given).await.expect("bytes");
        given
    }

    #[tokio::test]
    async fn short_frames_and_those_that_are_too_long_come_as_they_are() {
        for len in [0, 1, 125, 126, 0x7fff, 0x8000, MAX_BODY_BYTES + 1] {
            for mask in [&[][..], &[1, 2, 3, 4]] {
                let frames = [frame(0x82, len, mask), frame(0x89, 3, mask)].concat();
                assert!(through(&frames).await == frames, "{len} bytes");
            }
        }
    }

    #[tokio::test]
    async fn long_frames_come_in_parts_that_are_the_same_message() {
        for len in [0x8001, 0x1_0000, 100_000, 1_000_000] {
            for mask in [&[][..], &[1, 2, 3, 4]] {
                for first in [0x82, 0x02, 0x80, 0xc1] {
                    let sent = frame(first, len, mask);
                    let given = through(&[&sent[..], &frame(0x89, 3, mask)].concat()).await;
                    let mut parts = read(&given);
                    assert_eq!(parts.pop().expect("a ping").0, 0x89);
                    let last = parts.len() - 1;
                    for (at, (begin, masked, payload)) in parts.iter().enumerate() {
                        let kind = if at == 0 { first & !LAST } else { 0 };
                        let is_last = if at == last { first & LAST } else { 0 };
                        assert_eq!((*begin, &masked[..]), (kind | is_last, mask));
                        assert!(payload.len() <= PART_BYTES as usize);
                        assert!(at == last || payload.len() % MASK_BYTES == 0);
                    }
                    let payload: Vec<u8> = parts.into_iter().flat_map(|(_, _, part)| part).collect();
                    assert!(payload == read(&sent)[0].2);
                }
            }
        }
    }

    #[tokio::test]
    async fn frames_begin_after_the_head_of_an_answer() {
        let head = b"HTTP/1.1 101 Switching Protocols\r\na: \r\r\n\r\r\nb: c\r\n\r\n";
        let frames = frame(0x82, 100_000, &[]);
        let mut given = Vec::new();
        let bytes = [&head[..], &frames].concat();
        let mut parts = FrameParts::after_head(&bytes[..]);
        parts.read_to_end(&mut given).await.expect("bytes");
        assert!(given.starts_with(head));
        assert!(given[head.len()..] == through(&frames).await);
    }

    #[tokio::test]
    async fn frames_that_break_off_end_where_they_do() {
        let whole = frame(0x82, 100_000, &[1, 2, 3, 4]);
        for len in [1, 2, 13, 14, 50_000] {
            let given = through(&whole[..len]).await;
            assert!(given.len() >= len.saturating_sub(14), "{len} bytes");
        }
    }
}
