//! The ring: who is responsible for which id, and what is stored there (Themis, section 6).
//!
//! Chord with Zave's corrections (arXiv 1502.06461): a successor list, a liveness check before a member is adopted,
//! and defined behaviour from one member up. Lookups are iterative. A [`Ring`] is driven with requests, responses
//! and the time, and asks for what it needs through [`Action`]s.

mod attach;
mod book;
mod confirm;
mod find;
mod guard;
mod interface;
mod leave;
mod liveness;
mod lookup;
mod maintenance;
mod merge;
mod message;
mod mirror;
mod next_hop;
mod objects;
mod own;
mod parameters;
mod persist;
mod publications;
mod publish;
mod respond;
mod revoke;
mod routing;
mod serve;
#[cfg(feature = "simulation")]
pub mod simulation;
mod walk;

pub use guard::{
    Contradiction, EPOCH_MS, Lease, LeaseTerms, MAX_CONTRADICTION_BYTES, MAX_GROUP, MAX_LEASE_BYTES,
};
pub use interface::{Action, Context, Provider, Service, Settings};
pub use message::MAX_MESSAGE_BYTES;
pub use parameters::Parameters;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel, Role};

use crate::admission::Gate;
use crate::gather::Gather as _;
use crate::identity::Admitted;
use crate::identity::{PeerId, PublicKey};
use crate::record::{NodeRecord, addresses_allowed};
use book::Kept;
use selfsame_sorted_map::{Map, Set};

/// Whether this node takes part
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Out,
    Joining,
    In,
}

/// What a call was made for
#[derive(Debug)]
enum Call {
    /// A step of a walk.
    Walk {
        walk: u64,
    },
    /// A check whether a member lives.
    Probe,
    /// Members told to somebody who may not know them.
    Hint,
    Join,
    Update {
        via: Option<PeerId>,
    },
    /// The mirrors of an object are asked because the responsible member has nothing.
    Held {
        command: u32,
    },
    Store {
        object: crate::association::ObjectId,
        sequence_ms: u64,
    },
    Mirror,
    Leave,
    Attach,
    /// A newer list of revocations is asked for.
    Revoked,
    /// A member's group is asked for, and the records of its members if they are wanted.
    Groups {
        wants_members: bool,
    },
    /// Evidence against whoever else is convicted is asked for.
    Contradictions,
    /// The last message to a peer before this node leaves.
    Farewell,
}

/// One node's part in the ring, as a state machine without sockets, clock or storage
///
/// After each call, [`Ring::poll`] is to be called until it gives nothing, and then [`Ring::next_wake_ms`].
pub struct Ring {
    settings: Settings,
    parameters: &'static Parameters,
    phase: Phase,
    own: own::Own,
    actions: VecDeque<Action>,
    calls: Map<u64, (PeerId, Call)>,
    last_call: u64,
    book: book::Book,
    routing: routing::Routing,
    objects: objects::Objects,
    gate: Gate,
    guard: guard::Guard,
    walks: walk::Walks,
    finds: Map<u32, find::Find>,
    maintenance: maintenance::Maintenance,
    mirrors: mirror::Mirrors,
    /// Signatures of peers that did not verify, less those that did; until their sessions end.
    forged: Map<PeerId, u64>,
    publisher: publish::Publisher,
    attach: attach::Attach,
    parting: Option<leave::Parting>,
    leaving: Option<leave::Leaving>,
    persisted: persist::Persisted,
    #[cfg(feature = "simulation")]
    tapped: simulation::Tapped,
}

impl core::fmt::Debug for Ring {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ring")
            .field("id", &self.settings.id)
            .field("phase", &self.phase)
            .field("routing", &self.routing)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// What the keys of [`Action::Put`] and [`Action::Delete`] begin with.
    pub const STORE_PREFIX: &'static [u8] = b"ring/";

