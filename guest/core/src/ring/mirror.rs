//! Copies: each member gives what it is responsible for to the members that would follow it.

use alloc::vec::Vec;

use super::message::Request;
use super::objects::Key;
use super::walk::Purpose;
use super::{Call, Context, Ring};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::{Place, in_open};
use selfsame_sorted_map::{Map, Set};

/// Most members that may hand over without being neighbours: those that joined or left a moment ago.
const MAX_VETTED: usize = 8;

#[derive(Debug, Default)]
struct Queue {
    keys: Vec<Key>,
    in_flight: bool,
}

/// What is still to be copied, and what was
#[derive(Debug)]
pub(super) struct Mirrors {
    queues: Map<PeerId, Queue>,
    /// Where the range begins that the mirrors have copies of.
    start: Place,
    targets: Vec<PeerId>,
    /// Members that may hand over without being neighbours, the latest first.
    vetted: Vec<PeerId>,
    next_vet_ms: u64,
}

impl Mirrors {
    pub(super) fn new(me: PeerId) -> Self {
        Self {
            queues: Map::new(),
            start: me.place(),
            targets: Vec::new(),
            vetted: Vec::new(),
            next_vet_ms: 0,
        }
    }
}

impl Ring {
    /// Copies entries to all mirrors.
    pub(super) fn mirror(&mut self, keys: &[Key]) {
        for peer in self.mirror_peers() {
            self.send_entries(peer, keys.to_vec());
        }
    }

    fn mirror_peers(&self) -> Vec<PeerId> {
        self.routing
            .successors()
            .iter()
            .take(self.parameters.mirrors)
            .copied()
            .gather()
    }

    /// After a change of neighbours: copies the whole range to new mirrors, and what was added to the range to all.
    pub(super) fn sync_mirrors(&mut self) {
        let me = self.me().place();
        let start = self.routing.range_start();
        let targets = self.mirror_peers();
        let added_until = in_open(&start, &self.mirrors.start, &me).then_some(self.mirrors.start);
        for peer in &targets {
            let keys = if !self.mirrors.targets.contains(peer) {
                self.objects.keys_in(&start, &me)
            } else if let Some(until) = &added_until {
                self.objects.keys_in(&start, until)
            } else {
                Vec::new()
            };
            self.send_entries(*peer, keys);
        }
        self.mirrors.start = start;
        self.mirrors.targets = targets;
    }

    /// After a restart the mirrors have what they had.
    pub(super) fn assume_mirrored(&mut self) {
        self.mirrors.start = self.routing.range_start();
        self.mirrors.targets = self.mirror_peers();
    }

    /// What a new predecessor, or one that asks, is responsible for from now on, and what it is to keep copies of.
    pub(super) fn keys_for_predecessor(&self, predecessor: PeerId) -> Vec<Key> {
        let start = self.routing.mirrored_from();
        self.objects.keys_in(&start, &predecessor.place())
    }

    /// Whether a member may hand entries over: this one keeps copies for it, or a lookup has confirmed it.
    pub(super) fn may_hand_over(&self, from: &PeerId) -> bool {
        self.routing.mirrors_for(from) || self.mirrors.vetted.contains(from)
    }

    /// Looks up whether a member that hands entries over without being known has the place near this one that its id says.
    /// If it has, what it hands over with its next round is taken.
    pub(super) fn vet(&mut self, cx: &mut Context<'_>, from: PeerId) {
        let is_due = self.mirrors.next_vet_ms <= cx.now_ms;
        if is_due && self.is_known_member(&from) && self.routing.may_mirror(&from.place()) {
            self.mirrors.next_vet_ms = cx.now_ms.saturating_add(self.parameters.vet_ms);
            self.walk(cx, from.place(), false, Purpose::Vet { from }, Vec::new());
        }
    }

    /// Lets a member hand over until some others may.
    pub(super) fn let_hand_over(&mut self, from: PeerId) {
        self.mirrors.vetted.retain(|other| *other != from);
        self.mirrors.vetted.insert(0, from);
        self.mirrors.vetted.truncate(MAX_VETTED);
    }

    /// Sends entries to a member, one message after the other.
    pub(super) fn send_entries(&mut self, peer: PeerId, keys: Vec<Key>) {
        if keys.is_empty() || peer == self.me() {
            return;
        }
        let queue = self.mirrors.queues.get_or_insert_with(peer, Queue::default);
        let known: Set<Key> = queue.keys.iter().copied().collect();
        queue
            .keys
            .extend(keys.into_iter().filter(|key| !known.contains(key)));
        self.pump(peer);
    }

    fn pump(&mut self, peer: PeerId) {
        let Some(queue) = self.mirrors.queues.get_mut(&peer) else {
            return;
        };
        if queue.in_flight {
            return;
        }
        let entries = self.objects.take_chunk(&mut queue.keys);
        if entries.is_empty() {
            self.mirrors.queues.remove(&peer);
            return;
        }
        queue.in_flight = true;
        let request = Request::Mirror { entries };
        let body = request.encode();
        self.call_encoded(peer, Call::Mirror, body, self.parameters.mirror_timeout_ms);
    }

    pub(super) fn mirrored(&mut self, peer: PeerId) {
        if let Some(queue) = self.mirrors.queues.get_mut(&peer) {
            queue.in_flight = false;
            self.pump(peer);
        }
    }

    /// A mirror that does not answer gets nothing more now; if it stays a neighbour, the next change syncs it.
    pub(super) fn mirror_failed(&mut self, peer: &PeerId) {
        self.mirrors.queues.remove(peer);
        self.mirrors.targets.retain(|target| target != peer);
    }

    /// Drops what has expired.
    pub(super) fn expire_objects(&mut self, cx: &Context<'_>) {
        self.objects.expire(cx.wall_ms);
        self.persist_objects();
    }

    /// Forgets all objects: others have them now.
    pub(super) fn drop_objects(&mut self) {
        self.objects.clear();
        self.persist_objects();
        self.mirrors = Mirrors::new(self.me());
    }
}
