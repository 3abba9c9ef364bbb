//! Groups come about and are compared: once in each epoch a member asks its neighbours for their leases, tells of those that
//! it holds, and signs its own of all who count it into their groups as well.

use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel};

use super::super::message::Request;
use super::super::routing::clockwise;
use super::super::{Action, Call, Context, Phase, Ring};
use super::message::{Groups, MAX_DIFFERING, ToldLease, encode_groups};
use super::table::Kept;
use super::{Lease, LeaseTerms, epoch_of, is_current};
use crate::admission::KNOWS_CLOSED;
use crate::gather::Gather as _;
use crate::identity::PeerId;
use crate::record::NodeRecord;

/// Epochs for which it counts that a member has this one in its group: one round may fail.
const COUNTED_EPOCHS: u64 = 2;

impl Ring {
    /// Whether this network has a guard.
    pub(in super::super) fn is_guarded(&self) -> bool {
        KNOWS_CLOSED && self.parameters.group > 0 && self.gate.is_closed()
    }

    /// The members nearest before this one, the nearest first, and those nearest after it: its group, as far as it knows.
    fn neighbourhood(&self) -> (Vec<PeerId>, Vec<PeerId>) {
        let half = self.parameters.group / 2;
        let after: Vec<PeerId> = self.routing.successors().iter().take(half).copied().gather();
        let mut before = self.routing.before().to_vec();
        // In a group larger than those whose copies a member keeps, the last one before knows more.
        if let Some(last) = before.last()
            && before.len() < half
            && let Some(lease) = self.guard.held.of(last)
        {
            before.extend(lease.members_before(&last.place()).iter().rev());
        }
        before.retain(|peer| *peer != self.me() && !after.contains(peer));
        before.truncate(half);
        (before, after)
    }

    /// Whether a peer is in the group of this member as it is now.
    fn is_in_group(&self, peer: &PeerId) -> bool {
        let (before, after) = self.neighbourhood();
        before.contains(peer) || after.contains(peer)
    }

    /// The two members of the group before a predecessor that is gone: the one that lives takes its place once it answers, and
    /// need not find out by itself.
    pub(in super::super) fn earlier_in_group(&self, gone: &PeerId) -> Vec<PeerId> {
        if !self.routing.is_predecessor(gone) {
            return Vec::new();
        }
        let (before, _) = self.neighbourhood();
        let living = before
            .into_iter()
            .filter(|peer| peer != gone && !self.routing.is_dead(peer));
        living.take(2).gather()
    }

    /// The lease of this member as it is sent, if it has signed one that counts.
    pub(in super::super) fn own_lease(&self, now_ms: u64) -> Option<&[u8]> {
        let own = self.guard.own.current(now_ms).filter(|_| self.is_guarded());
        own.map(Lease::encoded)
    }

    /// Does what is due in this epoch, once.
    pub(in super::super) fn guard_round(&mut self, cx: &mut Context<'_>) {
        let epoch = epoch_of(cx.wall_ms);
        if !self.is_guarded() {
            return;
        }
        self.guard.own.since_ms.get_or_insert(cx.now_ms);
        if self.phase != Phase::In || self.guard.round == Some(epoch) {
            return;
        }
        self.guard.round = Some(epoch);
        self.guard.held.expire(cx.wall_ms);
        self.expire_convictions(cx.wall_ms);
        if self.guard.own.may_make(cx.now_ms, cx.wall_ms) {
            self.make_lease(cx, epoch);
        }
        let (before, after) = self.neighbourhood();
        let mut asked = before;
        asked.extend(after);
        asked.extend(self.witness_of_any_lease(cx, &asked));
        for peer in asked {
            self.ask_for_group(peer, false);
        }
    }

