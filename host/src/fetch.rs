//! Requests into the mesh.

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use selfsame_codec::http::{MAX_HEAD, ResponseHead};
use selfsame_codec::{Code, Input, Policy};
use tokio::task::AbortHandle;

use crate::body::Body;
use crate::error::Error;
use crate::handle::{Handle, Item};
use crate::message::{encode_request, has_no_body, name_of, response_of};
use crate::serve::{AnyBody, any_body, send_body};
use crate::stream::{Inlet, OnDrop, Outlet, Stream};

/// Most times that a request is sent, each time to another provider.
const ATTEMPTS: u32 = 3;
/// A body of at most this length is kept so that it can be sent again.
const MAX_KEPT: u64 = 64 * 1024;

/// A request without its body
struct Call<'a> {
    owner: &'a [u8],
    name: &'a str,
    method: &'a Method,
    head: &'a [u8],
}

/// The body of a request
enum Upload {
    /// Known as a whole: can be sent again.
    Kept(Bytes),
    /// Sent once as it comes.
    Streamed(AnyBody),
}

/// An attempt that came to nothing
struct Failure {
    error: Error,
    /// Whether the provider may have seen the request.
    may_have_arrived: bool,
}

/// Sends a request to a provider of its name, and to another one while nobody can have acted on it or acting twice
/// does no harm.
pub(crate) async fn fetch(
    driver: &Handle,
    owner: &[u8],
    request: Request<AnyBody>,
) -> Result<Response<Body>, Error> {
    let (head, body) = request.into_parts();
    let name = name_of(&head.uri)?.to_owned();
    if matches!(head.method, Method::GET | Method::HEAD) && !body.is_end_stream() {
        return Err(Error::Input(format!(
            "a {} has no body: use POST or PUT",
            head.method
        )));
    }
    let length = body.size_hint().exact().filter(|length| *length > 0);
    let encoded = encode_request(&head, length)?;
    let repeatable = matches!(
        head.method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
    );
    let mut upload = Some(keep(body).await?);
    let mut attempt = 1;
    let call = Call {
        owner,
        name: &name,
        method: &head.method,
        head: &encoded,
    };
    loop {
        let Failure {
            error,
            may_have_arrived,
        } = match try_fetch(driver, &call, &mut upload).await {
            Ok(response) => return Ok(response),
            Err(failure) => failure,
        };
        let may_repeat = upload.is_some() && (repeatable || !may_have_arrived);
        if attempt == ATTEMPTS || !error.is_unreachable() || !may_repeat {
            return Err(error);
        }
        tracing::debug!(name, attempt, %error, "request is tried again");
        attempt += 1;
    }
}

async fn keep(body: AnyBody) -> Result<Upload, Error> {
    if body.size_hint().upper().is_some_and(|most| most <= MAX_KEPT) {
        return Ok(Upload::Kept(
            body.collect().await.map_err(Error::Body)?.to_bytes(),
        ));
    }
    Ok(Upload::Streamed(body))
}

async fn try_fetch(
    driver: &Handle,
    call: &Call<'_>,
    upload: &mut Option<Upload>,
) -> Result<Response<Body>, Failure> {
    let Call {
        owner,
        name,
        method,
        head,
    } = *call;
    let opened = driver
        .open(|tag| {
            Item::new(&Input::Call {
                tag,
                owner,
                name,
                key: &[],
                tried: &[],
                policy: Policy::PowerOfTwo,
                timeout_ms: 0,
                head,
            })
        })
        .await;
    let stream = opened.map_err(|error| Failure {
        error,
        may_have_arrived: false,
    })?;
    let Stream {
        mut outlet,
        mut inlet,
    } = stream;
    outlet.reset_with(Code::Cancelled);
    inlet.on_drop(OnDrop::Reset);
    let body = match upload.take() {
        Some(Upload::Kept(bytes)) => {
            *upload = Some(Upload::Kept(bytes.clone()));
            any_body(Full::new(bytes))
        }
        Some(Upload::Streamed(body)) => body,
        None => any_body(Body::empty()),
    };
    let sending = AbortOnDrop(Some(tokio::spawn(send(outlet, body)).abort_handle()));
    let answered = receive_head(&mut inlet).await;
    let (head, first) = answered.map_err(|error| Failure {
        error,
        may_have_arrived: true,
    })?;
    let malformed = |_| Failure {
        error: Error::from_code(Code::BadMessage),
        may_have_arrived: true,
    };
    let response = response_of(&head).map_err(malformed)?;
    if has_no_body(method, response.status()) {
        return Ok(response.map(|()| Body::empty()));
    }
    Ok(response.map(|()| Body::new(first, inlet, sending.keep())))
}

async fn send(mut outlet: Outlet, body: AnyBody) {
    match send_body(&mut outlet, body).await {
        // A node that was stopped has failed the answer, too.
        Ok(()) => _ = outlet.end().await,
        // What became of the stream is told with the answer; what became of the body only here.
        Err(error @ Error::Body(_)) => tracing::warn!(%error, "request is given up"),
        Err(_) => {}
    }
}

/// Reads the head of an answer; returns the bytes of the body that came with it.
async fn receive_head(inlet: &mut Inlet) -> Result<(ResponseHead, Bytes), Error> {
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
            return Ok((head, bytes.split_off(len).freeze()));
        }
    }
}

/// Ends the sending of a request that nobody waits for
struct AbortOnDrop(Option<AbortHandle>);

impl AbortOnDrop {
    fn keep(mut self) -> Option<AbortHandle> {
        self.0.take()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
