//! Requests into the mesh.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, request};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use selfsame_codec::{Class, Code, Input};
use tokio::time::{Instant, timeout_at};

use crate::body::{AnyBody, Body, any_body};
use crate::error::{Error, Tried};
use crate::exchange::{exchange, exchange_upgrade};
use crate::handle::{Handle, Item};
use crate::id::PeerId;
use crate::length;
use crate::message::{encode_request, is_bodiless, name_of};
use crate::observe::{self, Watcher};
use crate::options::FetchOptions;
use crate::stream::Stream;
use crate::upgrade;

/// Most times that a request is sent, each time to another provider.
const ATTEMPTS: usize = 3;
/// A body of at most this length is kept so that it can be sent again.
const MAX_KEPT: u64 = 64 * 1024;

/// Who answered; an extension of every answer
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Callee {
    /// The provider's id.
    pub peer: PeerId,
}

/// A request that is under way
struct Call<'a> {
    driver: &'a Handle,
    owner: &'a [u8],
    name: String,
    method: Method,
    head: Vec<u8>,
    asks_for_upgrade: bool,
    options: FetchOptions,
    deadline: Instant,
}

/// The body of a request
enum Upload {
    /// Known as a whole: can be sent again.
    Kept(Bytes),
    /// Sent once as it comes; `None` when it was.
    Streamed(Option<AnyBody>),
}

/// An attempt that came to nothing
struct Failure {
    /// Who may have seen the request.
    peer: Option<PeerId>,
    error: Error,
}

/// Sends a request to a provider of its name, and to another one while nobody can have acted on it or acting twice
/// does no harm.
pub(crate) async fn fetch(
    driver: &Handle,
    watcher: &Watcher,
    owner: &[u8],
    options: FetchOptions,
    request: Request<AnyBody>,
) -> Result<Response<Body>, Error> {
    let (mut head, body) = request.into_parts();
    let name = name_of(&head.uri)?;
    if is_bodiless(&head.method) && !body.is_end_stream() {
        return Err(Error::Input(format!(
            "a {} has no body: use POST or PUT",
            head.method
        )));
    }
    let known = body.size_hint().exact();
    let declared = length::declared(&head.headers, known)?;
    let body = length::held_to(declared, body);
    // Servers of HTTP/1.1 expect a length of these methods (RFC 9110, section 8.6).
    let is_expected = matches!(head.method, Method::POST | Method::PUT);
    let length = known.filter(|length| *length > 0 || is_expected);
    let mut observed = watcher.call(&mut head, &name);
    let fetched = send(driver, owner, options, (head, name, length, body), &mut observed).await;
    observed.ended(fetched.as_ref().map(Response::status));
    fetched
}

/// Sends a request that makes sense.
async fn send(
    driver: &Handle,
    owner: &[u8],
    options: FetchOptions,
    (head, name, length, body): (request::Parts, String, Option<u64>, AnyBody),
    observed: &mut observe::Call,
) -> Result<Response<Body>, Error> {
    let call = Call {
        driver,
        owner,
        name,
        head: encode_request(&head, length)?,
        asks_for_upgrade: upgrade::is_asked(&head.method, &head.headers),
        method: head.method,
        deadline: Instant::now() + options.longest(),
        options,
    };
    // A body that is kept but does not come holds nothing up for longer than an answer that does not.
    let upload = timeout_at(call.deadline, Upload::keep(body)).await;
    let upload = upload.unwrap_or_else(|_| Err(Error::from_code(Code::Deadline)))?;
    call.run(upload, observed).await
}

