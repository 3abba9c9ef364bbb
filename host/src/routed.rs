//! What answers messages that are routed to this member.

use alloc::sync::Arc;
use core::fmt;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::runtime::Handle as Runtime;

use crate::error::BoxError;
use crate::handle::{Control, Handle, MessageKey};
use crate::id::PeerId;

type Answered = Pin<Box<dyn Future<Output = Result<Bytes, BoxError>> + Send>>;
type Handler = Arc<dyn Fn(RoutedMessage) -> Answered + Send + Sync>;

/// A message that was routed to this member
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedMessage {
    /// The member that has sent it, as its handshake has proved.
    pub from: PeerId,
    /// The id that it is for: this member's own, or one for which it is responsible.
    pub target: [u8; 32],
    /// What it says.
    pub body: Bytes,
}

/// What answers routed messages
#[derive(Default)]
pub(crate) struct Routing {
    handler: RwLock<Option<Handler>>,
}

impl Routing {
    /// Sets what answers, in place of what did before.
    pub(crate) fn set<H, F, B>(&self, handler: H)
    where
        H: Fn(RoutedMessage) -> F + Send + Sync + 'static,
        F: Future<Output = Result<B, BoxError>> + Send + 'static,
        B: Into<Bytes>,
    {
        let handler: Handler = Arc::new(move |message| {
            let answer = handler(message);
            Box::pin(async move { answer.await.map(Into::into) })
        });
        *self.handler.write().unwrap_or_else(PoisonError::into_inner) = Some(handler);
    }

    /// Gives a message to the application; without a handler it is refused.
    pub(crate) fn accept(&self, runtime: &Runtime, handle: &Handle, key: MessageKey, message: RoutedMessage) {
        // Nothing panics between two changes of it.
        let handler = self.handler.read().unwrap_or_else(PoisonError::into_inner);
        let Some(handler) = handler.clone() else {
            return handle.control(Control::Answered { key, body: None });
        };
        let handle = handle.clone();
        runtime.spawn(async move {
            let answering = AssertUnwindSafe(async move { handler(message).await });
            let body = match answering.catch_unwind().await {
                Ok(Ok(body)) => Some(body),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a routed message was refused");
                    None
                }
                Err(_) => {
                    tracing::error!("the handler of routed messages panicked");
                    None
                }
            };
            handle.control(Control::Answered { key, body });
        });
    }
}

impl fmt::Debug for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routing").finish_non_exhaustive()
    }
}
