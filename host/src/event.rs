use selfsame_codec::Code;

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
    /// Two nodes run with one identity, this node's or a peer's.
    DuplicateIdentity {
        /// The identity.
        peer: PeerId,
        /// Where each of the two is.
        addresses: [Vec<String>; 2],
    },
    /// A peer of a closed network has signed two leases that contradict each other, and is refused from now on. The evidence is
    /// for the authority.
    Convicted {
        /// The contradiction, as `docs/specification/ring.md` describes it.
        evidence: Vec<u8>,
    },
    /// The core failed and is started anew from its store; sessions and requests that were under way are lost.
    Restarted(CoreError),
    /// The core has failed five times or more within ten minutes; it is started anew all the same.
    Unstable {
        /// How often.
        traps: u32,
        /// How it failed last.
        error: CoreError,
    },
    /// The node cannot go on and has ended: what is asked of it fails with this code.
    Ended(Code),
}
