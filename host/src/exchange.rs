//! One request and its answer on one stream.

use bytes::{Bytes, BytesMut};
use http::{Method, Response, StatusCode};
use selfsame_codec::Code;
use selfsame_codec::http::{MAX_HEAD, ResponseHead};
use tokio::sync::oneshot;

use crate::body::{AnyBody, Body, send_body};
use crate::error::Error;
use crate::length;
use crate::message::{has_no_body, response_of};
use crate::stream::{Inlet, OnDrop, Outlet, Stream};
use crate::task::Task;
use crate::upgrade::Upgraded;

/// Sends the body while the head of the answer is awaited; what is left of it is sent while the answer is read.
pub(crate) async fn exchange(
    stream: Stream,
    method: &Method,
    body: AnyBody,
) -> Result<Response<Body>, Error> {
    let Stream {
        mut outlet,
        mut inlet,
        ..
    } = stream;
    outlet.reset_with(Code::Cancelled);
    inlet.on_drop(OnDrop::Reset(Code::Cancelled));
    let (failed, failure) = oneshot::channel();
    let sending = Task::spawn(send(outlet, body, failed));
    let (response, first) = tokio::select! {
        // First: when the body fails the stream is reset, too.
        biased;
        Ok(error) = failure => return Err(error),
        answered = receive_head(&mut inlet) => answered?,
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        inlet.on_drop(OnDrop::Reset(Code::BadMessage));
        return Err(Error::from_code(Code::BadMessage));
    }
    body_of(response, method, first, inlet, Some(sending))
}

/// Sends nothing until the answer says whether the stream is a connection from now on.
pub(crate) async fn exchange_upgrade(stream: Stream) -> Result<Response<Body>, Error> {
    let Stream {
        mut outlet,
        mut inlet,
        ..
    } = stream;
    outlet.reset_with(Code::Cancelled);
    inlet.on_drop(OnDrop::Reset(Code::Cancelled));
    let (response, first) = receive_head(&mut inlet).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response.map(|()| Body::upgraded(Upgraded::new(first, inlet, outlet))));
    }
    outlet.end().await?;
    body_of(response, &Method::GET, first, inlet, None)
}

/// Reads an answer whose request was sent otherwise; `pulling` brings it, and ends with its body.
#[cfg(feature = "procedures")]
pub(crate) async fn answer_on(
    mut inlet: Inlet,
    method: &Method,
    pulling: Task,
) -> Result<Response<Body>, Error> {
    inlet.on_drop(OnDrop::Reset(Code::Cancelled));
    let (response, first) = receive_head(&mut inlet).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Error::from_code(Code::BadMessage));
    }
    body_of(response, method, first, inlet, Some(pulling))
}

/// Puts the body to the head of an answer.
fn body_of(
    response: Response<()>,
    method: &Method,
    first: Bytes,
    inlet: Inlet,
    upload: Option<Task>,
) -> Result<Response<Body>, Error> {
    if has_no_body(method, response.status()) {
        return Ok(response.map(|()| Body::empty()));
    }
    let length = length::declared(response.headers(), None)?;
    let body = Body::new(first, inlet, length, upload)?;
    Ok(response.map(|()| body))
}

async fn send(mut outlet: Outlet, body: AnyBody, failed: oneshot::Sender<Error>) {
    match send_body(&mut outlet, body).await {
        // A node that was stopped has failed the answer, too.
        Ok(()) => _ = outlet.end().await,
        Err(error @ Error::Body(_)) => {
            tracing::warn!(%error, "request is given up");
            // Whoever has the answer already learns it from that.
            _ = failed.send(error);
        }
        // What became of the stream is told with the answer.
        Err(_) => {}
    }
}

/// Reads the head of an answer; returns the bytes of the body that came with it.
async fn receive_head(inlet: &mut Inlet) -> Result<(Response<()>, Bytes), Error> {
    let malformed = |_| Error::from_code(Code::BadMessage);
    let mut bytes = BytesMut::new();
    loop {
        match inlet.next().await {
            Some(Ok(data)) => bytes.extend_from_slice(&data),
            // Bytes of an answer were seen, so the request is not sent again, whatever the cause.
            Some(Err(error)) if bytes.is_empty() => return Err(error),
            Some(Err(_)) | None => return Err(Error::from_code(Code::BadMessage)),
        }
        if let Some((head, len)) = ResponseHead::decode(&bytes).map_err(malformed)? {
            debug_assert!(len <= MAX_HEAD + 4, "the codec bounds a head");
            let response = response_of(&head).map_err(malformed)?;
            return Ok((response, bytes.split_off(len).freeze()));
        }
    }
}
