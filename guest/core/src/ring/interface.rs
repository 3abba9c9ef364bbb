//! What goes into a [`Ring`](super::Ring) and comes out of it.

use alloc::string::String;
use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel, Role};

use super::parameters::Parameters;
use crate::identity::{Identity, NetworkId, PeerId, PublicKey};
use crate::quota::Holder;
use crate::random::Random;
use crate::record::{MAX_ADDRESSES, MAX_DOMAIN_BYTES, NodeRecord, addresses_allowed};

/// What a ring is created with
#[derive(Clone, Debug)]
pub struct Settings {
    /// This node's id.
    pub id: PeerId,
    /// The network.
    pub network: NetworkId,
    /// Who admits to it; nobody if it is open.
    pub authority: Option<PublicKey>,
    /// Member or leaf.
    pub role: Role,
    /// URLs at which this node can be dialled.
    pub addresses: Vec<String>,
    /// Label of what fails together with this node; may be empty.
    pub domain: String,
    /// Whether records with private addresses are accepted.
    pub allow_private: bool,
    /// Longest time between two updates when nothing changes.
    pub idle_ms: u64,
}

impl Settings {
    /// Checks that others will accept a record with these settings.
    ///
    /// # Errors
    /// [`Code::BadAddress`], [`Code::ForbiddenAddress`] or [`Code::BadConfig`].
    pub fn check(&self) -> Result<(), Code> {
        addresses_allowed(self.role, &self.addresses, self.allow_private)?;
        let relays = if self.role == Role::Leaf {
            Parameters::DEFAULT.relays
        } else {
            0
        };
        if self.addresses.len() + relays > MAX_ADDRESSES || self.domain.len() > MAX_DOMAIN_BYTES {
            return Err(Code::BadConfig);
        }
        Ok(())
    }
}

/// What every call brings along
pub struct Context<'a> {
    /// Time that never goes back, in milliseconds, for what happens after a while.
    pub now_ms: u64,
    /// What the clock says, in milliseconds since 1970, for what is signed and verified.
    pub wall_ms: u64,
    /// Key of this node.
    pub identity: &'a Identity,
    /// Random bytes.
    pub random: &'a mut Random,
    /// Where the peer is from whose request is taken, as far as it is known.
    pub source: Holder,
}

impl core::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Context")
            .field("now_ms", &self.now_ms)
            .field("id", &self.identity.id())
            .finish_non_exhaustive()
    }
}

/// A name that this node publishes
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name.
    pub name: String,
    /// Its owner; `None` for a name that anyone may serve.
    pub owner: Option<PublicKey>,
    /// The owner's grant to this node; empty for an unowned name.
    pub grant: Vec<u8>,
    /// Sibling objects beyond the first (Themis: k).
    pub replicas: u8,
    /// Version; may be empty.
    pub version: String,
    /// Share of the requests relative to others.
    pub weight: u16,
}

/// A peer that serves a name, as its verified association says
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Peer id.
    pub peer: PeerId,
    /// Its key.
    pub public: PublicKey,
    /// Version it serves; may be empty.
    pub version: String,
    /// Share of the requests relative to others.
    pub weight: u16,
    /// The owner that granted it the name; `None` for an unowned name.
    pub owner: Option<PublicKey>,
    /// How many of the sibling objects looked up name it.
    pub siblings: u8,
    /// Where it is.
    pub record: Option<NodeRecord>,
}

/// What a ring wants done, or tells
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a request to a peer; exactly one [`Ring::response`](super::Ring::response) follows.
    Request {
        /// Number of the call.
        call: u64,
        /// To whom; [`Ring::record_of`](super::Ring::record_of) says where to dial.
        to: PeerId,
        /// The request.
        body: Vec<u8>,
        /// How long to wait for the answer, dialling included.
        timeout_ms: u32,
    },
    /// Answer a request.
    Respond {
        /// Token of the request.
        token: u64,
        /// The answer.
        body: Vec<u8>,
    },
    /// A find succeeded.
    Found {
        /// The command.
        command: u32,
        /// Who serves the name, each peer once; never empty.
        providers: Vec<Provider>,
    },
    /// A node lookup succeeded.
    FoundNode {
        /// The command.
        command: u32,
        /// The responsible member.
        record: NodeRecord,
        /// How many members were asked until it answered, itself the last one; those that only vouch for it are not
        /// counted.
        hops: u32,
    },
    /// A command succeeded.
    Done {
        /// The command.
        command: u32,
    },
    /// A command failed.
    Failed {
        /// The command.
        command: u32,
        /// Why.
        code: Code,
    },
    /// Store a value.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// Whether it must survive a power loss.
        durable: bool,
    },
    /// Store a value, and call [`Ring::committed`](super::Ring::committed) once it survives a power loss.
    Commit {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// A peer has contradicted itself, and is refused from now on.
    Convicted {
        /// The [`Contradiction`](super::Contradiction), for the authority.
        evidence: Vec<u8>,
    },
    /// End the sessions with a peer, most of whose signatures are forged.
    Disconnect {
        /// The peer.
        peer: PeerId,
    },
    /// End the sessions with peers whose certificates were revoked, or who are convicted.
    ShutOut,
    /// Have a peer looked up by the host, of which `from` has told.
    LookUp {
        /// The peer.
        peer: PeerId,
        /// Who told of it.
        from: PeerId,
    },
    /// Remove a stored value.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// Predecessor, successor list, relays or membership changed.
    Changed,
    /// Others know a newer record of this node, of another run: does that one live? Answered by
    /// [`Ring::outlive_rival`](super::Ring::outlive_rival) if this run is to go on.
    Rival {
        /// The newer record.
        record: NodeRecord,
    },
    /// Two runs of a peer live at once: their records take turns.
    Duplicate {
        /// The peer, whose newest record is known.
        peer: PeerId,
        /// The record of the other run.
        rival: NodeRecord,
    },
    /// A name is stored at every responsible member that could be reached.
    Published {
        /// The name.
        name: String,
    },
    /// A record for the log.
    Log {
        /// How much it matters.
        level: LogLevel,
        /// What happened.
        code: Code,
        /// Details for people; no secret.
        text: &'static str,
        /// Which peer it was about.
        peer: Option<PeerId>,
    },
}
