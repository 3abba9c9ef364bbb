//! Requests of other peers.

use alloc::vec::Vec;

use selfsame_codec::{Code, LogLevel, Role};

use super::message::{
    EntryBytes, Hop, Request, Updated, encode_ack, encode_error, encode_stale, encode_wrong_clock,
};
use super::objects::Inserted;
use super::{Action, Context, Ring};
use crate::admission::KNOWS_CLOSED;
use crate::association::{Association, ObjectId};
use crate::gather::Gather as _;
use crate::grant::Grant;
use crate::identity::{PeerId, PublicKey};
use crate::place::{Place, in_open};
use crate::quota::Holder;
use crate::record::NodeRecord;

/// Forged signatures of a peer, beyond its true ones, after which its session ends: an honest peer passes on only what it
/// has verified itself.
const MAX_FORGED: u64 = 4;

/// An entry that has proven itself
pub(super) enum Entry {
    Grant(ObjectId, Grant),
    Association(Association, NodeRecord),
}

impl Entry {
    pub(super) fn object(&self) -> ObjectId {
        match self {
            Self::Grant(object, _) => *object,
            Self::Association(association, _) => association.object(),
        }
    }
}

impl Ring {
    /// Takes a request of the authenticated peer `from`; answered by [`Action::Respond`] with this token.
    pub fn request(&mut self, cx: &mut Context<'_>, from: PeerId, token: u64, body: &[u8]) {
        #[cfg(feature = "simulation")]
        self.tapped.asked(token, from, body);
        let answer = match Request::decode(body) {
            Ok(request) => self.serve(cx, from, token, request),
            Err(_) => Err(Code::BadMessage),
        };
        match answer {
            Ok(Some(body)) => self.respond(token, body),
            Ok(None) => {}
            Err(code) => {
                self.judge(from, Err(code));
                let refusal = self.refusal(cx, &from, code);
                self.respond(token, refusal);
            }
        }
    }

    /// A member that takes part in the ring has spoken: others may hide it from this one.
    fn meet_near(&mut self, cx: &Context<'_>, from: &PeerId) {
        let may_come_in =
            self.is_known_member(from) && self.is_near(from) && self.may_be_neighbour(cx, *from, from);
        if may_come_in && self.routing.take_in(*from) {
            self.actions.push_back(Action::Changed);
        }
    }

    pub(super) fn respond(&mut self, token: u64, body: Vec<u8>) {
        #[cfg(feature = "simulation")]
        let body = self.tapped.answers(token, body);
        self.actions.push_back(Action::Respond { token, body });
    }

    /// Answers, or begins what will answer later (`None`).
    fn serve(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        token: u64,
        request: Request<'_>,
    ) -> Result<Option<Vec<u8>>, Code> {
        self.heard(cx, from);
        if KNOWS_CLOSED && let Some(answer) = self.serve_shut_out(from, &request) {
            return answer.map(Some);
        }
        if self.phase == super::Phase::Out {
            return Err(Code::NotJoined);
        }
        if !self.is_member() {
            return Err(Code::NotMember);
        }
        match request {
            Request::Ping { hint } => self.take_hint(cx, &from, &hint),
            Request::FindNode { target } => {
                self.meet_near(cx, &from);
                return Ok(Some(self.hop(cx, &target, None, None)));
            }
            Request::Find { object, held } => {
                return Ok(Some(self.hop(cx, &object.place(), Some(held), None)));
            }
            Request::Vouch { target, claimed } => {
                self.meet_near(cx, &from);
                return Ok(Some(self.hop(cx, &target, None, Some(claimed))));
            }
            Request::Store { entry } => {
                let newer = self.serve_store(cx, from, &entry)?;
                return Ok(Some(newer.map_or_else(encode_ack, |newer| encode_stale(&newer))));
            }
            Request::Mirror { entries } => self.take_entries(cx, from, &entries)?,
            Request::Join { record } => {
                let record = self.record_of_sender(cx, from, record, Role::Member)?;
                self.serve_join(cx, token, record.id())?;
                return Ok(None);
            }
            Request::Update {
                record,
                wants_objects,
                predecessors,
            } => {
                self.record_of_sender(cx, from, record, Role::Member)?;
                return Ok(Some(self.serve_update(cx, from, wants_objects, &predecessors)));
            }
            Request::Leave {
                record,
                predecessor,
                successors,
                entries,
            } => {
                self.record_of_sender(cx, from, record, Role::Member)?;
                self.serve_leave(cx, from, predecessor, &successors, &entries)?;
            }
            Request::Attach { record } => {
                self.record_of_sender(cx, from, record, Role::Leaf)?;
                let source = self.attach.take_leaf(from, cx.source)?;
                self.put_leaf(&from, source);
            }
            Request::Detach => self.detach(&from),
            Request::Groups { told, wants_members } if KNOWS_CLOSED => {
                return self.serve_groups(cx, &from, &told, wants_members).map(Some);
            }
            Request::Revoked { .. } | Request::Groups { .. } | Request::Contradictions { .. } => {
                return Err(Code::BadMessage);
            }
        }
        Ok(Some(encode_ack()))
    }

