use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::task::AbortHandle;

use crate::error::Error;
use crate::stream::Inlet;

/// The body of a request or an answer that came through the mesh
///
/// Its bytes arrive as they are read: a slow reader slows the sender down. Dropping the body of an answer before its
/// end gives up the request.
#[derive(Debug, Default)]
pub struct Body {
    /// Bytes that arrived together with the head.
    first: Bytes,
    rest: Option<Inlet>,
    /// The task that still sends the request; it is of no use once the answer is over.
    upload: Option<AbortHandle>,
}

impl Body {
    /// A body without bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    pub(crate) fn new(first: Bytes, rest: Inlet, upload: Option<AbortHandle>) -> Self {
        Self {
            first,
            rest: Some(rest),
            upload,
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self {
            first: bytes,
            rest: None,
            upload: None,
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if !self.first.is_empty() {
            let first = core::mem::take(&mut self.first);
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(rest) = &mut self.rest else {
            return Poll::Ready(None);
        };
        rest.poll_next(context)
            .map(|next| next.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.as_ref().is_none_or(Inlet::is_done)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            Some(rest) if !rest.is_done() => SizeHint::default(),
            _ => SizeHint::with_exact(self.first.len() as u64),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(upload) = &self.upload {
            upload.abort();
        }
    }
}
