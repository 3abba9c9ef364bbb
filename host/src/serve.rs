//! Requests from the mesh, each given to the handler of its name.

use alloc::sync::Arc;
use core::pin::Pin;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use selfsame_codec::Code;
use tokio::runtime::Handle as Runtime;
use tokio::sync::Semaphore;
use tower_service::Service;

use crate::body::Body;
use crate::error::{BoxError, Error};
use crate::in_bytes::InBytes;
use crate::keys::PeerId;
use crate::message::{decode_request, encode_response, has_no_body};
use crate::stream::{Outlet, Stream};

/// Requests that are served at once; more are refused, and their callers try another provider.
const MAX_REQUESTS: usize = 4096;

/// Who sent a request; an extension of every request that a handler gets
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caller {
    /// The caller's id.
    pub peer: PeerId,
    /// How sure that is.
    pub assurance: Assurance,
}

/// How sure a caller's identity is
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Assurance {
    /// The caller proved it in a handshake.
    Session,
}

/// Any body
pub(crate) type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

type Answered = Pin<Box<dyn Future<Output = Result<Response<AnyBody>, BoxError>> + Send>>;
type Handler = Arc<dyn Fn(Request<Body>) -> Answered + Send + Sync>;

/// A stream from a peer that nobody has taken yet
pub(crate) struct Incoming {
    pub(crate) stream: Stream,
    pub(crate) peer: PeerId,
    pub(crate) service: String,
    pub(crate) head: Bytes,
}

/// The handlers of a node
pub(crate) struct Services {
    handlers: RwLock<HashMap<String, Handler>>,
    places: Arc<Semaphore>,
}

impl Services {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            handlers: RwLock::default(),
            places: Arc::new(Semaphore::new(MAX_REQUESTS)),
        })
    }

    /// Sets the handler of a name, in place of an old one.
    pub(crate) fn insert<S, B>(&self, name: &str, service: S)
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
        // Nothing panics between two changes of the table.
        self.handlers
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.into(), handler);
    }

    /// Takes the handler of a name away.
    pub(crate) fn remove(&self, name: &str) {
        self.handlers
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    /// Serves a stream in a task of its own.
    pub(crate) fn accept(&self, runtime: &Runtime, mut incoming: Incoming) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            // The stream is reset as it is dropped.
            return incoming.stream.outlet.reset_with(Code::TooManyRequests);
        };
        let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner);
        let Some(handler) = handlers.get(&incoming.service).cloned() else {
            return incoming.stream.outlet.reset_with(Code::NoService);
        };
        runtime.spawn(async move {
            let _place = place;
            serve(handler, incoming).await;
        });
    }
}

/// Erases the type of a body.
pub(crate) fn any_body<B>(body: B) -> AnyBody
where
    B: http_body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    InBytes::new(body).map_err(Into::into).boxed_unsync()
}

async fn serve(handler: Handler, incoming: Incoming) {
    let Incoming {
        stream: Stream { mut outlet, inlet },
        peer,
        service,
        head,
    } = incoming;
    let Ok(request) = decode_request(&service, &head) else {
        tracing::debug!(%peer, service, "the head of a request does not decode");
        return outlet.reset_with(Code::BadMessage);
    };
    let method = request.method().clone();
    let mut request = request.map(|()| Body::new(Bytes::new(), inlet, None));
    request.extensions_mut().insert(Caller {
        peer,
        assurance: Assurance::Session,
    });
    outlet.reset_with(Code::HandlerFailed);
    let gone = outlet.gone();
    let response = tokio::select! {
        response = handler(request) => response,
        // Nobody waits for the answer any more: the handler stops where it is.
        _ = gone => return,
    };
    let answered = match response {
        Ok(response) => answer(outlet, &method, response).await,
        Err(error) => Err(Error::Body(error)),
    };
    match answered {
        Ok(()) => {}
        Err(Error::Core { code, .. }) if code != Code::TooLarge => {
            tracing::debug!(%peer, service, %code, "caller is gone");
        }
        Err(error) => tracing::error!(%peer, service, %error, "handler failed"),
    }
}

async fn answer(mut outlet: Outlet, method: &Method, response: Response<AnyBody>) -> Result<(), Error> {
    let (head, body) = response.into_parts();
    if has_no_body(method, head.status) {
        outlet.send(encode_response(&head, None)?.into()).await?;
        return outlet.end().await;
    }
    outlet
        .send(encode_response(&head, body.size_hint().exact())?.into())
        .await?;
    send_body(&mut outlet, body).await?;
    outlet.end().await
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
