use crate::core::CoreError;
use crate::id::PeerId;

/// What happens in a node without having been asked for
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A session with a peer is established.
    PeerConnected(PeerId),
    /// The last session with a peer ended.
    PeerDisconnected(PeerId),
    /// The node's place in the ring changed.
    RingChanged,
    /// A name is stored at every responsible node that could be reached.
    Published(String),
    /// The core failed and is started anew from its store; sessions and requests that were under way are lost.
    Restarted(CoreError),
}
