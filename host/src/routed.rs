//! Messages from member to member through the ring.

use alloc::sync::Arc;
use core::fmt;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::time::Duration;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use futures_util::FutureExt as _;
use selfsame_codec::Input;
use tokio::runtime::Handle as Runtime;

use crate::error::{BoxError, Error};
use crate::handle::{Control, Effect, Handle, Item};
use crate::id::PeerId;
use crate::node::Node;

type Answered = Pin<Box<dyn Future<Output = Result<Bytes, BoxError>> + Send>>;
type Handler = Arc<dyn Fn(RoutedMessage) -> Answered + Send + Sync>;

/// Who a routed message is for
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// The member that is responsible for this id, as [`Node::find_node`] finds it.
    Responsible([u8; 32]),
    /// This member and no other one.
    Member(PeerId),
}

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

/// Where in the core a message waits for its answer
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageKey {
    /// The core's number.
    pub(crate) message: u32,
    /// Counts the core's lives.
    pub(crate) life: u32,
}

/// What answers routed messages
#[derive(Default)]
pub(crate) struct Routing {
    handler: RwLock<Option<Handler>>,
}

impl Routing {
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

impl Node {
    /// Sends at most 16 KiB to another member through the ring, and returns its answer. Members on the way can neither read nor
    /// change them. The message is sent up to three times by different ways within 10 s, and given to the other member once.
    ///
    /// # Errors
    /// [`Error::Core`] with [`Code::NotMember`](crate::Code::NotMember) on a leaf, `Deadline` when no answer came,
    /// `StreamRefused` when the other member refuses it or answers no messages, `TooLarge`, or why nobody could be found.
    pub async fn route(&self, target: RouteTarget, body: &[u8]) -> Result<Bytes, Error> {
        self.route_within(target, body, Duration::ZERO).await
    }

    /// As [`Self::route`], with the time for all tries: at most a minute, and 10 s if it is zero.
    ///
    /// # Errors
    /// As [`Self::route`].
    pub async fn route_within(
        &self,
        target: RouteTarget,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Bytes, Error> {
        let (target, is_peer) = match target {
            RouteTarget::Responsible(id) => (id, false),
            RouteTarget::Member(peer) => (peer.0, true),
        };
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        let input = |tag| {
            Item::new(&Input::Route {
                tag,
                target,
                is_peer,
                timeout_ms,
                body,
            })
        };
        self.handle().command(Effect::None, input).await
    }

    /// Answers messages that are routed to this member, in place of a handler that was given before. An error refuses the message.
    pub fn serve_routed<H, F, B>(&self, handler: H)
    where
        H: Fn(RoutedMessage) -> F + Send + Sync + 'static,
        F: Future<Output = Result<B, BoxError>> + Send + 'static,
        B: Into<Bytes>,
    {
        let handler: Handler = Arc::new(move |message| {
            let answer = handler(message);
            Box::pin(async move { answer.await.map(Into::into) })
        });
        let mut place = self
            .routing()
            .handler
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *place = Some(handler);
    }
}
