use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use bytes::{Buf, BufMut as _, Bytes, BytesMut};
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use selfsame_codec::{Class, Code};
use tokio::time::timeout;
use tower_service::Service;

use super::file::{self, FILE_TYPE};
use super::{MAX_CAPSULE_REQUEST, Place, Replica, Source};
use crate::capsule::CapsuleName;
use crate::capsule::peer::{CAPSULE_TYPE, NAME_AT};
use crate::capsule::request;
use crate::error::{BoxError, Error};
use crate::retry;

/// Time for a request to arrive, the longest at somewhat more than 1 Mbit/s; as long it may wait before for its source's share.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The body of a replica's answer: an export file is made while it is read
pub type ReplicaBody = UnsyncBoxBody<Bytes, BoxError>;

/// A tower service in front of a replica: `POST` of a request gives its response, `GET` of a capsule's name its export file, and
/// `POST` of such a file stores it
///
/// A request that is too long is refused before it is read whole, and waits while its source has 16 MiB of others under way; a file
/// may have any length. Of four files at a time two may be one source's. Whoever accepts JSON is told in words
/// why a request was refused as a whole.
#[derive(Clone, Debug)]
pub struct ReplicaService {
    replica: Replica,
    /// The one capsule that may be asked for.
    only: Option<CapsuleName>,
}

impl ReplicaService {
    pub(super) fn new(replica: Replica, only: Option<CapsuleName>) -> Self {
        Self { replica, only }
    }

    async fn answer<B>(self, request: Request<B>) -> Response<ReplicaBody>
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        let (head, body) = request.into_parts();
        let named = self.named(head.uri.path());
        let source = Source::of(&head.extensions);
        match (head.method, named) {
            (Method::POST, _) if is_file(&head.headers) && self.only.is_none() => {
                self.import(source, body).await
            }
            (Method::POST, _) => self.request(source, &head.headers, body).await,
            (Method::GET, Some(name)) => self.export(source, name).await,
            (_, Some(_)) => not_allowed("GET, POST"),
            (_, None) => not_allowed("POST"),
        }
    }

    /// The export file of a capsule.
    async fn export(self, source: Source, name: CapsuleName) -> Response<ReplicaBody> {
        match self.replica.files.take(source) {
            Some(place) => file::export(&self.replica, name, place).await,
            None => refusal(Code::TooManyRequests, None),
        }
    }

    /// Stores an export file.
    async fn import<B>(self, source: Source, body: B) -> Response<ReplicaBody>
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        match self.replica.files.take(source) {
            Some(_place) => file::import(&self.replica, source, body).await,
            None => refusal(Code::TooManyRequests, None),
        }
    }

    /// Answers a request.
    async fn request<B>(self, source: Source, headers: &HeaderMap, body: B) -> Response<ReplicaBody>
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        let (message, place) = match self.read(source, body).await {
            Ok(read) => read,
            Err(code) => return refusal(code, None),
        };
        if !self.may_ask(&message) {
            return refusal(Code::BadMessage, Some(NAME_AT as u64));
        }
        match self.replica.request_in(place, source, message).await {
            Ok(response) => respond(response, headers),
            Err(error) => problem_of(&error),
        }
    }

    /// Reads a request as far as its source's share and the memory for all requests go.
    async fn read<B>(&self, source: Source, body: B) -> Result<(Bytes, Place), Code>
    where
        B: http_body::Body<Error: Into<BoxError>>,
    {
        let size = body.size_hint();
        if size.lower() > MAX_CAPSULE_REQUEST as u64 {
            return Err(Code::TooLarge);
        }
        let announced = size.upper().and_then(|bytes| usize::try_from(bytes).ok());
        let most = announced.map_or(MAX_CAPSULE_REQUEST, |bytes| bytes.min(MAX_CAPSULE_REQUEST));
        let reserved = timeout(BODY_TIMEOUT, self.replica.room.reserve(source, most)).await;
        let place = reserved
            .map_err(|_| Code::TooManyRequests)?
            .ok_or(Code::Cancelled)?;
        let read = timeout(BODY_TIMEOUT, read_into(place, body)).await;
        read.unwrap_or(Err(Code::TimedOut))
    }

    /// The capsule whose file is meant: the one that there is here, or the one that the path ends with.
    fn named(&self, path: &str) -> Option<CapsuleName> {
        self.only.or_else(|| path.rsplit('/').next()?.parse().ok())
    }

    /// Under a capsule's name only requests for it are answered: who was sent there in good faith creates no others.
    fn may_ask(&self, message: &[u8]) -> bool {
        let asked = message.get(NAME_AT..).and_then(|rest| rest.first_chunk::<32>());
        self.only.is_none_or(|CapsuleName(only)| asked == Some(&only))
    }
}

impl<B> Service<Request<B>> for ReplicaService
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<ReplicaBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

