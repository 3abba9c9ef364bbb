//! Members that this one hears of: those of another ring, whose ring becomes one with its own, and those that others tell of.

use selfsame_codec::{Code, Role};

use super::lookup::Owner;
use super::message::Request;
use super::walk::Purpose;
use super::{Call, Context, Phase, Ring};
use crate::admission::Standing;
use crate::identity::PeerId;
use crate::place::plus_power;
use crate::record::NodeRecord;

impl Ring {
    /// Looks for this member's place through somebody it remembers but does not meet in its own ring: if that one is in
    /// another ring, the two merge.
    pub(super) fn look_for_others(&mut self, cx: &mut Context<'_>) {
        let mut strangers = self.known_members();
        strangers.retain(|peer| !self.routing.contains(peer));
        if !strangers.is_empty() {
            let stranger = strangers[cx.random.below(strangers.len())];
            self.merge_through(cx, stranger);
        }
    }

    pub(super) fn merge_through(&mut self, cx: &mut Context<'_>, stranger: PeerId) {
        let merging = self
            .walks
            .count(|purpose| matches!(purpose, Purpose::Merge { .. }));
        if self.serves() && merging < self.parameters.max_merges {
            let target = plus_power(&self.me().place(), 0);
            self.walk_from(cx, target, &[stranger], Purpose::Merge { stranger });
        }
    }

    pub(super) fn place_in_other_ring_found(
        &mut self,
        cx: &mut Context<'_>,
        stranger: PeerId,
        result: Result<Owner, Code>,
    ) {
        let Ok(owner) = result else { return };
        if self.routing.is_successor(&owner.peer) {
            return;
        }
        // By an update of a member, a newcomer would take itself to be in its ring.
        if !self.may_be_neighbour(cx, stranger, &owner.peer) {
            return;
        }
        self.consider(cx, owner.peer, None);
        // The next member has its place to find as well.
        if let Some(successor) = self.routing.successor()
            && successor != stranger
            && self.standing(&stranger, cx.now_ms) == Standing::Confirmed
        {
            self.hint(successor, stranger);
        }
    }

    /// Keeps a record; an unknown member may belong to another ring.
    pub(super) fn meet_stranger(&mut self, cx: &mut Context<'_>, record: NodeRecord) {
        let (peer, role) = (record.id(), record.role());
        let is_unknown = self.meet(record);
        if role == Role::Member && self.phase == Phase::In && self.is_member() {
            // Whoever tells of it has just heard of it, so that one presumed dead may be back.
            let comes_next = self.routing.succeeds_better(&peer);
            self.consider_now(cx, peer, None);
            // A next member that has come from another ring is heard of by those behind it, which look that ring up.
            if is_unknown && !comes_next {
                self.merge_through(cx, peer);
            }
        }
    }

    /// Takes members that a neighbour tells of; from anybody else, those not known already would be a way to make this node
    /// dial.
    pub(super) fn take_hint(&mut self, cx: &mut Context<'_>, from: &PeerId, hint: &[&[u8]]) {
        let me = self.me();
        for bytes in hint {
            let about = NodeRecord::claimed_id(bytes, &self.gate);
            let is_known = about.is_some_and(|peer| peer == me || self.routing.contains(&peer));
            if !is_known && !self.routing.contains(from) {
                continue;
            }
            match self.verify_record(bytes, cx.wall_ms) {
                Ok(record) => {
                    let peer = record.id();
                    self.meet_stranger(cx, record);
                    // It may be the predecessor, presumed dead: it need not know, and may update seldom.
                    self.came_back(cx, peer);
                }
                Err(code) => _ = self.judge(*from, Err(code)),
            }
        }
    }

    /// Tells a member of another one.
    pub(super) fn hint(&mut self, to: PeerId, about: PeerId) {
        if let Some(record) = self.book.get(&about) {
            let hint = [record.encoded()].into();
            let body = Request::Ping { hint }.encode();
            self.call_encoded(to, Call::Hint, body, self.parameters.answer_timeout_ms);
        }
    }
}
