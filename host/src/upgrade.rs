//! WebSocket through the mesh: which requests ask for it, and the connection that a stream becomes.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io;

use bytes::{Buf as _, Bytes};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Method};
use selfsame_codec::Code;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::Error;
use crate::stream::{Inlet, OnDrop, Outlet};

/// Most bytes that are taken in one go: a chunk of a stream.
const MAX_TAKEN: usize = 16 * 1024;

/// Whether a request asks for a WebSocket.
pub(crate) fn is_asked(method: &Method, headers: &HeaderMap) -> bool {
    let mut protocols = headers
        .get_all(UPGRADE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    method == Method::GET && protocols.any(|protocol| protocol.trim().eq_ignore_ascii_case("websocket"))
}

/// Sets the fields of one hop that stand in every request for a WebSocket, and in the answer that accepts it.
pub(crate) fn set_headers(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// The connection that an answer of status 101 leads to: bytes both ways, of the protocol that the request asked for
///
/// Dropped before both ways have ended it breaks the connection.
pub struct Upgraded {
    /// Bytes that arrived and were not read yet.
    arrived: Bytes,
    inlet: Inlet,
    sending: Sending,
}

type Sent = Pin<Box<dyn Future<Output = Result<Option<Outlet>, Error>> + Send>>;

/// What the connection's own direction does
enum Sending {
    Nothing(Outlet),
    /// Bytes, or the end; there is no outlet after that.
    Something(Sent),
    Ended,
}

impl Upgraded {
    pub(crate) fn new(first: Bytes, mut inlet: Inlet, mut outlet: Outlet) -> Self {
        inlet.on_drop(OnDrop::Reset(Code::StreamRefused));
        outlet.reset_with(Code::StreamRefused);
        Self {
            arrived: first,
            inlet,
            sending: Sending::Nothing(outlet),
        }
    }

    /// Waits until nothing is being sent; the outlet, unless the direction has ended.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Outlet>>> {
        let outlet = match core::mem::replace(&mut self.sending, Sending::Ended) {
            Sending::Nothing(outlet) => Some(outlet),
            Sending::Something(mut sent) => match sent.as_mut().poll(context) {
                Poll::Ready(outlet) => outlet.map_err(broken)?,
                Poll::Pending => {
                    self.sending = Sending::Something(sent);
                    return Poll::Pending;
                }
            },
            Sending::Ended => None,
        };
        Poll::Ready(Ok(outlet))
    }
}

impl core::fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.arrived.is_empty() {
            match ready!(self.inlet.poll_next(context)) {
                Some(Ok(data)) => self.arrived = data,
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let len = buffer.remaining().min(self.arrived.len());
        buffer.put_slice(&self.arrived[..len]);
        self.arrived.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(mut outlet) = ready!(self.poll_idle(context))? else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let len = bytes.len().min(MAX_TAKEN);
        let data = Bytes::copy_from_slice(&bytes[..len]);
        self.sending = Sending::Something(Box::pin(async move {
            outlet.send(data).await?;
            Ok(Some(outlet))
        }));
        // Begins at once; what remains is done by the next write or flush.
        match self.poll_idle(context) {
            Poll::Ready(Ok(Some(outlet))) => self.sending = Sending::Nothing(outlet),
            Poll::Ready(Ok(None)) | Poll::Pending => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
        }
        Poll::Ready(Ok(len))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(outlet) = ready!(self.poll_idle(context))? {
            self.sending = Sending::Nothing(outlet);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(outlet) = ready!(self.poll_idle(context))? {
            self.sending = Sending::Something(Box::pin(async move {
                outlet.end().await?;
                Ok(None)
            }));
        }
        Poll::Ready(Ok(()))
    }
}

fn broken(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}