impl Call<'_> {
    async fn run(self, mut upload: Upload, observed: &mut observe::Call) -> Result<Response<Body>, Error> {
        let mut history = History::default();
        let mut failed = None;
        loop {
            let failure = match self.attempt(&history, &mut upload, observed).await {
                Ok((peer, response)) if speaks_against_provider(response.status()) => {
                    history.note(peer, Code::HandlerFailed);
                    if self.options.one_peer().is_some() || !self.may_repeat(&history, &upload) {
                        return Ok(response);
                    }
                    failed = Some(response);
                    continue;
                }
                Ok((_, response)) => return Ok(response),
                Err(failure) => failure,
            };
            if !self.goes_on(&failure, &mut history, &upload) {
                let tried = history.tried;
                return failed.ok_or_else(|| failure.error.of_request(&self.name, tried));
            }
            tracing::debug!(name = self.name, error = %failure.error, "request is tried again");
        }
    }

    /// Notes a failure; whether the request is sent again after it.
    fn goes_on(&self, failure: &Failure, history: &mut History, upload: &Upload) -> bool {
        let Some(peer) = failure.peer else {
            return history.forgives() && self.may_repeat(history, upload);
        };
        let Some(code) = failure.error.code() else {
            return false;
        };
        history.note(peer, code);
        let is_elsewhere = self.options.one_peer().is_none() || was_lost(code);
        is_elsewhere && is_worth_another(code) && self.may_repeat(history, upload)
    }

    /// Whether the request may be sent once more after those that it went to.
    fn may_repeat(&self, history: &History, upload: &Upload) -> bool {
        let is_idempotent = matches!(
            self.method,
            Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
        );
        self.options.may_repeat() && is_idempotent && upload.is_kept() && history.tried.len() < ATTEMPTS
    }

    /// Sends the request to a provider that was not tried; gives its id with the answer.
    async fn attempt(
        &self,
        history: &History,
        upload: &mut Upload,
        observed: &mut observe::Call,
    ) -> Result<(PeerId, Response<Body>), Failure> {
        let opened = self.open(history).await;
        let stream = opened.map_err(|error| Failure { peer: None, error })?;
        let peer = stream.peer;
        observed.attempt(peer);
        let exchanged = if self.asks_for_upgrade {
            exchange_upgrade(stream).await
        } else {
            exchange(stream, &self.method, upload.body()).await
        };
        let mut response = exchanged.map_err(|error| Failure {
            peer: Some(peer),
            error,
        })?;
        response.extensions_mut().insert(Callee { peer });
        Ok((peer, response))
    }

    async fn open(&self, history: &History) -> Result<Stream, Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // Nothing would be the core's own time-out.
        let timeout_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1);
        let tried = history.avoided();
        let (owner, name, head) = (self.owner, &self.name, &self.head);
        let input = |tag| match self.options.one_peer() {
            Some(PeerId(peer)) => Item::new(&Input::CallPeer {
                tag,
                peer,
                owner,
                name,
                timeout_ms,
                head,
            }),
            None => Item::new(&Input::Call {
                tag,
                owner,
                name,
                key: self.options.sticky_key(),
                tried: &tried,
                policy: self.options.choice(),
                timeout_ms,
                head,
            }),
        };
        self.driver.open(input).await
    }
}

/// Whether the connection to a provider ended or fell silent.
fn was_lost(code: Code) -> bool {
    matches!(code, Code::Disconnected | Code::TimedOut)
}

/// Where a request went, and what became of it there
#[derive(Default)]
struct History {
    tried: Vec<Tried>,
    /// Whether providers whose connection was lost may be asked once more.
    is_forgiving: bool,
}

impl History {
    fn note(&mut self, peer: PeerId, code: Code) {
        self.tried.push(Tried { peer, code });
    }

    /// Nobody else takes the request: a provider whose connection was lost may be reached over another one, once.
    fn forgives(&mut self) -> bool {
        let was_forgiving = core::mem::replace(&mut self.is_forgiving, true);
        !was_forgiving && self.tried.iter().any(|tried| was_lost(tried.code))
    }

    /// The ids of those that are not to be asked again.
    fn avoided(&self) -> Vec<u8> {
        let is_avoided = |tried: &&Tried| !self.is_forgiving || !was_lost(tried.code);
        let avoided = self.tried.iter().filter(is_avoided);
        avoided.flat_map(|tried| tried.peer.0).collect()
    }
}

impl Upload {
    async fn keep(body: AnyBody) -> Result<Self, Error> {
        if body.size_hint().upper().is_some_and(|most| most <= MAX_KEPT) {
            let bytes = body.collect().await.map_err(Error::Body)?.to_bytes();
            return Ok(Self::Kept(bytes));
        }
        Ok(Self::Streamed(Some(body)))
    }

    fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }

    /// What is sent this time.
    fn body(&mut self) -> AnyBody {
        match self {
            Self::Kept(bytes) => any_body(Full::new(bytes.clone())),
            Self::Streamed(body) => body.take().unwrap_or_else(|| any_body(Body::empty())),
        }
    }
}

/// Whether an answer says that its provider cannot answer now, so that another one may.
fn speaks_against_provider(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Whether another provider may answer where one failed so.
fn is_worth_another(code: Code) -> bool {
    code != Code::Deadline && matches!(code.class(), Class::Unreachable | Class::Limit | Class::Service)
}
