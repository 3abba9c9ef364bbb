use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use alloc::sync::Arc;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, request};
use selfsame_codec::Code;

use crate::body::{AnyBody, Body};
use crate::error::Error;
use crate::id::PeerId;

/// The node that an observer follows
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ObservedNode<'a> {
    #[cfg_attr(
        not(feature = "telemetry"),
        expect(dead_code, reason = "only telemetry tells")
    )]
    pub(crate) unobserved: Option<&'a Unobserved>,
    /// Its id.
    pub id: PeerId,
    /// Name of its network.
    pub network: &'a str,
    /// Label of what fails together with it; may be empty.
    pub domain: &'a str,
}

impl fmt::Debug for ObservedNode<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedNode")
            .field("id", &self.id)
            .field("network", &self.network)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

/// Sends a request of the node that no observer is told of: those of whoever tells
pub(crate) type Unobserved =
    Arc<dyn Fn(Request<AnyBody>) -> BoxFuture<'static, Result<Response<Body>, Error>> + Send + Sync>;

/// A request to a service of this node
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Served<'a> {
    /// The name that was called.
    pub service: &'a str,
    /// The version that answers; may be empty.
    pub version: &'a str,
    /// The caller's id.
    pub caller: PeerId,
}

impl<'a> Served<'a> {
    pub(crate) fn new(service: &'a str, version: &'a str, caller: PeerId) -> Self {
        Self {
            service,
            version,
            caller,
        }
    }
}

/// Follows the requests that a node sends and serves; `Telemetry` is one
pub trait Observer: Send + Sync + 'static {
    /// The node is known; said once, before any request.
    ///
    /// # Errors
    /// [`Error`] when it cannot be followed: the node does not start then.
    fn follow(&self, node: &ObservedNode<'_>) -> Result<(), Error>;

    /// A request is about to be sent; the observer may set headers of it.
    fn call(&self, request: &mut request::Parts, service: &str) -> Box<dyn CallObservation>;

    /// A request is about to reach its handler; the observer may set headers of it.
    fn serve(&self, request: &mut request::Parts, served: &Served<'_>) -> Arc<dyn ServeObservation>;
}

/// Hears of one request that this node sends; dropped before it ends when nobody waits for the answer any more
pub trait CallObservation: Send + Sync {
    /// A provider took the request; with several of them, those before did not answer.
    fn attempt(&mut self, peer: PeerId);
    /// The answer began.
    fn answered(&mut self, status: StatusCode);
    /// There is no answer.
    fn failed(&mut self, error: &Error);
}

/// Hears of one request that this node serves; dropped before it ends when the handler broke
pub trait ServeObservation: Send + Sync {
    /// Does a part of the handler's work, in whose context the requests that it makes are known to belong to this one.
    fn within(&self, work: &mut dyn FnMut());
    /// The answer was sent whole.
    fn answered(&self, status: StatusCode);
    /// The answer was cut off, or nobody waits for it any more.
    fn failed(&self, code: Code);
}

/// What a node knows of who follows its requests
#[derive(Clone, Default)]
pub(crate) struct Watcher(Option<Arc<dyn Observer>>);

impl Watcher {
    pub(crate) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        Self(observer)
    }

    pub(crate) fn follow(
        &self,
        id: PeerId,
        network: &str,
        domain: &str,
        unobserved: Option<&Unobserved>,
    ) -> Result<(), Error> {
        let node = ObservedNode {
            unobserved,
            id,
            network,
            domain,
        };
        self.0.as_ref().map_or(Ok(()), |observer| observer.follow(&node))
    }

    pub(crate) fn call(&self, request: &mut request::Parts, service: &str) -> Call {
        Call(self.0.as_ref().map(|observer| observer.call(request, service)))
    }

    pub(crate) fn serve(&self, request: &mut request::Parts, served: &Served<'_>) -> Serve {
        Serve(self.0.as_ref().map(|observer| observer.serve(request, served)))
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watcher").field(&self.0.is_some()).finish()
    }
}

/// A request that is being sent, and who hears of it
pub(crate) struct Call(Option<Box<dyn CallObservation>>);

impl Call {
    pub(crate) fn attempt(&mut self, peer: PeerId) {
        if let Some(observation) = &mut self.0 {
            observation.attempt(peer);
        }
    }

    pub(crate) fn ended(&mut self, outcome: Result<StatusCode, &Error>) {
        if let Some(observation) = &mut self.0 {
            match outcome {
                Ok(status) => observation.answered(status),
                Err(error) => observation.failed(error),
            }
        }
    }
}

/// A request that is being served, and who hears of it
#[derive(Clone)]
pub(crate) struct Serve(Option<Arc<dyn ServeObservation>>);

impl Serve {
    pub(crate) fn answered(&self, status: StatusCode) {
        if let Some(observation) = &self.0 {
            observation.answered(status);
        }
    }

    pub(crate) fn failed(&self, code: Code) {
        if let Some(observation) = &self.0 {
            observation.failed(code);
        }
    }

    /// Does the handler's work in the context of this request.
    pub(crate) fn within<F: Future>(&self, work: F) -> Within<F> {
        Within {
            observation: self.clone(),
            work: Box::pin(work),
        }
    }
}

/// Work in the context of a request
pub(crate) struct Within<F> {
    observation: Serve,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { observation, work } = self.get_mut();
        let Some(observation) = &observation.0 else {
            return work.as_mut().poll(context);
        };
        let mut polled = Poll::Pending;
        observation.within(&mut || polled = work.as_mut().poll(context));
        polled
    }
}