    /// A member of one of the groups whose leases are held, other than the leader and those that are asked anyway: it may hold
    /// another lease.
    fn witness_of_any_lease(&self, cx: &mut Context<'_>, asked: &[PeerId]) -> Option<PeerId> {
        let me = self.me();
        let mut witnesses = Vec::new();
        for lease in self.guard.held.newest() {
            let terms = lease.terms();
            let others = terms
                .members
                .iter()
                .filter(|peer| **peer != terms.leader && **peer != me);
            witnesses.extend(others.filter(|peer| !asked.contains(peer) && self.book.is_route(peer)));
        }
        (!witnesses.is_empty()).then(|| witnesses[cx.random.below(witnesses.len())])
    }

    /// Makes the statement of who is in the group in this epoch, and has it stored.
    fn make_lease(&mut self, cx: &Context<'_>, epoch: u64) {
        let since = epoch.saturating_sub(COUNTED_EPOCHS);
        self.guard.counted_by.retain(|_, at| *at >= since);
        let (mut before, after) = self.neighbourhood();
        let counts = |peer: &PeerId| {
            self.guard.counted_by.contains_key(peer)
                && self.is_known_member(peer)
                && !self.routing.is_dead(peer)
        };
        before.retain(counts);
        let first = before.last().copied().unwrap_or_else(|| self.me());
        let after = after.into_iter().filter(counts);
        let mut members: Vec<PeerId> = before.into_iter().chain(after).gather();
        members.push(self.me());
        let terms = LeaseTerms {
            leader: self.me(),
            epoch,
            members: in_order(first, members),
        };
        let statement = terms.statement(&self.settings.network, &cx.identity.public());
        self.guard.own.last = Some(epoch);
        self.guard.own.unconfirmed = Some(terms);
        self.put_lease(statement);
    }

    /// The store holds all that was given to it with [`Action::Commit`]: what was stored may be signed.
    pub fn committed(&mut self, cx: &mut Context<'_>) {
        if self.is_guarded() {
            self.guard.own.confirmed(cx.identity);
        }
    }

    /// Takes up the statement that an earlier run has stored.
    pub(in super::super) fn load_lease(&mut self, cx: &Context<'_>, statement: &[u8]) -> Result<(), Code> {
        self.guard.own.restore(cx.identity, statement)
    }

    /// A finger holds a whole group.
    pub(in super::super) fn ask_for_finger_group(&mut self, cx: &Context<'_>, finger: PeerId) {
        let known = self.guard.held.of(&finger).map(|lease| lease.terms().epoch);
        let is_known = known.is_some_and(|known| known >= epoch_of(cx.wall_ms));
        if self.is_guarded()
            && !is_known
            && self.routing.contains(&finger)
            && !self.routing.is_neighbour(&finger)
        {
            self.ask_for_group(finger, false);
        }
    }

    pub(in super::super) fn ask_for_group(&mut self, peer: PeerId, wants_members: bool) {
        let (before, after) = self.neighbourhood();
        let is_near = |leader: &PeerId| before.contains(leader) || after.contains(leader);
        let request = Request::Groups {
            told: self.guard.held.told_to(&peer, &is_near),
            wants_members,
        };
        let body = request.encode();
        self.call_encoded(
            peer,
            Call::Groups { wants_members },
            body,
            self.parameters.answer_timeout_ms,
        );
    }

    pub(in super::super) fn serve_groups(
        &mut self,
        cx: &mut Context<'_>,
        from: &PeerId,
        told: &[ToldLease],
        wants_members: bool,
    ) -> Result<Vec<u8>, Code> {
        if !self.is_guarded() {
            return Err(Code::BadMessage);
        }
        let own_record = self.own_bytes(cx);
        let me = self.me();
        let own = self.guard.own.current(cx.wall_ms);
        let is_told = |lease: &&Lease| told.iter().any(|told| told.digest == lease.digest());
        let differing = told.iter().filter_map(|told| self.guard.held.differing(told));
        let mut members = Vec::new();
        if wants_members {
            let others = own.map_or(&[][..], |lease| &lease.terms().members);
            members = self.book.encoded(others);
            if others.contains(&me) {
                members.push(&own_record);
            }
        }
        Ok(encode_groups(&Groups {
            is_within: self.is_in_group(from),
            lease: own.filter(|lease| !is_told(lease)).map(Lease::encoded),
            differing: differing.take(MAX_DIFFERING).map(Lease::encoded).gather(),
            members,
        }))
    }

