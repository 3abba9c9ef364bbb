//! Leaves: nodes that nobody can dial attach to two members, which relay to them.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::lookup::Owner;
use super::message::Request;
use super::routing::clockwise;
use super::walk::Purpose;
use super::{Action, Call, Context, Parameters, Phase, Ring};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::quota::{Holder, admits};
use crate::record::NodeRecord;
use selfsame_sorted_map::{Map, Set};

/// What a leaf knows of its members, and a member of its leaves
#[derive(Debug)]
pub(super) struct Attach {
    parameters: &'static Parameters,
    relays: Vec<PeerId>,
    asking: Set<PeerId>,
    tried: Set<PeerId>,
    bootstraps: Vec<PeerId>,
    /// With the networks that they are in.
    leaves: Map<PeerId, Holder>,
}

impl Attach {
    pub(super) fn new(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            relays: Vec::new(),
            asking: Set::new(),
            tried: Set::new(),
            bootstraps: Vec::new(),
            leaves: Map::new(),
        }
    }

    pub(super) fn relays(&self) -> &[PeerId] {
        &self.relays
    }

    /// Where this leaf joined.
    pub(super) fn bootstraps(&self) -> &[PeerId] {
        &self.bootstraps
    }

    pub(super) fn is_relay(&self, peer: &PeerId) -> bool {
        self.relays.contains(peer)
    }

    pub(super) fn has_leaf(&self, peer: &PeerId) -> bool {
        self.leaves.contains_key(peer)
    }

    /// The leaves of this member.
    pub(super) fn leaves(&self) -> impl Iterator<Item = &PeerId> {
        self.leaves.keys()
    }

    /// Whether the record of a peer is needed.
    pub(super) fn needs(&self, peer: &PeerId) -> bool {
        self.is_relay(peer) || self.has_leaf(peer) || self.bootstraps.contains(peer)
    }

    /// Asks nobody any more.
    pub(super) fn stop(&mut self) {
        self.asking.clear();
    }

    /// Says in whose share it is: one that comes from another network stays in the first one's.
    pub(super) fn take_leaf(&mut self, peer: PeerId, source: Holder) -> Result<Holder, Code> {
        if let Some(first) = self.leaves.get(&peer) {
            return Ok(*first);
        }
        let own = self.leaves.values().filter(|other| **other == source).count();
        if !admits(self.parameters.max_leaves, self.leaves.len(), source, own) {
            return Err(Code::TooManySessions);
        }
        self.restore_leaf(peer, source);
        Ok(source)
    }

    /// Takes a leaf that found room, now or before a restart: others may have come since.
    pub(super) fn restore_leaf(&mut self, peer: PeerId, source: Holder) {
        self.leaves.insert(peer, source);
    }

    /// Says whether it was attached.
    pub(super) fn drop_leaf(&mut self, peer: &PeerId) -> bool {
        self.leaves.remove(peer).is_some()
    }
}

impl Ring {
    /// Gives up the leaves that an earlier start had and that are not connected.
    pub fn detach_leaves(&mut self, is_gone: &dyn Fn(&PeerId) -> bool) {
        loop {
            let gone = self.attach.leaves.keys().copied().find(is_gone);
            match gone {
                Some(leaf) => self.detach(&leaf),
                None => return,
            }
        }
    }

    /// Gives up a leaf, if this peer is one.
    pub(super) fn detach(&mut self, leaf: &PeerId) {
        if self.attach.drop_leaf(leaf) {
            self.delete_leaf(leaf);
        }
    }

    pub(super) fn join_as_leaf(&mut self, cx: &mut Context<'_>, bootstraps: Vec<PeerId>) {
        self.attach.bootstraps = bootstraps;
        self.attach.tried.clear();
        self.look_for_members(cx);
    }

    /// Looks the own position up, which shows members near it: leaves spread over the ring.
    fn look_for_members(&mut self, cx: &mut Context<'_>) {
        let mut start = self.attach.bootstraps.clone();
        start.extend(self.known_members());
        let me = self.me().place();
        self.walk_from(cx, me, &start, Purpose::Attach);
    }

    pub(super) fn members_found(&mut self, cx: &mut Context<'_>, result: Result<Owner, Code>) {
        match result {
            Ok(_) => self.fill_relays(cx),
            Err(_) => self.no_more_members(cx),
        }
    }

