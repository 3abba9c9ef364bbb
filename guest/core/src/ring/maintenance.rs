//! Joining, and keeping neighbours right while others come and go.

use alloc::vec::Vec;

use selfsame_codec::Code;

use super::lookup::Owner;
use super::message::{Request, Updated, encode_joined};
use super::routing::{Routing, clockwise};
use super::walk::Purpose;
use super::{Action, Call, Context, Parameters, Phase, Ring};
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::place::{in_open, plus_power};
use crate::quota::{Holder, admits};
use selfsame_sorted_map::{Map, Set};

#[derive(Debug, Default)]
struct Joining {
    commands: Vec<u32>,
    /// Bootstraps that were reached later, to ask when the others were of no use.
    spare: Vec<PeerId>,
    /// Who was asked and has not answered.
    outstanding: Set<PeerId>,
    /// Members to begin with if the nearest one does not answer, the nearest last.
    candidates: Vec<PeerId>,
}

/// Timers and calls of the upkeep
#[derive(Debug)]
pub(super) struct Maintenance {
    parameters: &'static Parameters,
    pub(super) next_round_ms: u64,
    interval_ms: u64,
    joining: Joining,
    /// Whose place is looked up, and where they are.
    newcomers: Map<u64, (PeerId, Holder)>,
    pub(super) updating: Set<PeerId>,
    pub(super) probing: Set<PeerId>,
    /// Members that fell silent and may be the nearest.
    pub(super) missing: Set<PeerId>,
    pub(super) predecessor_heard_ms: u64,
    finger: u8,
    next_finger_ms: u64,
    next_look_ms: u64,
    /// The neighbours are those of an earlier start, and none of them has been heard yet.
    pub(super) is_unconfirmed: bool,
    /// Why the join fails, if it does.
    pub(super) join_error: Code,
}

impl Maintenance {
    pub(super) fn new(parameters: &'static Parameters) -> Self {
        Self {
            parameters,
            next_round_ms: u64::MAX,
            interval_ms: parameters.first_round_ms,
            joining: Joining::default(),
            newcomers: Map::new(),
            updating: Set::new(),
            probing: Set::new(),
            missing: Set::new(),
            predecessor_heard_ms: 0,
            finger: u8::MAX,
            next_finger_ms: 0,
            next_look_ms: 0,
            is_unconfirmed: false,
            join_error: Code::NoBootstrap,
        }
    }

    pub(super) fn newcomer(&self, token: u64) -> Option<PeerId> {
        self.newcomers.get(&token).map(|(peer, _)| *peer)
    }

    pub(super) fn cancel(&mut self, command: u32) {
        self.joining.commands.retain(|other| *other != command);
    }

    /// No rounds any more, and no newcomers.
    pub(super) fn stop(&mut self) {
        self.next_round_ms = u64::MAX;
        self.newcomers = Map::new();
    }

    /// Makes the next rounds follow quickly.
    pub(super) fn hurry(&mut self, now_ms: u64) {
        self.hurry_to(self.parameters.first_round_ms, now_ms);
    }

    /// Makes the next round follow after this time, if it would come later.
    pub(super) fn hurry_to(&mut self, interval_ms: u64, now_ms: u64) {
        self.interval_ms = self.interval_ms.min(interval_ms);
        self.next_round_ms = self.next_round_ms.min(now_ms.saturating_add(interval_ms));
    }
}

impl Ring {
    /// Joins the ring through bootstraps with which sessions exist; without any, as a ring of one.
    pub fn join(&mut self, cx: &mut Context<'_>, command: u32, bootstraps: Vec<PeerId>) {
        self.part_now(cx);
        if self.phase == Phase::In && (bootstraps.is_empty() || !self.is_alone()) {
            self.done(command);
            return;
        }
        if self.phase == Phase::Joining {
            self.maintenance.joining.commands.push(command);
            self.maintenance.joining.spare.extend(bootstraps);
            return;
        }
        self.depart_now();
        self.maintenance.join_error = Code::NoBootstrap;
        self.maintenance.is_unconfirmed = false;
        self.phase = Phase::Joining;
        self.maintenance.joining = Joining {
            commands: [command].into(),
            ..Joining::default()
        };
        if !self.is_member() {
            self.join_as_leaf(cx, bootstraps);
            return;
        }
        if bootstraps.is_empty() {
            self.joined(cx);
            self.look_for_others(cx);
            return;
        }
        let mut asked: Set<PeerId> = bootstraps.into_iter().collect();
        asked.extend(self.remembered());
        asked.remove(&self.me());
        asked.retain(|peer| self.may_be_member(cx, peer));
        asked.iter().for_each(|peer| self.ask_to_join(cx, *peer));
        self.go_on_joining(cx);
    }

