use core::pin::{Pin, pin};
use core::task::{Context, Poll, ready};
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use selfsame_codec::Code;
use tokio::time::timeout;

use crate::error::{BoxError, Error};
use crate::in_bytes::InBytes;
use crate::stream::{Inlet, Outlet};
use crate::task::Task;
use crate::upgrade::Upgraded;

/// The body of a request or an answer that came through the mesh
///
/// Its bytes arrive as they are read: a slow reader slows the sender down. A body that is longer or shorter than the
/// `content-length` of its head ends with an error. Dropping the body of an answer before its end gives up the request.
#[derive(Debug, Default)]
pub struct Body {
    /// Bytes that arrived and are not given to the reader yet.
    arrived: Bytes,
    rest: Option<Inlet>,
    /// Bytes of `rest` that are still due, where the head declares a length.
    due: Option<u64>,
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

    /// A body whose first bytes are here; `length` is what the head declares.
    pub(crate) fn new(
        first: Bytes,
        rest: Inlet,
        length: Option<u64>,
        upload: Option<Task>,
    ) -> Result<Self, Error> {
        let len = first.len();
        let mut body = Self {
            arrived: first,
            rest: Some(rest),
            due: length,
            _upload: upload,
            upgraded: None,
        };
        match body.count(len) {
            Ok(()) => Ok(body),
            Err(error) => Err(body.broken(error)),
        }
    }

    /// Counts bytes that arrive against the length that the head declares.
    fn count(&mut self, len: usize) -> Result<(), Error> {
        if let Some(due) = &mut self.due {
            *due = due.checked_sub(len as u64).ok_or_else(too_long)?;
        }
        Ok(())
    }

    /// Whether the last bytes are here, but not yet the end that says that there are no more: a reader that stops at
    /// the declared length would not notice others.
    fn holds_last(&self) -> bool {
        self.due == Some(0) && self.rest.as_ref().is_some_and(|rest| !rest.is_done())
    }

    /// Ends the body with an error, and tells the peer that it broke the rules.
    fn broken(&mut self, error: Error) -> Error {
        self.arrived = Bytes::new();
        if let Some(rest) = self.rest.take() {
            rest.reset(Code::BadMessage);
        }
        error
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
            arrived: bytes,
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
        loop {
            if !self.arrived.is_empty() && !self.holds_last() {
                let arrived = core::mem::take(&mut self.arrived);
                return Poll::Ready(Some(Ok(Frame::data(arrived))));
            }
            let Some(rest) = &mut self.rest else {
                return Poll::Ready(None);
            };
            if rest.is_done() {
                return Poll::Ready(None);
            }
            match ready!(rest.poll_next(context)) {
                Some(Ok(data)) => match self.count(data.len()) {
                    Ok(()) => self.arrived = data,
                    Err(error) => return Poll::Ready(Some(Err(self.broken(error)))),
                },
                Some(Err(error)) => {
                    self.arrived = Bytes::new();
                    return Poll::Ready(Some(Err(error)));
                }
                None if self.due.is_some_and(|due| due > 0) => {
                    return Poll::Ready(Some(Err(self.broken(too_short()))));
                }
                None => {}
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.arrived.is_empty() && self.rest.as_ref().is_none_or(Inlet::is_done)
    }

    fn size_hint(&self) -> SizeHint {
        let arrived = self.arrived.len() as u64;
        match (&self.rest, self.due) {
            (Some(rest), Some(due)) if !rest.is_done() => SizeHint::with_exact(arrived + due),
            (Some(rest), None) if !rest.is_done() => SizeHint::default(),
            _ => SizeHint::with_exact(arrived),
        }
    }
}

fn too_long() -> Error {
    Error::core(
        Code::BadMessage.as_u16(),
        "the body is longer than its content-length",
    )
}

fn too_short() -> Error {
    Error::core(
        Code::BadMessage.as_u16(),
        "the body is shorter than its content-length",
    )
}

/// How long the head of an answer waits for its body.
const HOLD: Duration = Duration::from_millis(10);
/// An answer up to this size is sent as a whole if all of it is there in time: one frame of the channel.
const MAX_WHOLE: usize = 16 * 1024;

/// Any body
pub(crate) type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// Erases the type of a body.
pub(crate) fn any_body<B>(body: B) -> AnyBody
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    InBytes::new(body).map_err(Into::into).boxed_unsync()
}

/// Sends an answer. A short one travels whole: whoever provides it may be gone the next moment, and a caller who has not
/// seen its head can ask another.
pub(crate) async fn send_answer(mut outlet: Outlet, head: Bytes, mut body: AnyBody) -> Result<(), Error> {
    let mut held = BytesMut::from(head);
    let gathered = timeout(HOLD, gather(&mut held, &mut body)).await;
    if let Ok(Ok(None)) = gathered {
        return outlet.finish(held.freeze()).await;
    }
    outlet.send(held.freeze()).await?;
    if let Ok(gathered) = gathered {
        outlet.send(gathered?.unwrap_or_default()).await?;
    }
    send_body(&mut outlet, body).await?;
    outlet.end().await
}

/// Takes what fits of a body; `None` when that was all, else the first bytes that did not fit.
async fn gather(held: &mut BytesMut, body: &mut AnyBody) -> Result<Option<Bytes>, Error> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(Error::Body)?.into_data() {
            if held.len() + data.len() > MAX_WHOLE {
                return Ok(Some(data));
            }
            held.extend_from_slice(&data);
        }
    }
    Ok(None)
}