    /// Attaches to the nearest known members until there are enough.
    fn fill_relays(&mut self, cx: &mut Context<'_>) {
        let me = self.me();
        let mut members = self.known_members();
        members.extend(&self.attach.bootstraps);
        members.retain(|peer| {
            let attach = &self.attach;
            !attach.is_relay(peer) && !attach.asking.contains(peer) && !attach.tried.contains(peer)
        });
        let missing = self
            .parameters
            .relays
            .saturating_sub(self.attach.relays.len() + self.attach.asking.len());
        let record = self.own_bytes(cx);
        let nearest = clockwise(&me.place(), members).into_iter();
        let nearest = nearest.filter(|peer| self.may_be_member(cx, peer));
        let nearest: Vec<PeerId> = nearest.take(missing).gather();
        for peer in nearest {
            self.attach.asking.insert(peer);
            let request = Request::Attach { record: &record };
            self.call(peer, Call::Attach, &request, self.parameters.attach_timeout_ms);
        }
        if self.attach.asking.is_empty() {
            self.no_more_members(cx);
        }
    }

    /// Nobody is left to ask: what there is must do, until the next round.
    fn no_more_members(&mut self, cx: &mut Context<'_>) {
        if !self.attach.relays.is_empty() {
            self.leaf_joined(cx);
        } else if self.phase == Phase::Joining && self.attach.asking.is_empty() {
            self.phase = Phase::Out;
            self.end_joins(Err(self.maintenance.join_error));
        }
    }

    pub(super) fn attached(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        self.attach.asking.remove(&peer);
        if self.phase == Phase::Out || self.attach.is_relay(&peer) {
            return;
        }
        self.attach.relays.push(peer);
        self.relays_changed(cx);
        if self.attach.relays.len() >= self.parameters.relays {
            self.leaf_joined(cx);
        } else if self.attach.asking.is_empty() {
            self.fill_relays(cx);
        }
    }

    pub(super) fn attach_failed(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        self.attach.asking.remove(&peer);
        self.attach.tried.insert(peer);
        if self.attach.is_relay(&peer) && self.phase == Phase::In {
            self.relay_gone(cx, peer);
        } else if self.phase != Phase::Out {
            self.fill_relays(cx);
        }
    }

    fn leaf_joined(&mut self, cx: &mut Context<'_>) {
        if self.phase == Phase::Joining {
            self.phase = Phase::In;
            self.maintenance.next_round_ms = cx.now_ms.saturating_add(self.settings.idle_ms);
            self.actions.push_back(Action::Changed);
            self.publisher_may_start(cx);
        }
        self.end_joins(Ok(()));
    }

    /// The record names the relays, so it and all that holds it are signed anew.
    fn relays_changed(&mut self, cx: &mut Context<'_>) {
        self.renew_record(cx);
        if self.phase == Phase::In {
            self.actions.push_back(Action::Changed);
            self.refresh_publications(cx);
        }
    }

    /// A relay's session ended: another one takes its place.
    pub(super) fn relay_gone(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        self.attach.relays.retain(|relay| *relay != peer);
        self.attach.tried.insert(peer);
        self.relays_changed(cx);
        self.fill_relays(cx);
    }

    /// Part of each round of a leaf: enough relays, and records on both sides that do not expire.
    pub(super) fn keep_relays(&mut self, cx: &mut Context<'_>) {
        let soon_ms = cx.wall_ms.saturating_add(self.parameters.renew_record_ms / 2);
        let is_fresh = |peer: &PeerId| {
            self.book
                .get(peer)
                .is_some_and(|record| record.expiry_ms() > soon_ms)
        };
        if self.attach.relays.len() < self.parameters.relays || !self.attach.relays.iter().all(is_fresh) {
            self.attach.tried.clear();
            self.look_for_members(cx);
        }
        let before = self.own.record().map(NodeRecord::sequence);
        let own = self.own_record(cx).clone();
        if before != Some(own.sequence()) {
            for peer in self.attach.relays.clone() {
                let request = Request::Attach {
                    record: own.encoded(),
                };
                self.call(peer, Call::Attach, &request, self.parameters.attach_timeout_ms);
            }
        }
    }

    /// Detaches from all relays; says how many were told.
    pub(super) fn detach_all(&mut self) -> usize {
        let relays = core::mem::take(&mut self.attach.relays);
        for peer in &relays {
            self.call(
                *peer,
                Call::Farewell,
                &Request::Detach,
                self.parameters.attach_timeout_ms,
            );
        }
        relays.len()
    }
}