    fn ask_to_join(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        self.maintenance.joining.outstanding.insert(peer);
        let record = self.own_bytes(cx);
        let request = Request::Join { record: &record };
        // The bootstrap looks the place up before it answers.
        self.call(peer, Call::Join, &request, 3 * self.parameters.answer_timeout_ms);
    }

    /// Whether this member knows no other one in its ring, or this leaf no member.
    pub(super) fn is_alone(&self) -> bool {
        self.routing.successors().is_empty()
            && self.routing.before().is_empty()
            && self.attach.relays().is_empty()
    }

    /// Takes up the place on the ring that the store tells of, as if no time had passed: a node that sleeps between two
    /// requests must not answer as if it were alone. Whoever is gone is found out by the round that follows at once, in
    /// a step of its own: a node must not ask to be woken for a time that has come.
    pub(super) fn resume(&mut self, now_ms: u64) {
        self.phase = Phase::In;
        self.maintenance.next_round_ms = now_ms.saturating_add(1);
        self.maintenance.interval_ms = self.settings.idle_ms;
        // It may be long gone: the first round that comes in its time asks it.
        self.maintenance.predecessor_heard_ms = now_ms.saturating_sub(self.settings.idle_ms);
        self.maintenance.is_unconfirmed = !self.is_alone();
        self.assume_mirrored();
        self.publisher.resume();
        self.actions.push_back(Action::Changed);
    }

    /// Members that may help this node to join when its bootstraps do not: those that have spoken themselves.
    #[must_use]
    pub fn remembered(&self) -> Vec<PeerId> {
        let mut members = self.known_members();
        members.retain(|peer| self.book.is_met(peer));
        members.truncate(self.parameters.max_remembered);
        members
    }

    /// Members of which something is known and nothing bad; not every record is verified yet.
    pub(super) fn known_members(&self) -> Vec<PeerId> {
        let members = self.book.members();
        members
            .filter(|peer| !self.routing.is_dead(peer))
            .copied()
            .gather()
    }

    /// A bootstrap looks up who follows a newcomer.
    pub(super) fn serve_join(
        &mut self,
        cx: &mut Context<'_>,
        token: u64,
        newcomer: PeerId,
    ) -> Result<(), Code> {
        let newcomers = &self.maintenance.newcomers;
        let own = newcomers.values().filter(|(peer, _)| *peer == newcomer).count();
        let of_source = newcomers
            .values()
            .filter(|(_, source)| *source == cx.source)
            .count();
        let is_admitted = admits(
            self.parameters.max_newcomers,
            newcomers.len(),
            cx.source,
            of_source,
        );
        if !is_admitted || own >= self.parameters.max_of_newcomer {
            return Err(Code::TooManyRequests);
        }
        self.maintenance.newcomers.insert(token, (newcomer, cx.source));
        // The position after its own: a node that comes back would otherwise find itself.
        let target = plus_power(&newcomer.place(), 0);
        self.walk(cx, target, false, Purpose::JoinFor { token }, Vec::new());
        Ok(())
    }

    pub(super) fn place_for_newcomer_found(
        &mut self,
        cx: &mut Context<'_>,
        token: u64,
        result: Result<Owner, Code>,
    ) {
        let newcomer = self
            .maintenance
            .newcomers
            .remove(&token)
            .map(|newcomer| newcomer.0);
        // Should the lookup have failed, the newcomer begins here and is led back by one predecessor after the other.
        let mut peers = Vec::new();
        if let Ok(owner) = result {
            peers.push(owner.peer);
            peers.extend(
                owner
                    .successors
                    .into_iter()
                    .take(self.parameters.newcomer_fallbacks),
            );
        }
        let me = self.me();
        peers.retain(|peer| Some(*peer) != newcomer && *peer != me && self.may_be_member(cx, peer));
        let own = self.own_bytes(cx);
        let mut nodes = self.book.encoded(&peers);
        nodes.push(&own);
        let body = encode_joined(&nodes);
        self.respond(token, body);
    }

    /// A bootstrap named the newcomer's successor: it counts once it has answered an update itself.
    pub(super) fn join_answered(&mut self, cx: &mut Context<'_>, peer: PeerId, members: &[PeerId]) {
        let me = self.me().place();
        let mut candidates = core::mem::take(&mut self.maintenance.joining.candidates);
        candidates.extend(members);
        candidates = clockwise(&me, candidates);
        candidates.reverse();
        self.maintenance.joining.candidates = candidates;
        self.join_failed(cx, peer);
    }

    pub(super) fn join_failed(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        self.maintenance.joining.outstanding.remove(&peer);
        self.go_on_joining(cx);
    }