    /// A node that is in no ring yet. [`Settings::check`] says beforehand whether others will accept its record.
    #[must_use]
    pub fn new(settings: Settings, parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            phase: Phase::Out,
            own: own::Own::default(),
            actions: VecDeque::new(),
            calls: Map::new(),
            last_call: 0,
            book: book::Book::new(parameters),
            routing: routing::Routing::new(settings.id, parameters),
            objects: objects::Objects::new(parameters),
            gate: Gate::new(settings.network, settings.authority),
            guard: guard::Guard::default(),
            walks: walk::Walks::default(),
            finds: Map::new(),
            maintenance: maintenance::Maintenance::new(parameters),
            mirrors: mirror::Mirrors::new(settings.id),
            forged: Map::new(),
            publisher: publish::Publisher::new(parameters),
            attach: attach::Attach::new(parameters),
            parting: None,
            leaving: None,
            persisted: persist::Persisted::default(),
            #[cfg(feature = "simulation")]
            tapped: simulation::Tapped::default(),
            settings,
        }
    }

    /// The next thing to do for the ring; to be called until there is none after each other call.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Does what is due.
    // Never inlined, so that engines need not compile it for a node's first step.
    #[inline(never)]
    pub fn tick(&mut self, cx: &mut Context<'_>) {
        self.tick_walks(cx);
        if cx.now_ms >= self.maintenance.next_round_ms {
            self.round(cx);
        }
        self.tick_publisher(cx);
        self.tick_leave(cx);
        #[cfg(feature = "simulation")]
        self.add_tapped(cx);
    }

    /// When to call [`Ring::tick`] again at the latest; `u64::MAX` is never.
    #[must_use]
    pub fn next_wake_ms(&self) -> u64 {
        self.maintenance
            .next_round_ms
            .min(self.walks.next_wake_ms())
            .min(self.publisher_wake_ms())
            .min(self.parting_due_ms())
            .min(self.leaving.as_ref().map_or(u64::MAX, leave::Leaving::due_ms))
    }

    /// What is published waits until the node is in a ring: a host that were woken for it before would be at once again.
    fn publisher_wake_ms(&self) -> u64 {
        match self.phase {
            Phase::In => self.publisher.next_wake_ms(),
            Phase::Out | Phase::Joining => u64::MAX,
        }
    }

    /// Gives up a command that was not answered yet, without an answer.
    pub fn cancel(&mut self, command: u32) {
        self.finds.remove(&command);
        self.walks.cancel(command);
        self.publisher.cancel(command);
        self.maintenance.cancel(command);
    }

    /// The newest record of a peer that was seen and verified.
    #[must_use]
    pub fn record_of(&self, peer: &PeerId) -> Option<&NodeRecord> {
        self.book.get(peer)
    }

    /// Takes a verified record, such as the one of a handshake.
    pub fn learn(&mut self, cx: &mut Context<'_>, record: NodeRecord) {
        let allowed = addresses_allowed(record.role(), record.addresses(), self.settings.allow_private);
        if record.is_current(cx.wall_ms) && allowed.is_ok() {
            self.meet_stranger(cx, record);
        }
    }

    /// The member before this one.
    #[must_use]
    pub fn predecessor(&self) -> Option<&NodeRecord> {
        self.book.get(&self.routing.predecessor()?)
    }

    /// The members after this one, nearest first.
    #[must_use]
    pub fn successors(&self) -> Vec<&NodeRecord> {
        self.records(self.routing.successors())
    }

    /// Members further away, each once.
    #[must_use]
    pub fn fingers(&self) -> Vec<&NodeRecord> {
        let fingers: Set<PeerId> = self.routing.fingers().copied().collect();
        fingers.iter().filter_map(|peer| self.book.get(peer)).gather()
    }

    /// Members that relay for this leaf.
    #[must_use]
    pub fn relays(&self) -> Vec<&NodeRecord> {
        self.records(self.attach.relays())
    }

    fn records(&self, peers: &[PeerId]) -> Vec<&NodeRecord> {
        peers.iter().filter_map(|peer| self.book.get(peer)).gather()
    }

    /// Whether this member relays for that leaf.
    #[must_use]
    pub fn relays_for(&self, peer: &PeerId) -> bool {
        self.attach.has_leaf(peer)
    }

    /// Whether a session with this peer is worth keeping while it is idle.
    #[must_use]
    pub fn needs(&self, peer: &PeerId) -> bool {
        self.routing.contains(peer) || self.attach.needs(peer)
    }

    /// How many associations this node stores.
    #[must_use]
    pub fn objects_len(&self) -> usize {
        self.objects.len()
    }

    /// What this node publishes.
    #[must_use]
    pub fn services(&self) -> Vec<&Service> {
        self.publisher.services()
    }

    /// Whether this node answers calls of a name.
    #[must_use]
    pub fn answers_to(&self, owner: Option<&PublicKey>, name: &str, now_ms: u64) -> bool {
        self.publisher.answers_to(owner, name, now_ms)
    }

    /// Whether this node is in a ring.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.phase == Phase::In
    }

    /// Whether this node is in no ring and does not try to be.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.phase == Phase::Out
    }

    /// What this node checks others with.
    pub(crate) fn gate(&mut self) -> &mut Gate {
        &mut self.gate
    }

    /// Why what a key was admitted by counts no more.
    pub(crate) fn refusal_of(&self, key: &PublicKey, admitted: &Admitted) -> Option<Code> {
        self.gate.refusal(key, admitted)
    }

    fn me(&self) -> PeerId {
        self.settings.id
    }

    /// Whether this node is a member, which passes frames on for leaves.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.settings.role == Role::Member
    }

    /// Whether this member answers for its part of the circle. While it joins it does: members that start at the same
    /// time through each other would otherwise wait for ever.
    fn serves(&self) -> bool {
        self.is_member() && self.phase != Phase::Out
    }

    /// Sends a request.
    fn call(&mut self, to: PeerId, call: Call, request: &message::Request<'_>, timeout_ms: u32) {
        self.call_encoded(to, call, request.encode(), timeout_ms);
    }

    #[cfg_attr(
        not(feature = "simulation"),
        expect(unused_mut, reason = "only a tap changes it")
    )]
    fn call_encoded(&mut self, to: PeerId, call: Call, mut body: Vec<u8>, timeout_ms: u32) {
        #[cfg(feature = "simulation")]
        self.tapped.sends(to, &mut body);
        self.last_call += 1;
        self.calls.insert(self.last_call, (to, call));
        self.actions.push_back(Action::Request {
            call: self.last_call,
            to,
            body,
            timeout_ms,
        });
    }

    fn done(&mut self, command: u32) {
        self.actions.push_back(Action::Done { command });
    }

    fn fail(&mut self, command: u32, code: Code) {
        self.actions.push_back(Action::Failed { command, code });
    }

    fn log(&mut self, level: LogLevel, code: Code, text: &'static str, peer: Option<PeerId>) {
        self.actions.push_back(Action::Log {
            level,
            code,
            text,
            peer,
        });
    }

    /// Reads a record that a peer sent, verifies it, and keeps it.
    fn meet_bytes(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<NodeRecord, Code> {
        let record = self.verify_record(bytes, cx.wall_ms)?;
        self.meet(record.clone());
        Ok(record)
    }

    /// Reads a record that a peer sent, and verifies it unless exactly this one is known.
    fn verify_record(&mut self, bytes: &[u8], now_ms: u64) -> Result<NodeRecord, Code> {
        let claimed = NodeRecord::claimed_id(bytes, &self.gate);
        let known = claimed.and_then(|id| self.book.get(&id));
        if let Some(known) = known.filter(|known| known.encoded() == bytes && known.is_current(now_ms)) {
            return Ok(known.clone());
        }
        let record = NodeRecord::decode_verified(&mut self.gate, bytes, now_ms)?;
        addresses_allowed(record.role(), record.addresses(), self.settings.allow_private)?;
        Ok(record)
    }

    /// Keeps a verified record; says whether its node was unknown.
    fn meet(&mut self, record: NodeRecord) -> bool {
        let peer = record.id();
        if peer == self.me() {
            self.meet_own(record);
            return false;
        }
        // A newer record shows that its node has started again.
        let is_older = |known: &NodeRecord| known.sequence() < record.sequence();
        if self.book.get(&peer).is_some_and(is_older) {
            self.routing.revive(&peer);
        }
        let keep = needed_by(&self.routing, &self.attach);
        match self.book.insert(record, &keep) {
            Kept::First => true,
            Kept::Again => false,
            Kept::Returned { rival } => {
                self.actions.push_back(Action::Duplicate { peer, rival });
                false
            }
        }
    }

    /// Takes note of the members that an answer names, up to the most that an honest one does: each is verified before it
    /// is asked, and a forged record is held against nobody.
    fn hear_members(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        list: &[&[u8]],
        most: usize,
    ) -> Vec<PeerId> {
        list.iter()
            .take(most)
            .filter_map(|bytes| self.hear_member(cx, from, bytes))
            .gather()
    }

    fn hear_member(&mut self, cx: &mut Context<'_>, from: PeerId, bytes: &[u8]) -> Option<PeerId> {
        let peer = NodeRecord::claimed_id(bytes, &self.gate)?;
        match self.book.named(&peer) {
            Some(known) if known == bytes => return Some(peer),
            None if peer != self.settings.id => {}
            // Newer, older or forged: what is known is not given up for it unless it is better.
            _ => return self.meet_members(cx, from, &[bytes]).pop(),
        }
        let keep = needed_by(&self.routing, &self.attach);
        self.book.hear(peer, bytes, cx.wall_ms, &keep);
        Some(peer)
    }

    /// Whether a peer may be asked as a member: a record of which was only heard is verified now, and a peer of which
    /// none is known may be connected.
    fn may_be_member(&mut self, cx: &mut Context<'_>, peer: &PeerId) -> bool {
        if self.book.get(peer).is_none()
            && let Some(bytes) = self.book.named(peer).map(<[u8]>::to_vec)
            && let Err(code) = self.meet_bytes(cx, &bytes)
        {
            self.book.forget(peer);
            self.log(LogLevel::Debug, code, "a record was left out", Some(*peer));
            return false;
        }
        let record = self.book.get(peer);
        record.is_none_or(|record| record.role() == Role::Member)
    }

    /// Whether a peer is known to be a member.
    fn is_known_member(&self, peer: &PeerId) -> bool {
        let record = self.book.get(peer);
        record.is_some_and(|record| record.role() == Role::Member)
    }

    /// Reads a list of members that a peer sent; what does not verify is left out, and all that follows once its session
    /// is to end for that.
    fn meet_members(&mut self, cx: &mut Context<'_>, from: PeerId, list: &[&[u8]]) -> Vec<PeerId> {
        let mut members = Vec::with_capacity(list.len());
        for bytes in list {
            match self.meet_bytes(cx, bytes) {
                Ok(record) if record.role() == Role::Member => members.push(record.id()),
                Ok(_) => {}
                Err(code) => {
                    self.note_refusal(code);
                    if self.judge(from, Err(code)) {
                        break;
                    }
                }
            }
        }
        members
    }
}

/// Says whose records are not to be given up.
fn needed_by<'a>(routing: &'a routing::Routing, attach: &'a attach::Attach) -> impl Fn(&PeerId) -> bool + 'a {
    move |peer| routing.contains(peer) || attach.needs(peer)
}