/// Sends the bytes of a body as the peer takes them, until the stream is gone. Trailers are not carried.
pub(crate) async fn send_body(outlet: &mut Outlet, mut body: AnyBody) -> Result<(), Error> {
    let mut gone = pin!(outlet.gone());
    loop {
        // A body that has nothing to send for hours must not outlive the peer's interest.
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            cause = &mut gone => return Err(cause.into()),
        };
        let Some(frame) = frame else {
            return Ok(());
        };
        if let Ok(data) = frame.map_err(Error::Body)?.into_data() {
            outlet.send(data).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;
    use crate::id::PeerId;
    use crate::stream::{StreamInput, StreamKey, StreamQueues, queues, stream};

    const CREDIT: usize = 256 * 1024;

    /// An end to send at, and what the driver gets of it.
    fn outlet() -> (Outlet, StreamQueues) {
        let (sender, inputs) = queues();
        let key = StreamKey { stream: 1, serial: 1 };
        let (entry, stream) = stream(key, PeerId([0; 32]), &sender);
        entry.credit.add_permits(CREDIT);
        (stream.outlet, inputs)
    }

    fn body_of(pieces: Vec<Vec<u8>>) -> AnyBody {
        let frames = pieces
            .into_iter()
            .map(|piece| Ok::<_, BoxError>(Frame::data(Bytes::from(piece))));
        any_body(StreamBody::new(futures_util::stream::iter(frames)))
    }

    /// What was sent: lengths, and whether the end came with the last bytes.
    fn sent(mut queues: StreamQueues) -> (Vec<usize>, bool) {
        let (mut lengths, mut is_whole) = (Vec::new(), false);
        while let Ok(input) = queues.inputs.try_recv() {
            match input {
                StreamInput::Data { data, .. } => lengths.push(data.len()),
                StreamInput::Last { data, .. } => {
                    lengths.push(data.len());
                    is_whole = true;
                }
                StreamInput::End { .. } => {}
            }
        }
        (lengths, is_whole)
    }

    #[tokio::test]
    async fn a_short_answer_is_sent_with_its_end() {
        let (outlet, queues) = outlet();
        let body = body_of(vec![vec![1; 10], vec![2; 20]]);
        send_answer(outlet, Bytes::from_static(b"head"), body)
            .await
            .expect("sent");
        assert_eq!(sent(queues), (vec![34], true));
    }

    #[tokio::test]
    async fn a_long_answer_is_sent_as_it_comes() {
        let (outlet, queues) = outlet();
        let body = body_of(vec![vec![1; 10], vec![2; MAX_WHOLE], vec![3; 5]]);
        send_answer(outlet, Bytes::from_static(b"head"), body)
            .await
            .expect("sent");
        assert_eq!(sent(queues), (vec![14, MAX_WHOLE, 5], false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_does_not_wait_for_a_slow_body() {
        let (outlet, mut queues) = outlet();
        let never = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
        let answering = tokio::spawn(send_answer(
            outlet,
            Bytes::from_static(b"head"),
            any_body(StreamBody::new(never)),
        ));
        let first = queues.inputs.recv().await;
        assert!(matches!(first, Some(StreamInput::Data { data, .. }) if data == "head"));
        answering.abort();
    }

    #[tokio::test]
    async fn what_was_held_of_a_body_that_fails_is_sent() {
        let (outlet, queues) = outlet();
        let frames = [
            Ok(Frame::data(Bytes::from_static(b"half"))),
            Err(BoxError::from("the disk is full")),
        ];
        let body = any_body(StreamBody::new(futures_util::stream::iter(frames)));
        let error = send_answer(outlet, Bytes::from_static(b"head"), body)
            .await
            .expect_err("it fails");
        assert!(matches!(error, Error::Body(_)), "{error}");
        assert_eq!(sent(queues), (vec![8], false));
    }
}
