//! Requests from the mesh, each given to the handler of its name.

use alloc::sync::Arc;
use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::Full;
use selfsame_codec::Code;
use tokio::runtime::Handle as Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tower_service::Service;

use crate::body::{AnyBody, Body, any_body, send_answer, send_body};
use crate::caller::{Assurance, Caller};
use crate::connection::{Handled, carry, handle};
use crate::error::{BoxError, Error};
use crate::length;
use crate::message::{decode_request, encode_response, has_no_body, is_bodiless};
use crate::observe::{self, Served, Watcher};
use crate::options::{Allow, Gated, ServeOptions};
use crate::routed::Routing;
use crate::stream::{Inlet, Outlet, Stream};
use crate::upgrade::{self, Upgraded};
use crate::uploads::Uploads;

/// Requests that are served at once; more are refused, and their callers try another provider.
const MAX_REQUESTS: usize = 4096;
/// With fewer places left than this, requests whose bodies do not come give way.
const FEW_PLACES: usize = MAX_REQUESTS / 8;
/// How long a handler outlives its name: longer than the core lets calls of a withdrawn name in, which is as long as
/// callers use the providers that they know.
const LINGER: Duration = Duration::from_secs(60);

type Answered = Pin<Box<dyn Future<Output = Result<Response<AnyBody>, BoxError>> + Send>>;
type Handler = Arc<dyn Fn(Request<Body>) -> Answered + Send + Sync>;

/// A stream from a peer that nobody has taken yet
pub(crate) struct Incoming {
    pub(crate) stream: Stream,
    pub(crate) service: String,
    pub(crate) head: Bytes,
    pub(crate) assurance: Assurance,
}

/// The handlers of a node
pub(crate) struct Services {
    offers: RwLock<HashMap<String, Offer>>,
    places: Arc<Semaphore>,
    uploads: Arc<Uploads>,
    /// Whether the requests that are under way are given up; each of them follows it.
    given_up: watch::Sender<bool>,
    watcher: Watcher,
    pub(crate) routing: Routing,
}

/// Who answers the requests for a name, and whose
#[derive(Clone)]
pub(crate) struct Offer {
    version: String,
    allow: Allow,
    handler: Handler,
}

impl Services {
    pub(crate) fn new(watcher: Watcher) -> Arc<Self> {
        Arc::new(Self {
            offers: RwLock::default(),
            places: Arc::new(Semaphore::new(MAX_REQUESTS)),
            uploads: Arc::default(),
            given_up: watch::Sender::new(false),
            watcher,
            routing: Routing::default(),
        })
    }

    /// Sets the handler of a name; returns the one that it replaces.
    pub(crate) fn insert<S, B>(&self, name: &str, options: &ServeOptions, service: S) -> Option<Offer>
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        self.set(name, Some(Offer::new(options, service)))
    }

    /// Sets who answers the requests for a name, or that nobody does; returns who did.
    pub(crate) fn set(&self, name: &str, offer: Option<Offer>) -> Option<Offer> {
        // Nothing panics between two changes of the table.
        let mut offers = self.offers.write().unwrap_or_else(PoisonError::into_inner);
        match offer {
            Some(offer) => offers.insert(name.into(), offer),
            None => offers.remove(name),
        }
    }

    /// Drops the handler of a name that was withdrawn once nobody can send to it any more, unless the name is served
    /// again by then.
    pub(crate) fn retire(self: &Arc<Self>, name: &str) {
        let Some(retired) = self.of(name) else {
            return;
        };
        let (handler, services) = (Arc::downgrade(&retired.handler), Arc::downgrade(self));
        let name = name.to_owned();
        tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            if let Some(services) = services.upgrade()
                && let Some(offer) = services.of(&name)
                && handler.ptr_eq(&Arc::downgrade(&offer.handler))
            {
                services.set(&name, None);
            }
        });
    }

    fn of(&self, name: &str) -> Option<Offer> {
        let offers = self.offers.read().unwrap_or_else(PoisonError::into_inner);
        offers.get(name).cloned()
    }

    /// Serves a stream in a task of its own.
    pub(crate) fn accept(&self, runtime: &Runtime, mut incoming: Incoming) {
        if self.places.available_permits() < FEW_PLACES {
            self.uploads.end_slow(Instant::now());
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            // The stream is reset as it is dropped.
            return incoming.stream.outlet.reset_with(Code::TooManyRequests);
        };
        let Some(offer) = self.of(&incoming.service) else {
            return incoming.stream.outlet.reset_with(Code::NoService);
        };
        let watcher = self.watcher.clone();
        let uploads = Arc::clone(&self.uploads);
        let mut given_up = self.given_up.subscribe();
        runtime.spawn(async move {
            let _place = place;
            tokio::select! {
                () = serve(offer, incoming, &watcher, &uploads) => {}
                // The stream is reset as it is dropped.
                Ok(_) = given_up.wait_for(|given_up| *given_up) => {}
            }
        });
    }

    /// Completes when no request is under way.
    pub(crate) async fn idle(&self) {
        self.given_up.closed().await;
    }

    /// Ends the requests that are under way, and those that still come.
    pub(crate) fn give_up(&self) {
        self.given_up.send_replace(true);
    }
}