/// Reads a request as far as the memory for all requests goes.
async fn read_into<B>(mut place: Place, body: B) -> Result<(Bytes, Place), Code>
where
    B: http_body::Body<Error: Into<BoxError>>,
{
    let mut body = core::pin::pin!(body);
    let mut message = Bytes::new();
    while let Some(frame) = body.frame().await {
        // Nobody is left to read the answer to what broke off.
        let frame = frame.map_err(|_| Code::BadMessage)?;
        // What is no data are trailers, of which a request has none.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if data.remaining() > MAX_CAPSULE_REQUEST - message.len() {
            return Err(Code::TooLarge);
        }
        if !place.grow(data.remaining()) {
            return Err(Code::TooManyRequests);
        }
        message = join(message, data);
    }
    place.shrink_to(message.len());
    Ok((message, place))
}

/// Appends a piece; the first is taken as it is.
fn join(message: Bytes, mut piece: impl Buf) -> Bytes {
    if message.is_empty() {
        return piece.copy_to_bytes(piece.remaining());
    }
    let mut joined = BytesMut::from(message);
    joined.put(piece);
    joined.freeze()
}

fn respond(response: Bytes, headers: &HeaderMap) -> Response<ReplicaBody> {
    let wants_words = headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("json"));
    if wants_words && let Err(refused) = request::results(&response) {
        return problem_of(&refused);
    }
    with_body(StatusCode::OK, CAPSULE_TYPE, full(response))
}

fn is_file(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind == FILE_TYPE)
}

/// What is asked of a path with another method than those that it has.
fn not_allowed(methods: &'static str) -> Response<ReplicaBody> {
    let mut response = problem(
        StatusCode::METHOD_NOT_ALLOWED,
        "BadMessage",
        "a replica of capsules takes requests and export files as POST, and gives the export file of a capsule as GET of \
         its name",
        None,
    );
    let allow = HeaderValue::from_static(methods);
    response.headers_mut().insert(ALLOW, allow);
    response
}

/// Tells what went wrong, and where if the error says so.
pub(super) fn problem_of(error: &Error) -> Response<ReplicaBody> {
    let code = match error {
        Error::Stopped => Code::Cancelled,
        _ => error.code().unwrap_or(Code::StoreFailed),
    };
    refusal(code, error.place())
}

fn refusal(code: Code, at: Option<u64>) -> Response<ReplicaBody> {
    let status = match (code, code.class()) {
        (Code::TooLarge, _) => StatusCode::PAYLOAD_TOO_LARGE,
        (Code::TimedOut, _) => StatusCode::REQUEST_TIMEOUT,
        (Code::NoCapsule, _) => StatusCode::NOT_FOUND,
        (Code::OwnerRefused, _) => StatusCode::FORBIDDEN,
        // A replica that stops is soon another one.
        (Code::Cancelled, _) => StatusCode::SERVICE_UNAVAILABLE,
        (_, Class::Malformed | Class::Misbehaved | Class::Usage) => StatusCode::BAD_REQUEST,
        // Only what may pass: a client that comes again would find the rest as it is.
        (_, Class::Limit | Class::Unreachable) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    problem(status, code.name(), code.text(), at)
}

/// Problem details (RFC 9457); no text in it needs an escape.
fn problem(status: StatusCode, error: &str, detail: &str, at: Option<u64>) -> Response<ReplicaBody> {
    let title = status.canonical_reason().unwrap_or_default();
    let at = at.map_or_else(String::new, |at| format!(",\"at\":{at}"));
    let number = status.as_u16();
    let text = format!(
        "{{\"title\":\"{title}\",\"status\":{number},\"detail\":\"{detail}\",\"error\":\"{error}\"{at}}}\n"
    );
    retry::soon(with_body(
        status,
        "application/problem+json",
        full(Bytes::from(text)),
    ))
}

/// A body that is known as a whole.
pub(super) fn full(bytes: Bytes) -> ReplicaBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn with_body(status: StatusCode, kind: &'static str, body: ReplicaBody) -> Response<ReplicaBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use http::header::RETRY_AFTER;

    use super::*;

    #[test]
    fn only_passing_refusals_have_retry_after() {
        for (code, status) in [
            (Code::TooManyRequests, 503),
            (Code::TooManyUnsigned, 503),
            (Code::Disconnected, 503),
            (Code::Cancelled, 503),
            (Code::OwnerRefused, 403),
            (Code::NoCapsule, 404),
            (Code::TooLarge, 413),
            (Code::StoreFailed, 500),
            (Code::StoreCorrupt, 500),
            (Code::StoreTooNew, 500),
            (Code::BadSignature, 400),
        ] {
            let refused = refusal(code, None);
            assert_eq!(refused.status(), status, "{code}");
            assert_eq!(
                refused.headers().contains_key(RETRY_AFTER),
                status == 503,
                "{code}"
            );
        }
    }
}
