//! A connection that fails when its peer takes no bytes for a while.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io::{self, ErrorKind};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection whose writes must get on
#[derive(Debug)]
pub(super) struct WriteDeadline<S> {
    io: S,
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S> WriteDeadline<S> {
    /// Lets a write stand still for this long.
    pub(super) fn new(io: S, patience: Duration) -> Self {
        Self {
            io,
            patience,
            timer: Box::pin(sleep(patience)),
            is_waiting: false,
        }
    }

    /// Passes on what came of a write, or fails when it has come to nothing for too long.
    fn in_time<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, bytes);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        self.in_time(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.io).poll_shutdown(context);
        self.in_time(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let (near, _far) = duplex(16);
        let mut near = WriteDeadline::new(near, Duration::from_millis(20));
        let error = near.write_all(&[0; 17]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_reads_gets_everything() {
        let (near, mut far) = duplex(16);
        let mut near = WriteDeadline::new(near, Duration::from_secs(60));
        let mut received = Vec::new();
        let send = async {
            near.write_all(&[7; 1000]).await.expect("it is read");
            near.shutdown().await.expect("it is read");
        };
        tokio::join!(send, async {
            far.read_to_end(&mut received).await.expect("bytes")
        });
        assert_eq!(received, [7; 1000]);
    }
}