    /// Why a request is refused: with what the sender needs to go on, if it can.
    fn refusal(&self, cx: &Context<'_>, from: &PeerId, code: Code) -> Vec<u8> {
        match (code, self.book.get(from)) {
            (Code::Superseded, Some(newer)) => encode_stale(newer.encoded()),
            (Code::WrongClock, _) => encode_wrong_clock(cx.wall_ms),
            _ => encode_error(code),
        }
    }

    /// Reads the record that a sender sends of itself: it must be its own, and not older than what is known.
    fn record_of_sender(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        bytes: &[u8],
        role: Role,
    ) -> Result<NodeRecord, Code> {
        let record = self.verify_record(bytes, cx.wall_ms).map_err(|code| match code {
            // It was signed just now, so that a clock is wrong.
            Code::StaleRecord => Code::WrongClock,
            code => code,
        })?;
        if record.id() != from {
            return Err(Code::BadSignature);
        }
        let newer = |known: &NodeRecord| known.sequence() >= record.sequence() && *known != record;
        if self.book.get(&from).is_some_and(newer) {
            return Err(Code::Superseded);
        }
        if record.role() != role {
            return Err(Code::NotMember);
        }
        self.meet(record.clone());
        Ok(record)
    }

    /// The next step towards a position; with the entries there if the asker wants them (`Some`), whoever is
    /// responsible if it asks for what is held. If it knows who claims the position, and rightly, no more than that.
    fn hop(
        &mut self,
        cx: &mut Context<'_>,
        target: &Place,
        held: Option<bool>,
        claimed: Option<PeerId>,
    ) -> Vec<u8> {
        let responsible = held == Some(true) || self.routing.is_responsible(target);
        let own = responsible.then(|| self.own_bytes(cx));
        let entries = if held.is_some() && responsible {
            self.held(cx, &ObjectId(target.0))
        } else {
            Vec::new()
        };
        let lease = if responsible {
            self.own_lease(cx.wall_ms)
        } else {
            None
        };
        let mut hop = Hop {
            responsible: own.as_deref(),
            entries,
            lease,
            ..Hop::default()
        };
        if responsible && claimed.is_some() {
            return hop.encode();
        }
        // From the position on, if it lies among them: whoever looks it up learns who is next to it from many.
        let me = self.me();
        let is_short = |peer: &&PeerId| !responsible && in_open(&me.place(), &peer.place(), target);
        let successors = self.routing.successors().iter().skip_while(is_short);
        let mut successors: Vec<PeerId> = successors
            .take(self.parameters.named_successors)
            .copied()
            .gather();
        if claimed.is_some() && successors.first().copied() == claimed {
            successors.truncate(1);
        } else if !responsible {
            hop.closer = self.book.encoded(&self.routing.closer(target));
        }
        hop.successors = self.book.encoded(&successors);
        // Whoever is led beyond the position needs no way back to it.
        let predecessor = self.predecessor().filter(|_| successors.is_empty());
        hop.predecessor = predecessor.map(NodeRecord::encoded);
        hop.encode()
    }

    fn serve_update(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        wants_objects: bool,
        predecessors: &[&[u8]],
    ) -> Vec<u8> {
        let is_new = self.notified(cx, from);
        // A newcomer knows of few: whom this member knew before it stays until the next update.
        let is_better = !is_new || self.routing.before().len() == 1;
        if is_better && self.routing.is_predecessor(&from) {
            let named = self.meet_members(cx, from, predecessors);
            let named = self.possible_neighbours(cx, from, named);
            self.routing.set_earlier(from, named);
        }
        let mut keys = if is_new || wants_objects {
            self.keys_for_predecessor(from)
        } else {
            Vec::new()
        };
        let own = self.own_bytes(cx);
        let follower = self.routing.follower_of(&from);
        if let Some(follower) = follower {
            // It would have it as its successor if it lived. The predecessor has been doubted already.
            self.probe(follower, self.parameters.answer_timeout_ms);
        }
        let named = follower.or_else(|| self.routing.predecessor());
        let updated = Updated {
            record: &own,
            predecessor: named
                .and_then(|peer| self.book.get(&peer))
                .map(NodeRecord::encoded),
            successors: self.book.encoded(self.routing.successors()),
            entries: self.objects.take_chunk(&mut keys),
        };
        let body = updated.encode();
        if self.routing.is_predecessor(&from) {
            self.send_entries(from, keys);
        }
        body
    }

