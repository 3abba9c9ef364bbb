//! Messages from member to member through the ring.

use core::time::Duration;

use bytes::Bytes;
use selfsame_codec::Input;

use crate::error::{BoxError, Error};
use crate::handle::{Effect, Item};
use crate::id::PeerId;
use crate::node::Node;
use crate::routed::RoutedMessage;

/// Who a routed message is for
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// The member that is responsible for this id, as [`Node::find_node`] finds it.
    Responsible([u8; 32]),
    /// This member and no other one.
    Member(PeerId),
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
        self.routing().set(handler);
    }
}
