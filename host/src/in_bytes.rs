use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};

/// A body whose data are `Bytes`, and whose length is known as before
#[derive(Debug)]
pub(crate) struct InBytes<B>(Pin<Box<B>>);

impl<B: Body> InBytes<B> {
    pub(crate) fn new(body: B) -> Self {
        Self(Box::pin(body))
    }
}

impl<B: Body> Body for InBytes<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let bytes = |mut data: B::Data| data.copy_to_bytes(data.remaining());
        let polled = ready!(self.0.as_mut().poll_frame(context));
        Poll::Ready(polled.map(|frame| frame.map(|frame| frame.map_data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    #[tokio::test]
    async fn length_and_bytes_stay_as_they_are() {
        let body = InBytes::new(Full::new(&b"three"[..]));
        assert_eq!(body.size_hint().exact(), Some(5));
        assert!(!body.is_end_stream());
        assert_eq!(body.collect().await.expect("bytes").to_bytes(), "three");
        assert!(InBytes::new(Full::new(&b""[..])).is_end_stream());
    }
}