    pub(in super::super) fn take_groups(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        had_members: bool,
        groups: &Groups<'_>,
    ) {
        if groups.is_within {
            // Only whom this one asks is in here: its neighbours, and a few more.
            self.guard.counted_by.insert(from, epoch_of(cx.wall_ms));
        } else {
            self.guard.counted_by.remove(&from);
        }
        self.meet_members(cx, from, &groups.members);
        if let Some(lease) = groups.lease {
            let taken = self.take_lease(cx, from, lease);
            if taken == Err(Code::StrangerInGroup) && !had_members {
                self.ask_for_group(from, true);
            } else {
                self.judge_lease(from, taken);
            }
        }
        for lease in &groups.differing {
            let taken = self.compare_lease(cx, lease);
            self.judge_lease(from, taken);
        }
    }

    fn judge_lease(&mut self, from: PeerId, taken: Result<(), Code>) {
        if let Err(code @ (Code::BadGroup | Code::StrangerInGroup)) = taken {
            self.log(LogLevel::Warn, code, "refused a lease", Some(from));
            self.guard.scores.failed(from);
        }
        self.judge(from, taken);
    }

    /// Takes the lease of a leader that gave it itself.
    pub(in super::super) fn take_lease(
        &mut self,
        cx: &mut Context<'_>,
        leader: PeerId,
        bytes: &[u8],
    ) -> Result<(), Code> {
        let lease = Lease::verify(&mut self.gate, bytes)?;
        let terms = lease.terms();
        if terms.leader != leader {
            return Err(Code::WrongPeer);
        }
        if !is_current(terms.epoch, cx.wall_ms) {
            return Err(Code::StaleRecord);
        }
        terms.check_shape(self.parameters.group)?;
        let me = self.me();
        let is_known = |peer: &PeerId| *peer == me || self.book.get(peer).is_some();
        if !terms.members.iter().all(is_known) {
            // It may contradict what is held all the same.
            self.contradict(cx, &lease);
            return Err(Code::StrangerInGroup);
        }
        self.keep_lease(cx, lease);
        Ok(())
    }

    /// Takes a lease that another peer holds: it counts only if it contradicts what the leader gave this member.
    fn compare_lease(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<(), Code> {
        let lease = Lease::verify(&mut self.gate, bytes)?;
        self.contradict(cx, &lease);
        Ok(())
    }

    fn keep_lease(&mut self, cx: &mut Context<'_>, lease: Lease) {
        let certificate = self
            .book
            .get(&lease.terms().leader)
            .map_or(&[][..], NodeRecord::evidence);
        let routing = &self.routing;
        let needed = |leader: &PeerId| routing.contains(leader) || routing.before().contains(leader);
        let kept = self.guard.held.keep(lease.clone(), certificate, &needed);
        if let Kept::Contradicts(held, certificate) = kept {
            self.found_contradiction(cx, &certificate, &held, &lease);
        }
    }

    fn contradict(&mut self, cx: &mut Context<'_>, lease: &Lease) {
        if let Some((held, certificate)) = self.guard.held.contradicted_by(lease) {
            self.found_contradiction(cx, &certificate, &held, lease);
        }
    }

    /// Stores a statement before it is signed: a run that goes on from this store must not sign another one for its epoch.
    fn put_lease(&mut self, statement: Vec<u8>) {
        self.actions.push_back(Action::Commit {
            key: super::super::persist::LEASE.to_vec(),
            value: statement,
        });
    }
}

/// Members in the order of the ring from one of them on.
fn in_order(start: PeerId, members: Vec<PeerId>) -> Vec<PeerId> {
    let mut rest = members;
    rest.retain(|peer| *peer != start);
    let mut ordered = Vec::from([start]);
    ordered.extend(clockwise(&start.place(), rest));
    ordered
}
