//! A program's connection, on which it is noticed that the program is gone.
//!
//! A program may end its direction once its request is sent and wait for the answer (RFC 9112, section 9.6). One that
//! closes the whole connection looks the same until it is sent something, which its system answers with a reset.

use alloc::sync::Arc;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io::{self, IoSlice};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::time::sleep;

/// How long an answer may pause that goes to a program which has ended its own direction: longer, and the program counts
/// as gone. An answer that has not begun has the deadline of its call.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The end of a connection that HTTP reads and writes
pub(super) struct Socket {
    watched: Arc<Watched>,
    writer: OwnedWriteHalf,
}

/// The end of a connection at which the program's leaving is noticed
pub(super) struct Watched {
    reader: OwnedReadHalf,
    /// Whether the answer to the last request has begun.
    has_begun: AtomicBool,
    /// What had arrived was read.
    read: Notify,
    /// An answer has begun or gone on.
    answered: Notify,
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> (Self, Arc<Watched>) {
        let (reader, writer) = stream.into_split();
        let watched = Arc::new(Watched {
            reader,
            has_begun: AtomicBool::new(true),
            read: Notify::new(),
            answered: Notify::new(),
        });
        let socket = Self {
            watched: Arc::clone(&watched),
            writer,
        };
        (socket, watched)
    }
}

impl Watched {
    /// Says whether the answer to the last request has begun.
    pub(super) fn set_begun(&self, has_begun: bool) {
        self.has_begun.store(has_begun, Ordering::Relaxed);
        self.answered.notify_one();
    }

    fn stream(&self) -> &TcpStream {
        self.reader.as_ref()
    }

    /// Completes when nobody is at the other end.
    pub(super) async fn gone(&self) {
        if self.ended().await.is_err() {
            return;
        }
        loop {
            tokio::select! {
                _ = self.stream().ready(Interest::ERROR) => return,
                () = self.answered.notified() => {}
                () = sleep(LONGEST_PAUSE), if self.has_begun.load(Ordering::Relaxed) => return,
            }
        }
    }

    /// Completes when the program has ended its direction, or broken the connection.
    async fn ended(&self) -> io::Result<()> {
        while self.stream().peek(&mut [0]).await? > 0 {
            self.read.notified().await;
        }
        Ok(())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.watched.stream();
        loop {
            ready!(stream.poll_read_ready(context))?;
            match stream.try_read(buffer.initialize_unfilled()) {
                Ok(len) => {
                    buffer.advance(len);
                    self.watched.read.notify_one();
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.watched.answered.notify_one();
        Pin::new(&mut self.writer).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.watched.answered.notify_one();
        Pin::new(&mut self.writer).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}