    /// Stores what its publisher sends to the member that is responsible, and hands copies to the mirrors. Gives the newer
    /// association of this publisher if one is stored.
    pub(super) fn serve_store(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        entry: &EntryBytes<'_>,
    ) -> Result<Option<Vec<u8>>, Code> {
        let Entry::Association(association, record) = self.verify_entry(cx, entry)? else {
            return Err(Code::BadMessage);
        };
        if association.publisher() != from {
            return Err(Code::BadSignature);
        }
        if !self.routing.may_be_responsible(&association.object().place()) {
            return Err(Code::NotResponsible);
        }
        match self.objects.insert(&association, &record, cx.source) {
            Ok(Inserted::Stored) => {
                // With the grant that it brought: what a mirror gets may be a withdrawal already.
                let changed = self.persist_objects();
                self.mirror(&changed);
            }
            Err(Code::Superseded) => {
                let held = self.objects.get(&(association.object(), from));
                return Ok(held.map(|held| held.association.to_vec()));
            }
            inserted => _ = inserted?,
        }
        Ok(None)
    }

    /// Stores entries that another member hands over, as far as it may; each proves itself, and what does not is left out.
    ///
    /// # Errors
    /// [`Code::NotResponsible`] if it may not hand over all of them, [`Code::BadSignature`] if most are forged.
    pub(super) fn take_entries(
        &mut self,
        cx: &mut Context<'_>,
        from: PeerId,
        entries: &[EntryBytes<'_>],
    ) -> Result<(), Code> {
        if !self.may_hand_over(&from) {
            self.vet(cx, from);
            return Err(Code::NotResponsible);
        }
        let mut result = Ok(());
        for entry in entries {
            let taken = match self.verify_entry(cx, entry) {
                Ok(proven) if self.routing.may_mirror(&proven.object().place()) => {
                    self.keep_entry(&proven, entry, Holder::bringing(&from))
                }
                Ok(_) => {
                    result = Err(Code::NotResponsible);
                    continue;
                }
                Err(code) => Err(code),
            };
            if self.judge(from, taken) {
                result = Err(Code::BadSignature);
                break;
            }
        }
        self.persist_objects();
        result
    }

    /// Stores an entry that has proven itself.
    pub(super) fn keep_entry(
        &mut self,
        proven: &Entry,
        entry: &EntryBytes<'_>,
        source: Holder,
    ) -> Result<(), Code> {
        match proven {
            Entry::Grant(object, grant) => self.objects.keep_grant(*object, entry, grant.terms()),
            Entry::Association(association, record) => {
                _ = self.objects.insert(association, record, source)?
            }
        }
        Ok(())
    }

    /// Weighs forged signatures of a peer against true ones, and parts with one that sends mostly forged ones: each costs
    /// as much as fifty steps of a lookup. Says whether it did.
    pub(super) fn judge(&mut self, from: PeerId, taken: Result<(), Code>) -> bool {
        if let Err(code) = taken {
            self.log(LogLevel::Debug, code, "left out what a peer sent", Some(from));
        }
        let count = self.forged.remove(&from).map_or(0, |count| *count);
        let count = match taken {
            Ok(()) => count.saturating_sub(1),
            Err(Code::BadSignature) => count + 1,
            Err(_) => count,
        };
        let is_forger = count >= MAX_FORGED;
        if is_forger {
            self.actions.push_back(Action::Disconnect { peer: from });
        } else if count > 0 {
            self.forged.insert(from, count);
        }
        is_forger
    }

    /// Verifies a grant, or an association and that the record beside it is its publisher's.
    pub(super) fn verify_entry(&mut self, cx: &Context<'_>, entry: &EntryBytes<'_>) -> Result<Entry, Code> {
        let now_ms = cx.wall_ms;
        if let [r] = entry.record {
            let grant = Grant::decode_with(&mut self.gate, entry.association, now_ms)?;
            let object = ObjectId::of(
                &self.settings.network,
                Some(&grant.owner()),
                &grant.terms().name,
                *r,
            );
            return Ok(Entry::Grant(object, grant));
        }
        let record = self.verify_record(entry.record, now_ms)?;
        let id_of = |key: &PublicKey| record.id_of(key);
        let association = Association::decode_verified(&mut self.gate, &id_of, entry.association, now_ms)?;
        Ok(Entry::Association(association, record))
    }
}
