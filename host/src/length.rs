//! Lengths that heads declare, and bodies that keep to them.

use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap};
use http_body::{Body, Frame, SizeHint};

use crate::body::{AnyBody, any_body};
use crate::error::{BoxError, Error};

/// Digits of a length that every host can count to.
const MAX_DIGITS: usize = 15;

/// Returns the length that a head declares.
///
/// # Errors
/// [`Error::Input`] when it is not one number, or differs from the length that is known of the body.
pub(crate) fn declared(headers: &HeaderMap, known: Option<u64>) -> Result<Option<u64>, Error> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let wrong = |why: &str| Err(Error::Input(format!("content-length: {value:?}: {why}")));
    if values.next().is_some() {
        return wrong("a message has one length, and this one has several");
    }
    let text = value.to_str().unwrap_or_default();
    let is_number = (1..=MAX_DIGITS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse().ok().filter(|_| is_number) {
        None => wrong("a length is a number of bytes, of at most 15 digits"),
        Some(length) if known.is_some_and(|known| known != length) => wrong("the body has another length"),
        length => Ok(length),
    }
}

/// Lets a body fail that has another length than its head declares.
pub(crate) fn held_to(length: Option<u64>, body: AnyBody) -> AnyBody {
    match length {
        Some(left) if body.size_hint().exact().is_none() => any_body(Exact { body, left }),
        _ => body,
    }
}

/// A body that fails unless it has the length that its head declares
struct Exact {
    body: AnyBody,
    left: u64,
}

impl Body for Exact {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let len = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len) as u64,
            Some(Err(_)) => return Poll::Ready(frame),
            None if self.left > 0 => {
                self.left = 0;
                return Poll::Ready(Some(Err("it is shorter than its content-length".into())));
            }
            None => 0,
        };
        let Some(left) = self.left.checked_sub(len) else {
            return Poll::Ready(Some(Err("it is longer than its content-length".into())));
        };
        self.left = left;
        Poll::Ready(frame)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
