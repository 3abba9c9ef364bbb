//! The ring: who is responsible for which id, and what is stored there (Themis, section 6).

mod interface;
pub use interface::{Action, Context, Provider, Service, Settings};

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use selfsame_codec::Code;

use crate::identity::{PeerId, PublicKey};
use crate::record::NodeRecord;

/// One node's part in the ring, as a state machine without sockets, clock or storage
pub struct Ring {
    settings: Settings,
    actions: VecDeque<Action>,
}

impl Ring {
    /// A node that is in no ring yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            actions: VecDeque::new(),
        }
    }

    /// Takes what was stored under a key that begins with [`Ring::STORE_PREFIX`]; before anything else.
    ///
    /// # Errors
    /// [`Code::StoreCorrupt`] when it does not decode.
    pub fn load(&mut self, _cx: &mut Context<'_>, _key: &[u8], _value: &[u8]) -> Result<(), Code> {
        Ok(())
    }

    /// What the keys of [`Action::Put`] and [`Action::Delete`] begin with.
    pub const STORE_PREFIX: &'static [u8] = b"ring/";

    /// Takes a request of the authenticated peer `from`; answered by [`Action::Respond`] with this token.
    pub fn request(&mut self, _cx: &mut Context<'_>, _from: PeerId, _token: u64, _body: &[u8]) {}

    /// Takes the answer to [`Action::Request`], or why there is none.
    pub fn response(&mut self, _cx: &mut Context<'_>, _call: u64, _result: Result<&[u8], Code>) {}

    /// A session with a peer is established.
    pub fn peer_connected(&mut self, _cx: &mut Context<'_>, _peer: PeerId) {}

    /// The last session with a peer ended.
    pub fn peer_gone(&mut self, _cx: &mut Context<'_>, _peer: PeerId) {}

    /// Does what is due.
    pub fn tick(&mut self, _cx: &mut Context<'_>) {}

    /// When to call [`Ring::tick`] again at the latest; `u64::MAX` is never.
    #[must_use]
    pub fn next_wake_ms(&self) -> u64 {
        u64::MAX
    }

    /// Joins the ring through bootstraps with which sessions exist; without any, as a ring of one.
    pub fn join(&mut self, _cx: &mut Context<'_>, _command: u32, _bootstraps: Vec<PeerId>) {}

    /// Hands over what this node is responsible for and leaves.
    pub fn leave(&mut self, _cx: &mut Context<'_>, _command: u32) {}

    /// Finds the member responsible for an id; answered by [`Action::FoundNode`].
    pub fn find_node(&mut self, _cx: &mut Context<'_>, _command: u32, _id: [u8; 32]) {}

    /// Finds who serves a name; answered by [`Action::Found`] with at least one provider.
    pub fn find(&mut self, _cx: &mut Context<'_>, _command: u32, _owner: Option<PublicKey>, _name: &str) {}

    /// Publishes this node as a provider of a name until [`Ring::withdraw`].
    pub fn publish(&mut self, _cx: &mut Context<'_>, _command: u32, _service: Service) {}

    /// Stops publishing a name.
    pub fn withdraw(&mut self, _cx: &mut Context<'_>, _command: u32, _owner: Option<PublicKey>, _name: &str) {
    }

    /// Gives up a command that was not answered yet, without an answer.
    pub fn cancel(&mut self, _command: u32) {}

    /// The newest record of a peer that was seen, verified and unexpired.
    #[must_use]
    pub fn record_of(&self, _peer: &PeerId) -> Option<&NodeRecord> {
        None
    }

    /// Takes a verified record, such as the one of a handshake.
    pub fn learn(&mut self, _cx: &mut Context<'_>, _record: NodeRecord) {}

    /// This node's own record, signed anew when that is due.
    pub fn own_record(&mut self, _cx: &mut Context<'_>) -> NodeRecord {
        unreachable!("replaced before use")
    }

    /// Whether this member relays for that leaf.
    #[must_use]
    pub fn relays_for(&self, _peer: &PeerId) -> bool {
        false
    }

    /// The member before this one.
    #[must_use]
    pub fn predecessor(&self) -> Option<&NodeRecord> {
        None
    }

    /// The members after this one, nearest first.
    #[must_use]
    pub fn successors(&self) -> Vec<&NodeRecord> {
        Vec::new()
    }

    /// Members further away, each once.
    #[must_use]
    pub fn fingers(&self) -> Vec<&NodeRecord> {
        Vec::new()
    }

    /// Members that relay for this leaf.
    #[must_use]
    pub fn relays(&self) -> Vec<&NodeRecord> {
        Vec::new()
    }

    /// How many associations this node stores.
    #[must_use]
    pub fn objects_len(&self) -> usize {
        0
    }

    /// What this node publishes.
    #[must_use]
    pub fn services(&self) -> Vec<&Service> {
        Vec::new()
    }

    /// Whether this node is in a ring.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        false
    }

    /// The next thing to do for the ring; to be called until there is none after each other call.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}
