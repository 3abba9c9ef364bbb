//! Requests and outcomes of a server's handler.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use std::time::Instant;

use futures_util::FutureExt as _;
use selfsame_codec::Code;

use crate::id::PeerId;

/// A call that a server is asked to carry out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RpcRequest {
    /// The request.
    pub payload: Vec<u8>,
    /// Whom the ticket was issued to, or the session is with.
    pub caller: PeerId,
    /// Where the request came from; `[::]:0` in a session of the mesh.
    pub source: SocketAddr,
    /// Whether another replica may carry it out, too: its caller has declared it idempotent.
    pub is_idempotent: bool,
    /// When its caller gives up.
    pub deadline: Instant,
}

/// Why a handler did not carry out a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcRefusal(pub Code);

/// The outcome of a call in its handler.
pub(super) type Outcome = Result<Vec<u8>, RpcRefusal>;
pub(super) type AnswerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;
pub(super) type Handler = Arc<dyn Fn(RpcRequest) -> AnswerFuture + Send + Sync>;

/// Returns what asks a handler: one that panics ends its call, not the server.
pub(super) fn handler_of<H, F>(handler: H) -> Handler
where
    H: Fn(RpcRequest) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |request| {
        let handler = Arc::clone(&handler);
        let answering = AssertUnwindSafe(async move { handler(request).await });
        let failed = Err(RpcRefusal(Code::HandlerFailed));
        Box::pin(
            answering
                .catch_unwind()
                .map(move |outcome| outcome.unwrap_or(failed)),
        )
    })
}
