use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

use crate::error::{BoxError, Error};
use crate::in_bytes::InBytes;
use crate::stream::{Inlet, Outlet};
use crate::task::Task;
use crate::upgrade::Upgraded;

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
    _upload: Option<Task>,
    /// What follows an answer of status 101, in place of a body.
    upgraded: Option<Upgraded>,
}

impl Body {
    /// A body without bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    pub(crate) fn new(first: Bytes, rest: Inlet, upload: Option<Task>) -> Self {
        Self {
            first,
            rest: Some(rest),
            _upload: upload,
            upgraded: None,
        }
    }

    pub(crate) fn upgraded(upgraded: Upgraded) -> Self {
        Self {
            upgraded: Some(upgraded),
            ..Self::default()
        }
    }

    /// The connection that an answer of status 101 (Switching Protocols) leads to; `None` for any other.
    #[must_use]
    pub fn into_upgraded(mut self) -> Option<Upgraded> {
        self.upgraded.take()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self {
            first: bytes,
            ..Self::default()
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

/// Any body
pub(crate) type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// Erases the type of a body.
pub(crate) fn any_body<B>(body: B) -> AnyBody
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    InBytes::new(body).map_err(Into::into).boxed_unsync()
}

/// Sends the bytes of a body as the peer takes them. Trailers are not carried.
pub(crate) async fn send_body(outlet: &mut Outlet, mut body: AnyBody) -> Result<(), Error> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(Error::Body)?.into_data() {
            outlet.send(data).await?;
        }
    }
    Ok(())
}