/// Serves a stream.
pub(crate) async fn serve(offer: Offer, incoming: Incoming, watcher: &Watcher, uploads: &Arc<Uploads>) {
    let Incoming {
        stream: Stream {
            peer,
            mut outlet,
            inlet,
        },
        service,
        head,
        assurance,
    } = incoming;
    let Ok(request) = decode_request(&service, &head) else {
        tracing::debug!(%peer, service, "the head of a request does not decode");
        return outlet.reset_with(Code::BadMessage);
    };
    let (mut head, ()) = request.into_parts();
    head.extensions.insert(Caller { peer, assurance });
    let observed = watcher.serve(&mut head, &Served::new(&service, &offer.version, peer));
    let request = Request::from_parts(head, ());
    outlet.reset_with(Code::HandlerFailed);
    let work = async {
        if upgrade::is_asked(request.method(), request.headers()) {
            return serve_upgrade(offer, &service, request, outlet, inlet, &observed).await;
        }
        let upload = uploads.begin(inlet.progress(), Instant::now());
        tokio::select! {
            served = serve_request(offer, &service, request, outlet, inlet, &observed) => served,
            () = upload.ended() => Err(Error::from_code(Code::TooManyRequests)),
        }
    };
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(status)) => observed.answered(status),
        Ok(Err(Error::Core { code, .. })) => {
            observed.failed(code);
            tracing::debug!(%peer, service, %code, "caller is gone");
        }
        Ok(Err(error)) => tracing::error!(%peer, service, %error, "handler failed"),
        Err(panic) => {
            tracing::error!(%peer, service, said = said_by(panic.as_ref()), "handler panicked");
        }
    }
}

async fn serve_request(
    offer: Offer,
    name: &str,
    request: Request<()>,
    outlet: Outlet,
    inlet: Inlet,
    observed: &observe::Serve,
) -> Result<StatusCode, Error> {
    let method = request.method().clone();
    let request = request_with(request, inlet)?;
    let gone = outlet.gone();
    let response = tokio::select! {
        response = observed.within(offer.respond(name, request)) => response,
        // Nobody waits for the answer any more: the handler stops where it is.
        cause = gone => return Err(cause.into()),
    };
    answer(outlet, &method, response).await
}

/// Puts the body to the head of a request.
fn request_with(request: Request<()>, inlet: Inlet) -> Result<Request<Body>, Error> {
    if is_bodiless(request.method()) {
        // What arrives in place of a body is granted and forgotten.
        return Ok(request.map(|()| Body::empty()));
    }
    let length = length::declared(request.headers(), None)?;
    let body = Body::new(Bytes::new(), inlet, length, None)?;
    Ok(request.map(|()| body))
}

/// Serves a request that asks for a WebSocket; the handler may answer with anything else as well.
async fn serve_upgrade(
    offer: Offer,
    name: &str,
    request: Request<()>,
    mut outlet: Outlet,
    inlet: Inlet,
    observed: &observe::Serve,
) -> Result<StatusCode, Error> {
    let gone = outlet.gone();
    let served: Arc<str> = name.into();
    let within = observed.clone();
    let handler = move |request| {
        let (offer, name) = (offer.clone(), Arc::clone(&served));
        within.within(async move { offer.respond(&name, request).await })
    };
    let exchanged = tokio::select! {
        exchanged = handle(request, handler) => exchanged,
        cause = gone => return Err(cause.into()),
    };
    // The tasks end with this function.
    let Handled {
        response,
        tasks: _tasks,
    } = exchanged.map_err(Error::Body)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return answer(outlet, &Method::GET, response.map(any_body)).await;
    }
    let (head, body) = response.into_parts();
    outlet.send(encode_response(&head, None)?.into()).await?;
    let mesh = Upgraded::new(Bytes::new(), inlet, outlet);
    let carried = carry(mesh, Response::from_parts(head, body)).await;
    if let Err(error) = carried {
        tracing::debug!(name, error, "a connection broke");
    }
    Ok(StatusCode::SWITCHING_PROTOCOLS)
}

impl Offer {
    pub(crate) fn new<S, B>(options: &ServeOptions, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let service = Mutex::new(service);
        let handler: Handler = Arc::new(move |request| {
            // A clone for each request, so that one that is not ready does not block the others.
            let mut service = service.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Box::pin(async move {
                core::future::poll_fn(|context| service.poll_ready(context))
                    .await
                    .map_err(Into::into)?;
                let response = service.call(request).await.map_err(Into::into)?;
                Ok(response.map(any_body))
            })
        });
        Self {
            version: options.version_name().to_owned(),
            allow: options.access(),
            handler,
        }
    }

    /// Answers a request whose caller is known.
    #[cfg(feature = "procedures")]
    pub(crate) async fn answer(&self, request: Request<Body>) -> Result<Response<AnyBody>, BoxError> {
        (self.handler)(request).await
    }

