//! A service that answers as each request says, and tells what arrived.

extern crate alloc;

use alloc::sync::Arc;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use selfsame_host::{Body, BoxError, Caller};
use tower::Service;

use crate::wire::{AnyBody, Arrived, Reply, body_of, bytes_of, fields_of, headers_of, text_of};

/// The header that says which reply a request is for
const REPLY: &str = "x-reply";
/// The header that names a run of a case
const RUN: &str = "x-run";
/// Where the service tells what arrived in a run
const ARRIVED: &str = "/arrived/";

/// What arrived, by the run
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Mutex<HashMap<String, Arrived>>>);

impl Probe {
    pub(crate) fn service(
        self,
    ) -> impl Service<
        Request<Body>,
        Response = Response<AnyBody>,
        Error = BoxError,
        Future = impl Future<Output = Result<Response<AnyBody>, BoxError>> + Send,
    > + Clone
    + Send
    + 'static {
        tower::service_fn(move |request| {
            let probe = self.clone();
            async move { probe.answer(request).await }
        })
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<AnyBody>, BoxError> {
        let (head, body) = request.into_parts();
        if let Some(run) = head.uri.path().strip_prefix(ARRIVED) {
            return self.tell(run);
        }
        let caller = head.extensions.get::<Caller>().ok_or("nobody called")?;
        let path = head.uri.path_and_query().map_or("", |path| path.as_str());
        let arrived = Arrived {
            method: head.method.to_string(),
            path: path.to_owned(),
            headers: fields_of(&head.headers),
            body: text_of(&body.collect().await?.to_bytes()),
            caller: caller.peer.to_string(),
        };
        let run = text(&head.headers, RUN);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(run, arrived);
        drop(all);
        reply(&head.headers)
    }

    fn tell(&self, run: &str) -> Result<Response<AnyBody>, BoxError> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let json = serde_json::to_vec(&all.get(run))?;
        let body = Full::new(Bytes::from(json)).map_err(|never| match never {});
        Ok(Response::new(body.boxed_unsync()))
    }
}

fn text(headers: &HeaderMap, name: &str) -> String {
    headers
        .get(name)
        .map(|value| text_of(value.as_bytes()))
        .unwrap_or_default()
}

fn reply(headers: &HeaderMap) -> Result<Response<AnyBody>, BoxError> {
    let reply = match headers.get(REPLY) {
        Some(value) => serde_json::from_slice(value.as_bytes())?,
        None => Reply {
            status: 200,
            headers: Vec::new(),
            body: None,
            is_stream: false,
        },
    };
    // What a body of the reply holds is checked before any of it is sent.
    bytes_of(reply.body.as_deref().unwrap_or_default())?;
    let mut response = Response::new(body_of(reply.body.as_deref(), reply.is_stream));
    *response.status_mut() = reply.status.try_into()?;
    *response.headers_mut() = headers_of(&reply.headers)?;
    Ok(response)
}