    /// Goes on with the next member that may be the successor, or gives up when nobody is left who could answer.
    fn go_on_joining(&mut self, cx: &mut Context<'_>) {
        while self.phase == Phase::Joining && self.maintenance.updating.is_empty() {
            match self.maintenance.joining.candidates.pop() {
                Some(peer) => self.consider(cx, peer, None),
                None => break,
            }
        }
        let is_waiting =
            !self.maintenance.joining.outstanding.is_empty() || !self.maintenance.updating.is_empty();
        if self.phase != Phase::Joining || is_waiting {
            return;
        }
        let me = self.me();
        let spare = core::mem::take(&mut self.maintenance.joining.spare);
        let spare: Set<PeerId> = spare.into_iter().filter(|peer| *peer != me).collect();
        if !spare.is_empty() {
            spare.iter().for_each(|peer| self.ask_to_join(cx, *peer));
            return;
        }
        // Somebody else joined through this node in the meantime: then there is a ring.
        if !self.routing.before().is_empty() {
            self.joined(cx);
            return;
        }
        self.phase = Phase::Out;
        self.routing.clear();
        self.end_joins(Err(self.maintenance.join_error));
    }

    /// Tells all who wait for the join how it has ended.
    pub(super) fn end_joins(&mut self, result: Result<(), Code>) {
        for command in core::mem::take(&mut self.maintenance.joining).commands {
            match result {
                Ok(()) => self.done(command),
                Err(code) => self.fail(command, code),
            }
        }
    }

    /// This node is in the ring from now on.
    fn joined(&mut self, cx: &mut Context<'_>) {
        self.phase = Phase::In;
        self.end_joins(Ok(()));
        self.ring_changed(cx);
        self.publisher_may_start(cx);
    }

    /// Something about the neighbours changed.
    pub(super) fn ring_changed(&mut self, cx: &mut Context<'_>) {
        self.actions.push_back(Action::Changed);
        self.maintenance.hurry(cx.now_ms);
        self.sync_mirrors();
        self.check_publications_soon(cx);
    }

    /// Does the upkeep that is due, and says when the next one is.
    pub(super) fn round(&mut self, cx: &mut Context<'_>) {
        self.routing.forget_dead(cx.now_ms);
        self.book.expire(cx.wall_ms);
        self.forget_neighbours_without_record();
        self.expire_objects(cx);
        let interval_ms = self.maintenance.interval_ms;
        self.maintenance.next_round_ms = cx.now_ms.saturating_add(interval_ms);
        self.maintenance.interval_ms = interval_ms.saturating_mul(2).min(self.settings.idle_ms.max(1));
        if self.phase != Phase::In {
            self.maintenance.next_round_ms = u64::MAX;
            return;
        }
        if self.is_member() {
            self.stabilise(cx);
            self.doubt_predecessor(cx, self.settings.idle_ms.saturating_mul(3) / 2);
            self.ask_missing_neighbours();
            if cx.now_ms >= self.maintenance.next_finger_ms {
                self.maintenance.next_finger_ms = cx.now_ms.saturating_add(self.parameters.finger_ms);
                self.fix_finger(cx);
            }
            // At random, so that a node that starts anew for each round does it too.
            let may_look = cx.now_ms >= self.maintenance.next_look_ms;
            if may_look && cx.random.below(self.parameters.merge_every) == 0 {
                self.maintenance.next_look_ms = cx.now_ms.saturating_add(self.parameters.merge_ms);
                self.look_for_others(cx);
            }
            self.sync_mirrors();
            self.guard_round(cx);
        } else {
            self.keep_relays(cx);
        }
        self.keep_publications(cx);
        self.persist_routes(cx);
    }

    /// Asks the successor whether it still is the successor (Themis: update).
    pub(super) fn stabilise(&mut self, cx: &mut Context<'_>) {
        match self.routing.successor().or_else(|| self.routing.predecessor()) {
            Some(peer) => self.update(cx, peer, None),
            None => self.look_for_others(cx),
        }
    }

    fn update(&mut self, cx: &mut Context<'_>, peer: PeerId, via: Option<PeerId>) {
        if self.maintenance.updating.len() >= self.parameters.max_updating
            || !self.maintenance.updating.insert(peer)
        {
            return;
        }
        let record = self.own_bytes(cx);
        let before = self.routing.before();
        let before = &before[..before.len().min(self.parameters.mirrors)];
        let request = Request::Update {
            record: &record,
            wants_objects: !self.routing.is_successor(&peer),
            predecessors: self.book.encoded(before),
        };
        let body = request.encode();
        self.call_encoded(
            peer,
            Call::Update { via },
            body,
            self.parameters.answer_timeout_ms,
        );
    }

    /// Asks a member that may be a closer successor; it is adopted when it answers. One that did not answer a moment
    /// ago gets some rest first.
    pub(super) fn consider(&mut self, cx: &mut Context<'_>, peer: PeerId, via: Option<PeerId>) {
        if self.routing.may_ask(&peer, cx.now_ms) {
            self.consider_now(cx, peer, via);
        }
    }