    /// The answer to a request, whatever the handler does.
    async fn respond(&self, name: &str, mut request: Request<Body>) -> Response<AnyBody> {
        let Some(caller) = request.extensions().get::<Caller>().copied() else {
            return problem(StatusCode::FORBIDDEN);
        };
        let peer = caller.peer;
        if !self.allow.permits(&caller) {
            tracing::warn!(%peer, service = name, "caller is not allowed");
            return problem(StatusCode::FORBIDDEN);
        }
        if !self.allow.is_everyone() {
            request.extensions_mut().insert(Gated);
        }
        let answered = AssertUnwindSafe(async { (self.handler)(request).await }).catch_unwind();
        match answered.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                tracing::error!(%peer, service = name, error, "handler failed");
                problem(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Err(panic) => {
                let said = said_by(panic.as_ref());
                tracing::error!(%peer, service = name, said, "handler panicked");
                problem(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

/// What a panic said.
fn said_by(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or_default()
}

/// An answer in place of the handler's; why it is given is for the log.
fn problem(status: StatusCode) -> Response<AnyBody> {
    let title = status.canonical_reason().unwrap_or_default();
    let text = format!("{{\"title\":\"{title}\",\"status\":{}}}\n", status.as_u16());
    let mut response = Response::new(any_body(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

async fn answer(
    mut outlet: Outlet,
    method: &Method,
    response: Response<AnyBody>,
) -> Result<StatusCode, Error> {
    let mut status = response.status();
    let (head, body) = match encode(method, response) {
        Ok(encoded) => encoded,
        Err(error) => {
            tracing::error!(%error, "handler failed");
            status = StatusCode::INTERNAL_SERVER_ERROR;
            encode(method, problem(status))?
        }
    };
    match body {
        None => outlet.finish(head.into()).await?,
        Some(body) if *method == Method::GET => send_answer(outlet, head.into(), body).await?,
        // Whoever sends a body may wait for the head before going on with it.
        Some(body) => {
            outlet.send(head.into()).await?;
            send_body(&mut outlet, body).await?;
            outlet.end().await?;
        }
    }
    Ok(status)
}

/// The encoded head of an answer, and its body if it has one.
fn encode(method: &Method, response: Response<AnyBody>) -> Result<(Vec<u8>, Option<AnyBody>), Error> {
    let (head, body) = response.into_parts();
    if head.status.is_informational() {
        return Err(Error::Input(format!(
            "an answer of status {} to a request that asked for no upgrade",
            head.status
        )));
    }
    if has_no_body(method, head.status) {
        // A length tells what the answer to a GET would have.
        length::declared(&head.headers, None)?;
        return Ok((encode_response(&head, None)?, None));
    }
    let known = body.size_hint().exact();
    let declared = length::declared(&head.headers, known)?;
    let head = encode_response(&head, known)?;
    Ok((head, Some(length::held_to(declared, body))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::PeerId;
    use crate::inbox::Delivery;
    use crate::stream::{StreamKey, queues, stream};

    fn offer(services: &Services, name: &str) {
        let service =
            tower::service_fn(async |_: Request<Body>| Ok::<_, BoxError>(Response::new(Body::empty())));
        services.insert(name, &ServeOptions::default(), service);
    }

    #[test]
    fn what_arrives_in_place_of_a_body_is_dropped() {
        for (method, is_dropped) in [(Method::GET, true), (Method::HEAD, true), (Method::DELETE, false)] {
            let (sender, _driver) = queues();
            let key = StreamKey { stream: 1, serial: 1 };
            let (entry, stream) = stream(key, PeerId([0; 32]), &sender);
            entry.deliver(Delivery::Data(Bytes::from_static(b"smuggled")));
            let request = Request::builder().method(&method).body(()).expect("a request");
            let request = request_with(request, stream.inlet).expect("a request");
            assert_eq!(request.body().is_end_stream(), is_dropped, "{method}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_handler_of_a_withdrawn_name_stays_for_those_who_cannot_know_yet() {
        let services = Services::new(Watcher::default());
        offer(&services, "hello");
        services.retire("hello");
        tokio::time::sleep(LINGER / 2).await;
        assert!(services.of("hello").is_some());
        tokio::time::sleep(LINGER).await;
        assert!(services.of("hello").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_is_served_again_keeps_its_new_handler() {
        let services = Services::new(Watcher::default());
        offer(&services, "hello");
        services.retire("hello");
        tokio::time::sleep(LINGER / 2).await;
        offer(&services, "hello");
        tokio::time::sleep(LINGER).await;
        assert!(services.of("hello").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_ended_keeps_no_handler_for_its_withdrawn_names() {
        let services = Services::new(Watcher::default());
        offer(&services, "hello");
        services.retire("hello");
        let handler = services.of("hello").map(|offer| Arc::downgrade(&offer.handler));
        drop(services);
        assert!(handler.expect("a handler").upgrade().is_none());
    }
}
