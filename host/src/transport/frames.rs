//! Frames in the body of an exchange and on a TCP connection: each after its `u32` length.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::MAX_FRAME;

/// Memory for reading; a frame that is larger gets more as it arrives.
const BUFFER: usize = 16 * 1024;

/// Appends a frame.
pub(crate) fn write_frame(frame: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(frame.len()).expect("a frame is shorter than 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(frame);
}

/// A frame is longer than any may be
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Takes frames out of bytes that arrive in pieces
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    buffer: BytesMut,
}

impl FrameReader {
    /// Adds a piece.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Adds what a connection has, at least one byte; how many there were, 0 at its end. May be dropped and called
    /// again.
    pub(crate) async fn read_from(&mut self, io: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.buffer.reserve(BUFFER);
        io.read_buf(&mut self.buffer).await
    }

    /// The next whole frame.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Bytes>, TooLong> {
        let Some(len) = self.buffer.first_chunk::<4>() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(*len) as usize;
        if len > MAX_FRAME {
            return Err(TooLong);
        }
        if self.buffer.len() < 4 + len {
            return Ok(None);
        }
        self.buffer.advance(4);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }

    /// Whether every byte belonged to a whole frame.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_however_they_are_cut() {
        let mut bytes = Vec::new();
        for frame in [&b""[..], b"one", &[7; MAX_FRAME]] {
            write_frame(frame, &mut bytes);
        }
        for piece in [1, 3, 1000, bytes.len()] {
            let mut reader = FrameReader::default();
            let mut lengths = Vec::new();
            for chunk in bytes.chunks(piece) {
                reader.push(chunk);
                while let Some(frame) = reader.next_frame().expect("frames within the limit") {
                    lengths.push(frame.len());
                }
            }
            assert_eq!(lengths, [0, 3, MAX_FRAME], "in pieces of {piece}");
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_the_bytes_arrive() {
        let mut reader = FrameReader::default();
        reader.push(&65_537_u32.to_le_bytes());
        assert_eq!(reader.next_frame(), Err(TooLong));
    }

    #[test]
    fn a_frame_that_was_cut_short_is_no_frame() {
        let mut reader = FrameReader::default();
        reader.push(&[3, 0, 0, 0, 1, 2]);
        assert_eq!(reader.next_frame(), Ok(None));
        assert!(!reader.is_empty());
    }
}