    pub(super) fn consider_now(&mut self, cx: &mut Context<'_>, peer: PeerId, via: Option<PeerId>) {
        if self.serves() && self.routing.succeeds_better(&peer) {
            self.update(cx, peer, via);
        }
    }

    pub(super) fn update_answered(
        &mut self,
        cx: &mut Context<'_>,
        peer: PeerId,
        via: Option<PeerId>,
        updated: &Updated<'_>,
    ) {
        self.maintenance.updating.remove(&peer);
        if !self.serves() {
            return;
        }
        self.meet_members(cx, peer, &[updated.record]);
        // It has left since it answered, or started again.
        if self.knows_better(&peer, updated.record) {
            // Restored from a copy it does not know its newest record, and nobody else may tell it.
            self.hint(peer, peer);
            self.go_on_joining(cx);
            return;
        }
        let named = self.meet_members(cx, peer, updated.predecessor.as_slice());
        let list = self.meet_members(cx, peer, &updated.successors);
        let list = self.possible_neighbours(cx, peer, list);
        let old = self.routing.successor();
        if old == Some(peer) || self.routing.succeeds_better(&peer) {
            let mirrors = self.parameters.mirrors.max(1);
            let nearest = |routing: &Routing| routing.successors().iter().take(mirrors).copied().gather();
            let before = nearest(&self.routing);
            let changed = self.routing.adopt_successor(peer, &list);
            // They are dead, or hidden from this member.
            for hidden in self.routing.unknown_to(&peer, &list) {
                self.probe(hidden, self.parameters.answer_timeout_ms);
            }
            _ = self.take_entries(cx, peer, &updated.entries);
            if let Some(old) = old
                && old != peer
                && via != Some(old)
            {
                self.hint(old, peer);
            }
            if self.phase == Phase::Joining {
                self.joined(cx);
            } else if before != nearest(&self.routing) {
                self.ring_changed(cx);
            } else if changed {
                // What lies further on has time: it counts when all before it are gone.
                self.actions.push_back(Action::Changed);
                self.maintenance
                    .hurry_to(self.parameters.list_round_ms, cx.now_ms);
            }
        }
        for closer in named {
            self.consider(cx, closer, Some(peer));
            if updated
                .predecessor
                .is_some_and(|record| self.knows_better(&closer, record))
            {
                // It may be a copy's that is gone, and lead nowhere: its node outdoes it once it is told.
                self.hint(peer, closer);
            }
        }
    }

    /// Whether another record of a node is known than this one, which was verified: a newer one.
    #[inline(never)]
    fn knows_better(&self, peer: &PeerId, record: &[u8]) -> bool {
        self.book.get(peer).is_some_and(|known| known.encoded() != record)
    }

    pub(super) fn update_failed(&mut self, cx: &mut Context<'_>, peer: PeerId) {
        self.maintenance.updating.remove(&peer);
        if self.phase == Phase::In {
            self.maintenance.hurry(cx.now_ms);
        }
        self.go_on_joining(cx);
    }

    /// A member says that this one is its successor. Says whether it is a new predecessor.
    pub(super) fn notified(&mut self, cx: &mut Context<'_>, peer: PeerId) -> bool {
        let is_new = self.take_predecessor(cx, peer);
        if !is_new && !self.routing.is_predecessor(&peer) {
            self.doubt_predecessor(cx, self.parameters.doubt_ms);
        }
        if self.routing.successors().is_empty() && self.phase == Phase::In {
            self.update(cx, peer, None);
        }
        is_new
    }

    /// Takes a live member for the predecessor if it is a closer one; says whether it is.
    pub(super) fn take_predecessor(&mut self, cx: &mut Context<'_>, peer: PeerId) -> bool {
        let is_new = self.routing.precedes_better(&peer);
        if is_new {
            let old = self.routing.predecessor();
            self.routing.set_predecessor(peer);
            self.maintenance.predecessor_heard_ms = cx.now_ms;
            self.ring_changed(cx);
            // The old one need not wait for its next update to learn of its new successor.
            if let Some(old) = old {
                self.hint(old, peer);
            }
        }
        is_new
    }

    /// Looks one finger up, from the furthest down to where the successor list ends.
    fn fix_finger(&mut self, cx: &mut Context<'_>) {
        let Some(last) = self.routing.successors().last().copied() else {
            return;
        };
        let me = self.me();
        let bit = self.maintenance.finger;
        let target = plus_power(&me.place(), bit);
        if bit == 0 || !in_open(&last.place(), &target, &me.place()) {
            self.routing.drop_fingers_up_to(bit);
            self.maintenance.finger = u8::MAX;
            return;
        }
        self.maintenance.finger = bit - 1;
        self.walk(cx, target, false, Purpose::Finger { bit }, Vec::new());
    }
}
